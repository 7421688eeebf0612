# SPDX-License-Identifier: BSD-3-Clause
"""Afar: other machines' memory and flash, as regions, files and volumes.

    with afar.connect() as session, session.namespace("scratch") as ns, ns.open("weights") as region:
        region.read_into(array)

Calls block, and other threads run meanwhile. Closing an object closes what was opened through it."""

import json

from . import _afar, errors
from ._afar import Attachment, Buffer, File, Namespace, Queue, Region, Volume
from .array import Array
from .errors import *  # noqa: F403
from .files import FileSystem

__version__ = _afar.version


class Session(_afar.Session):
    __doc__ = _afar.Session.__doc__

    def namespace(self, name):
        """Opens a namespace."""
        return Namespace(self, name)

    def volume(self, name, mode="exclusive", **options):
        """Opens a volume."""
        return Volume(self, name, mode, **options)

    def fs(self, name, **options):
        """Opens a file system."""
        return FileSystem(self, name, **options)

    def queue(self, depth=256):
        """Opens a queue, for one thread; afar.aio.Queue is one for asyncio."""
        return Queue(self, depth)

    def status(self):
        """The cluster as the manager sees it; see afar-json(5)."""
        return json.loads(self.status_json())

    def buffer(self, memory):
        """Registers memory for transfers: so many bytes of new memory, or that of an array."""
        return Buffer(self, memory)


def connect(uri=None, **options):
    """Opens a session with the cluster at `uri`: "afar://HOST[:PORT][?key=FILE]". Options: those of Session."""
    return Session(uri, **options)
