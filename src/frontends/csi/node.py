# SPDX-License-Identifier: BSD-3-Clause
"""The calls of the Container Storage Interface that afar-csi answers: Identity, and Node for volumes that are mounted.

A volume is a file system of Afar, or a directory of one: its id is `FS` or `FS/DIRECTORY`. Staging mounts it, and publishing shows that mount
at one more place. So a machine has one mount of a volume, however many programs use it. Each call may come again, or come while
another one of its volume goes on."""

import contextlib
import json
import os
import re
import threading

import grpc

import csi_pb2 as csi
import mounts

NAME = "csi.afar"
AFAR = os.environ.get("AFAR", "afar")
KIND = "fuse.afar"
ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[^/,\0\n]+)*")
# What afar-mount takes and no one volume could harm another by.
FLAG = re.compile(r"ro|rw|direct|cached|nolock|no_bypass|noexec|nosuid|nodev|noatime|sync|dirsync|(age|retry|threads)=[0-9.]+")
Mode = csi.VolumeCapability.AccessMode
READ_ONLY_MODES = (Mode.SINGLE_NODE_READER_ONLY, Mode.MULTI_NODE_READER_ONLY)


class Refused(Exception):
    """A call that fails: its code, and a line that says why."""

    def __init__(self, code, line):
        super().__init__(line)
        self.code = code


def invalid(line):
    return Refused(grpc.StatusCode.INVALID_ARGUMENT, line)


def failed(line):
    return Refused(grpc.StatusCode.FAILED_PRECONDITION, line)


# ---- What a request has


def take_id(request):
    id_ = request.volume_id
    if not ID.fullmatch(id_) or len(id_) > 1024 or ".." in id_.split("/"):
        raise invalid(f"volume_id: {id_[:80]!r} is neither FS nor FS/DIRECTORY")
    return id_


def take_path(request, field):
    """The path as the kernel's table has it. Its last part is not looked at by more than readlink(), which asks no mount."""
    path = getattr(request, field)
    if not path.startswith("/") or path.startswith("//") or os.path.normpath(path) != path or path == "/" or "\0" in path:
        raise invalid(f"{field}: {path!r} is not the absolute path of a directory")
    folder, name = os.path.split(path)
    real = os.path.join(os.path.realpath(folder), name)
    with contextlib.suppress(OSError):
        os.readlink(real)
        raise invalid(f"{field}: {path!r} is a link, not a directory")
    return real


def take_mount(request):
    """Options of the mount: what the capability asks for."""
    if not request.HasField("volume_capability"):
        raise invalid("volume_capability: it is missing")
    capability = request.volume_capability
    if capability.WhichOneof("access_type") != "mount":
        raise invalid("volume_capability: afar-csi mounts; `afar export` lends volumes that are disks")
    if capability.access_mode.mode not in Mode.Mode.values() or capability.access_mode.mode == Mode.UNKNOWN:
        raise invalid("volume_capability: it has no access mode that is known here")
    if capability.mount.fs_type not in ("", "afar"):
        raise invalid(f"fs_type: {capability.mount.fs_type!r} is not 'afar'")
    if capability.mount.volume_mount_group:
        raise invalid("volume_mount_group: this plugin does not take it")
    for flag in capability.mount.mount_flags:
        if not FLAG.fullmatch(flag):
            raise invalid(f"mount_flags: {flag[:80]!r} is not an option that a volume can have")
    options = list(capability.mount.mount_flags) + (["ro"] if capability.access_mode.mode in READ_ONLY_MODES else [])
    if "ro" in options and "rw" in options:
        raise invalid("volume_capability: it asks for ro and rw")
    return options


# ---- Steps


def look_for(id_):
    """Fails if there is no such file system."""
    try:
        known = [fs["name"] for fs in json.loads(mounts.run(AFAR, "fs", "ls", "--json"))]
    except (mounts.CommandError, mounts.Late) as error:
        raise Refused(grpc.StatusCode.UNAVAILABLE, str(error)) from error
    except (ValueError, TypeError, KeyError) as error:
        raise Refused(grpc.StatusCode.INTERNAL, f"afar fs ls --json: it says no list of file systems: {error!r}") from error
    if id_.partition("/")[0] not in known:
        raise Refused(grpc.StatusCode.NOT_FOUND, f"volume {id_!r}: there is no such file system")


def make_directory(path):
    try:
        os.makedirs(path, mode=0o750, exist_ok=True)
    except OSError as error:
        raise Refused(grpc.StatusCode.INTERNAL, f"{path}: {error.strerror}") from error


