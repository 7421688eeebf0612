#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run.sh MODULE [SERVERS]: the unit tests of MODULE.py, in the Python that the module is built for, with a cluster of its own.
# NEEDS: modules of Debian's without which there is nothing to test.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/../system/cluster.sh"

here=$(cd "$(dirname "$0")" && pwd)
PYTHONPATH=${PYTHON_PATH:?the folder of the module}:$here
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE scratch

for module in ${NEEDS:-}; do
	"${PYTHON:?}" -c "import $module" 2>/dev/null || {
		echo "no Python module $module: python3-$module has it"
		exit 77
	}
done

start_cluster
pids="$(pid_of manager) $(pid_of one) $(pid_of two)"
export pids
if ! timeout -s ABRT 200 "${PYTHON:?}" -X faulthandler -m unittest -v "$@" >"$scratch/unittest" 2>&1; then
	cat "$scratch/unittest" >&2
	fail "$1"
fi
tail -n 4 "$scratch/unittest"
still_works
