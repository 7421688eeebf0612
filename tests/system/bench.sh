#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# `afar bench`: lists its suites, measures rows with a reference and prints them as JSON, and says in one line
# what it cannot measure.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

unset AFAR_TEST_HOST AFAR_CONGESTION
if "$AFAR" bench 2>&1 | grep 'no benchmarks'; then
	exit 77
fi
"$AFAR" bench >suites
for suite in apps barrier cache clients control file flash flash-tier limit local metrics parallel peers preload python queue region registration rights sharing verbs volume; do
	grep -q "^  $suite " suites || fail "suite $suite is not listed"
done

"$AFAR" bench region --reps 1 --row 'first connect' --json >compared
"$AFAR" bench limit --reps 1 --row 'TCP stream' --json >alone
python3 - compared alone <<'END' || fail 'the JSON is not as docs/benchmarks/README.md says'
import json, sys

compared, alone = (json.load(open(name)) for name in sys.argv[1:])
assert len(compared) == len(alone) == 1, (compared, alone)
compared, alone = compared[0], alone[0]
assert compared["name"] == "first connect to first byte"
assert (compared["unit"], compared["better"], compared["bar"]) == ("ms", "lower", 1), compared
assert len(compared["ours"]) == len(compared["reference"]) == 1 and compared["ours"][0] > 0
assert compared["reference_is"] == "the bar of 10 ms"
assert (alone["unit"], alone["better"], alone["bar"], alone["reference_is"]) == ("GB/s", "higher", None, None), alone
assert len(alone["ours"]) == 1 and alone["reference"] == [], alone
END

# The head says which congestion control all have, or who has which.
AFAR_CONGESTION=reno "$AFAR" bench limit --reps 1 --row 'TCP stream' >table
grep -Eq '^# CPU .*; TCP reno($| for (all, in a network of their own|Afar, [a-z0-9_-]+ for programs that are not told))' table ||
	fail "bench limit: $(cat table)"
AFAR_CONGESTION=system "$AFAR" bench limit --reps 1 --row 'TCP stream' >table
grep -Eq '^# CPU .*; TCP [a-z0-9_-]+$' table || fail "bench limit: $(cat table)"

# A suite of whole programs, where there is memory for files.
[ "$(stat -f -c %T /dev/shm)" != tmpfs ] || {
	AFAR_BENCH_SPAN_MS=2 "$AFAR" bench apps --reps 1 --row 'sort 1 GiB, local / GNU' --json >sorts
	python3 -c 'import json; row, = json.load(open("sorts")); assert row["ours"][0] > 0 and row["reference"][0] > 0, row' || fail "bench apps: $(cat sorts)"
}

# The cache of a store finds what a simulated one does.
AFAR_BENCH_SPAN_MS=500 "$AFAR" bench cache --reps 1 --row "behind a client's LRU" --json >found
python3 -c 'import json; row, = json.load(open("found")); assert row["ours"][0] > 0.95 * row["reference"][0] > 0, row' || fail "bench cache: $(cat found)"

# What takes minutes is left out, with the reason, and measured where that is wanted.
"$AFAR" bench apps --row '4 GiB, local / GNU' --json >rows
grep -q '"reference_is": "not measured: it takes minutes; --long measures it"' rows || fail "not left out: $(cat rows)"
AFAR_BENCH_SPAN_MS=2 "$AFAR" bench apps --row '4 GiB, local / GNU' --json --long >rows
python3 - rows <<'END' || fail "not measured once: $(cat rows)"
import json, sys

row, = json.load(open(sys.argv[1]))
assert len(row["ours"]) == len(row["reference"]) == 1 or row["reference_is"].startswith("not measured: ") and "--long" not in row["reference_is"], row
END

# An interrupt ends a program that would go on for long, also one that has closed its output.
[ "$(stat -f -c %T /dev/shm)" != tmpfs ] || {
	mkdir programs
	printf '#!/bin/sh\necho $$ >%s/sorting\nexec sleep 600 >/dev/null\n' "$PWD" >programs/sort
	chmod +x programs/sort
	AFAR_BENCH_SPAN_MS=2 PATH=$PWD/programs:$PATH "$AFAR" bench apps --reps 1 --row 'sort 1 GiB, local / GNU' --json >rows 2>lines &
	bench=$!
	running="$running $bench"
	eventually test -s sorting
	kill -TERM "$bench"
	eventually has_ended "$bench"
	got=0
	wait "$bench" || got=$?
	forget "$bench"
	[ "$got" -eq 143 ] || fail "bench apps: after SIGTERM it ended with $got: $(cat lines)"
	! kill -0 "$(cat sorting)" 2>/dev/null || fail "a program is left"
	[ "$(cat rows)" = '[]' ] || fail "bench apps: $(cat rows)"
}

