# SPDX-License-Identifier: BSD-3-Clause
"""torch: tensors that are moved without a copy, and its checkpoints in a file system."""

import contextlib
import dataclasses
import io
import multiprocessing
import os
import tempfile
import unittest

import torch

import afar
import afar.torch
from home import Home

MIB = 1 << 20


@contextlib.contextmanager
def hashable_classes():
    """torch 1.13 has data classes for defaults of others. Python 3.11 takes them if they are hashable."""
    plain = dataclasses.dataclass

    def hashable(cls=None, **options):
        if cls is None:
            return lambda each: hashable(each, **options)
        return plain(cls, **{"unsafe_hash": "__hash__" not in vars(cls), **options})

    dataclasses.dataclass = hashable
    try:
        yield
    finally:
        dataclasses.dataclass = plain


with hashable_classes():
    try:
        from torch.distributed import checkpoint
    except ImportError:
        from torch.distributed._shard import checkpoint
    import afar.dcp


def state(seed):
    torch.manual_seed(seed)
    return {
        "weights": torch.rand(500, 1000),
        "bias": torch.arange(7, dtype=torch.bfloat16),
        "scalar": torch.tensor(float(seed)),
        "empty": torch.empty(0, 5),
        "strided": torch.rand(30, 40).t(),
        "step": seed,
        "nested": {"flags": torch.tensor([True, False])},
    }