def find_own(path, id_, code=grpc.StatusCode.FAILED_PRECONDITION):
    """The mount at the path, which must be of this volume; None: there is none."""
    mount = mounts.mounted_at(path)
    if mount and mount.kind != KIND:
        raise failed(f"{path}: something else is mounted there, {mount.kind}")
    if mount and mount.source != id_:
        raise Refused(code, f"{path}: {mount.source!r} is mounted there, not {id_!r}")
    return mount


def other_rights(path):
    return Refused(grpc.StatusCode.ALREADY_EXISTS, f"{path}: the same volume is there with other rights, or another one")


def stage(id_, path, options):
    """Mounts the volume. `afar mount` takes away mounts there whose programs have died."""
    look_for(id_)
    if not mounts.mounted_at(path):
        make_directory(path)
    try:
        mounts.run(AFAR, "mount", id_, path, *(["-o", ",".join(options)] if options else []))
    except mounts.CommandError as error:
        code = grpc.StatusCode.NOT_FOUND if "No such file" in str(error) else grpc.StatusCode.INTERNAL
        raise Refused(code, str(error)) from error


class Node:
    """The calls: each takes a request and returns its response, or fails with Refused."""

    def __init__(self, name, version):
        self._name, self._version = name, version
        self._busy, self._mutex = set(), threading.Lock()  # ids and paths of the calls that go on

    @contextlib.contextmanager
    def _alone_with(self, *names):
        """A volume and a path have one call at a time. Another one is refused, and comes again: it must not take a thread to wait."""
        with self._mutex:
            taken = self._busy.intersection(names)
            if taken:
                raise Refused(grpc.StatusCode.ABORTED, f"{taken.pop()}: another call of it goes on")
            self._busy.update(names)
        try:
            yield
        finally:
            with self._mutex:
                self._busy.difference_update(names)

    # ---- Identity

    def GetPluginInfo(self, _):
        return csi.GetPluginInfoResponse(name=NAME, vendor_version=self._version)

    def GetPluginCapabilities(self, _):
        return csi.GetPluginCapabilitiesResponse()

    def Probe(self, _):
        return csi.ProbeResponse(ready=csi.Ready(value=True))

    # ---- Node

    def NodeGetInfo(self, _):
        return csi.NodeGetInfoResponse(node_id=self._name)

    def NodeGetCapabilities(self, _):
        rpc = csi.NodeServiceCapability.RPC(type=csi.NodeServiceCapability.RPC.STAGE_UNSTAGE_VOLUME)
        return csi.NodeGetCapabilitiesResponse(capabilities=[csi.NodeServiceCapability(rpc=rpc)])

    def NodeStageVolume(self, request):
        id_, path, options = take_id(request), take_path(request, "staging_target_path"), take_mount(request)
        with self._alone_with(id_, path):
            mount = find_own(path, id_, grpc.StatusCode.ALREADY_EXISTS)
            if not mount or not mounts.is_alive(path):
                stage(id_, path, options)
            elif ("ro" in mount.options) != ("ro" in options):
                raise other_rights(path)
        return csi.NodeStageVolumeResponse()

    def NodeUnstageVolume(self, request):
        id_, path = take_id(request), take_path(request, "staging_target_path")
        with self._alone_with(id_, path):
            while find_own(path, id_):
                if mounts.is_alive(path):
                    mounts.run(AFAR, "umount", path)  # until all is synced
                else:
                    mounts.unmount(path)
        return csi.NodeUnstageVolumeResponse()

    def NodePublishVolume(self, request):
        id_, options = take_id(request), take_mount(request)
        place, path = take_path(request, "staging_target_path"), take_path(request, "target_path")
        with self._alone_with(id_, place, path):
            staged = find_own(place, id_)
            if not staged:
                raise failed(f"{place}: volume {id_!r} is not staged there")
            if not mounts.is_alive(place):
                stage(id_, place, options)
                staged = mounts.mounted_at(place)
            is_read_only = request.readonly or "ro" in options + staged.options
            self._publish(id_, place, path, staged.device, is_read_only)
        return csi.NodePublishVolumeResponse()

    @staticmethod
    def _publish(id_, place, path, device, is_read_only):
        """A plugin may have ended between the two steps. So a mount that can still be written is no other one."""
        while (mount := find_own(path, id_, grpc.StatusCode.ALREADY_EXISTS)) and not mounts.is_alive(path):
            mounts.unmount(path)
        if not mount:
            make_directory(path)
            mounts.bind(place, path)
            mount = find_own(path, id_)
        if mount.device != device or ("ro" in mount.options and not is_read_only):
            raise other_rights(path)
        if is_read_only and "ro" not in mount.options:
            mounts.forbid_writes(path)

    def NodeUnpublishVolume(self, request):
        id_, path = take_id(request), take_path(request, "target_path")
        with self._alone_with(id_, path):
            while find_own(path, id_):
                mounts.unmount(path)
            mounts.remove(path)
        return csi.NodeUnpublishVolumeResponse()
