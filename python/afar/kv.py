# SPDX-License-Identifier: BSD-3-Clause
"""A cache of blocks by their keys, in the memory or flash of other machines, for all programs that open it.

    with afar.kv.Cache("blocks", 64 << 30) as cache:
        if not cache.get_into(key, array):
            compute(array)
            cache.put(key, array)

A key stands for bytes that never change, as a hash of them does. So a block that is there is not written again. A block is a region
of the cache's namespace: it is seen when it is whole, and its memory is nobody else's while somebody reads it. What cannot be read
any more is a miss, never other bytes: its server has restarted, or this program was silent for so long that the cluster
has fenced its session.

When the room is full, those blocks go first that nobody has used for longest. Programs note what they use in a table that all share,
with the time of their machines."""

import struct
import threading
import time
import zlib

from . import connect
from .memory import bytes_of
from .errors import ClosedError, Error, ExistsError, LostError, NotFoundError, ServerError, SessionEndedError, TimedOutError

FIRST_ADDRESS = 0x1000  # the table of uses is there, and has no name
SLOTS = 1 << 16
_SLOT = struct.Struct("<Q")
# After these a block cannot be read any more, or not now: a miss.
_gone = (NotFoundError, LostError, ServerError, TimedOutError, SessionEndedError, ClosedError)


def _is_gone(error):
    return isinstance(error, _gone) or error.code in ("AFAR_EFREED", "ECANCELED")


def _slot_of(key):
    """Where its last use is noted. Keys that share a slot count as used when one of them was."""
    return zlib.crc32(key.encode("utf-8", "surrogateescape")) % SLOTS * _SLOT.size


