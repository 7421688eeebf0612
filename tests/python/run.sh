#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run.sh MODULE [SERVERS]: the unit tests of MODULE.py, in the Python that the module is built for, with a cluster of its own.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/../system/cluster.sh"

here=$(cd "$(dirname "$0")" && pwd)
PYTHONPATH=${PYTHON_PATH:?the folder of the module}:$here
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE scratch

start_cluster
pids="$pid_manager $pid_one $pid_two" # shellcheck disable=SC2154 # start_daemon sets them
export pids
if ! timeout -s ABRT $((100 * slowness)) "${PYTHON:?}" -X faulthandler -m unittest -v "$@" >"$scratch/unittest" 2>&1; then
	cat "$scratch/unittest" >&2
	fail "$1"
fi
tail -n 4 "$scratch/unittest"
still_works
