# SPDX-License-Identifier: BSD-3-Clause
"""The cache of blocks, and LMCache's connector over it: what is served is right, or a miss."""

import asyncio
import contextlib
import enum
import importlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import types
import unittest
import unittest.mock

import afar
from afar import kv

MIB = 1 << 20


def pattern(key, size=MIB):
    return (key.encode() * (size // len(key) + 1))[:size]


@contextlib.contextmanager
def restarted(pid):
    """Kills a daemon, and starts it again as it was; it ends with this."""
    command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    ready = command.index("--ready-fd") + 1
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(FileNotFoundError):
        while pathlib.Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[0] != "Z":
            os.sched_yield()
    ours, theirs = os.pipe()
    command[ready] = str(theirs)
    with subprocess.Popen(command, pass_fds=[theirs]) as daemon:
        os.close(theirs)
        with open(ours, "rb") as announced:
            announced.readline()
        try:
            yield
        finally:
            daemon.terminate()


class Caches(unittest.TestCase):
    def setUp(self):
        self.name = self.id().rpartition(".")[2]
        self.cache = kv.Cache(self.name, 8 * MIB, timeout=5)
        self.addCleanup(self.delete)

    def delete(self):
        self.cache.close()
        with afar.connect() as session:
            session.delete_namespace(self.name, regions=True)

    def test_blocks(self):
        cache = self.cache
        self.assertIsNone(cache.get("one"))
        self.assertFalse("one" in cache)
        self.assertTrue(cache.put("one", b"first"))
        self.assertTrue(cache.put("one", b"other"))  # the key's bytes never change
        self.assertTrue(cache.put("two", b"a", bytearray(b"bc"), memoryview(b"d")))
        self.assertEqual((cache.get("one"), cache.get("two")), (b"first", b"abcd"))
        target = bytearray(4)
        self.assertTrue(cache.get_into("two", target))
        self.assertEqual(target, b"abcd")
        self.assertFalse(cache.get_into("none", target))
        with self.assertRaisesRegex(ValueError, "has 5 bytes, and the buffer 4"):
            cache.get_into("one", target)
        self.assertTrue("two" in cache)
        self.assertEqual(sorted(cache.keys()), ["one", "two"])
        with kv.Cache(self.name) as other:
            self.assertEqual(other.get("two"), b"abcd")
            self.assertTrue(other.remove("two"))
        self.assertFalse(cache.remove("two"))
        self.assertIsNone(cache.get("two"))
        with self.assertRaises(afar.NotFoundError):
            kv.Cache("none")
        with self.assertRaises(afar.Error):
            cache.put("", b"x")
        cache.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            cache.get("one")

    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy (python3-numpy)")
        block = numpy.random.default_rng(1).random((2, 100, 8))
        self.cache.put("block", block)
        back = numpy.zeros_like(block)
        self.assertTrue(self.cache.get_into("block", back))
        self.assertTrue((back == block).all())

    def test_unfinished(self):
        """A block that is being written is a miss, also if whoever writes it dies."""
        with afar.connect() as session, session.namespace(self.name) as namespace:
            region = namespace.create("half", 4096, temporary=True)
            region.write(b"half of it")
            self.assertIsNone(self.cache.get("half"))
            self.assertFalse(self.cache.put("half", b"whole"))
            self.assertEqual(self.cache.keys(), [])
        self.assertTrue(self.cache.put("half", b"whole"))
        self.assertEqual(self.cache.get("half"), b"whole")

    def test_eviction(self):
        """The room is bounded; what was used last stays, by whichever program it was used."""
        cache = self.cache
        for i in range(8):
            self.assertTrue(cache.put(f"key {i}", pattern(f"key {i}")))
        with kv.Cache(self.name) as other:
            self.assertEqual(other.get("key 0"), pattern("key 0"))
            for i in range(8, 12):
                self.assertTrue(other.put(f"key {i}", pattern(f"key {i}")))
        nr = len(cache.keys())
        self.assertIn(nr, (8, 9))  # the room is rounded up
        self.assertEqual(set(cache.keys()), {"key 0", *(f"key {i}" for i in range(13 - nr, 12))})
        for key in cache.keys():
            self.assertEqual(cache.get(key), pattern(key))
        self.assertFalse(cache.put("huge", bytes(64 * MIB)))
        self.assertEqual(len(cache.keys()), nr)
        with afar.connect() as session, session.namespace(self.name) as namespace:
            self.assertLess(namespace.stat().reserved_bytes, 16 * MIB)

    def test_victims(self):
        """The user's own list says what goes, and what never does."""
        with kv.Cache(self.name, victims=lambda keys: [key for key in keys if not key.startswith("pinned")]) as cache:
            for i in range(6):
                self.assertTrue(cache.put(f"pinned {i}", pattern("pinned")))
            for i in range(8):
                self.assertTrue(cache.put(f"loose {i}", pattern("loose")))
            keys = cache.keys()
            self.assertTrue({"loose 7", *(f"pinned {i}" for i in range(6))} <= set(keys))
            self.assertNotIn("loose 0", keys)
            more = next(i for i in range(6, 20) if not cache.put(f"pinned {i}", pattern("pinned")))
            self.assertIn(more, (8, 9))  # nothing may go any more
            self.assertEqual([key for key in cache.keys() if key.startswith("loose")], [])
            self.assertFalse(cache.put("loose 8", pattern("loose")))

    def test_threads(self):
        """Threads put, get and evict at once: no block is ever another's."""
        failures = []

        def work(seed):
            try:
                for i in range(60):
                    key = f"key {(i * 7 + seed * 3) % 24}"
                    found = self.cache.get(key)
                    if found is None:
                        self.cache.put(key, pattern(key))
                    elif found != pattern(key):
                        failures.append(key)
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)

        threads = [threading.Thread(target=work, args=[seed]) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    # ---- Never stale

    def reader_stopped_inside(self, uri):
        """Forks a program that is stopped when it has opened a block and is about to read it. Afterwards it says what it got: "miss", or the
        first bytes; and it can go on."""
        said, ours = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                with kv.Cache(self.name, uri=uri, timeout=5) as cache:

                    def stop_and_take(region):
                        os.kill(os.getpid(), signal.SIGSTOP)
                        return region.read(len(region))

                    cache.get("block")  # it has its connections
                    found = cache.read("block", stop_and_take)
                    os.write(ours, found[:4] if found else b"miss")
                    cache.put("after", pattern("after"))
                    status = 0 if cache.get("after") == pattern("after") else 2
            finally:
                os._exit(status)
        os.close(ours)
        self.addCleanup(os.close, said)
        os.waitpid(child, os.WUNTRACED)
        return child, said

    def reader_goes_on(self, child, said):
        os.kill(child, signal.SIGCONT)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        return os.read(said, 4)

    def fill(self):
        """Blocks that evict each other: all of the room is written."""
        for i in range(16):
            self.assertTrue(self.cache.put(f"new {i}", pattern("new")))

    def test_fenced(self):
        """A session that the cluster has ended reads nothing: the memory of the block that it was reading is another's by then."""
        key = f"{os.environ['scratch']}/{self.name}.key"
        subprocess.run([os.environ["AFAR"], "key", "add", "reader", "--out", key], check=True)
        self.cache.put("block", pattern("old "))
        with afar.connect() as session, session.namespace(self.name) as namespace:
            namespace.grant("reader", read=True, write=True)
            child, said = self.reader_stopped_inside(session.uri().partition("?")[0] + f"?key={key}")
            namespace.grant("reader")
            namespace.grant("reader", read=True, write=True)
        self.cache.remove("block")
        self.fill()
        self.assertEqual(self.reader_goes_on(child, said), b"miss")

    def test_evicted(self):
        """A block that is evicted while somebody reads it is read as it was."""
        self.cache.put("block", pattern("old "))
        child, said = self.reader_stopped_inside(None)
        self.cache.remove("block")
        for i in range(16):
            self.cache.put(f"new {i}", pattern("new"))
        self.assertEqual(self.reader_goes_on(child, said), b"old ")

    def test_restarted(self):
        """What a server had in memory is a miss when it is back, and can be put again."""
        self.cache.put("block", pattern("old ", 4 * MIB))  # on both servers
        child, said = self.reader_stopped_inside(None)
        with restarted(int(os.environ["pids"].split()[1])):
            self.assertIsNone(self.cache.get("block"))
            self.assertEqual(self.reader_goes_on(child, said), b"miss")
            self.assertTrue(self.cache.put("block", pattern("new ")))
            self.assertEqual(self.cache.get("block"), pattern("new "))


# ---- LMCache


class Format(enum.Enum):
    KV_2LTD = 1
    KV_T2D = 2


class Block:
    """A MemoryObj of LMCache's: memory with a shape, whose references are counted."""

    nr_open = 0

    def __init__(self, shape, dtype, fmt):
        self.shape, self.dtype, self.fmt = tuple(shape), dtype, fmt
        size = int(str(dtype)[-2:]) // 8
        for length in self.shape:
            size *= length
        self.byte_array = memoryview(bytearray(size))
        type(self).nr_open += 1

    def get_shape(self):
        return self.shape

    def get_dtype(self):
        return self.dtype

    def get_memory_format(self):
        return self.fmt

    def ref_count_down(self):
        type(self).nr_open -= 1


class Key:
    def __init__(self, text):
        self.text = text

    def to_string(self):
        return self.text


class Backend:
    room = True

    def allocate(self, shape, dtype, fmt):
        return Block(shape, dtype, fmt) if self.room else None


class Type(str):
    """A dtype of torch's."""

    def __str__(self):
        return "torch." + super().__str__()


def stub_modules():
    """What LMCache and torch have, as far as the connector uses it."""
    names = ["lmcache", "lmcache.v1", "lmcache.v1.storage_backend", "lmcache.v1.storage_backend.connector"]
    modules = {name: types.ModuleType(name) for name in names}
    base = modules[names[-1] + ".base_connector"] = types.ModuleType("base_connector")
    base.RemoteConnector = type("RemoteConnector", (), {})
    modules["lmcache.v1.memory_management"] = types.ModuleType("memory_management")
    modules["lmcache.v1.memory_management"].MemoryFormat = Format
    modules["torch"] = types.ModuleType("torch")
    modules["torch"].Size, modules["torch"].bfloat16, modules["torch"].float32 = tuple, Type("bfloat16"), Type("float32")
    return modules


class Connectors(unittest.TestCase):
    def setUp(self):
        modules = unittest.mock.patch.dict(sys.modules, stub_modules())
        modules.start()
        self.addCleanup(modules.stop)
        sys.modules.pop("afar.lmcache", None)
        self.connector_type = importlib.import_module("afar.lmcache").Connector
        self.base = sys.modules["lmcache.v1.storage_backend.connector.base_connector"].RemoteConnector
        Block.nr_open = 0

    def tearDown(self):
        with afar.connect() as session:
            session.delete_namespace("lmcache", regions=True)

    def block(self, key, shape=(2, 4, 16, 8)):
        block = Block(shape, Type("bfloat16"), Format.KV_2LTD)
        block.byte_array[:] = pattern(key, len(block.byte_array))
        return block

    def check(self, block, key, shape=(2, 4, 16, 8)):
        self.assertEqual((block.get_shape(), str(block.get_dtype()), block.get_memory_format()), (shape, "torch.bfloat16", Format.KV_2LTD))
        self.assertEqual(block.byte_array, pattern(key, len(block.byte_array)))

    def test_connector(self):
        asyncio.run(self.use())

    async def use(self):
        backend = Backend()
        config = types.SimpleNamespace(extra_config={"afar_bytes": 8 * MIB})
        connector = self.connector_type(loop=asyncio.get_running_loop(), local_cpu_backend=backend, config=config)
        self.assertIsInstance(connector, self.base)
        self.assertIsNone(await connector.get(Key("none")))
        self.assertEqual(Block.nr_open, 0)
        one = self.block("one", (2, 4, 3, 8))
        await connector.put(Key("model@1@0@one"), one)
        self.check(await connector.get(Key("model@1@0@one")), "one", (2, 4, 3, 8))
        self.assertEqual(Block.nr_open, 2)
        self.assertTrue(await connector.exists(Key("model@1@0@one")) and connector.exists_sync(Key("model@1@0@one")))
        self.assertFalse(await connector.exists(Key("none")))
        keys = [Key(f"key {i}") for i in range(6)]
        self.assertTrue(connector.support_batched_put() and connector.support_batched_get())
        await connector.batched_put(keys[:4], [self.block(key.text) for key in keys[:4]])
        found = await connector.batched_get(keys)
        for block, key in zip(found[:4], keys):
            self.check(block, key.text)
        self.assertEqual(found[4:], [None, None])
        self.assertEqual(await connector.batched_async_contains("id", keys), 4)
        self.assertEqual(connector.batched_contains(keys), [True] * 4 + [False] * 2)
        self.assertEqual(connector.batched_contains([keys[5], keys[0]]), [False, False])
        self.assertEqual(connector.batched_contains([keys[5], keys[0]], False), [False, True])
        self.assertEqual(sorted(await connector.list()), [key.text for key in keys[:4]] + ["model@1@0@one"])
        self.assertTrue(connector.remove_sync(keys[1]))
        self.assertFalse(connector.remove_sync(keys[1]))
        before = Block.nr_open
        first = await connector.batched_get_non_blocking("id", keys)  # nothing behind the one that is missing
        self.assertEqual((len(first), Block.nr_open), (1, before + 1))
        backend.room = False
        self.assertIsNone(await connector.get(keys[0]))
        self.assertEqual(await connector.ping(), 0)
        await connector.close()


if __name__ == "__main__":
    unittest.main()
