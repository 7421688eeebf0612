# SPDX-License-Identifier: BSD-3-Clause
"""The part of pyproject.toml that Debian 12's setuptools wants here: the extension in C."""

import pathlib

from setuptools import Extension, setup

HERE = pathlib.Path(__file__).parent

setup(
    ext_modules=[
        Extension(
            "afar._afar", sorted(str(path.relative_to(HERE)) for path in HERE.glob("src/*.c")), libraries=["afar"],
            define_macros=[("Py_LIMITED_API", "0x030B0000"), ("_GNU_SOURCE", None)], py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
