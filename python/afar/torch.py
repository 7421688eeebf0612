# SPDX-License-Identifier: BSD-3-Clause
"""torch's objects as checkpoints (afar.checkpoint): saved all at once or not at all, and loaded by several threads.

    afar.torch.save(model.state_dict(), fs, "/run/last")
    model.load_state_dict(afar.torch.load(fs, "/run/last"))

Each tensor's bytes are an entry of their own, which is read straight into the new tensor. All else is in a pickle: load nothing that
you do not trust. afar.dcp has the storage of torch.distributed.checkpoint."""

import io
import pickle

import numpy
import torch

from .checkpoint import Checkpoint, save as _save

_REST = "rest"  # the pickle's entry


def memory_of(tensor):
    """The memory of a contiguous tensor as one of bytes, whatever its type: numpy does not know all of them."""
    return tensor.detach().reshape(-1).view(torch.uint8)


def _new_tensor(dtype, shape):
    """A tensor whose bytes are still to be read. Memory from numpy, which has the kernel make large arrays of huge pages."""
    size = torch.empty((), dtype=dtype).element_size()
    for length in shape:
        size *= length
    if not size:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(numpy.empty(size, "u1")).view(dtype).reshape(shape)


class _Pickler(pickle.Pickler):
    """Leaves the tensors out, and remembers them."""

    def __init__(self, stream):
        super().__init__(stream, protocol=4)
        self.tensors = {}  # by their id(): pairs of a name and the tensor, which stays as long

    def persistent_id(self, value):
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided or value.is_quantized:
            return None
        name, _ = self.tensors.setdefault(id(value), (f"tensor {len(self.tensors)}", value))
        return name, value.dtype, tuple(value.shape), value.requires_grad, type(value) is torch.nn.Parameter


class _Unpickler(pickle.Unpickler):
    """Makes new tensors: `tensors`, by their names."""

    def __init__(self, stream):
        super().__init__(stream)
        self.tensors = {}

    def persistent_load(self, pid):
        name, dtype, shape, requires_grad, is_parameter = pid
        if name not in self.tensors:
            tensor = _new_tensor(dtype, shape)
            self.tensors[name] = torch.nn.Parameter(tensor, requires_grad) if is_parameter else tensor.requires_grad_(requires_grad)
        return self.tensors[name]


def save(value, fs, path):
    """Saves anything that torch.save() takes, as the checkpoint at `path`. Tensors of other devices are copied here one by one."""
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    pickler.dump(value)

    def entries():
        yield _REST, stream.getbuffer()
        for name, tensor in pickler.tensors.values():
            yield name, memory_of(tensor.detach().cpu().contiguous())

    _save(fs, path, entries())


def load(fs, path):
    """Loads what save() has saved, with all tensors in this machine's memory."""
    with Checkpoint(fs, path) as checkpoint:
        unpickler = _Unpickler(io.BytesIO(checkpoint[_REST]))
        value = unpickler.load()
        checkpoint.read_into({name: memory_of(tensor) for name, tensor in unpickler.tensors.items()})
        return value
