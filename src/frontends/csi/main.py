#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""afar-csi: a plugin of the Container Storage Interface, which mounts file systems of an Afar cluster for the containers of this machine.
It answers by gRPC at a Unix socket that nobody but its user can reach."""

import argparse
import concurrent.futures
import contextlib
import fcntl
import os
import signal
import socket
import stat
import sys
import threading

import grpc

sys.dont_write_bytecode = True  # where the package has put this
import csi_pb2 as csi
import mounts
from node import Node, Refused

VERSION = "@VERSION@"
THREADS = 64  # each command in turn takes one, for as long as it may
GRACE_S = 5  # that calls have to end
CALLS = {
    "csi.v1.Identity": ("GetPluginInfo", "GetPluginCapabilities", "Probe"),
    "csi.v1.Node": (
        "NodeGetInfo",
        "NodeGetCapabilities",
        "NodeStageVolume",
        "NodeUnstageVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
    ),
}


def answer(call):
    """A call of Node as gRPC has it. A failure is one line, and no end of the program."""

    def answering(request, context):
        try:
            return call(request)
        except Refused as error:
            code, line = error.code, str(error)
        except mounts.Late as error:
            code, line = grpc.StatusCode.DEADLINE_EXCEEDED, str(error)
        except (mounts.CommandError, OSError, ValueError) as error:
            code, line = grpc.StatusCode.INTERNAL, str(error)
        line = " ".join(line.split())
        print(f"afar-csi: {call.__name__}: {line}", file=sys.stderr, flush=True)
        return context.abort(code, line)

    return answering


def handlers(node):
    for service, names in CALLS.items():
        yield grpc.method_handlers_generic_handler(
            service,
            {
                name: grpc.unary_unary_rpc_method_handler(
                    answer(getattr(node, name)),
                    request_deserializer=getattr(csi, f"{name}Request").FromString,
                    response_serializer=getattr(csi, f"{name}Response").SerializeToString,
                )
                for name in names
            },
        )


def prepare(path):
    """Makes the socket's directory, and takes away a socket that an ended plugin has left. Returns a lock: who has it has the socket."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"afar-csi: {path}: another plugin answers there")
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            sys.exit(f"afar-csi: {path}: something that is no socket is there")
        os.unlink(path)
    return lock


def main():
    parser = argparse.ArgumentParser(prog="afar-csi", description="Mounts file systems of an Afar cluster for containers, by CSI.")
    parser.add_argument("--endpoint", metavar="PATH", default="/run/afar-csi/csi.sock", help="the Unix socket (default: %(default)s)")
    parser.add_argument("--node", metavar="NAME", default=socket.gethostname(), help="this machine's name (default: %(default)s)")
    parser.add_argument("--timeout", metavar="SECONDS", type=int, default=mounts.limit_s, help="kills commands that take longer (default: %(default)s)")
    parser.add_argument("--version", action="version", version=VERSION)
    arguments = parser.parse_args()
    if arguments.timeout < 1:
        parser.error("--timeout: it is at least 1")
    mounts.limit_s = arguments.timeout
    path = os.path.abspath(arguments.endpoint.removeprefix("unix://").removeprefix("unix:"))

    is_over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    before = os.umask(0o077)  # for the socket
    lock = prepare(path)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(THREADS))
    server.add_generic_rpc_handlers(list(handlers(Node(arguments.node, VERSION))))
    if not server.add_insecure_port(f"unix:{path}"):
        sys.exit(f"afar-csi: {path}: cannot listen there")
    os.umask(before)
    server.start()
    print(f"afar-csi: answers at {path}", flush=True)
    is_over.wait()
    server.stop(GRACE_S).wait()
    os.close(lock)
    os._exit(0)  # calls may wait for commands, and the next plugin goes on where they are


if __name__ == "__main__":
    main()
