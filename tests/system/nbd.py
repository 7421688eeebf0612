#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""An NBD client that does what programs do not. nbd.py SOCKET request TYPE FLAGS LENGTH: one request, from 4096 on, and no
flush at its end; "error" instead of "request" prints the error that it gets. nbd.py SOCKET stay: says "connected", and stays
until it is cut off."""

import socket
import struct
import sys

path, what, *numbers = sys.argv[1:]
peer = socket.socket(socket.AF_UNIX)
peer.connect(path)


def take(length):
    data = b""
    while len(data) < length:
        part = peer.recv(length - len(data))
        assert part, "the server has gone"
        data += part
    return data


assert take(16) == b"NBDMAGICIHAVEOPT"
take(2)
peer.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, 0))  # no zeros behind; the export ""
take(10)
if what in ("request", "error"):
    kind, flags, length = (int(number, 0) for number in numbers)
    data = b"x" * length if kind == 1 else b""
    peer.sendall(struct.pack(">IHHQQI", 0x25609513, flags, kind, 1, 0 if kind == 3 else 4096, length) + data)
    magic, error = struct.unpack(">II", take(16)[:8])
    assert magic == 0x67446698 and (what == "error" or error == 0), f"error {error}"
    if what == "error":
        print(error)
else:
    print("connected", flush=True)
    assert peer.recv(1) == b"", "an answer to nothing"
