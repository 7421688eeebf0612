# SPDX-License-Identifier: BSD-3-Clause
"""Reads and writes that asyncio awaits, without a thread: the event loop polls a queue's descriptor.

    async with afar.aio.Queue(session) as queue:
        await asyncio.gather(*(queue.read_into(region, array, offset) for array, offset in parts))
"""

import asyncio
import collections
import errno

from . import _afar
from .errors import Error

# After these the queue has to connect anew.
_disconnected = {"AFAR_ESERVER", "ETIMEDOUT", "ECANCELED", "ENOTCONN"}


class Queue:
    """A queue of one event loop. An operation whose task is cancelled goes on, and keeps its memory until it ends."""

    def __init__(self, session, depth=256):
        self._loop = asyncio.get_running_loop()
        self._queue = _afar.Queue(session, depth)
        self._connected = set()
        self._futures = {}  # to their targets
        self._waiting = collections.deque()  # for room in the queue
        self._is_reaping = False
        self._descriptor = self._queue.fileno()
        self._loop.add_reader(self._descriptor, self._reap)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.close()

    def close(self):
        """Ends what is in flight: whoever awaits that gets afar.Error, with the code ECANCELED."""
        if self._queue.closed:
            return
        self._loop.remove_reader(self._descriptor)
        self._queue.close()
        for future in [*self._futures, *self._waiting]:
            if not future.done():
                future.set_exception(Error(errno.ECANCELED, "the queue was closed before this was done", "ECANCELED"))

    def connect(self, target):
        """Connects to a target's servers. Blocks; the first operation on a target does it otherwise."""
        self._queue.connect(target)
        self._connected.add(target)

    async def read_into(self, target, buffer, offset=0):
        """Reads as many bytes as the buffer has. Returns how many."""
        return await self._run(self._queue.read_into, target, buffer, offset)

    async def write(self, target, buffer, offset=0):
        """Writes all of the buffer. Returns how many bytes."""
        return await self._run(self._queue.write, target, buffer, offset)

    async def sync(self, target):
        """Makes durable what has completed on the target."""
        return await self._run(self._queue.sync, target)

    async def _run(self, submit, target, *arguments):
        if target not in self._connected:
            self.connect(target)
        future = self._loop.create_future()
        while not submit(target, *arguments, future):
            room = self._loop.create_future()
            self._waiting.append(room)
            await room
        self._futures[future] = target
        self._sleep()
        return await future

    def _sleep(self):
        """Sees that what completes is reaped: by the descriptor, or soon if it has completed already."""
        if self._futures and not self._is_reaping and not self._queue.arm():
            self._is_reaping = True
            self._loop.call_soon(self._reap)

    def _reap(self):
        self._is_reaping = False
        if self._queue.closed:
            return
        for future, result in self._queue.wait(0, 0):
            target = self._futures.pop(future)
            if isinstance(result, Error):
                if result.code in _disconnected:
                    self._connected.discard(target)
                if not future.done():
                    future.set_exception(result)
            elif not future.done():
                future.set_result(result)
            if self._waiting:
                room = self._waiting.popleft()
                if not room.done():
                    room.set_result(None)
        self._sleep()
