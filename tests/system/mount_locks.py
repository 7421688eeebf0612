# SPDX-License-Identifier: BSD-3-Clause
"""mount_locks.py PHASE …: programs that lock files of mounts, for mount_locks.sh.

Each Actor is a process, so each has locks of its own.
"""
import errno
import fcntl
import multiprocessing
import os
import signal
import struct
import sys

FLOCK = "hhqqi4x"


class Actor:
    """A process that has a file open, and does what it is told."""

    def __init__(self, path, flags=os.O_RDWR):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=self.run, args=(theirs, path, flags), daemon=True)
        self.process.start()
        theirs.close()
        self.end()  # it is open

    @staticmethod
    def run(pipe, path, flags):
        file = os.open(path, flags)
        pipe.send(0)
        while True:
            name, args = pipe.recv()
            if name == "end":
                return
            try:
                pipe.send(getattr(Steps, name)(file, *args) or 0)
            except OSError as error:
                pipe.send(-error.errno)

    def begin(self, name, *args):
        self.pipe.send((name, args))

    def end(self):
        return self.pipe.recv()

    def __getattr__(self, name):
        def step(*args):
            self.begin(name, *args)
            return self.end()

        return step

    def close(self):
        self.begin("end")
        self.process.join()


class Interrupted(Exception):
    pass


def interrupt(_signal, _frame):
    raise Interrupted


class Steps:
    """What an actor can do with its file. Return a number, None for 0, or raise OSError."""

    @staticmethod
    def lock(file, how, start=0, length=0):
        fcntl.lockf(file, how, length, start)

    @staticmethod
    def whole(file, how):
        fcntl.flock(file, how)

    @staticmethod
    def look(file, how, start, length):
        """The type, start, length and process of what is in the way."""
        asked = struct.pack(FLOCK, how, os.SEEK_SET, start, length, 0)
        kind, _, *rest = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
        return (kind, *rest)

    @staticmethod
    def write(file, data, offset):
        os.pwrite(file, data, offset)

    @staticmethod
    def read(file, length, offset):
        return os.pread(file, length, offset)

    @staticmethod
    def open_and_close(_file, path):
        os.close(os.open(path, os.O_RDONLY))

    @staticmethod
    def interrupted(file):
        """Waits until signals end that."""
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX)
        except Interrupted:
            return 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
        return 0

    @staticmethod
    def count(file, times):
        """Counts a number in the file up, alone with it each time."""
        for _ in range(times):
            fcntl.lockf(file, fcntl.LOCK_EX)
            number = int(os.pread(file, 20, 0) or b"0")
            os.pwrite(file, b"%020d" % (number + 1), 0)
            fcntl.lockf(file, fcntl.LOCK_UN)


TRY_SHARED = fcntl.LOCK_SH | fcntl.LOCK_NB
TRY = fcntl.LOCK_EX | fcntl.LOCK_NB


def is_locked(result):
    return result in (-errno.EAGAIN, -errno.EACCES)


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got}, not {wanted}")


def ranges(one, other):
    a, b, c = Actor(one), Actor(other), Actor(one)
    expect("an exclusive range", a.lock(TRY, 10, 10), 0)
    expect("what is beside it", b.lock(TRY, 20, 10), 0)
    assert is_locked(b.lock(TRY_SHARED, 19, 1)), "another mount"
    assert is_locked(c.lock(TRY_SHARED, 19, 1)), "the same mount"
    assert is_locked(a.lock(TRY, 25, 1)), "the other way round"
    expect("who is in the way, there", b.look(fcntl.F_WRLCK, 0, 0), (fcntl.F_WRLCK, 10, 10, 0))
    expect("who is in the way, here", c.look(fcntl.F_WRLCK, 0, 15), (fcntl.F_WRLCK, 10, 10, a.process.pid))
    expect("nobody", b.look(fcntl.F_WRLCK, 20, 0)[0], fcntl.F_UNLCK)
    expect("a part is unlocked", a.lock(fcntl.LOCK_UN, 12, 2), 0)
    expect("a hole", b.lock(TRY, 12, 2), 0)
    assert is_locked(b.lock(TRY, 14, 1)) and is_locked(b.lock(TRY, 11, 1)), "what is around a hole"
    expect("shared by", [x.lock(TRY_SHARED, 100, 1) for x in (a, b, c)], [0, 0, 0])
    assert is_locked(b.lock(TRY, 100, 1)), "shared by three"
    expect("closing another descriptor", a.open_and_close(one), 0)
    expect("then all of it is unlocked", b.lock(TRY, 14, 2), 0)
    expect("a process ends", [b.close(), c.lock(TRY, 20, 10)], [None, 0])
    reader = Actor(one, os.O_RDONLY)
    expect("exclusive, open to read", reader.lock(TRY, 1000, 1), -errno.EBADF)
    expect("shared, open to read", reader.lock(TRY_SHARED, 1000, 1), 0)
    expect("its end", [reader.close(), a.lock(TRY, 1000, 1)], [None, 0])
    a.close()
    c.close()


