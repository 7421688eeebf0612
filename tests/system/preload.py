# SPDX-License-Identifier: BSD-3-Clause
"""preload.py PART MOUNT LOCAL PID: does the same to a file of a mount and to a local one, under `afar run`, and compares. PID is the mount's."""

import errno, fcntl, mmap, os, random, subprocess, sys, threading

part, mount, local, pid = sys.argv[1:]
LARGE = 1 << 20


def moved():
    """How many bytes the mount has moved."""
    with open("/proc/%s/io" % pid) as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("rchar", "wchar")))


def result(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]


def whole(path):
    """As somebody sees it who knows nothing of this process."""
    return subprocess.run(["env", "-u", "LD_PRELOAD", "cat", path], stdout=subprocess.PIPE, check=True).stdout


class Pair:
    """Two descriptors, on which the same is done."""

    def __init__(self, paths, flags, mode=0o644):
        self.paths = paths
        self.fds = [os.open(path, flags, mode) for path in paths]

    def both(self, call, *arguments):
        ours, theirs = (result(call, fd, *arguments) for fd in self.fds)
        assert ours == theirs, (call.__name__, [a if not isinstance(a, (bytes, list)) else "…" for a in arguments], str(ours)[:80], str(theirs)[:80])
        return ours


def readv(fd, sizes, offset=None):
    buffers = [bytearray(size) for size in sizes]
    got = os.readv(fd, buffers) if offset is None else os.preadv(fd, buffers, offset)
    return got, b"".join(buffers)[:got]


def seeded(seed):
    print("seed", seed)
    return random.Random(seed)


def test_random(seed=None, steps=int(os.environ.get("AFAR_STEPS", "1200"))):
    """Every call, through several descriptors of one file: some go past the mount, others do not yet, or not any more."""
    rng = seeded(seed or random.randrange(1 << 32))
    paths = mount + "/random", local
    pairs = [Pair(paths, os.O_RDWR | os.O_CREAT | os.O_TRUNC)]
    pairs[0].both(os.write, rng.randbytes(LARGE))

    def size():
        return rng.choice([0, 1, 100, 4096, 5000, 65536, 70001, 300000])

    def offset():
        return rng.choice([0, 1, 4096, rng.randrange(2 * LARGE)])

    for _ in range(steps):
        pair = rng.choice(pairs)
        what = rng.randrange(22)
        if what < 3:
            pair.both(os.read, size())
        elif what < 5:
            pair.both(os.pread, size(), offset())
        elif what < 8:
            pair.both(os.write, rng.randbytes(size()))
        elif what < 10:
            pair.both(os.pwrite, rng.randbytes(size()), offset())
        elif what == 10:
            pair.both(readv, [size() for _ in range(rng.randrange(5))])
        elif what == 11:
            pair.both(readv, [size() for _ in range(rng.randrange(200))], offset())
        elif what == 12:
            pair.both(os.writev, [rng.randbytes(size()) for _ in range(rng.randrange(5))])
        elif what == 13:
            pair.both(os.pwritev, [rng.randbytes(size()) for _ in range(rng.randrange(100))], offset())
        elif what == 14:
            pair.both(os.lseek, offset(), rng.choice([os.SEEK_SET, os.SEEK_SET, os.SEEK_END]))
        elif what == 15:
            pair.both(os.truncate, offset())
        elif what == 16:
            pair.both(lambda fd: os.fstat(fd).st_size)
            pair.both(os.lseek, 0, os.SEEK_CUR)
        elif what == 17:
            pair.both(os.fsync)
        elif what == 18 and len(pairs) < 6:
            pairs.append(Pair(paths, rng.choice([os.O_RDWR, os.O_RDWR, os.O_RDONLY, os.O_WRONLY])))
        elif what == 19 and len(pairs) < 6:
            copy = Pair((), 0)
            copy.paths = paths
            copy.fds = [rng.choice([os.dup, lambda fd: fcntl.fcntl(fd, fcntl.F_DUPFD, 50)])(fd) for fd in pair.fds]
            pairs.append(copy)
        elif what == 20 and len(pairs) > 2:
            pairs.remove(pair)
            pair.both(os.close)
        elif what == 21:
            pair.both(lambda fd: os.posix_fallocate(fd, 10, 5000))
    ours, theirs = (whole(path) for path in paths)
    assert ours == theirs
    for pair in pairs:
        pair.both(os.close)


