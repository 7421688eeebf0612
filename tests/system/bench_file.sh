#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# `afar bench file`: measures its rows on mounts and against each peer that is here, says what is missing for those that it
# leaves out, and leaves no mount, process or folder behind, also when it is interrupted. Numbers taken in so short a time say
# nothing.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

unset AFAR_TEST_HOST AFAR_CONGESTION
if "$AFAR" bench 2>&1 | grep 'no benchmarks'; then
	exit 77
fi
export AFAR_BENCH_SPAN_MS=20 TMPDIR="$PWD"

# measures PART NUMBER: that many rows have PART in their names, and are measured, or say why not.
measures() {
	"$AFAR" bench file --reps 1 --row "$1" --json >rows 2>line || fail "bench file --row '$1': $(cat line)"
	python3 - rows "$2" <<'END' || fail "bench file --row '$1': $(cat rows)"
import json, sys

rows = json.load(open(sys.argv[1]))
assert len(rows) == int(sys.argv[2]), rows
for row in rows:
    if row["ours"] or row["reference"]:
        assert len(row["ours"]) == len(row["reference"]) == 1 and row["ours"][0] > 0 and row["reference"][0] > 0, row
    else:
        assert row["reference_is"].startswith(("not installed: ", "not built: ", "not measured: ")), row
END
}

# Rows that take files which another row makes find them made, too.
measures '1 MiB, fuse direct' 4
measures 'unlink 4 KiB files' 4
measures 'client CPU' 2
measures 'read, 2 servers' 3

# Without other programs.
mkdir nothing
PATH=$PWD/nothing "$AFAR" bench file --reps 1 --row 'stat 4 KiB files, fuse / NFS' --json >rows
python3 - rows <<'END' || fail "without NFS-Ganesha: $(cat rows)"
import json, sys

row, = json.load(open(sys.argv[1]))
assert row["ours"] == row["reference"] == [], row
assert "apt install" in row["reference_is"] or "not measured" in row["reference_is"], row
END

# places_of PID: where its children mount.
places_of() {
	for child in $(children "$1"); do
		tr '\0' '\n' <"/proc/$child/cmdline" | grep -x '/tmp/afar-bench-peer-[^/]*/mount' || :
	done
}

# is_mounted_twice PID: by Afar and by the peer.
is_mounted_twice() {
	places_of "$1" >places
	for child in $(children "$1"); do
		echo "$child"
	done >children
	[ "$(wc -l <places)" -eq 2 ] || return 1
	while read -r place; do
		grep -q " $place fuse" /proc/self/mounts || return 1
	done <places
}

is_mounted_twice_or_ended() {
	is_mounted_twice "$1" || has_ended "$1"
}

# An interrupt while both mounts are there.
case $(AFAR_BENCH_SPAN_MS=1 "$AFAR" bench file --reps 1 --row 'stat 4 KiB files, fuse / ext4 dirsync' --json) in
*'"ours": []'*) echo "no interrupt is tried: its rows cannot be measured here" ;;
*)
	AFAR_BENCH_SPAN_MS=2000 "$AFAR" bench file --row 'files, fuse / ext4 dirsync' >rows 2>line &
	bench=$!
	running="$running $bench"
	eventually is_mounted_twice_or_ended "$bench"
	is_mounted_twice "$bench" || fail "nothing to interrupt: $(cat line)"
	kill -INT "$bench"
	got=0
	wait "$bench" || got=$?
	forget "$bench"
	[ "$got" -eq 130 ] || fail "after an interrupt it ended with $got: $(cat line)"
	while read -r place; do
		! grep -q " $place fuse" /proc/self/mounts || fail "a mount is left at $place"
		[ ! -e "$place" ] || fail "a folder is left at $place"
	done <places
	while read -r child; do
		! kill -0 "$child" 2>/dev/null || fail "a process is left: $(tr '\0' ' ' <"/proc/$child/cmdline")"
	done <children
	;;
esac

rm -f rows line places children eventually.out
[ "$(ls -A)" = nothing ] || fail "left behind: $(ls -A)"
