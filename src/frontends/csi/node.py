# SPDX-License-Identifier: BSD-3-Clause
"""The calls of the Container Storage Interface that afar-csi answers: Identity, and Node for volumes that are mounted.

A volume is a file system of Afar, or a directory of one: its id is `FS` or `FS/DIRECTORY`. Staging mounts it, and publishing shows that mount
at one more place. So a machine has one mount of a volume, however many programs use it. Each call may come again, or come while
another one of its volume goes on."""

import collections
import json
import os
import re
import threading

import grpc
from google.protobuf import wrappers_pb2

import csi_pb2 as csi
import mounts

NAME = "csi.afar"
AFAR = os.environ.get("AFAR", "afar")
KIND = "fuse.afar"
ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[^/,\0\n]+)*")
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
    path = getattr(request, field)
    if not path.startswith("/") or os.path.normpath(path) != path or path == "/" or "\0" in path:
        raise invalid(f"{field}: {path!r} is not the absolute path of a directory")
    return path


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
        if not flag or "," in flag or "\0" in flag:
            raise invalid(f"mount_flags: {flag!r} is not one option")
    return list(capability.mount.mount_flags) + (["ro"] if capability.access_mode.mode in READ_ONLY_MODES else [])


# ---- Steps


def look_for(id_):
    """Fails if there is no such file system."""
    try:
        known = json.loads(mounts.run(AFAR, "fs", "ls", "--json"))
    except mounts.CommandError as error:
        raise Refused(grpc.StatusCode.UNAVAILABLE, str(error)) from error
    if id_.partition("/")[0] not in [fs["name"] for fs in known]:
        raise Refused(grpc.StatusCode.NOT_FOUND, f"volume {id_!r}: there is no such file system")


def make_directory(path):
    try:
        os.makedirs(path, mode=0o750, exist_ok=True)
    except OSError as error:
        raise Refused(grpc.StatusCode.INTERNAL, f"{path}: {error.strerror}") from error


def find_own(path):
    """The mount at the path, which must be one of Afar; None: there is none. One that nobody serves any more is taken away."""
    mount = mounts.mounted_at(path)
    if mount and mount.kind != KIND:
        raise failed(f"{path}: something else is mounted there, {mount.kind}")
    if mount and not mounts.is_alive(path):
        mounts.unmount(path)
        return None
    return mount


def check_same(path, mount, device, is_read_only):
    """Fails if the mount is not the one that is wanted."""
    if device not in (None, mount.device) or ("ro" in mount.options) != is_read_only:
        raise Refused(grpc.StatusCode.ALREADY_EXISTS, f"{path}: another volume is there, or the same with other rights")


class Node:
    """The calls: each takes a request and returns its response, or fails with Refused."""

    def __init__(self, name, version):
        self._name, self._version = name, version
        self._locks, self._mutex = collections.defaultdict(threading.Lock), threading.Lock()

    def _lock(self, id_):
        """The calls of one volume take it in turns. Those of others need not wait for them."""
        with self._mutex:
            return self._locks[id_]

    # ---- Identity

    def GetPluginInfo(self, _):
        return csi.GetPluginInfoResponse(name=NAME, vendor_version=self._version)

    def GetPluginCapabilities(self, _):
        return csi.GetPluginCapabilitiesResponse()

    def Probe(self, _):
        return csi.ProbeResponse(ready=wrappers_pb2.BoolValue(value=True))

    # ---- Node

    def NodeGetInfo(self, _):
        return csi.NodeGetInfoResponse(node_id=self._name)

    def NodeGetCapabilities(self, _):
        rpc = csi.NodeServiceCapability.RPC(type=csi.NodeServiceCapability.RPC.STAGE_UNSTAGE_VOLUME)
        return csi.NodeGetCapabilitiesResponse(capabilities=[csi.NodeServiceCapability(rpc=rpc)])

    def NodeStageVolume(self, request):
        id_, path, options = take_id(request), take_path(request, "staging_target_path"), take_mount(request)
        with self._lock(id_):
            mount = find_own(path)
            if mount:
                if mount.source != id_:
                    raise Refused(grpc.StatusCode.ALREADY_EXISTS, f"{path}: {mount.source!r} is mounted there")
                check_same(path, mount, None, "ro" in options)
                return csi.NodeStageVolumeResponse()
            look_for(id_)
            make_directory(path)
            try:
                mounts.run(AFAR, "mount", id_, path, *(["-o", ",".join(options)] if options else []))
            except mounts.CommandError as error:
                code = grpc.StatusCode.NOT_FOUND if "No such file" in str(error) else grpc.StatusCode.INTERNAL
                raise Refused(code, str(error)) from error
        return csi.NodeStageVolumeResponse()

    def NodeUnstageVolume(self, request):
        id_, path = take_id(request), take_path(request, "staging_target_path")
        with self._lock(id_):
            if find_own(path):
                mounts.run(AFAR, "umount", path)
        return csi.NodeUnstageVolumeResponse()

    def NodePublishVolume(self, request):
        id_, options = take_id(request), take_mount(request)
        place, path = take_path(request, "staging_target_path"), take_path(request, "target_path")
        is_read_only = request.readonly or "ro" in options
        with self._lock(id_):
            staged, mount = find_own(place), find_own(path)
            if not staged or staged.source != id_:
                raise failed(f"{place}: volume {id_!r} is not staged there")
            if mount:
                check_same(path, mount, staged.device, is_read_only)
                return csi.NodePublishVolumeResponse()
            make_directory(path)
            mounts.bind(place, path, is_read_only)
        return csi.NodePublishVolumeResponse()

    def NodeUnpublishVolume(self, request):
        id_, path = take_id(request), take_path(request, "target_path")
        with self._lock(id_):
            if find_own(path):
                mounts.unmount(path)
            mounts.remove(path)
        return csi.NodeUnpublishVolumeResponse()
