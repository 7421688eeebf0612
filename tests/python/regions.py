# SPDX-License-Identifier: BSD-3-Clause
"""Sessions, namespaces and regions from Python, and all that programs get wrong with them."""

import array
import contextlib
import gc
import mmap
import os
import pathlib
import pickle
import signal
import threading
import unittest

import afar

MIB = 1 << 20


@contextlib.contextmanager
def stopped_manager():
    """Calls to the manager wait until this ends."""
    manager = int(os.environ["pids"].split()[0])
    os.kill(manager, signal.SIGSTOP)
    try:
        for task in os.listdir(f"/proc/{manager}/task"):
            while pathlib.Path(f"/proc/{manager}/task/{task}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[0] != "T":
                os.sched_yield()
        yield
    finally:
        os.kill(manager, signal.SIGCONT)


class Regions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.session = afar.connect()
        cls.session.create_namespace("regions")
        cls.ns = cls.session.namespace("regions")
        cls.ns.reserve(64 * MIB)

    @classmethod
    def tearDownClass(cls):
        cls.session.close()
        with afar.connect() as session:
            session.delete_namespace("regions", regions=True)

    def setUp(self):
        self.region = self.ns.create(self.id(), 4 * MIB)

    def tearDown(self):
        if not self.region.closed:
            self.region.close()
        self.ns.delete(self.id())

    def raises(self, kind, line):
        return self.assertRaisesRegex(kind, line)

    # ---- What works

    def test_round_trip(self):
        data = os.urandom(3 * MIB)
        self.assertEqual(self.region.write(data, 4096), len(data))
        back = bytearray(len(data))
        self.assertEqual(self.region.read_into(back, offset=4096), len(data))
        self.assertEqual(back, data)
        self.assertEqual(self.region.read(100, 4096), data[:100])
        self.assertEqual(self.region.read(offset=4100, length=5), data[4:9])
        for kind in (lambda n: array.array("d", bytes(n)), lambda n: memoryview(bytearray(n)), lambda n: mmap.mmap(-1, n)):
            target = kind(8192)
            self.assertEqual(self.region.read_into(target, 4096), 8192)
            self.assertEqual(bytes(memoryview(target).cast("B")), data[:8192])
            self.region.write(target, MIB)
            self.assertEqual(self.region.read(8192, MIB), data[:8192])

    def test_slices(self):
        self.assertEqual(len(self.region), 4 * MIB)
        self.region[10:15] = b"hello"
        self.assertEqual(self.region[10:15], b"hello")
        self.region[-5:] = b"world"
        self.assertEqual(self.region[4 * MIB - 5 :], b"world")
        self.assertEqual(self.region[-1], ord("d"))
        self.region[-1] = 33
        self.assertEqual(self.region[-2:], b"l!")
        self.assertEqual(self.region[7:7], b"")
        with self.raises(ValueError, "no step"):
            self.region[::2]
        with self.raises(ValueError, "does not change its length"):
            self.region[0:4] = b"hello"
        with self.raises(IndexError, "byte 4194304"):
            self.region[4 * MIB]
        with self.raises(ValueError, "0 to 255"):
            self.region[0] = 256
        with self.assertRaises(TypeError):
            del self.region[0]

    def test_attach(self):
        if not self.region_is_here():
            with self.raises(afar.Error, "local"):
                self.region.attach()
            return
        with self.region.attach(writable=True) as attached:
            view = memoryview(attached)
            view[5:10] = b"hello"
            self.assertEqual(self.region[5:10], b"hello")
            self.region[5:6] = b"j"
            self.assertEqual(bytes(view[5:10]), b"jello")
            with self.raises(BufferError, "1 views"):
                attached.close()
            with self.raises(BufferError, "1 views"):
                self.region.close()
            view.release()
        with self.raises(afar.ClosedError, "closed"):
            memoryview(attached)
        with self.region.attach(4096, 100) as attached:
            self.assertTrue(memoryview(attached).readonly)
            self.assertEqual(len(attached), 100)
            del attached

    def region_is_here(self):
        return os.environ.get("AFAR_TEST_TRANSPORT") == "local"

    def test_atomics_and_seal(self):
        self.region.write(bytes(16))
        self.assertEqual(self.region.fetch_add(8, 5), 0)
        self.assertEqual(self.region.compare_swap(8, 5, 7), 5)
        self.assertEqual(self.region.fetch_add(8, 1), 7)
        self.region.seal()
        self.region.verify()
        with self.raises(afar.Error, "sealed"):
            self.region.write(b"x")
        self.assertTrue(self.region.stat().is_sealed)

    def test_lists(self):
        self.assertIn("regions", [ns.name for ns in self.session.namespaces()])
        self.assertEqual(self.ns.stat().tier, "dram")
        for i in range(40):
            self.ns.create(f"many{i}", 4096).close()
        self.assertEqual(len([region for region in self.ns.regions() if region.name.startswith("many")]), 40)
        for i in range(40):
            self.ns.delete(f"many{i}")
        address = self.region.stat().address
        with self.ns.open(address) as again, self.ns.open(self.id()) as third:
            self.region[:2] = b"ab"
            self.assertEqual(again[:2] + third[:2], b"abab")
        with self.ns.create(None, 4096) as nameless:
            self.assertEqual(nameless.stat().name, "")
            nameless.destroy()

    def test_buffers(self):
        with self.session.buffer(2 * MIB) as memory:
            view = memoryview(memory)
            view[:5] = b"hello"
            self.region.write(memory)
            self.assertEqual(self.region[:5], b"hello")
            with self.raises(BufferError, "views"):
                memory.close()
            view.release()
        target = bytearray(8192)
        with self.session.buffer(target) as memory:
            self.region.read_into(memory)
            with self.assertRaises(BufferError):
                target.append(1)
        self.assertEqual(target[:5], b"hello")
        del memory
        target.append(1)

    # ---- What programs get wrong

    def test_numbers(self):
        for call in (lambda n: self.region.read(10, n), lambda n: self.region.write(b"x", n),
                     lambda n: self.region.read_into(bytearray(5), n), lambda n: self.region.read(n)):
            with self.raises(ValueError, "-1: it cannot be negative"):
                call(-1)
            with self.raises(ValueError, "is the most"):
                call(1 << 64)
            with self.assertRaises(TypeError):
                call(None)
            with self.assertRaises(TypeError):
                call(1.5)
        with self.raises(afar.Error, "it has 4194304") as caught:
            self.region.read(10, 4 * MIB - 9)
        self.assertEqual((caught.exception.code, caught.exception.line), ("ERANGE", caught.exception.strerror))
        with self.assertRaises(ValueError):
            self.session.create_namespace("x\0y")
        with self.raises(ValueError, "'dram' or 'flash'"):
            self.session.create_namespace("x", tier="tape")

    def test_buffers_refused(self):
        for call in (self.region.read_into, self.region.write):
            for wrong in (None, 5, "text", [1, 2]):
                with self.raises(TypeError, "a buffer is needed"):
                    call(wrong)
            with self.raises(ValueError, "not contiguous"):
                call(memoryview(bytearray(16))[::2])
            with self.raises(TypeError, "needs a buffer"):
                call()
            with self.raises(TypeError, "no argument 'where'"):
                call(bytearray(1), where=3)
            with self.raises(TypeError, "not 3"):
                call(bytearray(1), 0, 0)
        for wrong in (b"constant", memoryview(b"constant")):
            with self.raises(TypeError, "read-only"):
                self.region.read_into(wrong)
        released = memoryview(bytearray(5))
        released.release()
        with self.assertRaises(ValueError):
            self.region.write(released)

    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy (python3-numpy)")
        data = numpy.arange(100000, dtype="f8").reshape(100, 1000)
        self.region.write(data)
        back = numpy.empty_like(data)
        self.assertEqual(self.region.read_into(back), data.nbytes)
        self.assertTrue((back == data).all())
        with self.raises(ValueError, "ascontiguousarray"):
            self.region.write(data.T)
        with self.raises(ValueError, "not contiguous"):
            self.region.read_into(data[:, ::2])
        data.flags.writeable = False
        with self.raises(TypeError, "read-only"):
            self.region.read_into(data)
        self.region.write(data)
        self.assertEqual(self.region.read_into(numpy.empty(0)), 0)

        class Tensor:  # as torch's are: no buffer, but an array that shares their memory
            def __init__(self, memory):
                self.memory = memory

            def detach(self):
                return self

            def numpy(self):
                return self.memory

        tensor = Tensor(numpy.zeros(4, "u1"))
        self.region[:4] = b"abcd"
        self.region.read_into(tensor)
        self.assertEqual(bytes(tensor.memory), b"abcd")

    def test_closed(self):
        with self.ns.open(self.id()) as region:
            pass
        self.assertTrue(region.closed)
        region.close()
        for call in (lambda: region.read(1), lambda: region.write(b"x"), lambda: region[0], lambda: len(region), region.stat,
                     lambda: region.__enter__(), lambda: region.attach()):
            with self.raises(afar.ClosedError, "the region is closed"):
                call()
        with self.raises(ValueError, "closed"):  # as of files of Python's
            region.read(1)
        session = afar.connect()
        ns = session.namespace("regions")
        region = ns.open(self.id())
        session.close()
        self.assertTrue(region.closed and ns.closed and session.closed)
        with self.raises(afar.ClosedError, "the session is closed"):
            session.namespace("regions")
        with self.raises(afar.ClosedError, "the region is closed"):
            region.read(1)
        # Whoever forgets to close leaves nothing behind.
        session = afar.connect()
        region = session.namespace("regions").open(self.id())
        self.assertEqual(len(region.read(1)), 1)
        del session, region
        gc.collect()
        with self.assertRaises(TypeError):
            afar.Region()

    def test_errors(self):
        with self.raises(afar.NotFoundError, "none") as caught:
            self.session.namespace("none")
        self.assertIsInstance(caught.exception, FileNotFoundError)
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(again), again.code, again.line), (afar.NotFoundError, "ENOENT", caught.exception.line))
        with self.assertRaises(afar.ExistsError):
            self.session.create_namespace("regions")
        with self.raises(afar.Error, "") as caught:
            self.ns.create("huge", 1 << 50)
        self.assertEqual(caught.exception.code, "AFAR_ERESERVE")
        self.assertGreater(caught.exception.errno, 10000)
        with self.assertRaises(afar.ServerError):
            afar.connect("afar://127.0.0.1:1?" + self.session.uri().split("?")[1], timeout=1)
        with self.assertRaises(afar.Error):
            afar.connect("http://127.0.0.1")
        with self.raises(ValueError, "seconds"):
            afar.connect(timeout=-1)

    def test_fork(self):
        child = os.fork()
        if not child:
            status = 1
            try:
                for call in (lambda: self.region.read(1), lambda: self.region.write(b"x"), lambda: self.ns.open(self.id()),
                             self.session.uri, self.region.stat, self.session.close):
                    try:
                        call()
                    except afar.ForkedError as error:
                        assert "fork" in error.line, error
                    else:
                        raise AssertionError(call)
                with afar.connect() as session, session.namespace("regions") as ns, ns.open(self.id()) as region:
                    region[:5] = b"child"
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.region[:5], b"child")

    def test_resized_meanwhile(self):
        """A bytearray that a call reads into cannot be resized; whoever tries hears so, and the bytes are right."""
        memory = bytearray(4 * MIB)
        refused = 0
        done = threading.Event()

        def read():
            for _ in range(20):
                self.region.read_into(memory)
            done.set()

        reader = threading.Thread(target=read)
        reader.start()
        while not done.is_set():
            try:
                memory.append(0)
                memory.pop()
            except BufferError:
                refused += 1
        reader.join()
        self.assertEqual(len(memory), 4 * MIB)

    def test_closed_meanwhile(self):
        """Closing does not take a handle away from a call in another thread."""
        stop = threading.Event()
        failures = []

        def read():
            memory = bytearray(MIB)
            try:
                while not stop.is_set():
                    self.region.read_into(memory)
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for attempt in range(1000000):
            try:
                self.region.close()
                break
            except afar.Error as error:
                self.assertEqual(error.code, "EBUSY")
            if attempt == 1000:  # one of them is inside all the time
                stop.set()
        for reader in readers:
            reader.join()
        self.assertTrue(self.region.closed)
        self.assertTrue(all(isinstance(failure, afar.ClosedError) for failure in failures), failures)

    def test_signal(self):
        """Others run while a call waits, and a signal's handler runs when it ends, however that is."""
        heard = []
        before = signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
        try:
            memory = bytearray(4 * MIB)
            for _ in range(50):
                os.kill(os.getpid(), signal.SIGUSR1)
                self.assertEqual(self.region.read_into(memory), len(memory))
            self.assertEqual(len(heard), 50)
        finally:
            signal.signal(signal.SIGUSR1, before)

        class Stop(Exception):
            pass

        def stop(*_):
            raise Stop

        before = signal.signal(signal.SIGALRM, stop)
        try:
            with stopped_manager():
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                with self.assertRaises(Stop):
                    with afar.connect(timeout=1) as session:
                        session.namespaces()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def test_threads_run(self):
        """The interpreter is not held while a call waits."""
        ready = threading.Event()

        def wait():
            ready.set()
            self.session.namespaces()

        waiter = threading.Thread(target=wait)
        with stopped_manager():
            waiter.start()
            ready.wait()
            for _ in range(1000):
                threading.Event().wait(0)
            self.assertTrue(waiter.is_alive())
        waiter.join()


if __name__ == "__main__":
    unittest.main()
