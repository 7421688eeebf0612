#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One of two stores becomes read only while a mount has writes there that nobody has synced: each file that had some is told of it
# once, all others and all new ones are synced as before.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/system/cluster.sh
. "$here/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$here/mounts.sh"

start_manager
export AFARD="$AFARD_GATED"
for flash in one two; do
	AFARD_FAIL_FLUSHES=$scratch/$flash.fails
	export AFARD_FAIL_FLUSHES
	start_flash_server "$flash"
done
"$AFAR" fs create f --tier flash --width 2 --stripe 4K
start_mount m f
python3 - m two.fails "$AFAR" <<'END' || fail "the mount said: $(cat m.err)"
import errno, os, subprocess, sys, time

place, gate, afar = sys.argv[1:]


def make(name):
    file = os.open(f"{place}/{name}", os.O_RDWR | os.O_CREAT)
    assert os.pwrite(file, name.encode() * 3000, 0) == 3000 * len(name)
    return file


def sync(file):
    try:
        os.fsync(file)
    except OSError as error:
        assert error.errno == errno.EIO, error
        return "lost"
    return "whole"


quiet = make("quiet")
assert sync(quiet) == "whole"
files = [make(f"file{i}") for i in range(10)]
open(gate, "w").close()
told = [sync(file) for file in files]
assert told == ["lost"] * 10, told
assert sync(quiet) == "whole"
assert [sync(file) for file in files] == ["whole"] * 10
# New room is given elsewhere once the manager has heard of it.
while b"read only" not in subprocess.check_output([afar, "store", "ls"]):
    time.sleep(0.05)
new = [make(f"new{i}") for i in range(10)]
told = [sync(file) for file in new]
assert told == ["whole"] * 10, told
for i, file in enumerate(new):
    assert os.pread(file, 4, 0) == b"new" + str(i).encode()
os.unlink(gate)
END
grep -q "a server, or its device, failed before what was written since the last sync was durable" m.err || fail "the mount said: $(cat m.err)"
: >m.err
end_mount m
