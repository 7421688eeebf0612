# SPDX-License-Identifier: BSD-3-Clause
"""afar.Array: any part that a numpy array gives is the same of an array in a region or a file, and what numpy refuses is refused."""

import os
import random
import unittest

import afar

try:
    import numpy
except ImportError:
    numpy = None

MIB = 1 << 20
EXTENT = (13, 9, 17)


def roll_slice(extent):
    def number():
        return random.choice([None, random.randint(-extent - 3, extent + 3)])

    return slice(number(), number(), random.choice([None, 1, 2, 5, -1, -2, -7]))


def roll_index():
    index = tuple(random.choice([roll_slice(extent), roll_slice(extent), random.randrange(-extent, extent)]) for extent in EXTENT)
    return random.choice([index, index[: random.randint(1, 3)], (..., index[2]), (index[0], ...), ...])


@unittest.skipIf(numpy is None, "no numpy (python3-numpy)")
class Arrays(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.session = afar.connect()
        cls.session.create_namespace("arrays")
        cls.ns = cls.session.namespace("arrays")
        cls.ns.reserve(64 * MIB)
        cls.session.create_fs("tables")
        cls.fs = cls.session.fs("tables")
        random.seed(1)

    @classmethod
    def tearDownClass(cls):
        cls.session.close()
        with afar.connect() as session:
            session.delete_namespace("arrays", regions=True)
            session.delete_fs("tables")

    def region(self, *shape, **options):
        region = self.ns.create(self.id(), afar.Array.bytes(*shape, **options))
        self.addCleanup(self.ns.delete, self.id())
        self.addCleanup(region.close)
        return region

    def compare(self, array, plain):
        array[...] = plain
        for turn in range(60):
            index = roll_index()
            part = plain[index]
            value = numpy.random.default_rng(turn).integers(0, 1000, part.shape)
            if random.random() < 0.3 and value.ndim:  # backwards, and of another type
                value = value[::-1].astype("f4")
            plain[index] = value
            array[index] = value
            index = roll_index()
            got, wanted = array[index], plain[index]
            self.assertEqual((numpy.shape(got), got.dtype), (numpy.shape(wanted), wanted.dtype), index)
            self.assertTrue(numpy.array_equal(got, wanted), index)
            if wanted.ndim:
                # Memory with gaps, which goes backwards.
                memory = numpy.zeros(tuple(2 * n for n in wanted.shape), wanted.dtype)
                view = memory[tuple(slice(None, None, -2) for _ in wanted.shape)]
                self.assertEqual(array.read_into(view, index), wanted.nbytes)
                self.assertTrue(numpy.array_equal(view, wanted), index)
        self.assertTrue(numpy.array_equal(array, plain))

    def test_as_numpy(self):
        for options in ({}, {"order": "F"}, {"blocks": (4, 9, 5)}, {"order": "F", "blocks": (5, 2, 3)}):
            plain = numpy.arange(numpy.prod(EXTENT), dtype="i8").reshape(EXTENT)
            with self.subTest(place="region", **options):
                region = self.region(EXTENT, "i8", **options)
                self.compare(afar.Array.create(region, EXTENT, "i8", **options), plain)
                with afar.Array(region) as array:
                    self.assertEqual((array.shape, array.dtype, array.order, array.blocks, len(array)),
                                     (EXTENT, numpy.dtype("i8"), options.get("order", "C"), options.get("blocks"), EXTENT[0]))
                    self.assertTrue(numpy.array_equal(array, plain))
                self.doCleanups()
            with self.subTest(place="file", **options), self.fs.open_file("/table", os.O_RDWR | os.O_CREAT) as file:
                self.compare(afar.Array.create(file, EXTENT, "i8", **options), plain)

    def test_types(self):
        for dtype in ("<f8", ">i2", "?", "S5", "U3", "M8[s]", "c16", "V7", [("x", "<f4"), ("y", "u1", (2,))]):
            with self.subTest(dtype):
                plain = numpy.frombuffer(bytes(12 * numpy.dtype(dtype).itemsize), dtype).reshape(3, 4).copy()
                region = self.region((3, 4), dtype)
                afar.Array.create(region, (3, 4), dtype)[1:, ::-1] = plain[1:, ::-1]
                array = afar.Array(region)
                self.assertEqual(array.dtype, plain.dtype)
                self.assertTrue(numpy.array_equal(array[1:], plain[1:]))
                self.doCleanups()

    def test_blocks(self):
        array = afar.Array.create(self.region((10, 7), "u2", blocks=(4, 4)), (10, 7), "u2", blocks=(4, 4))
        array[...] = plain = numpy.arange(70, dtype="u2").reshape(10, 7)
        self.assertEqual(array.block(2, 1), (slice(8, 10), slice(4, 7)))
        self.assertTrue(numpy.array_equal(array[array.block(2, 1)], plain[8:, 4:]))
        for wrong in ((3, 0), (0, 2), (-1, 0), (0,)):
            with self.assertRaises(IndexError):
                array.block(*wrong)

    def test_what_is_wrong(self):
        region = self.region((4, 5), "f8")
        array = afar.Array.create(region, (4, 5), "f8")
        array[...] = 3
        self.assertEqual(array[1:1].shape, (0, 5))
        self.assertEqual(array[:, 2:2].shape, (4, 0))
        array[1:1] = 7
        for index, kind in (((4,), IndexError), ((0, -6), IndexError), ((0, 0, 0), IndexError), ((..., ...), IndexError), ("a", TypeError),
                            (([0, 1],), TypeError), (None, TypeError), (True, TypeError), ((slice(0, 1, 0),), ValueError)):
            with self.assertRaises(kind, msg=index):
                array[index]
        with self.assertRaises(ValueError):
            array[0] = [1, 2]
        for out in (numpy.empty((4, 5), "f4"), numpy.empty((5, 4)), numpy.empty(20)):
            with self.assertRaisesRegex(ValueError, "shape"):
                array.read_into(out)
        with self.assertRaisesRegex((ValueError, BufferError), "read-only|not writ"):
            array.read_into(numpy.broadcast_to(numpy.float64(1), (4, 5)))
        with self.assertRaisesRegex(afar.Error, "all records of dimension 0"):
            array.read_into(numpy.lib.stride_tricks.as_strided(numpy.empty(5), (4, 5), (0, 8)))
        self.assertTrue((array[...] == 3).all())
        for shape, dtype, options, kind in (((0,), "f8", {}, afar.Error), ((1 << 40, 1 << 40), "f8", {}, afar.Error), ((-1,), "f8", {}, ValueError),
                                            ((2,) * 9, "f8", {}, ValueError), ((4,), "O", {}, TypeError), ((4,), "f8", {"order": "A"}, ValueError),
                                            ((4,), "f8", {"blocks": (5,)}, afar.Error), ((4,), "f8", {"blocks": (1, 1)}, ValueError),
                                            ((4,), [("a name that is long", "f8"), ("a name that is long, too", "f8")], {}, ValueError)):
            with self.assertRaises(kind, msg=(shape, dtype, options)):
                afar.Array.bytes(shape, dtype, **options)
        with self.assertRaises(afar.Error):
            afar.Array.create(region, (400, 500), "f8")
        with self.assertRaises(TypeError):
            afar.Array(self.ns)
        region.close()
        self.assertTrue(array.closed)
        with self.assertRaises(afar.ClosedError):
            array[0]
        with self.ns.open(self.id()) as again:
            again.write(b"\1", 20)
            with self.assertRaisesRegex(afar.Error, "damaged"):
                afar.Array(again)
