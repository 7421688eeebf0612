# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions of afar, and what describes things. The C part of the module makes both."""

import types


class Error(OSError):
    """A call of libafar failed. `errno` is its number, `code` the name ("AFAR_ELOST", "ENOENT"), and `line` says in
    one line what was asked, what is wrong and what to do."""

    def __init__(self, errno=0, line="", code=""):
        super().__init__(errno, line)
        self.code = code

    @property
    def line(self):
        return self.strerror


class ClosedError(Error, ValueError):
    """The object was closed."""


class NotFoundError(Error, FileNotFoundError):
    """There is nothing of that name."""


class ExistsError(Error, FileExistsError):
    """The name is taken."""


class AccessError(Error, PermissionError):
    """The session's principal, or the user, may not do that."""


class DirectoryError(Error, IsADirectoryError):
    """It is a directory."""


class NotDirectoryError(Error, NotADirectoryError):
    """It is no directory."""


class TimedOutError(Error, TimeoutError):
    """It took too long. The outcome of a write is unknown."""


class LostError(Error):
    """The data is lost: a server that held it in memory has ended."""


class ForkedError(Error):
    """The session belongs to the parent process: open one after fork."""


class ServerError(Error, ConnectionError):
    """A server, or the manager, cannot be reached."""


class SessionEndedError(Error, ConnectionError):
    """The session has ended: open a new one."""


_classes = {
    "ENOENT": NotFoundError,
    "EEXIST": ExistsError,
    "EACCES": AccessError,
    "EPERM": AccessError,
    "EISDIR": DirectoryError,
    "ENOTDIR": NotDirectoryError,
    "ETIMEDOUT": TimedOutError,
    "AFAR_ELOST": LostError,
    "AFAR_EFORKED": ForkedError,
    "AFAR_ESERVER": ServerError,
    "AFAR_EMANAGER": ServerError,
    "AFAR_ESESSION": SessionEndedError,
}


def make(errno, code, line):
    """The exception for a code of the library."""
    return _classes.get(code, Error)(errno, line, code)


class Stat(types.SimpleNamespace):
    """What a stat() or a list tells: attributes with the names of libafar's."""