class Cache:
    """Opens the cache in namespace `name`. With `bytes` it is made, or gets more room, if need be. `victims` replaces the choice of
    what goes first: it is called with all keys, the one unused for longest first, and returns those that may go, in order.
    Other arguments are those of afar.connect(). Any number of threads use it."""

    def __init__(self, name, bytes=None, uri=None, *, victims=None, **options):
        self.name, self._bytes, self._victims = name, bytes, victims
        self._uri, self._options = uri, options
        self._lock = threading.Lock()
        self._session = self._namespace = self._uses = None
        self._is_closed = False
        self._opened()

    # ---- The session, which is opened anew after it was fenced

    def _opened(self):
        """The namespace, and the table of uses."""
        with self._lock:
            if self._is_closed:
                raise ValueError("the cache is closed")
            if self._namespace is None:
                session = connect(self._uri, **self._options)
                try:
                    namespace = self._make(session)
                    self._session, self._uses, self._namespace = session, self._table(namespace), namespace
                except BaseException:
                    session.close()
                    raise
            return self._namespace, self._uses

    def _make(self, session):
        try:
            namespace = session.namespace(self.name)
        except NotFoundError:
            if not self._bytes:
                raise
            try:
                session.create_namespace(self.name)
            except ExistsError:
                pass  # another program has made it just now
            namespace = session.namespace(self.name)
        missing = (self._bytes or 0) + SLOTS * _SLOT.size - namespace.stat().reserved_bytes
        if self._bytes and missing > 0:
            namespace.reserve(missing)
        return namespace

    @staticmethod
    def _table(namespace):
        for _ in range(3):
            try:
                return namespace.open(FIRST_ADDRESS)
            except LostError:
                namespace.delete(FIRST_ADDRESS)
            except NotFoundError:
                pass
            try:
                table = namespace.create(None, SLOTS * _SLOT.size, first=True)
                table.write(b"\0" * len(table))
                return table
            except Error as error:
                if error.code != "EADDRINUSE":  # else another program makes it just now
                    raise
        return namespace.open(FIRST_ADDRESS)

    def _reset(self, namespace):
        """Forgets a session that has ended, or whose table is lost; the next call opens another."""
        with self._lock:
            if self._namespace is not namespace:
                return  # another thread has seen to it
            session, self._session, self._namespace, self._uses = self._session, None, None, None
        self._end(session)

    def _missed(self, error, namespace, key):
        """Sees to it that a miss for this reason is not for good. Raises the error if it is no reason for one."""
        if isinstance(error, LostError):
            self.remove(key)
        elif isinstance(error, (SessionEndedError, ClosedError)):
            self._reset(namespace)
        elif not _is_gone(error):
            raise error

    def _note(self, key, namespace, uses):
        """Notes that a block is used. Nothing depends on it but what goes first."""
        try:
            uses.write(_SLOT.pack(time.time_ns()), _slot_of(key))
        except (LostError, SessionEndedError):
            self._reset(namespace)
        except Error as error:
            if not _is_gone(error):
                raise

    @staticmethod
    def _end(session):
        try:
            session.close()
        except Error:
            pass  # a thread is inside a call still: the session goes when that has ended

    def close(self):
        with self._lock:
            self._is_closed = True
            session, self._session, self._namespace, self._uses = self._session, None, None, None
        if session:
            self._end(session)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- Reading

    def read(self, key, take):
        """Has `take(region)` read a block, which is an open afar.Region. Returns its result; None: a miss."""
        try:
            namespace, uses = self._opened()
        except (ServerError, TimedOutError, SessionEndedError):
            return None
        try:
            with namespace.open(key) as region:
                if region.stat().is_unfinished:
                    return None
                result = take(region)
        except Error as error:
            self._missed(error, namespace, key)
            return None
        self._note(key, namespace, uses)
        return result

    def get(self, key):
        """The bytes of a block; None: a miss."""
        return self.read(key, lambda region: region.read(len(region)))

    def get_into(self, key, buffer):
        """Reads a block into an array or a tensor of its size. Returns whether it was there."""

        def take(region):
            size = len(bytes_of(buffer))
            if size != len(region):
                raise ValueError(f"the block of {key!r} has {len(region)} bytes, and the buffer {size}")
            return region.read_into(buffer) == size

        return bool(self.read(key, take))

    def __contains__(self, key):
        return bool(self.read(key, lambda region: True))

    def keys(self):
        """The keys of all blocks."""
        namespace, _ = self._opened()
        return [block.name for block in self._blocks(namespace)]

    @staticmethod
    def _blocks(namespace):
        return [region for region in namespace.regions() if region.name and not region.is_unfinished and not region.is_lost]

    # ---- Writing

    def put(self, key, *pieces):
        """Writes a block: bytes, an array, a tensor, or several, one after the other. Returns whether it is there then: it is not
        when there is no room, another program is just writing it, or a server is away."""
        try:
            namespace, uses = self._opened()
        except (ServerError, TimedOutError, SessionEndedError):
            return False
        views = [bytes_of(piece) for piece in pieces]
        try:
            is_there = self._write(namespace, uses, key, views)
        except Error as error:
            self._missed(error, namespace, key)
            return False
        if is_there:
            self._note(key, namespace, uses)
        return is_there

    def _write(self, namespace, uses, key, views):
        try:
            region = self._create(namespace, uses, key, sum(map(len, views)))
        except ExistsError:
            with namespace.open(key) as there:
                return not there.stat().is_unfinished
        if not region:
            return False
        with region:  # which is gone if this fails, or the program dies
            at = 0
            for view in views:
                at += region.write(view, at)
            region.finish()
        return True

    def _create(self, namespace, uses, key, size):
        """The block's region. None: there is no room, and nothing that may go."""
        while True:
            try:
                return namespace.create(key, size, temporary=True)
            except Error as error:
                if error.code != "AFAR_ERESERVE":
                    raise
            if not self._evict(namespace, uses, size):
                return None

    def _evict(self, namespace, uses, size):
        """Removes blocks until `size` bytes are free, and some more if this cache chooses: so it does not look again at once. Returns
        whether any went."""
        stat = namespace.stat()
        if size > stat.reserved_bytes:
            return False
        blocks = {block.name: block.length for block in self._blocks(namespace)}
        used = uses.read(len(uses))
        keys = sorted(blocks, key=lambda key: _SLOT.unpack_from(used, _slot_of(key)))
        if self._victims:
            keys = self._victims(keys)
        else:
            size = max(size, stat.reserved_bytes // 32)
        freed = 0
        for key in keys:
            if freed >= size:
                break
            if self.remove(key):
                freed += blocks.get(key, 0)
        return freed > 0

    def remove(self, key):
        """Removes a block. Returns whether it was there. Whoever is reading it reads on."""
        try:
            self._opened()[0].delete(key)
        except Error as error:
            if not _is_gone(error):
                raise
            return False
        return True
