# SPDX-License-Identifier: BSD-3-Clause
"""Volumes, file systems and files from Python, and fsspec over them."""

import io
import os
import signal
import subprocess
import sys
import threading
import unittest

import afar
from home import Home

try:
    import fsspec
except ImportError:
    fsspec = None

MIB = 1 << 20

# Makes a file longer, and says so.
WRITER = """
import afar
import sys
with afar.connect() as session, session.fs("home") as fs, fs.open(sys.argv[1], "wb", buffering=0) as stream:
    for line in sys.stdin:
        stream.write(bytes(int(line)))
        print(stream.tell(), flush=True)
"""


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat") as stat:
            while stat.read().rsplit(")", 1)[1].split()[0] != "T":
                stat.seek(0)


class Volumes(unittest.TestCase):
    def test_volume(self):
        with afar.connect() as session:
            session.create_volume("disk", 2 * MIB)
            with self.assertRaisesRegex(ValueError, "'exclusive', 'shared' or 'read-only'"):
                session.volume("disk", "mine")
            with session.volume("disk") as volume:
                data = os.urandom(MIB)
                volume.write(data, 4096)
                self.assertEqual(volume.read(MIB, 4096), data)
                self.assertEqual(volume.write(b"abc", durable=True), 3)
                volume.zero(4096, 4096)
                volume.trim(8192, 4096)
                volume.sync()
                self.assertEqual(volume.read(4096, 4096), bytes(4096))
                self.assertEqual(volume.stat().bytes, 2 * MIB)
                with afar.connect() as other, self.assertRaises(afar.Error) as caught:
                    other.volume("disk")
                self.assertEqual(caught.exception.code, "EBUSY")
                with self.assertRaisesRegex(ValueError, "negative"):
                    volume.read_into(bytearray(1), -1)
                with self.assertRaises(TypeError):
                    volume.zero(None, 1)
            session.resize_volume("disk", 4 * MIB)
            self.assertEqual([(volume.name, volume.bytes) for volume in session.volumes()], [("disk", 4 * MIB)])
            with session.volume("disk", "read-only") as volume, self.assertRaises(afar.AccessError):
                volume.write(b"x")
            session.delete_volume("disk")
            with self.assertRaises(afar.NotFoundError):
                session.delete_volume("disk")
            with self.assertRaises(TypeError):
                session.delete_volume(None)


