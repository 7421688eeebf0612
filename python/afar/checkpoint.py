# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints: named bytes in a file system, which become visible all at once. Whoever is killed leaves the last one whole.

    afar.checkpoint.save(fs, "/run/last", {"weights": array, "step": b"100"})
    with afar.checkpoint.Checkpoint(fs, "/run/last") as last:
        last.read_into({"weights": array})
        step = last["step"]

Several ranks save one together. One of them makes a Saving and tells the others its `id`. Each writes a Part, and the first
one commits when all are closed.

A checkpoint is a directory. It has the bytes of each part in a file, and `index`, which says where each name's are. Until it is
committed, it is beside its place, under a name that begins with a dot. The files' names have the save's id, so a reader who comes
between two checkpoints cannot mix them."""

import collections
import concurrent.futures
import contextlib
import json
import os
import posixpath
import uuid

from .memory import bytes_of
from .errors import ExistsError, NotFoundError

THREADS = 4
PIECE_BYTES = 16 << 20  # that one thread moves at a time
SMALL_BYTES = 64 << 10  # less than this is gathered before it is written
ALIGN_BYTES = 4096  # large entries begin at a multiple of this, as blocks of flash do
_FORMAT = 1


def _move_all(pieces):
    """Runs the call of each piece, a tuple with its arguments, several at once. Takes few ahead, which may be made as they are taken."""
    running = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        try:
            for piece in pieces:
                if len(running) == 2 * THREADS:
                    running.popleft().result()
                running.append(pool.submit(*piece))
            while running:
                running.popleft().result()
        finally:
            for each in running:
                each.cancel()


def _cut(call, view, offset):
    for begin in range(0, len(view), PIECE_BYTES):
        yield call, view[begin : begin + PIECE_BYTES], offset + begin


def _read_whole(file, view, offset):
    if file.read_into(view, offset) != len(view):
        raise EOFError("a file of the checkpoint ends too soon")


def _read_json(fs, path):
    with fs.open_raw(path) as stream:
        return json.loads(stream.readall())


def _write_json(fs, path, value):
    with fs.open_file(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY) as file:
        file.write(json.dumps(value, separators=(",", ":")).encode())
        file.sync()


def _place_of(path):
    path = "/" + os.fspath(path).strip("/")
    if path == "/":
        raise ValueError("a checkpoint needs a name of its own below the root directory")
    return path


def _staged_as(path, id_):
    """Where a checkpoint is until it is committed."""
    return posixpath.join(posixpath.dirname(path), f".{posixpath.basename(path)}.saving-{id_}")


class Part:
    """What one rank writes of a checkpoint that is being saved, under a name of its own. Without close() it is no part of it.
    One thread uses it; writing takes several more."""

    def __init__(self, fs, path, id_, name="0"):
        if not name or "/" in name or name.startswith("."):
            raise ValueError(f"{name!r} cannot name a part: it has a slash, or begins with a dot, or is empty")
        self._fs, self._entries, self._end = fs, {}, 0
        self._gathered, self._gathered_at = bytearray(), 0
        self._path = posixpath.join(_staged_as(_place_of(path), id_), f"{id_}.{name}")
        self._name = f"{id_}.{name}"
        self._file = fs.open_file(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)

    def write(self, name, data):
        """Writes an entry: bytes, an array, or a tensor in this machine's memory."""
        self.write_all([(name, data)])

    def write_all(self, entries):
        """Writes entries, several at once: a mapping, or pairs, which may be made as they are taken."""
        try:
            _move_all(self._pieces(entries.items() if hasattr(entries, "items") else entries))
        except BaseException:
            self.abandon()
            raise

    def _pieces(self, entries):
        for name, data in entries:
            if not isinstance(name, str):
                raise TypeError(f"an entry's name is text, not {name!r}")
            if name in self._entries:
                raise ValueError(f"{name!r} is in this part already")
            view = bytes_of(data)
            if len(view) >= SMALL_BYTES:
                yield from self._take_gathered()
                self._end = -(-self._end // ALIGN_BYTES) * ALIGN_BYTES
                yield from _cut(self._file.write, view, self._end)
            else:
                if not self._gathered:
                    self._gathered_at = self._end
                self._gathered += view
            self._entries[name] = [self._name, self._end, len(view)]
            self._end += len(view)
            if len(self._gathered) >= PIECE_BYTES:
                yield from self._take_gathered()
        yield from self._take_gathered()

    def _take_gathered(self):
        if self._gathered:
            yield self._file.write, self._gathered, self._gathered_at
            self._gathered = bytearray()

    def close(self):
        """Makes the part durable, and ready to be committed."""
        if not self._file.closed:
            self._file.sync()
            self._file.close()
            _write_json(self._fs, self._path + ".index", self._entries)

    def abandon(self):
        """Ends it; the checkpoint cannot be committed then."""
        self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.abandon()
        else:
            self.close()


class Saving:
    """A checkpoint that is being saved, by one job at a time: a save that begins ends others of the same path. It takes the place
    of the last one when it is committed. As a context manager it commits when that ends well."""

    def __init__(self, fs, path):
        self._fs, self._path = fs, _place_of(path)
        if fs.exists(self._path) and not (fs.isdir(self._path) and (self._has_index() or not fs.listdir(self._path))):
            raise FileExistsError(f"{self._path} is there, and is no checkpoint: it is not replaced")
        self.id = uuid.uuid4().hex
        self._staged = _staged_as(self._path, self.id)
        fs.makedirs(posixpath.dirname(self._path), exist_ok=True)
        self._remove_others()
        fs.mkdir(self._staged)

    def _has_index(self):
        return self._fs.exists(posixpath.join(self._path, "index"))

    def _remove_others(self):
        """Removes what killed ones have left."""
        parent, mark = posixpath.split(_staged_as(self._path, ""))
        for name in self._fs.listdir(parent):
            if name.startswith(mark):
                self._remove(posixpath.join(parent, name))

    def _remove(self, folder):
        with contextlib.suppress(NotFoundError):
            self._fs.rmtree(folder)

    def part(self, name="0"):
        """A part for this process."""
        return Part(self._fs, self._path, self.id, name)

    def _merge(self, parts):
        """The entries of all parts; each that is named must be there."""
        found = {name[:-6] for name in self._fs.listdir(self._staged) if name.endswith(".index")}
        wanted = {f"{self.id}.{name}" for name in parts} if parts is not None else found
        if missing := sorted(wanted - found):
            raise ValueError(f"part {missing[0].partition('.')[2]!r} was not closed: the checkpoint is not whole")
        entries = {}
        for name in sorted(wanted):
            for key, where in _read_json(self._fs, posixpath.join(self._staged, f"{name}.index")).items():
                if key in entries:
                    raise ValueError(f"{key!r} is in two parts")
                entries[key] = where
        return entries

    def commit(self, parts=None):
        """Makes the checkpoint visible, by one rename. `parts`: the names of all parts; without it those that were closed.
        Fails with FileNotFoundError when another save of this path has begun since."""
        _write_json(self._fs, posixpath.join(self._staged, "index"), {"format": _FORMAT, "id": self.id, "entries": self._merge(parts)})
        while True:
            try:
                self._fs.rename(self._staged, self._path, replace=False)
                return
            except ExistsError:
                pass
            with contextlib.suppress(NotFoundError):  # it was removed just now, or this save was
                self._fs.rename(self._staged, self._path, exchange=True)
                self._remove(self._staged)
                return

    def abandon(self):
        """Removes what was written; the last checkpoint stays."""
        self._remove(self._staged)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.abandon()
        else:
            self.commit()


def save(fs, path, entries):
    """Saves a checkpoint: a mapping of names to bytes, arrays or tensors, or pairs of these."""
    with Saving(fs, path) as saving, saving.part() as part:
        part.write_all(entries)


class Checkpoint(collections.abc.Mapping):
    """A checkpoint that is open to read. It stays as it is when another one takes its place."""

    def __init__(self, fs, path):
        path, index, before = _place_of(path), None, None
        self._files = {}
        while True:
            index, before = self._read_index(fs, path), index
            try:
                for part in {where[0] for where in index["entries"].values()}:
                    self._files[part] = fs.open_file(posixpath.join(path, part))
                break
            except NotFoundError:
                self.close()
                if before and before["id"] == index["id"]:  # else another one has taken its place just now
                    raise
        self.id, self._entries = index["id"], index["entries"]

    @staticmethod
    def _read_index(fs, path):
        index = _read_json(fs, posixpath.join(path, "index"))
        if index.get("format") != _FORMAT:
            raise ValueError(f"{path}: a checkpoint of format {index.get('format')}, which this release does not read")
        return index

    def __len__(self):
        return len(self._entries)

    def __iter__(self):
        return iter(self._entries)

    def __getitem__(self, name):
        data = bytearray(self.size(name))
        self.read_into({name: data})
        return bytes(data)

    def size(self, name):
        """How many bytes an entry has."""
        return self._entries[name][2]

    def read_into(self, targets, offset=0):
        """Reads entries into memory, several at once: a mapping of names to writable arrays or tensors, or pairs of these. A
        target may be shorter than its entry; `offset` is then where in the entry it begins."""
        targets = targets.items() if hasattr(targets, "items") else targets
        self.read_ranges((name, target, offset) for name, target in targets)

    def read_ranges(self, ranges):
        """Reads parts of entries, several at once: names, writable memory, and the offset in the entry where that begins."""
        _move_all(piece for name, target, offset in ranges for piece in self._pieces(name, target, offset))

    def _pieces(self, name, target, offset):
        part, begin, size = self._entries[name]
        view = bytes_of(target)
        if offset < 0 or offset + len(view) > size:
            raise ValueError(f"{name!r} has {size} bytes, not {offset} + {len(view)}")
        file = self._files[part]
        for call, piece, at in _cut(_read_whole, view, begin + offset):
            yield call, file, piece, at

    def close(self):
        for file in self._files.values():
            file.close()
        self._files = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