def test_refusals():
    """What the kernel refuses, it refuses."""
    for flags in os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_APPEND:
        pair = Pair((mount + "/refusals", local), flags | os.O_CREAT)
        pair.both(os.write, b"a" * LARGE)
        for call in (os.read, 100000), (os.pread, 100000, -1), (os.pwrite, b"b" * 100000, -1), (os.pread, 100000, 1 << 63 - 1), (os.read, 0), (os.write, b""), (
            os.pread, 100000, 1 << 50), (os.readv, [bytearray(1)] * 1025), (os.writev, [b"a"] * 1025):
            pair.both(*call)
        pair.both(os.close)
        pair.both(os.read, 100000)
        pair.both(os.pwrite, b"c" * 100000, 0)
    assert whole(mount + "/refusals") == whole(local)
    folder = Pair((mount, "."), os.O_RDONLY | os.O_DIRECTORY)
    folder.both(os.read, 100000)
    folder.both(os.close)


def test_past():
    """Nothing of it goes through the mount; here it would be seen if the bypass was never taken."""
    before = moved()
    fd = os.open(mount + "/past", os.O_RDWR | os.O_CREAT)
    for i in range(20):
        os.write(fd, bytes([i]) * LARGE)
    copy = os.dup(fd)
    os.close(fd)
    os.lseek(copy, 0, os.SEEK_SET)
    assert os.dup2(copy, 77) == 77
    for i in range(20):
        assert os.read(77 if i % 2 else copy, LARGE) == bytes([i]) * LARGE, i
    assert os.read(copy, LARGE) == b""
    assert moved() - before < LARGE, moved() - before
    os.close(copy)
    os.close(77)


