# SPDX-License-Identifier: BSD-3-Clause
# Programs that write here and there into one sparse file.
#   mount_holes.py write PATH LOG NR WRITER NR_WRITERS [stay]
#                                                       writes each NR_WRITERS-th of its NR units once, in any order, and logs each;
#                                                       does not close it then, but waits to be killed
#   mount_holes.py check PATH NR LOG...                 each logged unit has what was written there, each other one that or zeros
#   mount_holes.py units PATH                           how many units the file has
#   mount_holes.py keep PATH                            in the hole of a file of 1024 units: 3 are written, 1 of them through a mapping,
#                                                       and 7 allocated
#   mount_holes.py fill PATH LOG NR                     writes each 16th unit until there is no room, and logs each
import errno
import mmap
import os
import random
import signal
import sys

UNIT = 4096


def content(unit):
    return (b"%d " % unit).ljust(UNIT, b"x")


def write(path, log, nr, writer, nr_writers, stay=""):
    units = list(range(int(writer), int(nr), int(nr_writers)))
    random.Random(writer).shuffle(units)
    with open(log, "w") as said:
        file = os.open(path, os.O_WRONLY)
        for unit in units:
            assert os.pwrite(file, content(unit), unit * UNIT) == UNIT
            print(unit, file=said, flush=True)
        if stay:
            signal.pause()
        os.close(file)


def check(path, nr, *logs):
    written = {int(line) for log in logs for line in open(log)}
    with open(path, "rb") as file:
        for unit in range(int(nr)):
            got = file.read(UNIT)
            assert got == content(unit) or (unit not in written and got == bytes(UNIT)), "unit %d, %s, is %r..." % (
                unit, "written" if unit in written else "not written", got[:16])
    assert len(written) <= nr_units(path)


def nr_units(path):
    return os.stat(path).st_blocks * 512 // UNIT


def keep(path):
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    # The file has enough by then to get much around a unit.
    for unit in list(range(64)) + [1023, 500]:
        os.pwrite(file, content(unit), unit * UNIT)
    assert nr_units(path) > 64 + 32, "nothing came around a unit"
    os.pwrite(file, content(510), 510 * UNIT)
    os.posix_fallocate(file, 490 * UNIT, 7 * UNIT)
    with mmap.mmap(file, 1024 * UNIT) as mapped:
        mapped[505 * UNIT:506 * UNIT] = content(505)
    os.close(file)


def fill(path, log, nr):
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.ftruncate(file, int(nr) * UNIT)
    with open(log, "w") as said:
        for unit in reversed(range(0, int(nr), 16)):
            try:
                os.pwrite(file, content(unit), unit * UNIT)
            except OSError as error:
                assert error.errno in (errno.ENOSPC, errno.EDQUOT), error
                break
            print(unit, file=said, flush=True)
        else:
            assert False, "there was room for all of it"
    os.close(file)


commands = {"write": write, "check": check, "units": lambda path: print(nr_units(path)), "keep": keep, "fill": fill}
commands[sys.argv[1]](*sys.argv[2:])
