# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of up to eight dimensions in regions and files, any part of which is a numpy array.

    region = ns.create("table", afar.Array.bytes((1000, 2000), "f8"))
    with afar.Array.create(region, (1000, 2000), "f8") as table:
        table[2:10, ::3] = 1
        column = table[:, 7]

An array says its shape and type itself, so afar.Array(region) opens it. Only parts are read and written: as they lie in the memory of numpy's
array, in one call."""

import ast
import operator

from . import _afar

_FORTRAN, _BLOCKED = 1, 2  # AFAR_ARRAY_FORTRAN, AFAR_ARRAY_BLOCKED
_RAW = "V{}"  # records as numpy lends them: without a type, because some types have none in the buffer protocol


def _numpy():
    import numpy

    return numpy


def _type_text(dtype):
    """A type as an array has it: "<f8", or a list of fields."""
    if dtype.hasobject or dtype.itemsize == 0:
        raise TypeError(f"an array cannot have records of type {dtype}")
    return dtype.str if dtype.fields is None else repr(dtype.descr)


def _type_of(text, record_bytes):
    """The type that a text says, or that of plain bytes: who made the array is free to say what he likes."""
    numpy = _numpy()
    try:
        dtype = numpy.dtype(ast.literal_eval(text) if text.startswith("[") else text)
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if not text or dtype is None or dtype.hasobject or dtype.itemsize != record_bytes:
        return numpy.dtype(_RAW.format(record_bytes))
    return dtype


def _shape_of(shape, dtype, order, blocks):
    """What _afar.Array takes as a shape."""
    if order not in ("C", "F"):
        raise ValueError(f"order is {order!r}, not 'C' or 'F'")
    dtype = _numpy().dtype(dtype)
    extent = tuple(operator.index(number) for number in (shape if hasattr(shape, "__iter__") else (shape,)))
    flags = (_FORTRAN if order == "F" else 0) | (_BLOCKED if blocks is not None else 0)
    return extent, tuple(blocks or ()), dtype.itemsize, flags, _type_text(dtype)


class _Part:
    """What an index means: start, count and stride of each dimension, and which of these stay in the result."""

    def __init__(self, index, shape):
        index = index if isinstance(index, tuple) else (index,)
        if sum(item is Ellipsis for item in index) > 1:
            raise IndexError("an index can have one ellipsis")
        if Ellipsis in [item for item in index if item is Ellipsis]:
            at = next(i for i, item in enumerate(index) if item is Ellipsis)
            index = index[:at] + (slice(None),) * (len(shape) - len(index) + 1) + index[at + 1 :]
        if len(index) > len(shape):
            raise IndexError(f"the array has {len(shape)} dimensions, and {len(index)} are indexed")
        index += (slice(None),) * (len(shape) - len(index))
        self.start, self.count, self.stride = zip(*(self._dimension(i, item, extent) for i, (item, extent) in enumerate(zip(index, shape))))
        self.is_slice = [isinstance(item, slice) for item in index]
        self.shape = tuple(number for number, stays in zip(self.count, self.is_slice) if stays)
        # Of a numpy array of self.shape: with a dimension of one record for each that does not stay; and the other way round.
        self.widen = tuple(slice(None) if stays else None for stays in self.is_slice)
        self.narrow = tuple(slice(None) if stays else 0 for stays in self.is_slice)

    @staticmethod
    def _dimension(i, item, extent):
        if isinstance(item, slice):
            start, stop, step = item.indices(extent)
            count = len(range(start, stop, step))
            return (start if count else 0), count, step
        if isinstance(item, bool) or not hasattr(item, "__index__"):
            raise TypeError(f"dimension {i} is indexed by {item!r}: an array takes numbers, slices and an ellipsis")
        number = operator.index(item)
        if not -extent <= number < extent:
            raise IndexError(f"dimension {i} has {extent} records, and {number} is asked for")
        return number % extent, 1, 1


class Array(_afar.Array):
    """Array(place): opens the array in a region or a file. Close it, or the region or file, which closes it, too."""

    def __init__(self, place, _shape=None):
        self.shape, blocks, record_bytes, flags, text = self._describe()
        self.dtype = _type_of(text, record_bytes)
        self.order = "F" if flags & _FORTRAN else "C"
        self.blocks = blocks if flags & _BLOCKED else None
        self.ndim = len(self.shape)

    @staticmethod
    def bytes(shape, dtype, *, order="C", blocks=None):
        """Of a region or file that has such an array."""
        return _afar.Array._bytes(_shape_of(shape, dtype, order, blocks))

    @classmethod
    def create(cls, place, shape, dtype, *, order="C", blocks=None):
        """Makes an array in a region or a file, over what is there. It is stored by rows, or in blocks of that many records."""
        return cls(place, _shape_of(shape, dtype, order, blocks))

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, index):
        part = _Part(index, self.shape)
        out = _numpy().empty(part.count, self.dtype, order=self.order)
        self._move(self._read_part, part, out)
        return out[part.narrow]

    def __setitem__(self, index, value):
        part = _Part(index, self.shape)
        numpy = _numpy()
        value = numpy.broadcast_to(numpy.asarray(value, self.dtype), part.shape)
        self._move(self._write_part, part, value[part.widen])

    def read_into(self, out, index=...):
        """Reads a part into a numpy array of its shape and type, whatever the strides of that. Returns how many bytes."""
        part = _Part(index, self.shape)
        if out.shape != part.shape or out.dtype != self.dtype:
            raise ValueError(f"the part has shape {part.shape} and type {self.dtype}, and the array to read into {out.shape} and {out.dtype}")
        return self._move(self._read_part, part, out[part.widen])

    def block(self, *index):
        """The index of a block, by its number in each dimension: array[array.block(2, 0)]."""
        blocks = self.blocks or self.shape
        if len(index) != self.ndim:
            raise IndexError(f"the array has {self.ndim} dimensions, and the block {len(index)} numbers")
        for number, size, extent in zip(index, blocks, self.shape):
            if not 0 <= number * size < extent:
                raise IndexError(f"there is no block {index}")
        return tuple(slice(number * size, min((number + 1) * size, extent)) for number, size, extent in zip(index, blocks, self.shape))

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("an array is read into new memory")
        out = self[...]
        return out if dtype is None else out.astype(dtype, copy=False)

    def __repr__(self):
        return f"<afar.Array {self.shape} {self.dtype}, order {self.order}{f', blocks {self.blocks}' if self.blocks else ''}>"

    def _move(self, move, part, memory):
        if 0 in part.count:
            return 0
        return move(memory.view(_RAW.format(self.dtype.itemsize)), part.start, part.count, part.stride)