def is_same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def save_as_rank(rank, path):
    """One of two ranks: each saves a tensor of its own, of one shape in all of them."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    with afar.connect() as session, session.fs("home") as fs:
        from torch.distributed._shard import sharded_tensor
        from torch.distributed._shard.sharding_spec import ChunkShardingSpec

        spec = ChunkShardingSpec(dim=0, placements=["rank:0/cpu", "rank:1/cpu"])
        tensor = sharded_tensor.zeros(spec, 10, 100)
        tensor.local_shards()[0].tensor.fill_(rank + 1)
        checkpoint.save_state_dict({"both": tensor, "step": 5}, afar.dcp.Writer(fs, "/ranks"))
        tensor.local_shards()[0].tensor.zero_()
        loaded = {"both": tensor, "step": 0}
        checkpoint.load_state_dict(loaded, afar.dcp.Reader(fs, "/ranks"))
        assert (tensor.local_shards()[0].tensor == rank + 1).all() and loaded["step"] == 5
    torch.distributed.destroy_process_group()


class Tensors(Home):
    def save(self, path, state_dict):
        with contextlib.redirect_stderr(io.StringIO()):
            checkpoint.save_state_dict(state_dict, afar.dcp.Writer(self.fs, path), no_dist=True)

    def load(self, path, state_dict):
        checkpoint.load_state_dict(state_dict, afar.dcp.Reader(self.fs, path), no_dist=True)
        return state_dict

    def test_moved(self):
        self.session.create_namespace("tensors")
        with self.session.namespace("tensors") as ns:
            ns.reserve(8 * MIB)
            with ns.create("weights", 4 * MIB) as region:
                tensor = torch.rand(100, 1000)
                region.write(tensor)
                back = torch.zeros_like(tensor)
                place = back.data_ptr()
                region.read_into(back)
                self.assertTrue(torch.equal(tensor, back) and back.data_ptr() == place)
                with self.assertRaises(ValueError):
                    region.write(tensor.t())

    def test_torch(self):
        """Without torch.distributed."""
        model = torch.nn.Linear(300, 400)
        value = {"model": model.state_dict(), "same": [model.weight, model.weight], **state(4)}
        afar.torch.save(state(5), self.fs, "/torch")
        afar.torch.save(value, self.fs, "/torch")
        back = afar.torch.load(self.fs, "/torch")
        self.assertTrue(is_same({**back, "same": 0}, {**value, "same": 0}))
        self.assertIs(back["same"][0], back["same"][1])
        self.assertTrue(torch.equal(back["same"][0], model.weight) and back["same"][0].requires_grad)
        model.load_state_dict(back["model"])

    def test_torch_into(self):
        """Loaded into tensors that are there: in nested dicts, in several places, not contiguous."""
        one, other = torch.nn.Linear(300, 400), torch.nn.Linear(300, 400)
        into = {"model": other.state_dict(), "strided": torch.zeros(30, 40).t(), "step": 0, "unknown": torch.ones(1)}
        place, saved = other.weight.data_ptr(), one.state_dict()
        afar.torch.save({"model": saved, "again": saved["weight"], **state(4)}, self.fs, "/into")
        back = afar.torch.load(self.fs, "/into", into)
        self.assertEqual((other.weight.data_ptr(), back["model"]["weight"].data_ptr()), (place, place))
        self.assertTrue(torch.equal(other.weight, one.weight) and torch.equal(back["again"], one.weight))
        self.assertTrue(torch.equal(into["strided"], state(4)["strided"]) and is_same(back["nested"], state(4)["nested"]))
        self.assertEqual((back["step"], into["step"], into["unknown"].item()), (4, 0, 1))
        before = other.weight.clone()
        afar.torch.save({"model": {"weight": one.weight.detach() + 1, "bias": torch.zeros(1)}}, self.fs, "/into")
        with self.assertRaisesRegex(ValueError, r"'bias' is torch.float32 \(1,\) in the checkpoint, not torch.float32 \(400,\)"):
            afar.torch.load(self.fs, "/into", {"model": other.state_dict()})
        self.assertTrue(torch.equal(other.weight, before))
        afar.torch.save([1], self.fs, "/into")
        with self.assertRaisesRegex(ValueError, "has a list, not a dict"):
            afar.torch.load(self.fs, "/into", {})

    def test_torch_into_twice(self):
        """One tensor of the checkpoint goes into two."""
        tensor, into = torch.rand(100, 100), {"a": torch.zeros(100, 100), "b": torch.zeros(100, 100)}
        afar.torch.save({"a": tensor, "b": tensor}, self.fs, "/twice")
        afar.torch.load(self.fs, "/twice", into)
        self.assertTrue(torch.equal(into["a"], tensor) and torch.equal(into["b"], tensor))

    def test_checkpoint(self):
        self.save("/run/last", state(1))
        self.save("/run/last", state(2))
        loaded = state(3)
        places = {name: value.data_ptr() for name, value in loaded.items() if isinstance(value, torch.Tensor)}
        self.load("/run/last", loaded)
        self.assertTrue(is_same(loaded, state(2)))
        self.assertEqual(places, {name: value.data_ptr() for name, value in loaded.items() if isinstance(value, torch.Tensor)})
        self.assertEqual(self.fs.listdir("/run"), ["last"])
        with self.assertRaisesRegex(BaseException, "no such name"):  # CheckpointException
            self.load("/none", {})

    def test_other_type(self):
        """What is loaded into another type, or into memory that is not contiguous, is copied there."""
        self.save("/types", {"a": torch.arange(12.0).reshape(3, 4), "b": torch.arange(12.0).reshape(3, 4)})
        loaded = self.load("/types", {"a": torch.zeros(3, 4, dtype=torch.float64), "b": torch.zeros(4, 3).t()})
        for name in "ab":
            self.assertTrue(torch.equal(loaded[name].float(), torch.arange(12.0).reshape(3, 4)))

    def test_failed(self):
        """A save that fails leaves the last checkpoint, and nothing else after the next one."""
        self.save("/failed/last", state(1))

        class Writer(afar.dcp.Writer):
            def finish(self, metadata, results):
                raise RuntimeError("just before the end")

        with self.assertRaises(BaseException):  # CheckpointException
            checkpoint.save_state_dict(state(2), Writer(self.fs, "/failed/last"), no_dist=True)
        self.assertTrue(is_same(self.load("/failed/last", state(0)), state(1)))
        self.save("/failed/last", state(3))
        self.assertEqual(self.fs.listdir("/failed"), ["last"])

    def test_ranks(self):
        if not torch.distributed.is_gloo_available():
            self.skipTest("this torch has no gloo")
        with tempfile.TemporaryDirectory(dir=os.environ["scratch"]) as folder:
            processes = [multiprocessing.get_context("spawn").Process(target=save_as_rank, args=(rank, f"{folder}/meet")) for rank in range(2)]
            for process in processes:
                process.start()
            for process in processes:
                process.join()
                self.assertEqual(process.exitcode, 0)


if __name__ == "__main__":
    unittest.main()
