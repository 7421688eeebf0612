# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints: whole or not there, whoever is killed and whenever."""

import os
import signal
import sys
import threading
import unittest

import afar
from afar import checkpoint
from home import Home

MIB = 1 << 20


def content(version):
    """What a checkpoint of this version has: small and large entries, and an empty one."""
    entries = {f"small {i}": bytes([version % 256]) * (i * 100) for i in range(8)}
    entries["large"] = bytes([version % 256]) * (2 * MIB + 17)
    entries["version"] = str(version).encode()
    return entries


def save_and_die(step):
    """Saves the checkpoint of version `step`; killed when the step-th call into afar begins. Exits with 0 if there are fewer."""
    nr, lock = 0, threading.Lock()

    def count(_, event, call):
        nonlocal nr
        if event == "c_call" and type(getattr(call, "__self__", None)).__module__.startswith("afar"):
            with lock:
                nr += 1
                if nr == step:
                    os.kill(os.getpid(), signal.SIGKILL)

    status = 1
    try:
        with afar.connect() as session, session.fs("home") as fs:
            threading.setprofile(count)
            sys.setprofile(count)
            checkpoint.save(fs, "/run/last", content(step))
            sys.setprofile(None)
            threading.setprofile(None)
        status = 0
    finally:
        os._exit(status)