class Files(Home):
    def writer(self, path):
        return subprocess.Popen([sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def grow(self, writer):
        """Returns where the file ends then."""
        writer.stdin.write("700\n")
        return int(writer.stdout.readline())

    def test_listed(self):
        """A file that somebody makes longer is listed with its size, also if he and the servers stand still."""
        self.fs.mkdir("/listed")
        with self.writer("/listed/grows") as writer:
            for _ in range(20):
                size = self.grow(writer)
                self.assertEqual([stat.bytes for _, stat in self.fs.scan("/listed")], [size])
            writer.stdin.close()
        self.fs.unlink("/listed/grows")
        with self.writer("/listed/stands") as writer:
            for _ in range(20):
                size = self.grow(writer)
            still = [*(int(pid) for pid in os.environ["pids"].split()[1:]), writer.pid]
            for pid in still:
                stop(pid)
            # A listing waits for two seconds; there is nothing to see of what it has answered.
            timer = threading.Timer(2.5, lambda: [os.kill(pid, signal.SIGCONT) for pid in still])
            timer.start()
            try:
                self.assertEqual([stat.bytes for _, stat in self.fs.scan("/listed")], [size])
            finally:
                timer.join()
            writer.stdin.close()

    def test_streams(self):
        fs = self.fs
        with fs.open("/text", "w", encoding="utf-8") as stream:
            stream.write("ä line\nanother\n")
        with fs.open("text", encoding="utf-8") as stream:
            self.assertEqual(list(stream), ["ä line\n", "another\n"])
        data = os.urandom(3 * MIB + 17)
        with fs.open("/bytes", "wb") as stream:
            for begin in range(0, len(data), 10007):
                stream.write(data[begin : begin + 10007])
        with fs.open("/bytes", "rb") as stream:
            self.assertEqual(stream.read(), data)
            self.assertEqual(stream.read(), b"")
            stream.seek(-17, os.SEEK_END)
            self.assertEqual(stream.read(100), data[-17:])
            stream.seek(MIB)
            self.assertEqual(stream.read(5), data[MIB : MIB + 5])
            with self.assertRaises(ValueError):
                stream.seek(-1)
            with self.assertRaises(io.UnsupportedOperation):
                stream.write(b"x")
        with fs.open("/bytes", "rb") as stream:
            parts = list(iter(lambda: stream.read(4000), b""))
        self.assertEqual(b"".join(parts), data)
        with fs.open("/bytes", "r+b") as stream:
            stream.seek(10)
            stream.write(b"hello")
            stream.seek(8)
            self.assertEqual(stream.read(9), data[8:10] + b"hello" + data[15:17])
            stream.truncate(100)
        with fs.open("/bytes", "ab") as stream:
            self.assertEqual(stream.tell(), 100)
            stream.write(b"end")
        self.assertEqual(fs.stat("/bytes").bytes, 103)
        with self.assertRaises(FileExistsError):
            fs.open("/bytes", "x")
        for wrong in ("rw", "q", "rbt", "rr", ""):
            with self.assertRaisesRegex(ValueError, "mode"):
                fs.open("/bytes", wrong)
        with self.assertRaises(IsADirectoryError):
            fs.open("/", "wb")

    def test_file(self):
        with self.fs.open_file("/file", os.O_RDWR | os.O_CREAT) as file:
            self.assertEqual(file.write(b"0123456789"), 10)
            self.assertEqual(file.append(b"more"), 10)
            self.assertEqual(file.read(100, 8), b"89more")
            target = bytearray(100)
            self.assertEqual(file.read_into(target), 14)
            self.assertEqual(target[:14], b"0123456789more")
            file.truncate(4)
            file.sync()
            file.flush()
            self.assertEqual(file.stat().bytes, 4)
            with self.assertRaisesRegex(ValueError, "negative"):
                file.truncate(-1)
            with self.assertRaisesRegex(TypeError, "a buffer is needed"):
                file.append(None)
        with self.assertRaisesRegex(afar.ClosedError, "the file is closed"):
            file.read(1)
        with self.fs.open_file("/file") as file, self.assertRaises(afar.Error) as caught:
            file.write(b"x")
        self.assertEqual(caught.exception.code, "EBADF")

    def test_layouts(self):
        data = os.urandom(3 * MIB + 5)
        with self.fs.open("/narrow", "wb", layout=(65536, 1)) as stream:
            stream.write(data)
        with self.fs.open("/narrow", "rb") as stream:
            self.assertEqual(stream.read(), data)
        stat = self.fs.stat("/narrow")
        self.assertEqual((stat.stripe_bytes, stat.width), (65536, 1))
        with self.fs.open("/plain", "wb", layout=None):
            self.assertEqual(self.fs.stat("/plain").width, 0)
        with self.assertRaisesRegex(afar.Error, "power of two"):
            self.fs.open("/none", "wb", layout=(1000, 1))
        for wrong in (1, (1,), (1, 2, 3), ("a", 1)):
            with self.assertRaises(TypeError):
                self.fs.open("/none", "wb", layout=wrong)
        for wrong in ((2**64 + 65536, 1), (65536, 2**32 + 1), (-1, 1)):
            with self.assertRaises((OverflowError, ValueError)):
                self.fs.open("/none", "wb", layout=wrong)

    def test_names(self):
        fs = self.fs
        fs.makedirs("/a/b/c")
        fs.makedirs("/a/b/c", exist_ok=True)
        with self.assertRaises(FileExistsError):
            fs.mkdir("/a")
        for i in range(70):
            fs.open_file(f"/a/b/{i:03}", os.O_CREAT | os.O_WRONLY).close()
        self.assertEqual(fs.listdir("/a/b"), [f"{i:03}" for i in range(70)] + ["c"])
        fs.symlink("b/000", "/a/link")
        self.assertEqual(fs.readlink("/a/link"), "b/000")
        self.assertTrue(fs.stat("/a/link").ino == fs.stat("/a/b/000").ino != fs.stat("/a/link", follow=False).ino)
        fs.link("/a/b/000", "/a/second")
        self.assertEqual(fs.stat("/a/second").nlink, 2)
        fs.rename("/a/second", "/a/b/c/third")
        with self.assertRaises(FileExistsError):
            fs.rename("/a/b/001", "/a/b/002", replace=False)
        fs.rename("/a/b/001", "/a/b/002")
        fs.set("/a/b/002", mode=0o600, mtime=12345)
        stat = fs.stat("a/b/002")
        self.assertEqual((stat.mode & 0o7777, stat.mtime), (0o600, 12345))
        self.assertEqual([(top, folders, len(files)) for top, folders, files in fs.walk("/a")],
                         [("/a", ["b"], 1), ("/a/b", ["c"], 69), ("/a/b/c", [], 1)])
        with self.assertRaises(afar.Error):
            fs.rmdir("/a/b")
        with self.assertRaises(NotADirectoryError):
            fs.scan("/a/b/002")
        with self.assertRaises(FileNotFoundError):
            fs.stat("/none")
        for call in (fs.mkdir, fs.unlink, fs.rmdir):
            with self.assertRaisesRegex(afar.Error, "root"):
                call("/")
            with self.assertRaises(TypeError):
                call(None)
            with self.assertRaises(ValueError):
                call("a\0b")
        fs.rmtree("/a")
        self.assertFalse(fs.exists("/a"))
        odd = b"odd-\xff".decode(errors="surrogateescape")
        fs.mkdir(odd)
        self.assertIn(odd, fs.listdir())
        fs.rmdir(odd)
        self.assertEqual(self.session.file_systems()[0].name, "home")
        self.assertGreater(fs.statistics().room_bytes, 0)
        fs.sync()

    def test_closing(self):
        session = afar.connect()
        fs = session.fs("home")
        stream = fs.open("/closing", "wb")
        raw = stream.raw
        stream.write(b"kept in the buffer")
        stream.flush()
        session.close()
        self.assertTrue(fs.closed and raw.file.closed)
        with self.assertRaises(afar.ClosedError):
            fs.stat("/")
        stream.close()
        with afar.connect() as session, self.assertRaises(afar.Error), session.fs("home") as fs:
            session.fs("home")  # one session has it open once


@unittest.skipUnless(fsspec, "no fsspec (python3-fsspec)")
class Fsspec(unittest.TestCase):
    def setUp(self):
        with afar.connect() as session:
            session.create_fs("spec")
        self.spec = fsspec.filesystem("afar", skip_instance_cache=True)

    def tearDown(self):
        self.spec.session.close()
        for spec in type(self.spec)._cache.values():  # that fsspec.open() made
            spec.session.close()
        self.spec.clear_instance_cache()
        with afar.connect() as session:
            session.delete_fs("spec")

    def test_fsspec(self):
        spec = self.spec
        self.assertEqual(type(spec).__module__, "afar.fsspec")
        self.assertEqual(spec.ls("", detail=False), ["spec"])
        spec.makedirs("spec/a/b")
        spec.pipe("spec/a/b/one", b"first")
        spec.pipe({"spec/a/two": b"second", "spec/a/b/three": b"third"})
        self.assertEqual(spec.cat("spec/a/b/one"), b"first")
        self.assertEqual(spec.cat_file("afar://spec/a/two", start=-3), b"ond")
        self.assertEqual(spec.find("spec"), ["spec/a/b/one", "spec/a/b/three", "spec/a/two"])
        self.assertEqual(spec.glob("spec/a/*/t*"), ["spec/a/b/three"])
        self.assertEqual(spec.du("spec"), 16)
        self.assertEqual(spec.info("spec/a")["type"], "directory")
        with fsspec.open("afar://spec/text", "w") as stream:
            stream.write("hello\n")
        with spec.open("spec/text", "rb") as stream:
            self.assertEqual(stream.read(), b"hello\n")
        spec.copy("spec/a", "spec/copy", recursive=True)
        self.assertEqual(spec.cat("spec/copy/b/three"), b"third")
        spec.mv("spec/copy", "spec/moved", recursive=True)
        self.assertTrue(spec.exists("spec/moved/two") and not spec.exists("spec/copy") and not spec.exists("none/x"))
        spec.touch("spec/empty")
        self.assertEqual(spec.size("spec/empty"), 0)
        with self.assertRaises(FileNotFoundError):
            spec.cat("spec/none")
        with self.assertRaises(FileExistsError):
            spec.mkdir("spec/a")
        with self.assertRaisesRegex(IsADirectoryError, "recursive"):
            spec.rm("spec/a")
        with self.assertRaisesRegex(ValueError, "names no file system"):
            spec.cat("afar://")
        spec.rm("spec/a", recursive=True)
        with spec.transaction:
            with spec.open("spec/staged", "wb") as stream:
                stream.write(b"all")
            self.assertFalse(spec.exists("spec/staged"))
        self.assertEqual(spec.cat("spec/staged"), b"all")
        with self.assertRaises(RuntimeError), spec.transaction:
            with spec.open("spec/failed", "wb") as stream:
                stream.write(b"half")
            raise RuntimeError
        self.assertEqual(sorted(spec.ls("spec", detail=False)), ["spec/empty", "spec/moved", "spec/staged", "spec/text"])


if __name__ == "__main__":
    unittest.main()
