# SPDX-License-Identifier: BSD-3-Clause
"""Libraries that read and write through fsspec, with afar:// for what they have in local files elsewhere."""

import importlib
import os
import unittest

import fsspec

import afar


def needs(name):
    """Skips a test where a library is missing."""
    try:
        importlib.import_module(name)
    except ImportError:
        return unittest.skip(f"no {name}")
    return lambda test: test


class Libraries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with afar.connect() as session:
            session.create_fs("home")

    @classmethod
    def tearDownClass(cls):
        for spec in type(fsspec.filesystem("afar"))._cache.values():
            spec.session.close()

    @needs("pandas")
    def test_pandas(self):
        import pandas

        table = pandas.DataFrame({"name": ["one", "zwölf"], "number": [1, 12], "part": [0.5, float("nan")]})
        table.to_csv("afar://home/table.csv", index=False)
        pandas.testing.assert_frame_equal(pandas.read_csv("afar://home/table.csv"), table)
        table.to_csv("afar://home/table.csv.gz", index=False)
        pandas.testing.assert_frame_equal(pandas.read_csv("afar://home/table.csv.gz"), table)
        table.to_json("afar://home/table.json", orient="records", lines=True)
        pandas.testing.assert_frame_equal(pandas.read_json("afar://home/table.json", orient="records", lines=True), table)
        table.to_pickle("afar://home/table.pickle")
        pandas.testing.assert_frame_equal(pandas.read_pickle("afar://home/table.pickle"), table)
        with self.assertRaises(FileNotFoundError):
            pandas.read_csv("afar://home/none.csv")
        rows = sum(len(part) for part in pandas.read_csv("afar://home/table.csv", chunksize=1))
        self.assertEqual(rows, 2)

    @needs("pyarrow")
    def test_parquet(self):
        import pandas

        table = pandas.DataFrame({"number": range(1000)})
        table.to_parquet("afar://home/table.parquet")
        pandas.testing.assert_frame_equal(pandas.read_parquet("afar://home/table.parquet"), table)

    @needs("zarr")
    def test_zarr(self):
        import numpy
        import zarr

        data = numpy.arange(200 * 300, dtype="f4").reshape(200, 300)
        group = zarr.open_group(fsspec.get_mapper("afar://home/store.zarr"), mode="w")
        array = group.create_dataset("data", data=data, chunks=(50, 100))
        array.attrs["unit"] = "m"
        array[10:20, :5] = -1
        data[10:20, :5] = -1
        again = zarr.open_group(fsspec.get_mapper("afar://home/store.zarr"), mode="r")["data"]
        self.assertTrue((again[:] == data).all())
        self.assertTrue((again[45:120, 99:250] == data[45:120, 99:250]).all())
        self.assertEqual((again.attrs["unit"], again.nchunks_initialized), ("m", 12))
        array.append(data)
        self.assertEqual(zarr.open_group(fsspec.get_mapper("afar://home/store.zarr"), mode="r")["data"].shape, (400, 300))

    @needs("h5py")
    def test_h5py(self):
        import h5py
        import numpy

        data = numpy.random.default_rng(1).random((100, 200))
        with fsspec.open("afar://home/file.h5", "w+b") as stream, h5py.File(stream, "w") as file:
            file.create_dataset("group/data", data=data, chunks=(10, 200), compression="gzip")
            file["group"].attrs["unit"] = "m"
        with fsspec.open("afar://home/file.h5", "rb") as stream, h5py.File(stream, "r") as file:
            self.assertTrue((file["group/data"][:] == data).all())
            self.assertTrue((file["group/data"][33:47, 5] == data[33:47, 5]).all())
        with fsspec.open("afar://home/file.h5", "r+b") as stream, h5py.File(stream, "r+") as file:
            file["more"] = numpy.arange(10)
            file["group/data"][0] = 0
        with fsspec.open("afar://home/file.h5", "rb") as stream, h5py.File(stream, "r") as file:
            self.assertEqual(sorted(file), ["group", "more"])
            self.assertEqual((file["more"][5], file["group/data"][0].sum(), file["group"].attrs["unit"]), (5, 0, "m"))

    @needs("dask.dataframe")
    def test_dask(self):
        import dask.dataframe
        import pandas

        table = dask.dataframe.from_pandas(pandas.DataFrame({"number": range(1000)}), npartitions=4)
        table.to_csv("afar://home/parts/*.csv", index=False, compute_kwargs={"scheduler": "sync"})
        back = dask.dataframe.read_csv("afar://home/parts/*.csv")
        self.assertEqual(back.number.sum().compute(scheduler="threads"), sum(range(1000)))

    @needs("duckdb")
    def test_duckdb(self):
        import duckdb

        with fsspec.open("afar://home/numbers.csv", "w") as stream:
            stream.write("number\n" + "\n".join(map(str, range(100))))
        database = duckdb.connect()
        database.register_filesystem(fsspec.filesystem("afar"))
        self.assertEqual(database.sql("SELECT sum(number) FROM 'afar://home/numbers.csv'").fetchone()[0], 4950)
        database.sql("COPY (SELECT 42 AS answer) TO 'afar://home/answer.csv'")
        self.assertEqual(fsspec.filesystem("afar").cat("home/answer.csv").split(), [b"answer", b"42"])

    @needs("numpy")
    def test_numpy(self):
        import numpy

        data = numpy.arange(1000.0)
        with fsspec.open("afar://home/data.npy", "wb") as stream:
            numpy.save(stream, data)
        with fsspec.open("afar://home/data.npy", "rb") as stream:
            self.assertTrue((numpy.load(stream) == data).all())
        self.assertEqual(fsspec.filesystem("afar").size("home/data.npy"), 8128)

    def test_tree(self):
        """put and get move trees of a local folder."""
        os.makedirs("tree/deep/er")
        for path in ("tree/one", "tree/deep/two", "tree/deep/er/three"):
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(path * 100)
        spec = fsspec.filesystem("afar")
        spec.put("tree", "home/tree", recursive=True)
        spec.get("home/tree", "back", recursive=True)
        with open("back/deep/er/three", encoding="utf-8") as stream:
            self.assertEqual(stream.read(), "tree/deep/er/three" * 100)


if __name__ == "__main__":
    unittest.main()
