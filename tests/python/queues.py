# SPDX-License-Identifier: BSD-3-Clause
"""Queues from Python, by themselves and in asyncio's event loop."""

import asyncio
import os
import threading
import unittest

import afar
from afar import aio

MIB = 1 << 20


class Queues(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.session = afar.connect()
        cls.session.create_namespace("queues")
        cls.ns = cls.session.namespace("queues")
        cls.ns.reserve(16 * MIB)
        cls.region = cls.ns.create("region", 4 * MIB)

    @classmethod
    def tearDownClass(cls):
        cls.session.close()
        with afar.connect() as session:
            session.delete_namespace("queues", regions=True)

    def test_queue(self):
        data = os.urandom(MIB)
        parts = [bytearray(4096) for _ in range(64)]
        with self.session.queue(depth=64) as queue:
            queue.connect(self.region)
            self.assertTrue(queue.write(self.region, data, 0, "write"))
            self.assertTrue(queue.flush(self.region, "flush"))
            self.assertEqual(len(queue), 2)
            done = dict(queue.wait(2))
            self.assertEqual(done, {"write": MIB, "flush": 0})
            for i, part in enumerate(parts):
                self.assertTrue(queue.read_into(self.region, part, offset=4096 * i, token=i))
            self.assertFalse(queue.read_into(self.region, bytearray(1)))  # it is full
            with self.assertRaises(BufferError):
                parts[0].append(1)
            tokens = []
            while len(queue):
                tokens += [token for token, nr in queue.wait() if nr == 4096]
            self.assertEqual(sorted(tokens), list(range(64)))
            self.assertEqual(b"".join(parts), data[: 64 * 4096])
            parts[0].append(1)
            self.assertEqual(queue.wait(0, 0), [])
            with self.session.buffer(8192) as memory:
                queue.read_into(self.region, memory, 0)
                with self.assertRaises(BufferError):
                    memory.close()
                queue.wait()
                self.assertEqual(bytes(memoryview(memory)), data[:8192])

    def test_wrong(self):
        with self.session.queue() as queue:
            queue.read_into(self.region, bytearray(5), 0, "unconnected")
            ((token, error),) = queue.wait()
            self.assertEqual((token, error.code), ("unconnected", "ENOTCONN"))
            queue.connect(self.region)
            for wrong in (None, 5, self.ns):
                with self.assertRaisesRegex(TypeError, "Region, Volume or File"):
                    queue.connect(wrong)
                with self.assertRaisesRegex(TypeError, "Region, Volume or File"):
                    queue.read_into(wrong, bytearray(1))
            with self.assertRaisesRegex(TypeError, "read-only"):
                queue.read_into(self.region, b"x")
            with self.assertRaisesRegex(ValueError, "negative"):
                queue.write(self.region, b"x", -1)
            with self.assertRaises(afar.Error) as caught:
                queue.write(self.region, b"x", 4 * MIB)
            self.assertEqual(caught.exception.code, "ERANGE")
            self.assertEqual(len(queue), 0)
            with self.ns.open("region") as region:
                memory = bytearray(MIB)
                queue.connect(region)
                queue.read_into(region, memory)
                with self.assertRaises(afar.Error) as caught:
                    region.close()
                self.assertEqual(caught.exception.code, "EBUSY")
                queue.wait()
            # Closed with operations in flight: their memory is free, and nothing touches it.
            for _ in range(20):
                queue.read_into(self.region, memory)
        memory.append(1)
        with self.assertRaises(afar.ClosedError):
            queue.wait()
        queue = self.session.queue()
        queue.connect(self.region)
        queue.read_into(self.region, memory, 0)
        del queue
        memory.append(1)

    def test_threads(self):
        """A thread that comes while another is inside hears so."""
        with self.session.queue() as queue:
            queue.connect(self.region)
            stop = threading.Event()
            refused = []

            def use():
                while not stop.is_set():
                    try:
                        queue.wait(0, 0)
                        queue.read_into(self.region, bytearray(4096))
                        queue.wait(1)
                    except afar.Error as error:
                        refused.append(error.code)
                        stop.set()

            users = [threading.Thread(target=use) for _ in range(2)]
            for user in users:
                user.start()
            for user in users:
                user.join()
            self.assertLessEqual(set(refused), {"EBUSY"})

    def test_fork(self):
        with self.session.queue() as queue:
            queue.connect(self.region)
            memory = bytearray(MIB)
            queue.read_into(self.region, memory)
            child = os.fork()
            if not child:
                status = 1
                try:
                    for call in (queue.wait, queue.arm, lambda: queue.write(self.region, b"x"), queue.close):
                        try:
                            call()
                        except afar.ForkedError:
                            pass
                        else:
                            raise AssertionError(call)
                    status = 0
                finally:
                    os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(queue.wait(), [(None, MIB)])

    # ---- asyncio

    def test_asyncio(self):
        data = os.urandom(MIB)

        async def run():
            async with aio.Queue(self.session, depth=16) as queue:
                self.assertEqual(await queue.write(self.region, data, 4096), MIB)
                parts = [bytearray(4096) for _ in range(200)]
                counts = await asyncio.gather(*(queue.read_into(self.region, part, 4096 + 4096 * i) for i, part in enumerate(parts)))
                self.assertEqual(counts, [4096] * 200)
                self.assertEqual(b"".join(parts), data[: 200 * 4096])
                await queue.sync(self.region)
                with self.assertRaises(afar.Error) as caught:
                    await queue.read_into(self.region, bytearray(2), 4 * MIB - 1)
                self.assertEqual(caught.exception.code, "ERANGE")
                with self.assertRaises(TypeError):
                    await queue.read_into(self.region, None)
                # A task that is cancelled leaves its operation behind, which keeps its memory.
                memory = bytearray(MIB)
                task = asyncio.ensure_future(queue.read_into(self.region, memory))
                await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual(await queue.read_into(self.region, bytearray(5)), 5)

                async def fail():
                    await queue.read_into(self.region, bytearray(5))
                    raise RuntimeError("the program's own")

                with self.assertRaises(RuntimeError):
                    await fail()
                self.assertEqual(await queue.read_into(self.region, bytearray(5)), 5)
                left = asyncio.ensure_future(queue.read_into(self.region, bytearray(MIB)))
                await asyncio.sleep(0)
            with self.assertRaises(afar.Error) as caught:
                if await left == MIB:
                    raise afar.Error(125, "it was done before", "ECANCELED")
            self.assertEqual(caught.exception.code, "ECANCELED")

        asyncio.run(run())

    def test_files(self):
        self.session.create_fs("queued")

        async def run():
            with self.session.fs("queued") as fs, fs.open_file("/file", os.O_CREAT | os.O_RDWR) as file:
                async with aio.Queue(self.session) as queue:
                    await asyncio.gather(*(queue.write(file, bytes([i]) * 5000, 5000 * i) for i in range(50)))
                    memory = bytearray(5000 * 50)
                    self.assertEqual(await queue.read_into(file, memory), len(memory))
                    self.assertEqual(memory, b"".join(bytes([i]) * 5000 for i in range(50)))
                    self.assertEqual(await queue.read_into(file, bytearray(10), 5000 * 50 - 3), 3)

        asyncio.run(run())
        self.session.delete_fs("queued")


if __name__ == "__main__":
    unittest.main()
