# SPDX-License-Identifier: BSD-3-Clause
"""The file system that tests of files, checkpoints and tensors are in."""

import unittest

import afar


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
            session.delete_fs("home")
