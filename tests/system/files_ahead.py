# SPDX-License-Identifier: BSD-3-Clause
# Reads from front to back, which are read ahead, while others change what comes next: the next read sees it.
#   files_ahead.py NR HAND FS BYTES [MOUNT...]    NR changes; HAND: the program of file_hand.c
# BYTES: a local file, which is FS's file "ahead", too.
import os
import random
import subprocess
import sys

WORD = 8
READING, WRITING = range(2)  # slots of open files


class Native:
    """A program that uses the library. It says that it reads from front to back."""

    reads = 40

    def __init__(self, hand, fs):
        self.hand = subprocess.Popen([hand, fs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def __str__(self):
        return "the native client"

    def ask(self, *words):
        self.hand.stdin.write(" ".join(str(word) for word in words) + "\n")
        answer = int(self.hand.stdout.readline())
        assert answer >= 0 or words[0] == "read", "%s: %d" % (words, answer)
        return answer

    def open(self, slot, name, mode):
        self.ask("open", slot, name, mode)
        if mode == "r":
            self.ask("advise", slot, 1)

    def close(self, slot):
        self.ask("close", slot)

    def read(self, slot, offset):
        return self.ask("read", slot, offset) % (1 << 64)

    def write(self, slot, offset, value):
        self.ask("write", slot, offset, value)

    def truncate(self, slot, size):
        self.ask("truncate", slot, size)

    def end(self):
        self.hand.stdin.close()
        assert self.hand.wait() == 0


class Mount:
    """A program of a mount. Shortly after a change elsewhere nothing is read ahead, and it is quick."""

    reads = 1000

    def __init__(self, path):
        self.path = path
        self.files = {}

    def __str__(self):
        return self.path

    def open(self, slot, name, mode):
        self.files[slot] = os.open(os.path.join(self.path, name), os.O_RDWR if mode == "w" else os.O_RDONLY)

    def close(self, slot):
        os.close(self.files.pop(slot))

    def read(self, slot, offset):
        return int.from_bytes(os.pread(self.files[slot], WORD, offset), "little")

    def write(self, slot, offset, value):
        assert os.pwrite(self.files[slot], value.to_bytes(WORD, "little"), offset) == WORD

    def truncate(self, slot, size):
        os.ftruncate(self.files[slot], size)

    def end(self):
        pass


class World:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = bytearray(file.read())
        self.length = len(self.bytes)

    def word(self, offset):
        return int.from_bytes(self.bytes[offset : offset + WORD], "little")

    def see(self, reader, offset, nr):
        """Returns where the next word is."""
        for offset in range(offset, offset + nr * WORD, WORD):
            got = reader.read(READING, offset)
            assert got == self.word(offset), "stale: the word at %d of %s: %x, not %x" % (offset, reader, got, self.word(offset))
        return offset + WORD

    def write(self, writer, offset):
        value = random.getrandbits(63)
        writer.write(WRITING, offset, value)
        self.bytes[offset : offset + WORD] = value.to_bytes(WORD, "little")

    def cut(self, writer, offset):
        """What is behind the end is zeros when the file is as long as before."""
        writer.truncate(WRITING, offset)
        writer.truncate(WRITING, self.length)
        self.bytes[offset:] = bytes(self.length - offset)


def change_once(world, reader, writer):
    """The window is open and filled where the change is made, and shortly behind."""
    reader.open(READING, "ahead", "r")
    at = random.randrange(world.length // 2 // WORD) * WORD
    at = world.see(reader, at, random.randrange(4, reader.reads))
    writer.open(WRITING, "ahead", "w")
    for _ in range(random.randrange(1, 3)):
        offset = at + random.randrange(3) * WORD
        if random.randrange(2 if writer is reader else 4):
            world.write(writer, offset)
        else:
            world.cut(writer, offset)
        at = world.see(reader, at, random.randrange(1, 6))
    if random.randrange(2):
        writer.close(WRITING)
        world.see(reader, at, 20)
    else:
        world.see(reader, at, 20)
        writer.close(WRITING)
    reader.close(READING)


def main():
    nr, hand, fs, path, mounts = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:]
    world = World(path)
    parties = [Mount(path) for path in mounts] + [Native(hand, fs), Native(hand, fs)]
    for number in range(nr):
        random.seed(number)
        reader = parties[number % len(parties)]
        # Every third round of changes is the readers' own.
        others = [party for party in parties if party is not reader]
        writer = reader if number // len(parties) % 3 == 0 else random.choice(others)
        change_once(world, reader, writer)
    for party in parties:
        party.end()
    print("%d changes ahead of readers, 0 stale" % nr)


main()