def waits(one, other):
    a, b, c = Actor(one), Actor(other), Actor(one)
    expect("lock", a.lock(TRY), 0)
    for waiter in b, c:
        waiter.begin("lock", fcntl.LOCK_EX)
    expect("write", a.write(b"first", 0), 0)
    expect("unlock", a.lock(fcntl.LOCK_UN), 0)
    # Either may be first; what was written under the lock is seen under the next.
    first, second = (b, c) if multiprocessing.connection.wait([b.pipe, c.pipe])[0] == b.pipe else (c, b)
    expect("the wait", first.end(), 0)
    assert not second.pipe.poll(), "both have it"
    expect("reading", first.read(5, 0), b"first")
    expect("write", first.write(b"other", 0), 0)
    first.close()
    expect("the second wait", second.end(), 0)
    expect("reading", second.read(5, 0), b"other")
    expect("a signal", a.interrupted(), 1)
    expect("unlock", second.lock(fcntl.LOCK_UN), 0)
    assert not is_locked(second.lock(TRY)), "what was interrupted has the lock"
    second.close()
    a.close()


def circles(one, other):
    a, b = Actor(one), Actor(other)
    expect("lock", [a.lock(TRY, 0, 1), b.lock(TRY, 1, 1)], [0, 0])
    a.begin("lock", fcntl.LOCK_EX, 1, 1)
    b.begin("lock", fcntl.LOCK_EX, 0, 1)
    loser, winner = (a, b) if multiprocessing.connection.wait([a.pipe, b.pipe])[0] == a.pipe else (b, a)
    expect("the one who closes the circle", loser.end(), -errno.EDEADLK)
    loser.close()
    expect("the other one", winner.end(), 0)
    winner.close()


def wholes(one, other):
    a, b = Actor(one), Actor(other, os.O_RDONLY)
    expect("exclusive", a.whole(TRY), 0)
    assert is_locked(b.whole(TRY_SHARED)), "another mount"
    expect("ranges are another kind", b.lock(TRY_SHARED, 0, 1), 0)
    expect("made shared", a.whole(TRY_SHARED), 0)
    expect("shared by two", b.whole(TRY_SHARED), 0)
    assert is_locked(a.whole(TRY)), "it is shared"
    # flock(2): a conversion that fails has given up what was there.
    expect("made exclusive", b.whole(TRY), 0)
    a.begin("whole", fcntl.LOCK_SH)
    expect("unlocked", b.whole(fcntl.LOCK_UN), 0)
    expect("the wait", a.end(), 0)
    # Two that are shared and become exclusive do not wait for each other.
    expect("shared by two", b.whole(TRY_SHARED), 0)
    a.begin("whole", fcntl.LOCK_EX)
    b.begin("whole", fcntl.LOCK_EX)
    first, second = (a, b) if multiprocessing.connection.wait([a.pipe, b.pipe])[0] == a.pipe else (b, a)
    expect("the first", first.end(), 0)
    first.close()
    expect("the second", second.end(), 0)
    second.close()


def counting(one, other):
    """More programs than a mount has threads, which would be all taken if each wait took one."""
    actors = [Actor(path) for path in (one, other) for _ in range(20)]
    expect("empty", os.truncate(one, 0), None)
    for actor in actors:
        actor.begin("count", 5)
    expect("all end", {actor.end() for actor in actors}, {0})
    expect("the number", int(actors[0].read(20, 0)), 200)
    for actor in actors:
        actor.close()


def local(one, other):
    a, b, c = Actor(one), Actor(other), Actor(one)
    expect("in a mount", a.lock(TRY), 0)
    expect("in another one", b.lock(TRY), 0)
    assert is_locked(c.lock(TRY)), "in the same one"
    for actor in a, b, c:
        actor.close()


def hold(one, ready, end):
    """Holds a lock, and says so in a file, until told to end; says then what became of it."""
    file = os.open(one, os.O_RDWR)
    Steps.lock(file, TRY, 0, 10)
    Steps.whole(file, TRY)
    with open(ready, "w"):
        pass
    with open(end) as told:
        told.read()
    try:
        Steps.write(file, b"late", 0)
        print(0)
    except OSError as error:
        print(-error.errno)


def tries(one):
    actor = Actor(one)
    expect("free", [actor.lock(TRY, 0, 10), actor.whole(TRY)], [0, 0])
    actor.close()


def tries_in_vain(one):
    actor = Actor(one)
    assert is_locked(actor.lock(TRY_SHARED, 9, 1)) and is_locked(actor.whole(TRY_SHARED)), "free"
    actor.close()


def takes(one):
    """Waits for both."""
    actor = Actor(one)
    expect("wait", [actor.lock(fcntl.LOCK_EX, 0, 10), actor.whole(fcntl.LOCK_EX)], [0, 0])
    actor.close()


globals()[sys.argv[1]](*sys.argv[2:])
