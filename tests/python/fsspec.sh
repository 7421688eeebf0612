#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fsspec's own tests, where the fsspec that is here has them: Debian 12's has not. AFAR_FSSPEC: a folder with another one.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/../system/cluster.sh"

here=$(cd "$(dirname "$0")" && pwd)
PYTHONPATH=${AFAR_FSSPEC:+$AFAR_FSSPEC:}${PYTHON_PATH:?the folder of the module}:$here
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE
"${PYTHON:?}" -c 'import pytest, fsspec.tests.abstract' 2>/dev/null || {
	echo "no pytest (python3-pytest), or this fsspec comes without fsspec.tests.abstract"
	exit 77
}

start_cluster
timeout 280 "$PYTHON" -m pytest -q -p no:cacheprovider "$here/fsspec_suite.py" >suite.log 2>&1 || fail "$(tail -n 60 suite.log)"
tail -n 1 suite.log