def test_mapped():
    """A mapping shows what was written past the mount, and what is written through it is read."""
    for opens_again in False, True:
        fd = os.open(mount + "/mapped%d" % opens_again, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.write(fd, b"a" * LARGE)
        os.pwrite(fd, b"b" * 100000, 5)
        other = os.open(mount + "/mapped%d" % opens_again, os.O_RDWR) if opens_again else fd
        with mmap.mmap(other, LARGE) as mapping:
            assert mapping[:] == b"aaaaa" + b"b" * 100000 + b"a" * (LARGE - 100005)
            mapping[7:100] = b"c" * 93
            assert os.pread(fd, LARGE, 0) == mapping[:]
            for i in range(100):
                assert os.pwrite(fd, b"%06d" % i * 12000, 3000) == 72000
                assert mapping[3000:75000] == b"%06d" % i * 12000
        assert os.pread(fd, LARGE, 0) == whole(mount + "/mapped%d" % opens_again)
        os.close(fd)
        if opens_again:
            os.close(other)


def test_streams():
    """A stream of the C library reads and writes inside of it. Python's own does not."""
    import ctypes
    libc = ctypes.CDLL(None)
    libc.fdopen.restype = ctypes.c_void_p
    fd = os.open(mount + "/stream", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"a" * LARGE)
    stream = ctypes.c_void_p(libc.fdopen(fd, b"r+"))
    libc.fputs(b"stream", stream)
    libc.fflush(stream)
    assert os.pread(fd, 10, LARGE) == b"stream"
    os.write(fd, b"b" * 100000)
    libc.fclose(stream)
    assert whole(mount + "/stream") == b"a" * LARGE + b"stream" + b"b" * 100000
    # The number of a descriptor that fclose() closed is another file's.
    again = os.open(local, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    assert again == fd
    os.write(again, b"x" * LARGE)
    os.close(again)
    assert whole(local) == b"x" * LARGE and len(whole(mount + "/stream")) == LARGE + 100006


def test_append():
    """Two who append, one of whom has set the flag later, and one who writes at places."""
    fd = os.open(mount + "/append", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"a" * LARGE)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
    other = os.open(mount + "/append", os.O_WRONLY | os.O_APPEND)
    for i in range(20):
        os.write(other, b"b" * 70000)
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, b"c" * 70000)
    assert whole(mount + "/append") == b"a" * LARGE + (b"b" * 70000 + b"c" * 70000) * 20
    os.close(fd)
    os.close(other)


def test_threads():
    """Threads that share a descriptor get what follows, each byte once; also as others open and close."""
    path = mount + "/threads"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    records = 400
    failed = []

    def run(call):
        try:
            call()
        except BaseException as error:
            failed.append(error)
            raise

    def at_once(*calls):
        threads = [threading.Thread(target=run, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, failed

    def write(letter):
        for _ in range(records // 4):
            assert os.write(fd, letter * 70000) == 70000

    def others():
        for i in range(100):
            other = os.open(path, os.O_RDONLY)
            copy = os.dup(other)
            os.pread(other, 100000, 0)
            os.close(other)
            os.pread(copy, 100000, 0)
            os.close(copy)

    at_once(lambda: write(b"a"), lambda: write(b"b"), lambda: write(b"c"), lambda: write(b"d"), others)
    data = whole(path)
    assert len(data) == records * 70000
    found = [data[at * 70000] for at in range(records)]
    assert all(data[at * 70000:(at + 1) * 70000] == bytes([found[at]]) * 70000 for at in range(records))
    assert all(found.count(letter) == records // 4 for letter in b"abcd")
    os.lseek(fd, 0, os.SEEK_SET)
    lengths = []

    def read():
        while got := os.read(fd, 99999):
            lengths.append(len(got))

    at_once(read, read, read, read)
    assert sum(lengths) == records * 70000, (sum(lengths), records * 70000)
    os.close(fd)


def test_processes():
    """Children and programs that are started share descriptors and offsets; the kernel serves them."""
    path = mount + "/processes"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.set_inheritable(fd, True)
    os.write(fd, b"a" * 100000)
    child = os.fork()
    if child == 0:
        os.write(fd, b"b" * 100000)
        assert os.pread(fd, 200000, 0) == b"a" * 100000 + b"b" * 100000
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    os.write(fd, b"c" * 100000)
    subprocess.run(["head", "-c", "100000", "/dev/zero"], stdout=fd, check=True)
    subprocess.run(["sh", "-c", "head -c 100000 /dev/zero >&%d" % fd], close_fds=False, check=True)
    os.write(fd, b"d" * 100000)
    assert whole(path) == b"a" * 100000 + b"b" * 100000 + b"c" * 100000 + bytes(200000) + b"d" * 100000
    # All at once: records stay whole.
    writers = [subprocess.Popen(["dd", "if=/dev/zero", "bs=70000", "count=50", "status=none"], stdout=fd) for _ in range(2)]
    child = os.fork()
    if child == 0:
        for _ in range(50):
            os.write(fd, bytes(70000))
        os._exit(0)
    for _ in range(50):
        os.write(fd, bytes(70000))
    assert os.waitpid(child, 0)[1] == 0 and not any(writer.wait() for writer in writers)
    assert os.fstat(fd).st_size == os.lseek(fd, 0, os.SEEK_CUR) == 600000 + 200 * 70000
    # A program that fails to become another goes on.
    try:
        os.execv("/no/such", ["x"])
    except FileNotFoundError:
        pass
    os.pwrite(fd, b"e" * 100000, 0)
    assert os.pread(fd, 100000, 0) == b"e" * 100000
    # One that does become another has nobody wait: what it wrote is there, and its session has gone.
    code = "import os; fd = os.open('%s', os.O_RDWR); os.write(fd, b'f' * 100000); os.execvp('true', ['true'])" % path
    subprocess.run([sys.executable, "-c", code], check=True)
    assert os.pread(fd, 100000, 0) == b"f" * 100000
    os.close(fd)


def test_descriptors():
    """Numbers are those that a program expects, and closing all of them does no harm."""
    def numbers():
        return {int(name) for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)}

    before = numbers()
    first = os.open(local, os.O_RDWR | os.O_CREAT)
    os.close(first)
    fd = os.open(mount + "/numbers", os.O_RDWR | os.O_CREAT)
    assert fd == first
    os.write(fd, b"a" * LARGE)
    second = os.open(local, os.O_RDONLY)
    assert second == first + 1, (first, second)
    theirs = numbers() - before - {fd, second}
    assert len(theirs) > 3 and min(theirs) > 700, theirs
    for number in theirs:
        assert result(os.close, number) == "EBADF"
        assert result(os.dup2, fd, number) == "EBUSY"
    os.closerange(3, 70000)
    assert result(os.pread, fd, 100000, 0) == "EBADF"
    for number in range(3, 1024):
        result(os.close, number)
    fd = os.open(mount + "/numbers", os.O_RDWR)
    assert fd == 3
    before = moved()
    assert os.read(fd, 2 * LARGE) == b"a" * LARGE
    assert moved() - before < 500000, moved() - before
    os.close(fd)


for name, test in list(globals().items()):
    if name.startswith("test_") and (part == "all" or name == "test_" + part):
        open(local, "w").close()
        test()
