# SPDX-License-Identifier: BSD-3-Clause
"""The storage of torch.distributed.checkpoint in an Afar file system. Each checkpoint becomes visible by one rename.

    from torch.distributed import checkpoint  # of torch 2; in torch 1.13 it is torch.distributed._shard.checkpoint
    checkpoint.save_state_dict(state, afar.dcp.Writer(fs, "/run/last"))
    checkpoint.load_state_dict(state, afar.dcp.Reader(fs, "/run/last"))

Tensors are stored as their bytes, and read straight into those of the state where these are in this machine's memory and
contiguous. What torch knows of a checkpoint is a pickle: load none that you do not trust."""

import dataclasses
import io
import pickle

import torch
from torch.futures import Future

from .checkpoint import Checkpoint, Part, Saving
from .torch import memory_of

try:
    from torch.distributed.checkpoint import StorageReader, StorageWriter
    from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
    from torch.distributed.checkpoint.storage import WriteResult
except ImportError:  # as torch 1.13 has it
    from torch.distributed._shard.checkpoint import StorageReader, StorageWriter
    from torch.distributed._shard.checkpoint.planner import LoadItemType, WriteItemType
    from torch.distributed._shard.checkpoint.storage import WriteResult

_METADATA = "metadata"  # the name of its entry, and of the part that has it


@dataclasses.dataclass
class Stored:
    """Where an item is, and what its bytes are. `dtype` None: they are no tensor's. Pickled into checkpoints."""

    name: str
    dtype: object = None
    shape: tuple = ()


def _done(value):
    future = Future()
    future.set_result(value)
    return future


class Writer(StorageWriter):
    """Saves to the directory `path` of an open afar.FileSystem, for torch.distributed.checkpoint. Each rank has one."""

    def __init__(self, fs, path):
        super().__init__()
        self._fs, self._path, self._saving = fs, path, None

    def init(self, is_coordinator):
        pass

    set_up_storage_writer = init

    def reset(self, checkpoint_id=None):
        self._path = checkpoint_id or self._path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return bool(str(checkpoint_id).strip("/"))

    def storage_meta(self):
        return None

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        self._saving = Saving(self._fs, self._path)
        return [dataclasses.replace(plan, storage_data=(self._saving.id, str(rank))) for rank, plan in enumerate(plans)]

    def write_data(self, plan, planner):
        id_, name = plan.storage_data
        results = []
        with Part(self._fs, self._path, id_, name) as part:
            part.write_all(self._entries(plan, planner, name, results))
        return _done(results)

    @staticmethod
    def _entries(plan, planner, part, results):
        for item in plan.items:
            data = planner.resolve_data(item)
            stored = Stored(f"{part}/{item.index.fqn}{list(item.index.offset or ())}")
            if item.type == WriteItemType.BYTE_IO:
                memory = data.getbuffer()
            else:
                data = data.detach().cpu().contiguous()
                stored.dtype, stored.shape = data.dtype, tuple(data.shape)
                memory = memory_of(data)
            results.append(WriteResult(item.index, memory.nbytes if stored.dtype is None else memory.numel(), stored))
            yield stored.name, memory

    def finish(self, metadata, results):
        metadata.storage_data = {result.index: result.storage_data for rank in results for result in rank}
        with self._saving.part(_METADATA) as part:
            part.write(_METADATA, pickle.dumps(metadata))
        self._saving.commit([_METADATA, *map(str, range(len(results)))])


class Reader(StorageReader):
    """Loads what Writer has saved, with as many ranks as you like."""

    def __init__(self, fs, path):
        super().__init__()
        self._fs, self._path, self._checkpoint, self._stored = fs, path, None, {}

    def reset(self, checkpoint_id=None):
        self._path = checkpoint_id or self._path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return bool(str(checkpoint_id).strip("/"))

    def read_metadata(self, *_, **__):
        if self._checkpoint:
            self._checkpoint.close()
        self._checkpoint = Checkpoint(self._fs, self._path)
        return pickle.loads(self._checkpoint[_METADATA])

    def init(self, metadata, is_coordinator):
        self._stored = metadata.storage_data

    set_up_storage_reader = init

    def prepare_local_plan(self, plan):
        return dataclasses.replace(plan, storage_data=self._checkpoint.id)

    def prepare_global_plan(self, plans):
        if len({plan.storage_data for plan in plans}) > 1:
            raise RuntimeError(f"{self._path}: another checkpoint took its place while the ranks opened it: load again")
        return plans

    def read_data(self, plan, planner):
        with self._checkpoint as checkpoint:
            straight = []
            for item in plan.items:
                stored = self._stored[item.storage_index]
                if item.type == LoadItemType.BYTE_IO:
                    planner.load_bytes(item, io.BytesIO(checkpoint[stored.name]))
                    continue
                target = planner.resolve_tensor(item).detach()
                offset = self._offset(item, stored, target)
                if offset is None:
                    self._copy(checkpoint, stored, item, target)
                    planner.commit_tensor(item, target)
                else:
                    straight.append((item, target, (stored.name, memory_of(target), offset)))
            checkpoint.read_ranges(entry for _, _, entry in straight)
            for item, target, _ in straight:
                planner.commit_tensor(item, target)
        return _done(None)

    @staticmethod
    def _offset(item, stored, target):
        """Where in the stored bytes the item begins. None: they cannot be read straight into the target."""
        offsets, lengths = tuple(item.storage_offsets), tuple(item.lengths)
        if target.device.type != "cpu" or not target.is_contiguous() or target.dtype != stored.dtype or lengths[1:] != stored.shape[1:]:
            return None
        row = target.element_size()
        for length in stored.shape[1:]:
            row *= length
        return offsets[0] * row if offsets else 0

    @staticmethod
    def _copy(checkpoint, stored, item, target):
        whole = torch.empty(stored.shape, dtype=stored.dtype)
        checkpoint.read_into({stored.name: memory_of(whole)})
        for dimension, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths)):
            whole = whole.narrow(dimension, offset, length)
        target.copy_(whole)
