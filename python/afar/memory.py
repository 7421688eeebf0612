# SPDX-License-Identifier: BSD-3-Clause
"""What arrays, tensors and bytes have in common: their memory."""


def bytes_of(data):
    """The memory of an array, or of a tensor in this machine's memory, as bytes that can be cut."""
    if hasattr(data, "detach"):
        data = data.detach().numpy()
    view = memoryview(data)
    if not view.nbytes:
        return memoryview(b"")  # which cast() does not take in every shape
    if not view.c_contiguous:
        raise ValueError("the array is not contiguous: numpy.ascontiguousarray() makes a copy that is")
    return view.cast("B")
