#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# `afar bench volume`: prints each of its rows, says which program is missing for those that it leaves out, measures against
# each kind of NBD server that is here, and leaves nothing behind. Numbers taken in so short a time say nothing.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

unset AFAR_TEST_HOST AFAR_CONGESTION
if "$AFAR" bench 2>&1 | grep 'no benchmarks'; then
	exit 77
fi
export AFAR_BENCH_SPAN_MS=2 AFAR_BENCH_FLASH="$PWD"

# Without other programs.
mkdir nothing
PATH=$PWD/nothing "$AFAR" bench volume --reps 1 --json >rows
python3 - rows <<'END' || fail 'not all rows are there, or not for these reasons'
import json, sys

rows = json.load(open(sys.argv[1]))
names = [row["name"] for row in rows]
assert len(names) == len(set(names)) == 70, len(names)
for row in rows:
    if row["name"].startswith(("NBD, ", "native, ")):
        assert row["ours"] == row["reference"] == [] and "apt install nbdkit" in row["reference_is"], row
    else:
        assert len(row["ours"]) == len(row["reference"]) == 1, row
END

# measures PART NUMBER: that many rows have PART in their names, and are measured, or say why not.
measures() {
	"$AFAR" bench volume --reps 1 --row "$1" --json >rows 2>line || fail "bench volume --row '$1': $(cat line)"
	python3 - rows "$2" <<'END' || fail "bench volume --row '$1': $(cat rows)"
import json, sys

rows = json.load(open(sys.argv[1]))
assert len(rows) == int(sys.argv[2]), rows
for row in rows:
    if row["ours"] or row["reference"]:
        assert len(row["ours"]) == len(row["reference"]) == 1, row
    else:
        assert "install" in row["reference_is"] or "built" in row["reference_is"], row
END
}

measures 'dram over local, write 1 MiB' 1
measures 'native, dram, read 4 KiB random' 2
measures 'flash, read 4 KiB random, depth 1 / ' 2

rm -f rows line
[ "$(ls -A)" = nothing ] || fail "left behind: $(ls -A)"