# What cannot be measured here is left out, with the reason.
"$AFAR" bench registration --reps 1 --row ', verbs' --json >rows
python3 - rows <<'END' || fail 'rows over verbs should be skipped where they cannot be measured'
import json, sys

rows = json.load(open(sys.argv[1]))
assert len(rows) == 7, rows
for row in rows:
    assert row["ours"] == row["reference"] == [] and "RDMA device" in row["reference_is"], row
END

# Each row that begins is a line on stderr, with how long the rest takes; on stdout is the JSON alone.
"$AFAR" bench limit --reps 1 --row e --json >rows 2>lines
python3 - rows lines <<'END' || fail "no line for each row: $(cat lines)"
import json, re, sys

rows, lines = json.load(open(sys.argv[1])), open(sys.argv[2]).read().splitlines()
assert len(rows) == len(lines) > 1, lines
for i, (row, line) in enumerate(zip(rows, lines)):
    left = ", about [0-9]+ (s|min) left" if i else ""
    assert re.fullmatch(f"afar bench: limit: row {i + 1} of {len(rows)}{left}: {re.escape(row['name'])}", line), line
END

# is_in_row NUMBER PID: the bench has said that this row begins, or has ended.
is_in_row() {
	grep -q "row $1 of" lines || has_ended "$2"
}

# interrupted SIGNAL STATUS FLAG…: a suite that gets the signal in its second row ends so, and leaves no daemon or folder
# behind. What it has printed is in ./rows.
interrupted() {
	signal=$1 want=$2 got=0
	shift 2
	: >lines
	"$AFAR" bench queue --reps 3 --row 'read 4 KiB' "$@" >rows 2>lines &
	bench=$!
	running="$running $bench"
	eventually is_in_row 2 "$bench"
	children "$bench" | tr ' ' '\n' | grep . >children || fail "bench $*: nothing to interrupt: $(cat lines)"
	while read -r child; do
		tr '\0' '\n' <"/proc/$child/cmdline" | grep -o '^/tmp/afar-bench-[^/]*' || :
	done <children >folders
	[ -s folders ] || fail "bench $*: no daemon: $(cat lines)"
	kill "-$signal" "$bench"
	wait "$bench" || got=$?
	forget "$bench"
	[ "$got" -eq "$want" ] || fail "bench $*: after SIG$signal it ended with $got: $(cat lines)"
	tail -n 1 lines | grep -q 'queue: interrupted after 1 of 2 rows$' || fail "bench $*: $(cat lines)"
	while read -r child; do
		! kill -0 "$child" 2>/dev/null || fail "a process is left: $child"
	done <children
	while read -r folder; do
		[ ! -e "$folder" ] || fail "a folder is left: $folder"
	done <folders
}

# A run that is interrupted prints the rows that it has measured whole.
interrupted INT 130 --json
python3 - rows <<'END' || fail "not the row that was measured: $(cat rows)"
import json, sys

row, = json.load(open(sys.argv[1]))
assert row["name"] == "read 4 KiB, depth 32, batch 8 / batch 1", row
assert len(row["ours"]) == len(row["reference"]) == 3 and row["interrupted"] is True, row
END
interrupted TERM 143
grep -q '^# interrupted after 1 of 2 rows$' rows || fail "the table does not say that it is not whole: $(cat rows)"
[ "$(grep -c '^  read 4 KiB' rows)" -eq 1 ] || fail "not the row that was measured: $(cat rows)"

# cannot STATUS PATTERN FLAG…: afar bench with these ends so, having said why in one line.
cannot() {
	want=$1 pattern=$2 got=0
	shift 2
	"$AFAR" bench "$@" >out 2>line || got=$?
	[ "$got" -eq "$want" ] || fail "bench $* ended with $got, not $want: $(cat line)"
	[ "$(wc -l <line)" -eq 1 ] || fail "bench $* should complain in one line: $(cat line)"
	grep -q "^afar bench: .*$pattern" line || fail "bench $*: '$pattern' is not in: $(cat line)"
	[ ! -s out ] || fail "bench $* should print nothing: $(cat out)"
}

cannot 1 'RDMA device' verbs
cannot 2 'there is no suite' speed
cannot 2 'no row' queue --row nothing
