#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What suite `python` measures, each in a process of its own: Afar's module, and plain Python beside it. Prints one number: how many
nanoseconds it took, or a call takes.

    has MODULE…                   1: all of them are here; 0
    call SIZE NR                  reads of a region into an array, at places in no order
    make FS BYTES NR              a file "large", and as many in "small/", of 4 KiB
    large PLACE, small PLACE NR   reads them: PLACE is afar://FS, or a folder
    save PLACE BYTES, load PLACE  torch's objects: PLACE is afar://FS/…, or a file
    into PLACE BYTES              loads them into tensors that are there"""

import importlib
import os
import random
import sys
import time

MIB = 1 << 20
SMALL_BYTES = 4096
CALLS = 512  # between two looks at the clock


def has(*modules):
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError:
        return 0
    return 1


def call(size, number):
    """The least of several rounds would leave out what others do; the suite takes medians of such means."""
    import numpy

    import afar

    size, array = int(size), numpy.empty(int(size), "u1")
    with afar.connect() as session, session.namespace("bench") as ns, ns.open("region") as region:
        places = [random.randrange(MIB // size) * size for _ in range(CALLS)] if size < MIB else [i % 16 * MIB for i in range(CALLS)]
        read_into = region.read_into
        for place in places[:64]:
            read_into(array, place)
        done, begin = 0, time.perf_counter_ns()
        while done < int(number):
            for place in places:
                read_into(array, place)
            done += CALLS
        return (time.perf_counter_ns() - begin) / done


def make(name, size, number):
    import afar

    with afar.connect() as session, session.fs(name) as fs:
        piece = os.urandom(MIB)
        with fs.open("/large", "wb") as stream:
            for _ in range(int(size) // MIB):
                stream.write(piece)
        fs.mkdir("/small")
        for i in range(int(number)):
            with fs.open_raw(f"/small/{i}", "wb") as stream:
                stream.write(piece[:SMALL_BYTES])
    return 1


def opener(place):
    """How a file is opened there: by fsspec, or by Python."""
    if not place.startswith("afar://"):
        return lambda path: open(path, "rb")
    import fsspec

    spec = fsspec.filesystem("afar")
    spec.exists(place)  # it is open
    return lambda path: spec.open(path, "rb")


def large(place):
    open_, buffer, total = opener(place), bytearray(MIB), 0
    begin = time.perf_counter_ns()
    with open_(f"{place}/large") as stream:
        while nr := stream.readinto(buffer):
            total += nr
    taken = time.perf_counter_ns() - begin
    assert total >= MIB, total
    return taken


def small(place, number):
    open_, number = opener(place), int(number)
    begin = time.perf_counter_ns()
    for i in range(number):
        with open_(f"{place}/small/{i}") as stream:
            assert len(stream.read()) == SMALL_BYTES
    return time.perf_counter_ns() - begin


class Checkpoints:
    """torch's objects as Afar's checkpoints."""

    def __init__(self, place):
        import afar
        import afar.torch

        name, _, self.path = place.removeprefix("afar://").partition("/")
        self.session = afar.connect()
        self.fs = self.session.fs(name)
        self.module = afar.torch

    def save(self, value):
        self.module.save(value, self.fs, self.path)

    def load(self, into=None):
        return self.module.load(self.fs, self.path, into)


class Files:
    """torch's objects in files of the system: durable, as Afar's are."""

    def __init__(self, path):
        import torch

        self.path, self.torch = path, torch

    def save(self, value):
        with open(self.path + ".new", "wb") as stream:
            self.torch.save(value, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(self.path + ".new", self.path)

    def load(self, into=None):
        with open(self.path, "rb") as stream:  # from the disk: what is loaded was saved by another process, long ago
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        value = self.torch.load(self.path)
        for name, tensor in (into or {}).items():
            tensor.copy_(value[name])
        return value


def tensors(size):
    import torch

    return {str(i): torch.rand(4 * MIB) for i in range(int(size) // (16 * MIB))}


def save(place, size):
    value = tensors(size)
    at = (Checkpoints if place.startswith("afar://") else Files)(place)
    begin = time.perf_counter_ns()
    at.save(value)
    return time.perf_counter_ns() - begin


def into(place, size):
    return load(place, tensors(size))


def load(place, into=None):
    at = (Checkpoints if place.startswith("afar://") else Files)(place)
    begin = time.perf_counter_ns()
    value = at.load(into)
    taken = time.perf_counter_ns() - begin
    assert value["0"].shape == (4 * MIB,)
    return taken


print({each.__name__: each for each in (has, call, make, large, small, save, load, into)}[sys.argv[1]](*sys.argv[2:]))
