# SPDX-License-Identifier: BSD-3-Clause
"""LMCache's remote storage in Afar: blocks of a KV cache that all inference servers of a cluster share (afar.kv).

LMCache imports the class by its name, for a remote URL such as external://host:0/afar.lmcache/?connector_name=Connector, and it finds
its settings in LMCache's `extra_config`: `afar_cache`, the namespace; `afar_bytes`, the room that is made for it; and
`afar_uri`, the cluster.

A block that cannot be read any more is a miss. Calls that are awaited run in threads, so the event loop goes on."""

import asyncio
import concurrent.futures
import importlib
import json

from . import kv
from .memory import bytes_of

try:
    from lmcache.v1.storage_backend.connector.base_connector import RemoteConnector as _Base
except ImportError:
    _Base = object

HEAD_BYTES = 512  # before each block: what LMCache needs to make room for it
THREADS = 8


def _text(key):
    return key if isinstance(key, str) else key.to_string()


def _head(block):
    """Describes a block: JSON, filled up with spaces."""
    head = {"shape": list(block.get_shape()), "dtype": str(block.get_dtype()), "format": block.get_memory_format().name}
    text = json.dumps(head, separators=(",", ":")).encode()
    if len(text) > HEAD_BYTES:
        raise ValueError(f"a block of {len(head['shape'])} dimensions: its description has more than {HEAD_BYTES} bytes")
    return text.ljust(HEAD_BYTES)


def _described(text):
    """The shape, type and format of a block."""
    head = json.loads(text)
    torch = importlib.import_module("torch")
    formats = importlib.import_module("lmcache.v1.memory_management").MemoryFormat
    return torch.Size(head["shape"]), getattr(torch, head["dtype"].rpartition(".")[2]), formats[head["format"]]


class Connector(_Base):
    """A RemoteConnector of LMCache. `cache` is an afar.kv.Cache; without it, LMCache's `config` says which one to open."""

    def __init__(self, loop=None, local_cpu_backend=None, config=None, *, cache=None):
        settings = getattr(config, "extra_config", None) or {}
        self._backend = local_cpu_backend
        self._cache = cache or kv.Cache(
            settings.get("afar_cache", "lmcache"), settings.get("afar_bytes"), settings.get("afar_uri"), timeout=settings.get("afar_timeout", 5)
        )
        self._pool = concurrent.futures.ThreadPoolExecutor(THREADS, "afar-lmcache")

    async def _run(self, call, *arguments):
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)

    async def _run_all(self, call, *lists):
        return await asyncio.gather(*(self._run(call, *arguments) for arguments in zip(*lists)))

    # ---- One block

    def exists_sync(self, key):
        return _text(key) in self._cache

    async def exists(self, key):
        return await self._run(self.exists_sync, key)

    def _get(self, key):
        block = None

        def take(region):
            nonlocal block
            if len(region) < HEAD_BYTES:
                return None
            block = self._backend.allocate(*_described(region.read(HEAD_BYTES)))
            if block is None:  # LMCache has no room for it
                return None
            memory = bytes_of(block.byte_array)
            is_whole = len(memory) == len(region) - HEAD_BYTES and region.read_into(memory, HEAD_BYTES) == len(memory)
            return block if is_whole else None

        found = None
        try:
            found = self._cache.read(_text(key), take)
        finally:
            if block is not None and found is None:
                block.ref_count_down()
        return found

    async def get(self, key):
        return await self._run(self._get, key)

    def _put(self, key, block):
        self._cache.put(_text(key), _head(block), block.byte_array)

    async def put(self, key, memory_obj):
        await self._run(self._put, key, memory_obj)

    def remove_sync(self, key):
        return self._cache.remove(_text(key))

    # ---- Several

    async def list(self):
        return await self._run(self._cache.keys)

    def support_batched_get(self):
        return True

    async def batched_get(self, keys):
        return await self._run_all(self._get, keys)

    def support_batched_put(self):
        return True

    async def batched_put(self, keys, memory_objs):
        await self._run_all(self._put, keys, memory_objs)

    def support_batched_get_non_blocking(self):
        return True

    async def batched_get_non_blocking(self, lookup_id, keys):
        """The first blocks, up to one that is not there: those behind it would be taken for others."""
        blocks = [*await self.batched_get(keys), None]
        end = blocks.index(None)
        for block in blocks[end:]:
            if block is not None:
                block.ref_count_down()
        return blocks[:end]

    def support_batched_async_contains(self):
        return True

    async def batched_async_contains(self, lookup_id, keys, pin=False):
        """How many of the first keys are there, up to one that is not."""
        return ([*await self._run_all(self.exists_sync, keys), False]).index(False)

    def support_batched_contains(self):
        return True

    def batched_contains(self, keys, stop_after_first_not_exits=True):
        found = []
        for key in keys:
            found.append(not (stop_after_first_not_exits and found and not found[-1]) and self.exists_sync(key))
        return found

    # ---- The connection

    def support_ping(self):
        return True

    async def ping(self):
        await self.list()
        return 0

    async def close(self):
        self._pool.shutdown()
        self._cache.close()
