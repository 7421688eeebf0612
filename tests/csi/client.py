# SPDX-License-Identifier: BSD-3-Clause
"""A client of afar-csi, as a container orchestrator is one: client.py PLUGIN FOLDER."""

import concurrent.futures
import contextlib
import os
import re
import signal
import stat
import subprocess
import sys
import unittest

import grpc

import csi_pb2 as csi

PLUGIN, FOLDER = sys.argv[1:3]
SOCKET = f"{FOLDER}/run/csi.sock"
CODE = grpc.StatusCode
Mode = csi.VolumeCapability.AccessMode


HOLD, SAY = f"{FOLDER}/hold", f"{FOLDER}/say"  # a pipe whose end commands wait for; what they say instead of running


def start(*arguments):
    """A plugin that answers; its errors are in a file."""
    with open(f"{FOLDER}/plugin.err", "a", encoding="utf-8") as errors:
        command = [PLUGIN, "--endpoint", f"unix://{SOCKET}", "--node", "this", *arguments]
        plugin = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    line = plugin.stdout.readline()
    assert line == f"afar-csi: answers at {SOCKET}\n", line
    return plugin


def mounts():
    """Pairs of places and options, of all mounts of Afar in the folder."""
    with open("/proc/self/mounts", encoding="utf-8") as table:
        fields = [line.split() for line in table]
    return {each[1]: each[3].split(",") for each in fields if each[2] == "fuse.afar" and each[1].startswith(FOLDER)}


def capability(mode=Mode.MULTI_NODE_MULTI_WRITER, **mount):
    return csi.VolumeCapability(mount=csi.VolumeCapability.MountVolume(**mount), access_mode=Mode(mode=mode))