class Checkpoints(Home):
    def loaded(self, path):
        with checkpoint.Checkpoint(self.fs, path) as found:
            return {name: found[name] for name in found}

    def test_save(self):
        checkpoint.save(self.fs, "deep/er/one", content(1))
        self.assertEqual(self.loaded("/deep/er/one"), content(1))
        checkpoint.save(self.fs, "/deep/er/one", content(2).items())
        self.assertEqual(self.loaded("/deep/er/one"), content(2))
        self.assertEqual(self.fs.listdir("/deep/er"), ["one"])
        with checkpoint.Checkpoint(self.fs, "/deep/er/one") as found:
            self.assertEqual(found.size("large"), 2 * MIB + 17)
            target = bytearray(10)
            found.read_into({"small 1": target}, 5)
            self.assertEqual(target, b"\2" * 10)
            with self.assertRaisesRegex(ValueError, "has 100 bytes"):
                found.read_into({"small 1": bytearray(101)})
            with self.assertRaises(KeyError):
                found.size("none")
        with self.assertRaises(FileNotFoundError):
            checkpoint.Checkpoint(self.fs, "/none")

    def test_arrays(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy (python3-numpy)")
        arrays = {"f8": numpy.random.default_rng(1).random((300, 1000)), "i2": numpy.arange(7, dtype="i2"), "none": numpy.empty((0, 4))}
        checkpoint.save(self.fs, "/arrays", arrays)
        back = {name: numpy.zeros_like(array) for name, array in arrays.items()}
        with checkpoint.Checkpoint(self.fs, "/arrays") as found:
            found.read_into(back)
        for name, array in arrays.items():
            self.assertTrue((back[name] == array).all())
        with self.assertRaisesRegex(ValueError, "contiguous"):
            checkpoint.save(self.fs, "/arrays", {"x": arrays["f8"].T})
        self.assertEqual(len(self.loaded("/arrays")), 3)

    def test_ranks(self):
        """Each rank is a session of its own; the first one commits."""
        saving = checkpoint.Saving(self.fs, "/ranks")

        def write(rank):
            with afar.connect() as session, session.fs("home") as fs:
                with checkpoint.Part(fs, "/ranks", saving.id, str(rank)) as part:
                    part.write(f"of {rank}", bytes([rank]) * MIB)

        ranks = [threading.Thread(target=write, args=[rank]) for rank in range(3)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        with self.assertRaisesRegex(ValueError, "part '3' was not closed"):
            saving.commit(map(str, range(4)))
        self.assertFalse(self.fs.exists("/ranks"))
        saving.commit(map(str, range(3)))
        self.assertEqual(self.loaded("/ranks"), {f"of {rank}": bytes([rank]) * MIB for rank in range(3)})

    def test_wrong(self):
        with self.assertRaisesRegex(ValueError, "a name of its own"):
            checkpoint.save(self.fs, "/", {})
        with self.assertRaisesRegex(ValueError, "slash"):
            checkpoint.Part(self.fs, "/x", "id", "a/b")
        self.fs.makedirs("/precious/child")
        with self.assertRaisesRegex(FileExistsError, "no checkpoint"):
            checkpoint.save(self.fs, "/precious", {"a": b"b"})
        with self.assertRaisesRegex(ValueError, "already"):
            checkpoint.save(self.fs, "/wrong", [("a", b"1"), ("a", b"2")])
        with self.assertRaisesRegex(TypeError, "is text"):
            checkpoint.save(self.fs, "/wrong", {1: b"1"})
        saving = checkpoint.Saving(self.fs, "/wrong")
        for name in "ab":
            with saving.part(name) as part:
                part.write("same", b"x")
        with self.assertRaisesRegex(ValueError, "in two parts"):
            saving.commit()
        saving.abandon()
        self.assertFalse([name for name in self.fs.listdir("/") if "wrong" in name])

    def test_newer_save(self):
        """A save that begins ends one of the same path that has not: two cannot be mixed."""
        checkpoint.save(self.fs, "/newer", content(1))
        old = checkpoint.Saving(self.fs, "/newer")
        with old.part() as part:
            part.write_all(content(2))
        new = checkpoint.Saving(self.fs, "/newer")
        with self.assertRaises(FileNotFoundError):
            old.commit()
        with self.assertRaises(FileNotFoundError):
            old.part("more")
        with new.part() as part:
            part.write_all(content(3))
        new.commit()
        self.assertEqual(self.loaded("/newer"), content(3))

    def test_replaced_meanwhile(self):
        """A checkpoint that is open stays as it is when it is replaced, and one that is replaced while it is opened is not mixed."""
        checkpoint.save(self.fs, "/replaced", content(1))
        with checkpoint.Checkpoint(self.fs, "/replaced") as found:
            checkpoint.save(self.fs, "/replaced", content(2))
            self.assertEqual({name: found[name] for name in found}, content(1))

        class Between:
            """A file system in which a checkpoint is replaced just when its index has been read."""

            def __init__(self, fs):
                self.fs, self.is_done = fs, False

            def __getattr__(self, name):
                return getattr(self.fs, name)

            def open_file(self, path, *arguments):
                if not self.is_done:
                    self.is_done = True
                    checkpoint.save(self.fs, "/replaced", content(3))
                return self.fs.open_file(path, *arguments)

        with checkpoint.Checkpoint(Between(self.fs), "/replaced") as found:
            self.assertEqual({name: found[name] for name in found}, content(3))

    def test_killed(self):
        """Killed before each call of a save (each third one, unless thorough): the last checkpoint is whole, the new or the old one."""
        stride = 1 if os.environ.get("AFAR_THOROUGH") else 3
        checkpoint.save(self.fs, "/run/last", content(0))
        versions, step = [0], 1
        while True:
            child = os.fork()
            if not child:
                save_and_die(step)
            status = os.waitpid(child, 0)[1]
            found = self.loaded("/run/last")
            version = int(found["version"])
            self.assertEqual(found, content(version))
            self.assertIn(version, (versions[-1], step))
            versions.append(version)
            if status == 0:
                break
            self.assertEqual(os.WTERMSIG(status), signal.SIGKILL)
            step += stride
        self.assertEqual(versions[-1], step)
        self.assertGreater(step, 20)
        self.assertIn(0, versions[4:])  # killed late, and the old one was there still
        self.assertEqual(self.fs.listdir("/run"), ["last"])  # nothing is left of them
        print(f"killed at {len(versions) - 2} points")


if __name__ == "__main__":
    unittest.main()
