# SPDX-License-Identifier: BSD-3-Clause
"""fsspec's own tests of file systems, with afar:// for one; fsspec.sh runs them."""

import pytest
from fsspec.implementations.local import LocalFileSystem, make_path_posix
from fsspec.tests.abstract import AbstractCopyTests, AbstractFixtures, AbstractGetTests, AbstractPutTests

import afar
from afar.fsspec import AfarFileSystem


class Fixtures(AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self):
        with afar.connect() as session:
            if "suite" not in [fs.name for fs in session.file_systems()]:
                session.create_fs("suite")
        return AfarFileSystem(auto_mkdir=True)

    @pytest.fixture
    def fs_path(self):
        return "suite"

    @pytest.fixture(scope="class")
    def local_fs(self):
        return LocalFileSystem(auto_mkdir=True)

    @pytest.fixture
    def local_join(self):
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def local_path(self, tmpdir):
        return make_path_posix(str(tmpdir))

    @pytest.fixture(scope="class")
    def supports_empty_directories(self):
        return True


class TestCopy(AbstractCopyTests, Fixtures):
    pass


class TestGet(AbstractGetTests, Fixtures):
    pass


class TestPut(AbstractPutTests, Fixtures):
    pass
