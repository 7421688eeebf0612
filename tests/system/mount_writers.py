# SPDX-License-Identifier: BSD-3-Clause
# Programs on two mounts of one file system, which see each other's files at once.
#   mount_writers.py append NR ONE TWO    two processes append NR records in all to one file
#   mount_writers.py late NR ONE TWO      likewise, of 5000 bytes and of 1.5 MB, with O_APPEND set after the open
#   mount_writers.py spliced NR ONE TWO   what one writes NR times, the other sends with splice(2), past the page cache
#   mount_writers.py watch NR ONE TWO     one extends a file NR times, until it is killed; the other looks at its size
import fcntl
import mmap
import os
import signal
import struct
import sys

RECORD = 64


def record(writer, number):
    return (b"%d %d" % (writer, number)).ljust(RECORD - 1, b".") + b"\n"


def fork(run, *arguments):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run(*arguments)
            code = 0
        finally:
            os._exit(code)
    return child


def must_end_well(child):
    status = os.waitpid(child, 0)[1]
    assert status == 0, "a writer ended with %d" % status


def append_records(path, writer, nr):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(nr):
        assert os.write(file, record(writer, number)) == RECORD
    os.close(file)


def append(nr, one, two):
    """None is lost, torn or twice there, and each writer's are in order."""
    writers = [fork(append_records, path, i, nr // 2) for i, path in enumerate((one, two))]
    for child in writers:
        must_end_well(child)
    for path in one, two:
        following = [0, 0]
        with open(path, "rb") as file:
            while line := file.read(RECORD):
                writer = int(line[:1])
                assert line == record(writer, following[writer]), "%r is not what writer %d wrote" % (line, writer)
                following[writer] += 1
        assert following == [nr // 2] * 2, "%s of %d records are there" % (following, nr)


def append_late(path, writer, nr, length):
    file = os.open(path, os.O_WRONLY)
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    for number in range(nr):
        assert os.write(file, record(writer, number).ljust(length, b"%d" % writer)) == length
    os.close(file)


def late(nr, one, two):
    """The kernel cuts such writes at pages it does not know, and at 1 MiB: the parts stay together."""
    for length, each in (5000, nr // 2), (1500000, nr // 40):
        open(one, "w").close()
        writers = [fork(append_late, path, i, each, length) for i, path in enumerate((one, two))]
        for child in writers:
            must_end_well(child)
        following = [0, 0]
        with open(two, "rb") as file:
            while found := file.read(length):
                writer = int(found[:1])
                whole = record(writer, following[writer]).ljust(length, b"%d" % writer)
                assert found == whole, "a record of %d bytes is not what writer %d wrote" % (length, writer)
                following[writer] += 1
        assert following == [each] * 2, "%s of %d records of %d bytes are there" % (following, each, length)


def splice_byte(file):
    reading, writing = os.pipe()
    try:
        assert os.splice(file, writing, 4096, offset_src=0) == 4096
        return os.read(reading, 4096)[0]
    finally:
        os.close(reading)
        os.close(writing)


def spliced(nr, one, two):
    """The kernel does so through its pages: these are as old as a moment, if the writer came before or after them."""
    with open(one, "wb") as file:
        file.write(bytes(8192))
    reader = os.open(two, os.O_RDONLY)
    kept = os.open(one, os.O_RDWR)
    assert splice_byte(reader) == 0
    for number in range(1, nr + 1):
        if number == nr // 2:
            os.close(kept)
        writer = kept if number < nr // 2 else os.open(one, os.O_RDWR)
        assert os.pwrite(writer, bytes([number]) * 8192, 0) == 8192
        if number >= nr // 2:
            os.close(writer)
        while (found := splice_byte(reader)) != number:
            assert found == number - 1, "%d is older than the last write" % found
    os.close(reader)


def extend(path, acknowledged):
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    number = 0
    while True:
        assert os.pwrite(file, record(0, number), number * RECORD) == RECORD
        number += 1
        acknowledged[:8] = struct.pack("Q", number)


def watch(nr, one, two):
    """The size is never less than what a write has returned for, and all of that is there after a kill -9."""
    acknowledged = mmap.mmap(-1, 8)
    open(one, "w").close()
    writer = fork(extend, one, acknowledged)
    known = 0
    while known < nr:
        known = struct.unpack("Q", acknowledged[:8])[0]
        size = os.stat(two).st_size
        assert size >= known * RECORD, "%d bytes of %d that were acknowledged" % (size, known * RECORD)
        assert os.waitpid(writer, os.WNOHANG)[0] == 0, "the writer has ended"
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    known = struct.unpack("Q", acknowledged[:8])[0]
    for path in two, one:
        with open(path, "rb") as file:
            data = file.read()
        assert len(data) >= known * RECORD, "%d bytes of %d" % (len(data), known * RECORD)
        for number in range(known):
            assert data[number * RECORD : (number + 1) * RECORD] == record(0, number), "record %d" % number


{"append": append, "late": late, "spliced": spliced, "watch": watch}[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:])
