# SPDX-License-Identifier: BSD-3-Clause
# What two mounts and a native client of one file system see of each other, right after a call of one of them has returned.
#   mount_litmus.py turns NR ONE TWO HAND FS    they take turns in writing, NR times in all; the others look
#   mount_litmus.py beside NR ONE TWO HAND FS   likewise, while programs read the same pages of both mounts all the time
#   mount_litmus.py crossing NR ONE TWO HAND FS  one opens to read while another opens to write
# Prints how old mapped pages were at most. HAND: the program of file_hand.c.
import errno
import mmap
import os
import random
import struct
import subprocess
import sys
import threading
import time

PAGE = 4096
PAGES = 4
QUIET_S = 0.012  # the manager promises nothing for so long about what it had dropped
SILENT_S = 1  # so long the manager waits for a writer who does not answer
PATIENCE_S = 10 * int(os.environ.get("AFAR_SLOWNESS", "1"))
BEFORE, WRITING, BESIDE, ANEW = range(4)  # slots of open files


class Mount:
    """A program of a mount. Calls return a number, or a negative errno."""

    def __init__(self, path):
        self.path = path
        self.files = {}
        self.mapped = None

    def __str__(self):
        return self.path

    def at(self, name):
        return os.path.join(self.path, name)

    def create(self, slot, name):
        self.files[slot] = os.open(self.at(name), os.O_RDWR | os.O_CREAT)

    def open(self, slot, name, mode):
        self.files[slot] = os.open(self.at(name), os.O_RDWR if mode == "w" else os.O_RDONLY)

    def close(self, slot):
        os.close(self.files.pop(slot))

    def read(self, slot, offset):
        return int.from_bytes(os.pread(self.files[slot], 8, offset), "little")

    def write(self, slot, offset, value):
        assert os.pwrite(self.files[slot], struct.pack("<Q", value), offset) == 8

    def sync(self, slot):
        os.fsync(self.files[slot])

    def truncate(self, slot, size):
        os.ftruncate(self.files[slot], size)

    def size(self, name):
        try:
            return os.stat(self.at(name)).st_size
        except OSError as error:
            return -error.errno

    def changed_at(self, name):
        return os.stat(self.at(name)).st_mtime_ns

    def mode_and_links(self, name, slot):
        """As a descriptor says, and then as the name does, which makes the kernel ask for the name."""
        by_slot, by_name = os.fstat(self.files[slot]), os.stat(self.at(name))
        assert by_name.st_ino == by_slot.st_ino and by_name.st_size == by_slot.st_size
        return {(by.st_mode & 0o777, by.st_nlink) for by in (by_name, by_slot)}

    def set_mode(self, name, mode):
        os.chmod(self.at(name), mode)

    def link(self, old, new):
        os.link(self.at(old), self.at(new))

    def set_time(self, name, at):
        os.utime(self.at(name), ns=(at, at))

    def rename(self, old, new):
        os.rename(self.at(old), self.at(new))

    def unlink(self, name):
        os.unlink(self.at(name))

    def listed(self, name):
        return int(name in os.listdir(self.path))

    def map(self, slot):
        self.mapped = mmap.mmap(self.files[slot], PAGE * (PAGES - 1) + 8, mmap.MAP_SHARED, mmap.PROT_READ)

    def must_not_map(self, slot):
        try:
            mmap.mmap(self.files[slot], PAGE, mmap.MAP_SHARED, mmap.PROT_READ).close()
        except OSError as error:
            assert error.errno == errno.ENODEV
        else:
            assert False, "%s maps a file that another machine has open to write" % self

    def unmap(self):
        if self.mapped:
            self.mapped.close()
        self.mapped = None

    def peek(self, offset):
        return int.from_bytes(self.mapped[offset : offset + 8], "little")


