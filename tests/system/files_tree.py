#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""files_tree.py make FOLDER N: makes a tree of N files that has what trees can have.
files_tree.py same A B: fails unless the two trees are the same: names, content, permissions, owners, times, links, and holes."""

import os
import random
import stat
import sys

MIB = 1 << 20


def size_of(choice):
    if choice < 0.05:
        return 0
    if choice < 0.9:
        return random.randrange(1, 5000)
    if choice < 0.99:
        return random.randrange(5000, 100000)
    return random.choice([4096, 4097, MIB - 1, MIB, MIB + 1, random.randrange(MIB, 2 * MIB)])


def make(root, nr):
    random.seed(nr)
    content = random.randbytes(3 * MIB)
    folders = [root]
    os.makedirs(root)
    for i in range(max(8, nr // 25)):
        name = random.choice(["d%d", "with space %d", "new\nline %d", "ünïcödé %d", ".hidden%d", "-dash%d"]) % i
        folders.append(os.path.join(random.choice(folders[-40:]), name))
        os.mkdir(folders[-1])
    files = []
    for i in range(nr):
        name = random.choice(["f%d", "a file %d", "new\nline%d", "файл %d", "-dash%d", "\\back%d", "tab\t%d", ".dot%d"]) % i
        path = os.path.join(random.choice(folders), name)
        size = size_of(random.random())
        at = random.randrange(0, len(content) - size + 1)
        with open(path, "wb") as file:
            file.write(content[at:at + size])
        os.chmod(path, random.choice([0o644, 0o600, 0o755, 0o444, 0o640]))
        os.utime(path, ns=(10**18 + i, 10**18 + i * 1000003))
        files.append(path)
    with open(os.path.join(root, "holes"), "wb") as file:
        file.seek(5 * MIB)
        file.write(b"between")
        file.truncate(64 * MIB)
    with open(os.path.join(root, "all hole"), "wb") as file:
        file.truncate(MIB)
    with open(os.path.join(root, "n" * 255), "wb") as file:
        file.write(b"long")
    for i in range(nr // 50 + 4):
        path = os.path.join(random.choice(folders), "link%d" % i)
        os.symlink(random.choice(["nowhere", "../x y", "/etc/passwd", "t" * 1000, os.path.basename(random.choice(files))]), path)
        os.utime(path, ns=(10**18, 10**18 + i), follow_symlinks=False)
    for i in range(nr // 100 + 2):
        os.link(random.choice(files), os.path.join(random.choice(folders), "name%d" % i))
    for i, folder in enumerate(reversed(folders)):
        os.chmod(folder, random.choice([0o755, 0o700, 0o555, 0o1777]))
        os.utime(folder, ns=(10**18 + i, 10**18 + i * 7))


def content_of(path, what):
    if stat.S_ISLNK(what.st_mode):
        return os.readlink(path)
    if stat.S_ISREG(what.st_mode):
        with open(path, "rb") as file:
            return file.read()
    return None


def look(root):
    """What is there by name, and the sets of names that are one file."""
    found, inodes = {}, {}
    for folder, folders, files in os.walk(root):
        for name in [b"."] * (folder == root) + folders + files:
            path = os.path.join(folder, name)
            what = os.lstat(path)
            relative = os.path.relpath(path, root)
            found[relative] = (stat.S_IFMT(what.st_mode), stat.S_IMODE(what.st_mode), what.st_mtime_ns, what.st_uid, what.st_gid, content_of(path, what))
            if stat.S_ISREG(what.st_mode):
                inodes.setdefault(what.st_ino, []).append(relative)
            if name in (b"holes", b"all hole") and what.st_blocks * 512 > what.st_size // 4:
                sys.exit("no holes any more: %r" % path)
    return found, sorted(sorted(names) for names in inodes.values() if len(names) > 1)


def same(one, other):
    (one, one_names), (other, other_names) = look(os.fsencode(one)), look(os.fsencode(other))
    missing, more = sorted(one.keys() - other.keys()), sorted(other.keys() - one.keys())
    if missing or more:
        sys.exit("missing: %r, more: %r" % (missing[:5], more[:5]))
    for name, what in one.items():
        if what != other[name]:
            sys.exit("%r: %r and %r" % (name, what[:5], other[name][:5]))
    if one_names != other_names:
        sys.exit("names of one file: %r and %r" % (one_names[:5], other_names[:5]))


if sys.argv[1] == "make":
    make(sys.argv[2], int(sys.argv[3]))
else:
    same(sys.argv[2], sys.argv[3])
