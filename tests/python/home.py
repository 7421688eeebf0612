# SPDX-License-Identifier: BSD-3-Clause
"""The file system that tests of files, checkpoints and tensors are in."""

import errno
import time
import unittest

import afar

PATIENCE_S = 60  # sessions of programs that were killed end with their lease


class Home(unittest.TestCase):
    """Its tests have `session`, and `fs`, which is new for each class."""

    @classmethod
    def setUpClass(cls):
        cls.session = afar.connect()
        cls.session.create_fs("home")
        cls.fs = cls.session.fs("home")

    @classmethod
    def tearDownClass(cls):
        cls.session.close()
        with afar.connect() as session:
            until = time.monotonic() + PATIENCE_S
            while not cls.is_deleted(session, until):
                time.sleep(0.1)

    @staticmethod
    def is_deleted(session, until):
        try:
            session.delete_fs("home")
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > until:
                raise
            return False
        return True
