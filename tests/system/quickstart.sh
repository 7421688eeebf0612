#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The first thing that anybody runs, with a small folder of its own.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

mkdir input
random_file input/a 3000000
random_file input/b 100
mkdir tmp
TMPDIR=$PWD/tmp QUICKSTART_FOLDER=$PWD/input QUICKSTART_REPETITIONS=1 \
	"$QUICKSTART" >quickstart.out 2>quickstart.err || fail "$(cat quickstart.out quickstart.err)"
grep -q 'SHA-256' quickstart.out || fail "$(cat quickstart.out)"
grep -q 'on flash .* compared' quickstart.out || fail "$(cat quickstart.out)"
grep -q 'in memory .* lost' quickstart.out || fail "$(cat quickstart.out)"
[ "$(wc -l <quickstart.out)" -le 56 ] || fail "too much to read: $(cat quickstart.out)"
! grep -n '.\{81\}' quickstart.out || fail "lines of more than 80 columns"
# Where nobody sees a line grow, what takes a while is said once. Memory's path is compared with memory.
grep -q '^Putting it there .* …$' quickstart.out || fail "nothing is said while it works: $(cat quickstart.out)"
sed -n '/^For comparison/,/^$/p' quickstart.out >compared
grep -q '^  memory copy, ' compared || fail "compared with: $(cat compared)"
! grep -Eq 'TCP|libfabric' compared || fail "compared with: $(cat compared)"
# What flash, a disk and files do is said, too.
grep -Eq '^ +[0-9.]+ GB/s there, durable; [0-9.]+ GB/s back$' quickstart.out || fail "$(cat quickstart.out)"
grep -Eq '^ +[0-9]+ files/s there, [0-9]+ files/s back$' quickstart.out || fail "$(cat quickstart.out)"
grep -A 1 'Sorted 200000 records ' quickstart.out | grep -q ' in .* s, ' || fail "$(cat quickstart.out)"
[ ! -s quickstart.err ] || fail "it complained: $(cat quickstart.err)"
[ -z "$(ls tmp)" ] || fail "left behind: $(ls tmp)"

# What it says to try next is there, also where nothing is installed.
sed '1,/^Stopped/d' quickstart.out >hints
[ "$(wc -l <hints)" -ge 3 ] || fail "no hints: $(cat quickstart.out)"
grep -Eo 'build/afar [a-z]+' hints | while read -r _ command; do
	"$AFAR" help "$command" >/dev/null || fail "it says to try 'afar $command'"
done
for file in $(grep -Eo '[A-Za-z0-9./]+\.(c|md|scd|1)\b' hints); do
	[ -e "$(dirname "$QUICKSTART")/../$file" ] || fail "it says to look at $file"
done
if grep -Eq "(man|less|'afar) " hints; then
	fail "that need not be there: $(cat hints)"
fi
