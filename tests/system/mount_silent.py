# SPDX-License-Identifier: BSD-3-Clause
# Programs of two mounts of one file system, while a process is stopped.
#   mount_silent.py read PID HERE THERE    that of the manager
#   mount_silent.py warm PID,… HERE THERE  those of all servers
#   mount_silent.py resume PID HERE THERE  that of the mount of THERE
#   mount_silent.py several PID HERE THERE  likewise
#   mount_silent.py shrink PID HERE THERE  likewise
import contextlib
import mmap
import os
import signal
import sys
import time

PAGE = 4096
SIZE = 5 * PAGE + 1000


@contextlib.contextmanager
def stopped(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def read_all(file):
    data = b""
    while found := os.pread(file, PAGE, len(data)):
        data += found
    return data


def await_length(file, length):
    deadline = time.monotonic() + 30
    while len(read_all(file)) != length:
        assert time.monotonic() < deadline, "the size of before stays"
        time.sleep(0.01)


def read(pid, here, there):
    """Pages that the kernel has, others, the last one, and what somebody overwrites meanwhile; again and again."""
    with open(here, "wb") as file:
        file.write(b"a" * SIZE)
    cached, fresh = os.open(there, os.O_RDONLY), os.open(here, os.O_RDONLY)
    writer = os.open(here, os.O_RDWR)
    assert os.pread(cached, PAGE, 0) == b"a" * PAGE
    with stopped(pid):
        assert read_all(fresh) == read_all(cached) == b"a" * SIZE
        for letter in b"b", b"c":
            assert os.pwrite(writer, letter * PAGE, PAGE) == PAGE
            for file in cached, fresh:
                assert read_all(file) == b"a" * PAGE + letter * PAGE + b"a" * (SIZE - 2 * PAGE)
    assert os.pwrite(writer, b"d" * PAGE, SIZE) == PAGE
    for file in cached, fresh:
        # A mount goes on with the size of before until it has heard the manager again.
        await_length(file, SIZE + PAGE)
        os.close(file)
    os.close(writer)


def warm(pids, here, there):
    """What is opened again needs no server, as long as nobody else has written it."""
    with open(here, "wb") as file:
        file.write(b"g" * SIZE)
    for _ in range(20):
        with open(there, "rb") as file:
            assert file.read() == b"g" * SIZE
        time.sleep(0.01)  # the manager promises nothing about a file that has just been written
    with stopped(*map(int, pids.split(","))), open(there, "rb") as file:
        assert file.read() == b"g" * SIZE
    file = os.open(here, os.O_RDWR)
    assert os.pwrite(file, b"h" * PAGE, 0) == PAGE
    os.close(file)
    with open(there, "rb") as file:
        assert file.read() == b"h" * PAGE + b"g" * (SIZE - PAGE)


def resume(pid, here, there):
    """What its kernel has must not be shown when it goes on."""
    file = os.open(here, os.O_RDWR)
    assert os.pwrite(file, b"x" * PAGE, 0) == PAGE
    os.close(file)
    cached = os.open(there, os.O_RDONLY)
    with mmap.mmap(cached, PAGE, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
        assert os.pread(cached, PAGE, 0) == mapped[:] == b"x" * PAGE
        with stopped(pid):
            file = os.open(here, os.O_RDWR)
            assert os.pwrite(file, b"y" * PAGE, 0) == PAGE
            os.close(file)
        assert os.pread(cached, PAGE, 0) == b"y" * PAGE
        assert mapped[:] == b"y" * PAGE
    os.close(cached)


def write_all(paths, letter):
    begun = time.monotonic()
    for path in paths:
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        assert os.pwrite(file, letter * PAGE, 0) == PAGE
        os.close(file)
    return time.monotonic() - begun


def several(pid, here, there):
    """Who writes 20 files that it has open waits a second for it once, not for each. It shows nothing old of any when it goes on."""
    names = [str(i) for i in range(20)]
    paths = [here + name for name in names]
    write_all(paths, b"g")
    files = [os.open(there + name, os.O_RDONLY) for name in names]
    undisturbed = write_all(paths, b"h")
    maps = [mmap.mmap(file, PAGE, mmap.MAP_SHARED, mmap.PROT_READ) for file in files]
    for file, mapped in zip(files, maps):
        assert os.pread(file, PAGE, 0) == mapped[:] == b"h" * PAGE
    with stopped(pid):
        waits = write_all(paths, b"i") - undisturbed
    assert waits < len(names) / 2, f"{waits} s"
    for letter in b"i", b"j":
        for file, mapped in zip(files, maps):
            assert os.pread(file, PAGE, 0) == mapped[:] == letter * PAGE
        write_all(paths, b"j")
    for file, mapped in zip(files, maps):
        mapped.close()
        os.close(file)


def shrink(pid, here, there):
    """A program of the mount that is stopped has it open, and has written it."""
    kept = os.open(there, os.O_RDWR | os.O_CREAT)
    assert os.pwrite(kept, b"e" * SIZE, 0) == SIZE
    os.fsync(kept)
    file = os.open(here, os.O_RDWR)
    with stopped(pid):
        os.ftruncate(file, PAGE + 10)
        assert os.pwrite(file, b"f" * PAGE, PAGE) == PAGE
    wanted = b"e" * PAGE + b"f" * PAGE
    assert read_all(file) == wanted
    assert read_all(kept) == wanted, "who was stopped reads something else"
    os.close(kept)
    os.close(file)


if sys.argv[1] == "warm":
    warm(*sys.argv[2:])
else:
    {"read": read, "resume": resume, "several": several, "shrink": shrink}[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:])