class Csi(unittest.TestCase):
    def setUp(self):
        self.plugin = start()
        self.channel = grpc.insecure_channel(f"unix:{SOCKET}")
        self.staging, self.target = f"{FOLDER}/staging", f"{FOLDER}/pods/one/mount"

    def tearDown(self):
        self.call("NodeUnpublishVolume", volume_id="home", target_path=self.target)
        self.call("NodeUnstageVolume", volume_id="home", staging_target_path=self.staging)
        self.channel.close()
        self.end()
        self.assertEqual(mounts(), {})

    def end(self):
        self.plugin.send_signal(signal.SIGTERM)
        self.assertEqual(self.plugin.wait(), 0)
        self.plugin.stdout.close()

    @contextlib.contextmanager
    def held(self, call, *arguments, **fields):
        """A call whose first command of Afar waits until this is over."""
        os.mkfifo(HOLD)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            done = pool.submit(call, *arguments, **fields)
            pipe = os.open(HOLD, os.O_WRONLY)  # returns when the command has come
            os.unlink(HOLD)
            try:
                yield done
            finally:
                os.close(pipe)

    def call(self, name, service="Node", **fields):
        method = self.channel.unary_unary(
            f"/csi.v1.{service}/{name}",
            request_serializer=getattr(csi, f"{name}Request").SerializeToString,
            response_deserializer=getattr(csi, f"{name}Response").FromString,
        )
        return method(getattr(csi, f"{name}Request")(**fields), timeout=60, wait_for_ready=True)

    def stage(self, id_="home", path=None, **mount):
        return self.call("NodeStageVolume", volume_id=id_, staging_target_path=path or self.staging, volume_capability=capability(**mount))

    def publish(self, id_="home", place=None, path=None, readonly=False, **mount):
        place, path = place or self.staging, path or self.target
        fields = {"volume_id": id_, "staging_target_path": place, "target_path": path, "readonly": readonly}
        return self.call("NodePublishVolume", volume_capability=capability(**mount), **fields)

    def refuses(self, code, line, call, *arguments, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments, **fields)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertRegex(caught.exception.details(), line)
        self.assertNotIn("\n", caught.exception.details())

    def test_identity(self):
        info = self.call("GetPluginInfo", "Identity")
        self.assertTrue(re.fullmatch(r"\d+\.\d+\.\d+", info.vendor_version), info)
        self.assertEqual(info.name, "csi.afar")
        self.assertTrue(self.call("Probe", "Identity").ready.value)
        self.call("GetPluginCapabilities", "Identity")
        self.assertEqual(self.call("NodeGetInfo").node_id, "this")
        self.assertEqual([each.rpc.type for each in self.call("NodeGetCapabilities").capabilities], [csi.NodeServiceCapability.RPC.STAGE_UNSTAGE_VOLUME])
        self.refuses(CODE.UNIMPLEMENTED, "Method not found", self.channel.unary_unary("/csi.v1.Controller/CreateVolume"), b"", timeout=60)

    def test_private(self):
        """Nobody else reaches the socket, and a second plugin does not take it."""
        self.assertEqual(stat.S_IMODE(os.stat(SOCKET).st_mode) & 0o077, 0)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(SOCKET)).st_mode), 0o700)
        other = subprocess.run([PLUGIN, "--endpoint", SOCKET], capture_output=True, text=True, check=False)
        self.assertEqual((other.returncode, other.stderr), (1, f"afar-csi: {SOCKET}: another plugin answers there\n"))
        self.call("Probe", "Identity")

    def test_publish(self):
        """A volume at two places, of which one cannot be written; each call comes twice."""
        other = f"{FOLDER}/pods/two/mount"
        for _ in range(2):
            self.stage()
        for _ in range(2):
            self.publish()
            self.publish(path=other, readonly=True)
        with open(f"{self.target}/file", encoding="utf-8") as file:
            self.assertEqual(file.read(), "content\n")
        with open(f"{self.target}/new", "w", encoding="utf-8") as file:
            file.write("written")
        with open(f"{other}/new", encoding="utf-8") as file:
            self.assertEqual(file.read(), "written")
        with self.assertRaises(OSError):
            open(f"{other}/new", "w", encoding="utf-8")
        self.assertEqual({place: "ro" in options for place, options in mounts().items()}, {self.staging: False, self.target: False, other: True})
        self.refuses(CODE.ALREADY_EXISTS, "other rights", self.publish, path=other)
        self.refuses(CODE.ALREADY_EXISTS, "'home' is mounted there", self.stage, "home/folder")
        self.refuses(CODE.FAILED_PRECONDITION, "not 'home/folder'", self.publish, "home/folder", path=f"{FOLDER}/pods/three")
        self.refuses(CODE.FAILED_PRECONDITION, "not staged", self.publish, place=f"{FOLDER}/none", path=f"{FOLDER}/pods/three")
        for _ in range(2):
            self.call("NodeUnpublishVolume", volume_id="home", target_path=other)
        self.assertFalse(os.path.exists(other))
        self.assertTrue(os.path.exists(f"{self.target}/new"))

    def test_folder(self):
        place = f"{FOLDER}/staging of a folder"
        self.stage("home/folder", place, mode=Mode.SINGLE_NODE_READER_ONLY, mount_flags=["direct"], fs_type="afar")
        self.assertIn("ro", mounts()[place.replace(" ", "\\040")])
        self.stage("home/folder", place, mode=Mode.SINGLE_NODE_READER_ONLY, mount_flags=["direct"])
        self.refuses(CODE.ALREADY_EXISTS, "other rights", self.stage, "home/folder", place)
        self.call("NodeUnstageVolume", volume_id="home/folder", staging_target_path=place)

    def test_refused(self):
        for id_ in ("", "-o", "home/../x", "home,dev", "a//b", "afar://host/home", "x" * 2000):
            self.refuses(CODE.INVALID_ARGUMENT, "^volume_id: ", self.stage, id_)
        os.symlink("/proc", f"{FOLDER}/proc")
        for path in ("relative", "/", "/a/../b", "/a/", "//x", f"{FOLDER}/proc"):
            self.refuses(CODE.INVALID_ARGUMENT, "^staging_target_path: ", self.stage, path=path)
        self.refuses(CODE.INVALID_ARGUMENT, "^volume_capability: .*missing", self.call, "NodeStageVolume", volume_id="home", staging_target_path="/x")
        block = csi.VolumeCapability(block=csi.VolumeCapability.BlockVolume(), access_mode=Mode(mode=Mode.SINGLE_NODE_WRITER))
        self.refuses(CODE.INVALID_ARGUMENT, "afar export", self.call, "NodeStageVolume", volume_id="home", staging_target_path="/x", volume_capability=block)
        self.refuses(CODE.INVALID_ARGUMENT, "access mode", self.stage, mode=Mode.UNKNOWN)
        self.refuses(CODE.INVALID_ARGUMENT, "access mode", self.stage, mode=99)
        self.refuses(CODE.INVALID_ARGUMENT, "^fs_type: ", self.stage, fs_type="ext4")
        for flag in ("ro,suid", "", "suid", "fsname=x", "uri=afar://h", "key=/k", "subdir=folder", "age=1\\", "age=", "ro\n", "allow_other"):
            self.refuses(CODE.INVALID_ARGUMENT, "^mount_flags: ", self.stage, mount_flags=[flag])
        self.refuses(CODE.INVALID_ARGUMENT, "ro and rw", self.stage, mode=Mode.MULTI_NODE_READER_ONLY, mount_flags=["rw"])
        self.refuses(CODE.INVALID_ARGUMENT, "^volume_mount_group: ", self.stage, volume_mount_group="7")
        self.refuses(CODE.INVALID_ARGUMENT, "^target_path: ", self.call, "NodeUnpublishVolume", volume_id="home")
        self.refuses(CODE.NOT_FOUND, "no such file system", self.stage, "nowhere")
        self.refuses(CODE.NOT_FOUND, "none", self.stage, "home/none")
        self.refuses(CODE.INTERNAL, "age=9999", self.stage, mount_flags=["age=9999"])
        self.refuses(CODE.FAILED_PRECONDITION, "something else is mounted there", self.stage, path="/proc")
        self.refuses(CODE.FAILED_PRECONDITION, "something else is mounted there", self.call, "NodeUnpublishVolume", volume_id="home", target_path="/proc")
        self.assertEqual(mounts(), {})

    def test_plugin_killed(self):
        """The mounts go on, and the next plugin knows them."""
        self.stage()
        self.publish()
        self.plugin.kill()
        self.plugin.wait()
        self.plugin.stdout.close()
        self.assertTrue(os.path.exists(f"{self.target}/file"))
        self.plugin = start()
        self.stage()
        self.publish()
        self.assertEqual(set(mounts()), {self.staging, self.target})

    def test_mount_killed(self):
        """Staged and published again, it is there again; published alone, too."""
        self.stage()
        self.publish()
        for is_staged_again in (True, False):
            fd = os.open(f"{self.target}/file", os.O_RDONLY)  # it is in use
            os.kill(self._find_server(), signal.SIGKILL)
            while self._is_alive(self.target):
                pass
            if is_staged_again:
                self.stage()
            self.publish()
            self.assertTrue(os.path.exists(f"{self.target}/file"))
            self.assertEqual(set(mounts()), {self.staging, self.target})
            with contextlib.suppress(OSError):  # whose program has died
                os.close(fd)

    def test_mount_stopped(self):
        """One that does not answer is no dead one: it can be published, and taken away."""
        self.stage()
        server = self._find_server()
        os.kill(server, signal.SIGSTOP)
        self.addCleanup(os.kill, server, signal.SIGCONT)
        self.stage()
        self.publish()
        self.assertEqual(set(mounts()), {self.staging, self.target})
        self.call("NodeUnpublishVolume", volume_id="home", target_path=self.target)
        self.assertEqual(set(mounts()), {self.staging})
        os.kill(server, signal.SIGCONT)

    def test_busy(self):
        """While a call goes on, others of its volume or path are refused, and all else is answered."""
        with self.held(self.stage) as done:
            self.refuses(CODE.ABORTED, "goes on", self.stage)
            self.refuses(CODE.ABORTED, "goes on", self.stage, "home/folder")
            self.refuses(CODE.ABORTED, "goes on", self.publish)
            self.refuses(CODE.ABORTED, "goes on", self.call, "NodeUnstageVolume", volume_id="home", staging_target_path=f"{FOLDER}/x")
            for _ in range(20):
                self.assertTrue(self.call("Probe", "Identity").ready.value)
            self.call("NodeUnstageVolume", volume_id="home/folder", staging_target_path=f"{FOLDER}/x")
        done.result()
        self.assertEqual(set(mounts()), {self.staging})

    def test_late(self):
        """A command that takes too long is killed. A plugin ends in spite of one, and the next goes on."""
        self.stage()
        self.end()
        self.plugin = start("--timeout", "1")
        fields = {"volume_id": "home", "staging_target_path": self.staging}
        with self.held(self.refuses, CODE.DEADLINE_EXCEEDED, "umount.*killed after 1 s", self.call, "NodeUnstageVolume", **fields) as done:
            done.result()
        self.end()
        self.plugin = start()
        with self.held(self.call, "NodeUnstageVolume", **fields) as done:
            self.end()
            self.assertIsNotNone(done.exception())
        self.plugin = start()
        self.call("Probe", "Identity")

    def test_links(self):
        """Places that the kernel calls otherwise than the caller."""
        os.mkdir(f"{FOLDER}/real")
        os.symlink("real", f"{FOLDER}/link")
        place, path = f"{FOLDER}/link/staging", f"{FOLDER}/link/target"
        for _ in range(2):
            self.stage(path=place)
            self.publish(place=place, path=path)
        with open("/proc/self/mounts", encoding="utf-8") as table:
            self.assertEqual(sum(" fuse.afar " in line and FOLDER in line for line in table), 2)
        self.assertEqual(set(mounts()), {f"{FOLDER}/real/staging", f"{FOLDER}/real/target"})
        self.call("NodeUnpublishVolume", volume_id="home", target_path=path)
        self.call("NodeUnstageVolume", volume_id="home", staging_target_path=place)

    def test_others(self):
        """What is mounted of another volume, or by others, stays."""
        self.stage()
        self.publish()
        unstage = {"volume_id": "home/folder", "staging_target_path": self.staging}
        self.refuses(CODE.FAILED_PRECONDITION, "'home' is mounted", self.call, "NodeUnstageVolume", **unstage)
        self.refuses(CODE.FAILED_PRECONDITION, "'home' is mounted", self.call, "NodeUnpublishVolume", volume_id="home/folder", target_path=self.target)
        self.assertEqual(set(mounts()), {self.staging, self.target})
        below = f"{FOLDER}/below"
        os.mkdir(below)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", below], check=True)
        self.addCleanup(subprocess.run, ["umount", below], check=True)
        subprocess.run(["mount", "--bind", self.staging, below], check=True)
        self.refuses(CODE.FAILED_PRECONDITION, "tmpfs", self.call, "NodeUnpublishVolume", volume_id="home", target_path=below)
        self.assertEqual(set(mounts()), {self.staging, self.target})
        self.assertTrue(os.path.ismount(below))

    def test_half_published(self):
        """A plugin has ended before the mount was read-only."""
        self.stage()
        os.makedirs(self.target)
        subprocess.run(["mount", "--bind", self.staging, self.target], check=True)
        self.publish(readonly=True)
        self.assertIn("ro", mounts()[self.target])
        self.assertNotIn("ro", mounts()[self.staging])

    def test_nonsense(self):
        """A command says what is no JSON, no text, or no list of file systems."""
        self.addCleanup(os.unlink, SAY)
        for said in (b"[", b"\xff\xfe\n\n", b'"x"', b"[{}]"):
            with open(SAY, "wb") as file:
                file.write(said)
            self.refuses(CODE.INTERNAL, "no list of file systems", self.stage)
            with open(f"{FOLDER}/plugin.err", encoding="utf-8") as errors:
                self.assertRegex(errors.readlines()[-1], "^afar-csi: NodeStageVolume: ")

    def test_start_at_once(self):
        """One of several plugins has the socket that an ended one has left."""
        self.plugin.kill()
        self.plugin.wait()
        self.plugin.stdout.close()
        command = [PLUGIN, "--endpoint", SOCKET]
        plugins = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(4)]
        winners = [plugin for plugin in plugins if plugin.stdout.readline()]
        self.plugin = winners[0]
        self.assertEqual(len(winners), 1)
        for plugin in plugins:
            if plugin is not self.plugin:
                self.assertEqual(plugin.wait(), 1)
                plugin.stdout.close()
        self.call("Probe", "Identity")

    def _find_server(self):
        (pid,) = {int(pid) for pid in os.listdir("/proc") if pid.isdigit() and self._serves(pid)}
        return pid

    def _serves(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                arguments = file.read().split("\0")
        except OSError:
            return False
        return "afar-mount" in arguments[0] and self.staging in arguments

    @staticmethod
    def _is_alive(place):
        try:
            os.statvfs(place)
        except OSError:
            return False
        return True

    def test_at_once(self):
        """Calls that come again until they are not refused, as an orchestrator's do."""
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for call in (self.stage, self.publish):
                for done in [pool.submit(self._insist, call) for _ in range(16)]:
                    done.result()
        with open("/proc/self/mounts", encoding="utf-8") as table:
            self.assertEqual(sum(" fuse.afar " in line and FOLDER in line for line in table), 2)

    @staticmethod
    def _insist(call):
        while True:
            try:
                return call()
            except grpc.RpcError as error:
                if error.code() != CODE.ABORTED:
                    raise


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
