# SPDX-License-Identifier: BSD-3-Clause
"""What is mounted here, and the commands that change it. Nothing is remembered: the kernel's table says what is there, so a plugin that
was killed goes on where it was."""

import collections
import contextlib
import errno
import os
import re
import signal
import subprocess
import sys

ASK_S = 5  # that a mount may take to say that it is there
ASK = "import os, sys\ntry:\n os.statvfs(sys.argv[1])\nexcept OSError as error:\n os._exit(error.errno)"
Mount = collections.namedtuple("Mount", "device source kind options")
limit_s = 100  # that a command may take; main sets it


class CommandError(Exception):
    """A command failed: its last line says why."""


class Late(Exception):
    """A command took too long, and was killed."""


def run(*command):
    """Runs a command to its end, and returns what it says. One that takes too long is killed, and nobody waits for its end: it may be in a
    call of the kernel that goes on until the cluster is back."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, encoding="utf-8", errors="replace", start_new_session=True)
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        said = (error.stderr or b"").decode(errors="replace").strip().splitlines()
        raise Late(": ".join([f"{' '.join(command)}: killed after {limit_s} s", *said[-1:]])) from error
    if process.returncode:
        lines = err.strip().splitlines() or [f"{command[0]} has ended with status {process.returncode}"]
        raise CommandError(lines[-1])
    return out


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
    """Whether the program that serves the mount is there. The kernel asks it each time for statvfs(), and for little else. It asks the cluster
    in turn, perhaps for ever. So a child waits for it; a program that takes long is there."""
    child = subprocess.Popen([sys.executable, "-ISc", ASK, path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return child.wait(ASK_S) not in (errno.ENOTCONN, errno.ECONNABORTED)
    except subprocess.TimeoutExpired:
        child.kill()
        return True


def bind(place, path):
    """Shows the mount at `place` at `path`, too."""
    run("mount", "--bind", place, path)


def forbid_writes(path):
    """Makes the mount at the path read-only. It fails while a program writes there."""
    run("mount", "-o", "remount,bind,ro", path)


def unmount(path):
    """Takes away what is mounted last at the path. A mount whose program has died is taken away even if it is in use."""
    run("umount", "--no-canonicalize", *([] if is_alive(path) else ["--lazy"]), path)


def remove(path):
    """Removes an empty directory, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(path)
