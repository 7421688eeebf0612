# SPDX-License-Identifier: BSD-3-Clause
"""Afar: other machines' memory and flash, as regions, files and volumes.

    with afar.connect() as session, session.namespace("scratch") as ns, ns.open("weights") as region:
        region.read_into(array)

Calls block, and other threads run meanwhile. Closing an object closes what was opened through it."""

from . import _afar, errors
from ._afar import Attachment, Buffer, Namespace, Region
from .errors import *  # noqa: F403

__version__ = _afar.version


class Session(_afar.Session):
    __doc__ = _afar.Session.__doc__

    def namespace(self, name):
        """Opens a namespace."""
        return Namespace(self, name)

    def buffer(self, memory):
        """Registers memory for transfers: so many bytes of new memory, or that of an array."""
        return Buffer(self, memory)


def connect(uri=None, **options):
    """Opens a session with the cluster at `uri`: "afar://HOST[:PORT][?key=FILE]". Options: those of Session."""
    return Session(uri, **options)
