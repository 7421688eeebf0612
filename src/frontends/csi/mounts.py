# SPDX-License-Identifier: BSD-3-Clause
"""What is mounted here, and the commands that change it. Nothing is remembered: the kernel's table says what is there, so a plugin that
was killed goes on where it was."""

import collections
import contextlib
import errno
import os
import re
import subprocess

Mount = collections.namedtuple("Mount", "device source kind options")


class CommandError(Exception):
    """A command failed: its last line says why."""


def run(*command):
    """Runs a command to its end, and returns what it says."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"{command[0]} has ended with status {done.returncode}"]
        raise CommandError(lines[-1])
    return done.stdout


def _plain(text):
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def mounted_at(path):
    """The mount at a path, the last one if there are several; None: there is none."""
    found = None
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        for line in table:
            before, _, behind = line.rstrip("\n").partition(" - ")
            fields, (kind, source, _) = before.split(" "), behind.split(" ", 2)
            if _plain(fields[4]) == path:
                found = Mount(fields[2], _plain(source), kind, fields[5].split(","))
    return found


def is_alive(path):
    """Whether the program that serves the mount is there. The kernel asks it each time for this, and for little else."""
    try:
        os.statvfs(path)
    except OSError as error:
        return error.errno not in (errno.ENOTCONN, errno.ECONNABORTED)
    return True


def bind(place, path, is_read_only):
    """Shows the mount at `place` at `path`, too."""
    run("mount", "--bind", place, path)
    if not is_read_only:
        return
    try:
        run("mount", "-o", "remount,bind,ro", path)
    except CommandError:
        unmount(path)
        raise


def unmount(path):
    """Takes away all that is mounted at the path. A mount whose program has died is taken away even if it is in use."""
    while mounted_at(path):
        run("umount", *([] if is_alive(path) else ["-l"]), path)


def remove(path):
    """Removes an empty directory, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(path)
