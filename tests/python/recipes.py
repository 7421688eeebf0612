# SPDX-License-Identifier: BSD-3-Clause
"""Runs the blocks of docs/python.md one after the other, each by itself."""

import contextlib
import io
import pathlib
import re
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


class Recipes(unittest.TestCase):
    def test_recipes(self):
        page = PAGE.read_text("utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
        self.assertTrue(blocks)
        self.assertEqual(len(blocks), page.count("```python"))
        for number, block in enumerate(blocks, 1):
            with self.subTest(number), contextlib.redirect_stdout(io.StringIO()):
                try:
                    exec(compile(block, f"recipe {number}", "exec"), {"__name__": "recipe"})
                except ModuleNotFoundError as error:
                    if error.name not in ("numpy", "fsspec", "pandas", "zarr", "h5py", "torch"):
                        raise