class Native:
    """A program that uses the library."""

    mapped = None

    def __init__(self, hand, fs):
        self.hand = subprocess.Popen([hand, fs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def __str__(self):
        return "the native client"

    def ask(self, *words):
        self.hand.stdin.write(" ".join(str(word) for word in words) + "\n")
        return int(self.hand.stdout.readline())

    def __getattr__(self, call):
        def ask(*words):
            answer = self.ask(call, *words)
            assert answer >= 0 or call == "size", "%s %s of the native client: %d" % (call, words, answer)
            return answer

        return ask

    def map(self, slot):
        pass

    must_not_map = map

    def unmap(self):
        pass

    def end(self):
        self.hand.stdin.close()
        assert self.hand.wait() == 0


class World:
    """What all must see, and who looks."""

    def __init__(self, parties):
        self.parties = parties
        self.name = "litmus"
        self.value = 0
        self.oldest_s = 0.0
        self.nr_old = 0

    def others(self, writer):
        return [party for party in self.parties if party is not writer]

    def see(self, what, got, wanted):
        assert got == wanted, "stale: %s: %s, not %s" % (what, got, wanted)

    def see_page(self, reader, page, slots):
        for slot in slots:
            began = time.monotonic()
            got = reader.read(slot, page * PAGE)
            took_s = time.monotonic() - began
            if got != self.pages[page]:
                again = "%d after %.3f s, then %d, of %d bytes" % (got, took_s, reader.read(slot, page * PAGE), reader.size(self.name))
                self.see("page %d through descriptor %d of %s" % (page, slot, reader), again, self.pages[page])

    def see_anew(self, reader, page):
        reader.open(ANEW, self.name, "r")
        self.see_page(reader, page, [ANEW])
        reader.close(ANEW)

    def see_mapped_in_time(self, reader, page):
        """While somebody has it open to write, a mapping may be old for a moment."""
        began = time.monotonic()
        while reader.peek(page * PAGE) != self.pages[page]:
            assert time.monotonic() - began < PATIENCE_S, "stale: a mapping of %s stays old" % reader
            time.sleep(0.001)
            self.nr_old += 1
        self.oldest_s = max(self.oldest_s, time.monotonic() - began)

    def ages(self, writer, page):
        """Nobody reads meanwhile, which would have mapped pages dropped, too."""
        for _ in range(2):
            self.write(writer, page)
            for reader in self.others(writer):
                if reader.mapped:
                    self.see_mapped_in_time(reader, page)

    def write_and(self, writer, tell, page):
        """Others have just looked at the page of before."""
        for reader in self.others(writer):
            if reader.mapped:
                reader.peek(page * PAGE)
        self.write(writer, page)
        tell(WRITING)

    def see_mapped(self, reader, when):
        if reader.mapped:
            for page in range(PAGES):
                self.see("page %d mapped by %s, after %s" % (page, reader, when), reader.peek(page * PAGE), self.pages[page])

    def see_all(self, writer, slots, when):
        for reader in self.others(writer):
            self.see_mapped(reader, when)
            for page in range(PAGES):
                self.see_page(reader, page, slots)

    def write(self, writer, page):
        self.value += 1
        writer.write(WRITING, page * PAGE, self.value)
        self.pages[page] = self.value

    # ---- Rounds: each returns how many changes it made

    def begin(self, writer):
        self.pages = [0] * PAGES
        writer.create(WRITING, self.name)
        for page in range(PAGES):
            self.write(writer, page)
        writer.close(WRITING)

    def contents(self, writer, nr_writes, slot_of_mapping):
        """Others have the file open before the writer comes, or open it beside him, or anew."""
        for reader in self.others(writer):
            reader.open(BEFORE, self.name, "r")
            reader.map(BEFORE)
        self.see_all(writer, [BEFORE], "opening")
        writer.open(WRITING, self.name, "w")
        for reader in self.others(writer):
            reader.open(BESIDE, self.name, "r")
            reader.must_not_map(BESIDE)
        for number in range(nr_writes):
            page = random.randrange(PAGES)
            self.write(writer, page)
            for reader in self.others(writer):
                self.see_page(reader, page, [BEFORE, BESIDE])
                self.see_anew(reader, page)
            if number == 0:
                self.ages(writer, page)
            if number % 5 == 4:
                self.write_and(writer, writer.sync, page)
                self.see_all(writer, [BEFORE, BESIDE], "fsync")
        self.write_and(writer, writer.close, page)
        self.see_all(writer, [BEFORE, BESIDE], "close")
        self.see_all(writer, [BEFORE], "close")
        for reader in self.others(writer):
            reader.unmap()
            reader.close(BEFORE)
            reader.close(BESIDE)
        return nr_writes + 5

    def sizes(self, writer):
        """It becomes longer and shorter under those who have it open."""
        for reader in self.others(writer):
            reader.open(BEFORE, self.name, "r")
            self.see_page(reader, 0, [BEFORE])
        writer.open(WRITING, self.name, "w")
        size = PAGE * PAGES
        for length, is_longer in ((size + 8, True), (size + PAGE + 24, True), (size + 3, False), (PAGE + 100, False), (2 * PAGE, True), (PAGE, False)):
            if is_longer:
                self.value += 1
                writer.write(WRITING, length - 8, self.value)
            else:
                writer.truncate(WRITING, length)
            for reader in self.others(writer):
                self.see("the size at %s" % reader, reader.size(self.name), length)
                if is_longer:
                    self.see("the end at %s" % reader, reader.read(BEFORE, length - 8), self.value)
                self.see("what is behind the end at %s" % reader, reader.read(BEFORE, length), 0)
        for page in range(PAGES):
            self.write(writer, page)
        writer.truncate(WRITING, PAGE * PAGES)
        writer.close(WRITING)
        for reader in self.others(writer):
            for page in range(PAGES):
                self.see_page(reader, page, [BEFORE])
            reader.close(BEFORE)
        return 7 + PAGES

    def see_later(self, reader, before):
        """A writer who does not run for a second is waited for no longer. Only then may the time be old, and until he runs."""
        began = time.monotonic()
        at = reader.changed_at(self.name)
        took_s = time.monotonic() - began
        while at <= before and took_s >= SILENT_S and time.monotonic() - began < PATIENCE_S:
            time.sleep(0.01)
            at = reader.changed_at(self.name)
        assert at > before, "stale: the time at %s: %d, after %d, told in %.3f s" % (reader, at, before, took_s)
        return at

    def times(self, writer):
        """The time of the last change moves with each write. One that somebody sets stays, also when the writer closes; a later write moves it again."""
        readers = [party for party in self.others(writer) if isinstance(party, Mount)]
        writer.open(WRITING, self.name, "w")
        before = 0
        for _ in range(2):
            self.write(writer, 0)
            for reader in readers:
                at = self.see_later(reader, before)
            before = at
        self.write(writer, 0)
        began = time.monotonic()
        readers[0].set_time(self.name, 1000000001)
        took_s = time.monotonic() - began
        if self.value % 2:
            self.write(writer, 0)
        else:
            before = 0
        writer.close(WRITING)
        for reader in readers:
            at = reader.changed_at(self.name)
            assert at > before if before or took_s >= SILENT_S else at == 1000000001, "the time at %s: %d" % (reader, at)
        return 4

    def names(self, writer):
        """Names come, change and go."""
        other = self.name + "2"
        for name, there, call in (
            (other, 1, lambda: writer.rename(self.name, other)),
            (self.name, 1, lambda: writer.rename(other, self.name)),
            (other, 1, lambda: (writer.create(ANEW, other), writer.close(ANEW))),
            (other, 0, lambda: writer.unlink(other)),
        ):
            for reader in self.others(writer):
                self.see("'%s' at %s" % (name, reader), reader.listed(name), 1 - there)
            call()
            for reader in self.others(writer):
                self.see("'%s' at %s" % (name, reader), reader.listed(name), there)
                size = reader.size(name)
                self.see("'%s' at %s" % (name, reader), size if size < 0 else 0, 0 if there else -errno.ENOENT)
        return 4

    def attributes(self, writer):
        """Kernels may answer from what they were told just now, until somebody changes that."""
        mounts = [party for party in self.parties if isinstance(party, Mount)]
        changer = writer if writer in mounts else mounts[self.value % 2]
        for mount in mounts:
            mount.open(BEFORE, self.name, "r")
        for wanted, call in (
            ((0o600, 1), lambda: changer.set_mode(self.name, 0o600)),
            ((0o600, 2), lambda: changer.link(self.name, self.name + ".link")),
            ((0o644, 2), lambda: changer.set_mode(self.name + ".link", 0o644)),
            ((0o644, 1), lambda: writer.unlink(self.name + ".link")),
        ):
            time.sleep(QUIET_S)
            for mount in mounts:
                mount.mode_and_links(self.name, BEFORE)
            call()
            for mount in mounts:
                self.see("mode and links at %s" % mount, mount.mode_and_links(self.name, BEFORE), {wanted})
        for mount in mounts:
            mount.close(BEFORE)
        return 4

    def kept(self, writer):
        """What is opened again finds the pages of before, until somebody has written it, also if the time is set back after that."""
        setter = next(party for party in [writer] + self.parties if isinstance(party, Mount))
        for number in range(3):
            time.sleep(QUIET_S)
            for reader in self.others(writer):
                for page in list(range(PAGES)) * 2:
                    self.see_anew(reader, page)
            page = random.randrange(PAGES)
            writer.open(WRITING, self.name, "w")
            self.write(writer, page)
            writer.close(WRITING)
            setter.set_time(self.name, 1000000001)
            for reader in self.others(writer):
                self.see_anew(reader, page)
        return 3

    def replaced(self, writer):
        """Another file takes the place of one that others have open: they keep that, and find the other by its name."""
        for reader in self.others(writer):
            reader.open(BEFORE, self.name, "r")
            self.see_page(reader, 0, [BEFORE])
        old = list(self.pages)
        name, self.name = self.name, self.name + ".new"
        self.begin(writer)
        writer.rename(self.name, name)
        self.name = name
        for reader in self.others(writer):
            self.see("page 0 of what was replaced at %s" % reader, reader.read(BEFORE, 0), old[0])
            self.see_anew(reader, 0)
            reader.close(BEFORE)
        return 1 + PAGES


def turns(world, nr):
    world.begin(world.parties[0])
    done = 0
    for turn in range(nr):
        writer = world.parties[turn % len(world.parties)]
        done += world.contents(writer, 10, BEFORE) + world.sizes(writer) + world.times(writer) + world.names(writer) + world.replaced(writer)
        done += world.attributes(writer) + world.kept(writer)
        if done >= nr:
            break
    print("%d changes, 0 stale; mapped pages were old in %d looks, %.0f ms at most" % (done, world.nr_old, world.oldest_s * 1000))


def hammer(path, told):
    """Reads through a descriptor from before the writer, and never finds less than what was told before the read."""
    file = os.open(path, os.O_RDONLY)
    told[8 * PAGES : 8 * PAGES + 8] = struct.pack("<Q", 1)
    while True:
        page = random.randrange(PAGES)
        wanted = struct.unpack_from("<Q", told, 8 * page)[0]
        got = int.from_bytes(os.pread(file, 8, page * PAGE), "little")
        if got < wanted:
            print("stale: page %d of %s: %d, not %d" % (page, path, got, wanted), file=sys.stderr)
            os._exit(1)
        if struct.unpack_from("<Q", told, 8 * PAGES + 8)[0]:
            os._exit(0)


def beside(world, nr):
    world.begin(world.parties[0])
    told = mmap.mmap(-1, PAGE)
    struct.pack_into("<%dQ" % PAGES, told, 0, *world.pages)
    children = []
    for party in world.parties[:2] * 2:
        child = os.fork()
        if child == 0:
            hammer(party.at(world.name), told)
        children.append(child)
    while struct.unpack_from("<Q", told, 8 * PAGES)[0] == 0:
        time.sleep(0.01)
    for number in range(nr):
        if number % 4 == 0:
            writer = world.parties[number // 4 % len(world.parties)]
            writer.open(WRITING, world.name, "w")
        page = random.randrange(PAGES)
        world.write(writer, page)
        struct.pack_into("<Q", told, 8 * page, world.pages[page])
        if number % 4 == 3 or number == nr - 1:
            writer.close(WRITING)
    struct.pack_into("<Q", told, 8 * PAGES + 8, 1)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children), "a reader saw something old"
    print("%d writes beside readers, 0 stale" % nr)


def crossing(world, nr):
    """Who opens to read while another opens to write sees what that one writes."""
    world.begin(world.parties[0])
    for number in range(nr):
        reader = world.parties[number % 2]
        writer = world.others(reader)[number // 2 % 2]
        both = threading.Barrier(2)

        def open_at_once(reader=reader, both=both):
            both.wait()
            reader.open(BEFORE, world.name, "r")

        thread = threading.Thread(target=open_at_once)
        thread.start()
        both.wait()
        writer.open(WRITING, world.name, "w")
        thread.join()
        for page in range(PAGES):
            world.see_page(reader, page, [BEFORE])
            world.write(writer, page)
            world.see_page(reader, page, [BEFORE])
        writer.close(WRITING)
        for page in range(PAGES):
            world.see_page(reader, page, [BEFORE])
        reader.close(BEFORE)
    print("%d opens that crossed, 0 stale" % nr)


def main():
    what, nr, one, two, hand, fs = sys.argv[1:]
    native = Native(hand, fs)
    world = World([Mount(one), Mount(two), native])
    {"turns": turns, "beside": beside, "crossing": crossing}[what](world, int(nr))
    native.end()


main()
