# SPDX-License-Identifier: BSD-3-Clause
"""torch's objects as checkpoints (afar.checkpoint): saved all at once or not at all, and loaded by several threads.

    afar.torch.save(model.state_dict(), fs, "/run/last")
    model.load_state_dict(afar.torch.load(fs, "/run/last"))
    afar.torch.load(fs, "/run/last", into=model.state_dict())  # the same, without memory for a second model

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


def _find_targets(value, into, names):
    """Pairs of a tensor's name in the checkpoint, and a tensor of `into` at the same keys. `names` has those of the tensors in `value`."""
    for key, target in into.items():
        found = value.get(key)
        if isinstance(target, dict) and isinstance(found, dict):
            yield from _find_targets(found, target, names)
        elif isinstance(target, torch.Tensor) and id(found) in names:
            if (found.dtype, found.shape) != (target.dtype, target.shape):
                raise ValueError(f"{key!r} is {found.dtype} {tuple(found.shape)} in the checkpoint, not {target.dtype} {tuple(target.shape)}")
            yield names[id(found)], target


def load(fs, path, into=None):
    """Loads what save() has saved, with all tensors in this machine's memory.

    `into` is a dict, and may have others in it, as a model's state_dict(). Its tensors get the bytes of those at the same keys of the
    checkpoint. What is returned has them instead of new ones, so no memory is needed that is not there yet. Nothing is read if one has
    another type or shape. If reading fails, they have some bytes of the checkpoint."""
    with Checkpoint(fs, path) as checkpoint:
        rest, copies = checkpoint[_REST], []
        unpickler = _Unpickler(io.BytesIO(rest))
        value = unpickler.load()
        if into is not None:
            if not isinstance(value, dict):
                raise ValueError(f"the checkpoint has a {type(value).__name__}, not a dict: load it without `into`")
            found = list(_find_targets(value, into, {id(tensor): name for name, tensor in unpickler.tensors.items()}))
            # Again, with the tensors that are there already: the value may have one in several places.
            unpickler = _Unpickler(io.BytesIO(rest))
            for name, target in found:
                if name not in unpickler.tensors and target.device.type == "cpu" and target.is_contiguous():
                    unpickler.tensors[name] = target
                else:
                    copies.append((name, target))
            value = unpickler.load()
        checkpoint.read_into({name: memory_of(tensor) for name, tensor in unpickler.tensors.items()})
        for name, target in copies:
            target.detach().copy_(unpickler.tensors[name])
        return value
