#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# `afar bench simulate`: a table and JSON that say the same, traces from files, and what it refuses in one line.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

simulate() {
	"$AFAR" bench simulate --capacity 64M --segment 128K "$@"
}

simulate >table
simulate --json >rows
python3 - table rows <<'END' || fail 'table and JSON differ, or are not as docs/flash.md says'
import json, sys

lines = open(sys.argv[1]).read().split("\n\n")[1].splitlines()[1:]
rows = json.load(open(sys.argv[2]))
assert [row["trace"] for row in rows] == ["uniform", "80/20", "95/20", "95/5", "zipf-0.99", "zipf-0.90", "zipf-1.13",
                                          "sequential", "mixed"], rows
for line, row in zip(lines, rows, strict=True):
    contenders = ["greedy", "ours", "told", "hinted", "oracle"]
    assert line.split()[0] == row["trace"]
    for text, name in zip(line.split()[1:], contenders):
        assert abs(float(text) - row[name]["amplification"]) < 0.001, (line, row)
        assert row[name]["written_blocks"] == 5 * row["capacity_bytes"] // 4096
        assert abs(1 + row[name]["moved_blocks"] / row[name]["written_blocks"] - row[name]["amplification"]) < 0.001
        assert (row[name]["predicted_amplification"] is None) == (name != "oracle")
    assert row["segment_bytes"] == 128 << 10 and row["full_percent"] == 90
END

# A file: blocks by number, or fio's log of the same writes.
seq 100 5099 >numbers
{ echo 'fio version 2 iolog'; seq 100 5099 | awk '{ print "f write " $1 * 4096 " 4096" }'; } >log
for trace in numbers log; do
	"$AFAR" bench simulate --trace $trace --segment 32K --json >$trace.json
done
sed s/numbers/log/ numbers.json | cmp - log.json || fail 'the same trace in two forms is not the same'

refused 2 'no trace by name; there are uniform' "$AFAR" bench simulate --trace frobnicate
refused 1 'No such file' "$AFAR" bench simulate --trace ./frobnicate
echo frobnicate >bad
refused 1 'line 1 is neither' "$AFAR" bench simulate --trace bad
refused 2 'number from 1 to 99' "$AFAR" bench simulate --full 100
refused 2 'number from 1 to 32' "$AFAR" bench simulate --streams 0
refused 2 'multiple of 4096' "$AFAR" bench simulate --segment 5000
refused 2 'not a size' "$AFAR" bench simulate --capacity much
refused 1 'need more spare' "$AFAR" bench simulate --capacity 1M
refused 2 'unexpected argument' "$AFAR" bench simulate more
refused 2 'only its own flags' "$AFAR" --timeout 1 bench simulate
