#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A store whose server was killed, and whose device is damaged then: it opens where nothing is lost, with a line. Where something would be,
# it is refused, and the line names the command that says what can be done; no command makes it older than it was.
# shellcheck source=tests/system/cluster.sh disable=SC2154 # cluster.sh sets scratch
. "$(dirname "$0")/cluster.sh"

device=$scratch/one/server/flash
set -- --role server --data "$scratch/one" --name one --data-listen "tcp:$host:0" --manager
# zero BLOCK…: of the device.
zero() {
	for block; do
		dd if=/dev/zero of="$device" bs=4096 seek="$block" count=1 conv=notrunc status=none
	done
}

start_manager
set -- "$@" "$AFAR_CLUSTER" --key "$scratch/manager/server.key" --memory 64M --flash 128M
start_daemon one "$@"
random_file a 3000000
random_file b 3000000
"$AFAR" ns create kept --tier flash
"$AFAR" region put a kept:a >put.out 2>&1
kill_daemon one
start_daemon one "$@"
"$AFAR" region put b kept:b >put.out 2>&1
kill_daemon one

# The first block's copy, and either anchor's other, serve with the journal.
for damaged in 0 1 2; do
	zero "$damaged"
	: >one.err
	start_daemon one "$@"
	grep -q "flash: the superblock is damaged; its copy serves, and 'afar flash repair'" one.err || fail "no line of the superblock: $(cat one.err)"
	[ "$damaged" -eq 0 ] || grep -q 'flash: an anchor is damaged; the other one serves, and the journal' one.err || fail "no line of block $damaged: $(cat one.err)"
	for name in a b; do
		rm -f back
		"$AFAR" region get "kept:$name" back >get.out 2>&1 || fail "after damage of block $damaged: $(cat get.out)"
		same "$name" back
	done
	kill_daemon one
done

"$AFAR" flash repair "$device" >found 2>line && fail "a superblock is left to be repaired"
grep -q 'superblock 0x0: damaged; its copy is whole' found || fail "$(cat found line)"
"$AFAR" flash repair "$device" --yes >found 2>line || fail "$(cat found line)"
"$AFAR" flash check "$device" --data >found || fail "$(cat found)"

# Without both anchors nobody can tell what is newest.
cp "$device" whole
zero 1 2
cp "$device" damaged
refused 1 "open the store $device: both anchors are damaged; 'afar flash repair $device' says what can be done" "$AFARD" "$@"
refused 1 'which of its blocks would be old cannot be told, so it is not repaired' "$AFAR" flash repair "$device" --yes
same "$device" damaged
cp whole "$device"
start_daemon one "$@"
"$AFAR" region get kept:b back >get.out 2>&1
same b back
