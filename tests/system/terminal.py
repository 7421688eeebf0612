# SPDX-License-Identifier: BSD-3-Clause
"""What a command shows on a terminal; for the tests of help and of tables."""

import fcntl
import os
import struct
import subprocess
import termios


def show(command, columns):
    """Runs a command, which must succeed, on a terminal of so many columns. Returns what it shows."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(command, stdout=slave)
    os.close(slave)
    out = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # EIO: nobody has the other side any more
            part = b""
        if not part:
            break
        out += part
    os.close(master)
    assert process.wait() == 0
    return out.decode().replace("\r\n", "\n")
