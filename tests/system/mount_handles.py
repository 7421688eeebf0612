# SPDX-License-Identifier: BSD-3-Clause
# mount_handles.py HERE THERE OTHER BELOW: two mounts of one file system, one of another, and one of the first one's "sub".
import ctypes
import errno
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
here, there, other, below = sys.argv[1:]


class Handle(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]


def check(ret):
    if ret < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return ret


def handle_of(path):
    handle, mount = Handle(length=128), ctypes.c_int()
    check(libc.name_to_handle_at(AT_FDCWD, path.encode(), ctypes.byref(handle), ctypes.byref(mount), 0))
    return handle


def open_handle(mount, handle):
    folder = os.open(mount, os.O_RDONLY)
    try:
        return check(libc.open_by_handle_at(folder, ctypes.byref(handle), os.O_RDONLY))
    finally:
        os.close(folder)


def content(mount, handle):
    with open(open_handle(mount, handle), "rb") as file:
        return file.read()


def must_be_stale(mount, handle, what):
    try:
        os.close(open_handle(mount, handle))
    except OSError as error:
        assert error.errno == errno.ESTALE, "%s: %s" % (what, error)
    else:
        raise AssertionError(what + " can be opened")


def make(path, text):
    with open(path, "w") as file:
        file.write(text)


deep = os.path.join(here, "a", "b", "c")
os.makedirs(deep)
make(deep + "/file", "text")
make(deep + "/moved", "moved")
make(deep + "/removed", "removed")
file, folder, moved, removed = (handle_of(deep + name) for name in ("/file", "", "/moved", "/removed"))
os.rename(deep + "/moved", here + "/elsewhere")
os.unlink(deep + "/removed")
assert content(there, file) == b"text"
assert content(there, moved) == b"moved"
must_be_stale(there, removed, "a file that was removed")
found = open_handle(there, folder)
assert sorted(os.listdir(found)) == ["file"]
# The kernel finds where that is, up to the root.
assert os.readlink("/proc/self/fd/%d" % found) == os.path.realpath(os.path.join(there, "a/b/c"))
os.close(found)
os.close(open_handle(there, handle_of(here)))
# One of another file system, where a file has the same number.
make(other + "/a", "other")
os.mkdir(other + "/b")
numbers = {os.stat(other + name).st_ino: name for name in ("/a", "/b")}
assert set(numbers) & {os.stat(os.path.join(here, path)).st_ino for path in ("a", "a/b")}, "the numbers differ"
for path in "a", "a/b":
    must_be_stale(other, handle_of(os.path.join(here, path)), "a handle of another file system")
# A mount of a subdirectory shows nothing of what is outside of it.
must_be_stale(below, file, "a handle of a file outside of the subdirectory")
must_be_stale(below, folder, "a handle of a folder outside of the subdirectory")
