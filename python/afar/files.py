# SPDX-License-Identifier: BSD-3-Clause
"""File systems and files as Python has them: paths, streams of io, walks."""

import io
import os
import posixpath
import stat as _stat

from . import _afar
from .errors import ExistsError, NotDirectoryError, NotFoundError

BUFFER_BYTES = 1 << 17


class RawFile(io.RawIOBase):
    """An open file as an unbuffered stream; `file` is the afar.File below."""

    def __init__(self, file, name, mode):
        super().__init__()
        self.file, self.name, self.mode = file, name, mode
        self._position = 0
        self._appends = "a" in mode
        self.is_any = False  # says that it can do all

    def readable(self):
        return self.is_any or "r" in self.mode or "+" in self.mode

    def writable(self):
        return self.is_any or self.mode.strip("b") != "r"

    def seekable(self):
        return True

    def readinto(self, buffer):
        if not self.readable():
            raise io.UnsupportedOperation("the file is open to write alone")
        nr = self.file.read_into(buffer, self._position)
        self._position += nr
        return nr

    def readall(self):
        if not self.readable():
            raise io.UnsupportedOperation("the file is open to write alone")
        parts = []
        while True:  # one read is all of it, unless the file grows meanwhile
            rest = self.file.stat().bytes - self._position
            part = self.file.read(max(rest, 1), self._position)
            self._position += len(part)
            parts.append(part)
            if len(part) <= rest or not part:
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def write(self, data):
        if not self.writable():
            raise io.UnsupportedOperation("the file is open to read alone")
        nr = self.file.write(data, self._position)
        self._position = self.file.stat().bytes if self._appends else self._position + nr
        return nr

    def seek(self, offset, whence=os.SEEK_SET):
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        if whence == os.SEEK_END:
            base = self.file.stat().bytes
        if base is None:
            raise ValueError(f"whence is {whence}: it can be os.SEEK_SET, os.SEEK_CUR or os.SEEK_END")
        if base + offset < 0:
            raise ValueError(f"offset {base + offset}: it cannot be negative")
        self._position = base + offset
        return self._position

    def tell(self):
        return self._position

    def truncate(self, size=None):
        size = self._position if size is None else size
        self.file.truncate(size)
        return size

    def close(self):
        if not self.closed:
            super().close()  # flushes
            self.file.close()


class Stream(io.BufferedRandom):
    """A buffered stream for any mode. It is no BufferedReader and no BufferedWriter, because numpy takes these for files of
    the system."""

    def __init__(self, raw, size=BUFFER_BYTES):
        raw.is_any = True  # else only a file that is open to read and write can be one
        super().__init__(raw, size)
        raw.is_any = False

    def write(self, data):
        if not self.raw.writable():  # which the raw stream would say when the buffer is full
            raise io.UnsupportedOperation("the file is open to read alone")
        return super().write(data)


def flags_of(mode):
    """The flags of os.open() for a mode of open()."""
    letters = set(mode) - {"b", "t"}
    plus = "+" in letters
    kind = "".join(letters - {"+"})
    flags = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT | os.O_APPEND, "x": os.O_CREAT | os.O_EXCL}.get(kind)
    if flags is None or len(mode) != len(set(mode)) or {"b", "t"} <= set(mode):
        raise ValueError(f"mode {mode!r}: it can be 'r', 'w', 'a' or 'x', with '+', 'b' and 't'")
    return flags | (os.O_RDWR if plus else os.O_RDONLY if kind == "r" else os.O_WRONLY)


class FileSystem(_afar.FileSystem):
    __doc__ = _afar.FileSystem.__doc__

    def open_raw(self, path, mode="rb", permissions=0o644, layout=None):
        """Opens a file as an unbuffered stream of bytes. One that is made may get a layout: a stripe unit in bytes, and a number of servers."""
        raw = RawFile(self.open_file(path, flags_of(mode), permissions, layout=layout), os.fspath(path), mode)
        if "a" in mode:
            raw.seek(0, os.SEEK_END)
        return raw

    def open(self, path, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *, layout=None):
        """Opens a file as open() does; layout as in open_raw()."""
        flags_of(mode)
        is_text = "b" not in mode
        if is_text and buffering == 0:
            raise ValueError("text needs a buffer")
        raw = self.open_raw(path, mode.replace("t", ""), layout=layout)
        try:
            if buffering == 0:
                return raw
            if not raw.writable():
                raw.file.read_ahead(True)
            stream = Stream(raw, buffering if buffering > 1 else BUFFER_BYTES)
            return io.TextIOWrapper(stream, encoding, errors, newline, buffering == 1) if is_text else stream
        except BaseException:
            raw.close()
            raise

    def listdir(self, path="/"):
        """The names in a directory, in order."""
        return [name for name, _ in self.scan(path)]

    def exists(self, path):
        """Whether a path leads to something."""
        try:
            self.stat(path)
        except (NotFoundError, NotDirectoryError):
            return False
        return True

    def isdir(self, path):
        """Whether a path leads to a directory."""
        try:
            return _stat.S_ISDIR(self.stat(path).mode)
        except (NotFoundError, NotDirectoryError):
            return False

    def isfile(self, path):
        """Whether a path leads to a file."""
        try:
            return _stat.S_ISREG(self.stat(path).mode)
        except (NotFoundError, NotDirectoryError):
            return False

    def makedirs(self, path, mode=0o755, exist_ok=False):
        """Makes a directory, and those above it that are missing."""
        path = os.fspath(path).rstrip("/")
        above = posixpath.dirname(path)
        if above.strip("/") and not self.exists(above):
            self.makedirs(above, mode, exist_ok=True)
        try:
            if path:
                self.mkdir(path, mode)
            elif not exist_ok:
                raise FileExistsError("the root directory is there")
        except ExistsError:
            if not exist_ok or not self.isdir(path):
                raise

    def walk(self, top="/"):
        """Directories from `top` down, as os.walk() gives them. Symbolic links count as files."""
        entries = self.scan(top)
        folders = [name for name, stat in entries if _stat.S_ISDIR(stat.mode)]
        yield top, folders, [name for name, stat in entries if not _stat.S_ISDIR(stat.mode)]
        for name in folders:
            yield from self.walk(posixpath.join(top, name))

    def rmtree(self, path):
        """Removes a directory with all that is in it."""
        for name, stat in self.scan(path):
            entry = posixpath.join(path, name)
            if _stat.S_ISDIR(stat.mode):
                self.rmtree(entry)
            else:
                self.unlink(entry)
        self.rmdir(path)
