#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Bits of the manager's records flip while it is stopped. A record whose value is damaged cannot be read, and is told by name;
# others are right. A manager whose pages or keys are damaged does not start, and says why.
# shellcheck source=tests/system/cluster.sh disable=SC2154 # cluster.sh sets host and scratch
. "$(dirname "$0")/cluster.sh"

# flip HEX OFFSET: flips a bit so many bytes from the beginning of each place in data.mdb that has these bytes.
flip() {
	python3 -c '
import sys
path, wanted, offset = sys.argv[1], bytes.fromhex(sys.argv[2]), int(sys.argv[3])
data = bytearray(open(path, "rb").read())
at = data.find(wanted)
assert at >= 0, "these bytes are not there"
while at >= 0:
    data[at + offset] ^= 4
    at = data.find(wanted, at + 1)
open(path, "r+b").write(data)' "$scratch/manager/manager/data.mdb" "$1" "$2"
}

# does_not_start WORDS: the manager ends at once, with a line that has them.
does_not_start() {
	code=0
	"$AFARD" --role manager --data "$scratch/manager" --listen "$host:$port" >refused.out 2>line || code=$?
	[ "$code" -eq 1 ] || fail "afard on damaged records ended with $code: $(cat line)"
	grep -q "^afard: .*$1" line || fail "afard on damaged records said: $(cat line)"
	[ "$(wc -l <line)" -eq 1 ] || fail "afard said: $(cat line)"
}

start_cluster
port=$(manager_port)
folder=$scratch/manager/manager
"$AFAR" fs create home
random_file a 100000
random_file b 100000
random_file c 3000000
"$AFAR" put a b c /home/ >/dev/null
"$AFAR" ns create kept
"$AFAR" region put c kept:c >put.out 2>&1
"$AFAR" manager check >out
grep -Eq '^[1-9][0-9]* records, all as they were committed$' out || fail "manager check: $(cat out)"

ino=$("$AFAR" stat /home/b --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["ino"])')
number=1 # of the first namespace
stop_daemon manager
cp -r "$folder" whole
flip "$(printf '49%016x%016x' "$number" "$ino")" 21 # behind the key
start_manager "$port"
grep -q ': 1 records are damaged' manager.err || fail "the manager's log: $(cat manager.err)"

# Only what is damaged cannot be read.
what="inode $ino of file system $number"
refused 1 'is damaged' "$AFAR" get /home/b back
for name in a c; do
	eventually "$AFAR" get "/home/$name" back
	same "$name" back
done
"$AFAR" region get kept:c back
same c back
for command in 'manager check' 'fs check home'; do
	code=0
	# shellcheck disable=SC2086 # two words or three
	"$AFAR" $command >out 2>line || code=$?
	[ "$code" -eq 1 ] || fail "$command of damaged records ended with $code"
	[ "$(cat out)" = "$what: its record is damaged" ] || fail "$command: $(cat out line)"
done
stop_daemon manager
code=0
"$AFAR" manager check "$folder" >out 2>line || code=$?
[ "$code" -eq 1 ] || fail "the check of a damaged folder ended with $code"
[ "$(cat out)" = "$what: the value of a record is damaged" ] || fail "the check of the folder: $(cat out line)"

# Keys, and what leads to them.
flip "$(printf '49%016x%016x' "$number" "$ino")" 16
does_not_start 'data.mdb is damaged (page [0-9]* has keys that do not belong there)'
rm -r "$folder"
cp -r whole "$folder"
"$AFAR" manager check "$folder" >out || fail "the copy is damaged: $(cat out)"
truncate -s -4096 "$folder/data.mdb"
does_not_start 'data.mdb is shorter than it was'
: >"$folder/data.mdb"
does_not_start 'data.mdb is shorter than it was'
rm "$folder/data.mdb"
does_not_start 'data.mdb is missing'
cp whole/data.mdb "$folder"
rm "$folder/redo.log"
does_not_start 'redo.log is missing'
cp whole/redo.log "$folder"
start_manager "$port"
eventually "$AFAR" manager accept-older --yes # servers have seen the start with the damaged ones
"$AFAR" ns accept-older --all --yes >accepted
grep -q '^accepted: home ' accepted || fail "ns accept-older --all: $(cat accepted)"
refused 1 'nothing waits' "$AFAR" ns accept-older --all --yes
eventually "$AFAR" get /home/b back
same b back
refused 1 'another manager has it open' "$AFAR" manager check "$folder"
