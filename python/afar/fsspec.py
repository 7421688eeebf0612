# SPDX-License-Identifier: BSD-3-Clause
"""File systems for fsspec, and so for pandas, dask, zarr and DuckDB: afar://FILESYSTEM/path."""

import datetime
import os
import posixpath
import stat as _stat
import uuid

from fsspec.spec import AbstractFileSystem

from . import connect
from .files import Stream

_types = {_stat.S_IFREG: "file", _stat.S_IFDIR: "directory", _stat.S_IFLNK: "link"}


class _Staged(Stream):
    """A file that a transaction writes: it gets its name when that ends well."""

    def __init__(self, raw, fs, temporary, path):
        super().__init__(raw)
        self._afar = fs, temporary, path

    def commit(self):
        fs, temporary, path = self._afar
        fs.rename(temporary, path)

    def discard(self):
        fs, temporary, _ = self._afar
        fs.unlink(temporary)


class AfarFileSystem(AbstractFileSystem):
    """`uri` and `options` are those of afar.connect(). A path begins with the name of its file system. With `auto_mkdir`
    a file that is made has its directories made, too."""

    protocol = "afar"
    root_marker = ""

    def __init__(self, uri=None, *arguments, options=None, auto_mkdir=False, **keywords):
        super().__init__(*arguments, **keywords)
        self.auto_mkdir = auto_mkdir
        self.session = connect(uri, **(options or {}))
        self._file_systems = {}

    # ---- Names

    def _at(self, path):
        """The file system that a path begins with, and the rest of it."""
        name, _, rest = self._strip_protocol(path).partition("/")
        if not name:
            raise ValueError(f"{path!r} names no file system: afar://FILESYSTEM/path does")
        if name not in self._file_systems:
            self._file_systems[name] = self.session.fs(name)
        return self._file_systems[name], "/" + rest

    def _make(self, path, mode="wb"):
        """Opens a file to write it."""
        fs, rest = self._at(path)
        if self.auto_mkdir:
            fs.makedirs(posixpath.dirname(rest), exist_ok=True)
        return fs.open_raw(rest, mode)

    @staticmethod
    def _info(path, stat):
        return {
            "name": path, "size": stat.bytes, "type": _types.get(_stat.S_IFMT(stat.mode), "other"), "mode": stat.mode, "uid": stat.uid,
            "gid": stat.gid, "ino": stat.ino, "nlink": stat.nlink, "created": stat.ctime / 1e9, "mtime": stat.mtime / 1e9,
            "islink": _stat.S_ISLNK(stat.mode),
        }

    def _followed(self, path, stat):
        """What is known of a path; of a link, what it leads to."""
        info = self._info(path, stat)
        if info["islink"]:
            fs, rest = self._at(path)
            info["destination"] = fs.readlink(rest)
            if fs.exists(rest):
                info.update(size=fs.stat(rest).bytes, type=_types.get(_stat.S_IFMT(fs.stat(rest).mode), "other"))
        return info

    def info(self, path, **_):
        path = self._strip_protocol(path)
        if not path:
            return {"name": "", "size": 0, "type": "directory"}
        fs, rest = self._at(path)
        return self._followed(path, fs.stat(rest, follow=False))

    def ls(self, path, detail=True, **_):
        path = self._strip_protocol(path)
        if path:
            info = self.info(path)
            fs, rest = self._at(path)
            found = [self._followed(f"{path}/{name}", stat) for name, stat in fs.scan(rest)] if info["type"] == "directory" else [info]
        else:
            found = [{"name": fs.name, "size": 0, "type": "directory"} for fs in self.session.file_systems()]
        return found if detail else [info["name"] for info in found]

    def exists(self, path, **_):
        path = self._strip_protocol(path)
        if not path:
            return True
        try:
            fs, rest = self._at(path)
        except FileNotFoundError:
            return False
        return fs.exists(rest)

    def mkdir(self, path, create_parents=True, **_):
        fs, rest = self._at(path)
        if fs.exists(rest):
            raise FileExistsError(path)
        (fs.makedirs if create_parents else fs.mkdir)(rest)

    def makedirs(self, path, exist_ok=False):
        fs, rest = self._at(path)
        fs.makedirs(rest, exist_ok=exist_ok)

    def rmdir(self, path):
        fs, rest = self._at(path)
        fs.rmdir(rest)

    def rm_file(self, path):
        fs, rest = self._at(path)
        fs.unlink(rest)

    _rm = rm_file

    def rm(self, path, recursive=False, maxdepth=None):
        if maxdepth is not None:
            super().rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        for each in [path] if isinstance(path, (str, os.PathLike)) else path:
            for name in self.expand_path(each) if self._has_magic(each) else [self._strip_protocol(each)]:
                fs, rest = self._at(name)
                if not fs.isdir(rest):
                    fs.unlink(rest)
                elif recursive:
                    fs.rmtree(rest)
                else:
                    raise IsADirectoryError(f"{name} is a directory: it goes with recursive=True")

    @staticmethod
    def _has_magic(path):
        return any(letter in os.fspath(path) for letter in "*?[")

    def mv(self, path1, path2, recursive=False, maxdepth=None, **keywords):
        fs, rest = self._at(path1)
        other, new = self._at(path2)
        if fs is not other or self._has_magic(path1) or other.isdir(new):
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **keywords)
            return
        fs.rename(rest, new)

    def cp_file(self, path1, path2, **_):
        fs, rest = self._at(path1)
        other, new = self._at(path2)
        if fs.isdir(rest):
            other.makedirs(new, exist_ok=True)
            return
        with fs.open_raw(rest) as source, self._make(path2) as target:
            buffer = memoryview(bytearray(1 << 22))
            while nr := source.readinto(buffer):
                target.write(buffer[:nr])

    def touch(self, path, truncate=True, **_):
        fs, rest = self._at(path)
        self._make(path, "wb" if truncate or not fs.exists(rest) else "ab").close()

    def created(self, path):
        return datetime.datetime.fromtimestamp(self.info(path)["created"], tz=datetime.timezone.utc)

    def modified(self, path):
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    # ---- Bytes

    def _open(self, path, mode="rb", block_size=None, autocommit=True, **_):
        fs, rest = self._at(path)
        if mode == "rb":
            return fs.open(rest, mode)
        if autocommit or "w" not in mode:
            return Stream(self._make(path, mode))
        name = f".afar-{uuid.uuid4().hex}"
        temporary = posixpath.join(posixpath.dirname(rest), name)
        return _Staged(self._make(posixpath.join(posixpath.dirname(path), name), mode), fs, temporary, rest)

    def cat_file(self, path, start=None, end=None, **_):
        fs, rest = self._at(path)
        with fs.open_raw(rest) as stream:
            size = stream.file.stat().bytes
            begin, stop, _ = slice(start, end).indices(size)
            return stream.file.read(max(stop - begin, 0), begin)

    def pipe_file(self, path, value, **_):
        with self._make(path) as stream:
            stream.write(value)
