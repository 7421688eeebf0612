#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A store is gone for good, and an operator forgets it. A file system on flash loses the bytes that were there, and nothing else: what
# lies on other stores is whole, names stay, and new files can be made.
# shellcheck source=tests/system/cluster.sh disable=SC2154 # cluster.sh sets scratch
. "$(dirname "$0")/cluster.sh"

start_flash() {
	start_daemon "$1" --role server --data "$scratch/$1" --name "$1" --data-listen "$host:0" \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash 256M
}
# store_of SERVER: its number.
store_of() {
	"$AFAR" store ls --json | python3 -c '
import json, sys
print([s["store"] for s in json.load(sys.stdin) if s["server_name"] == sys.argv[1]][0])' "$1"
}
# compare: gets each file of ./in; sets $whole and $broken.
compare() {
	whole=0
	broken=0
	for path in in/*; do
		if "$AFAR" get "/home/$path" back >got.out 2>line; then
			same "$path" back
			whole=$((whole + 1))
		else
			grep -Eq "^afar: .* bytes at [0-9]+ are lost, with store $store" line || fail "$path: $(cat line)"
			[ "$(wc -l <line)" -eq 1 ] || fail "$path: $(cat line)"
			broken=$((broken + 1))
		fi
		rm -f back
	done
}
agrees() {
	[ "$("$AFAR" fs check home)" = "home: its records agree" ] || fail "$("$AFAR" fs check home)"
}

start_manager
port=$(manager_port)
start_flash one
start_flash two
"$AFAR" fs create home --tier flash --width 2 --stripe 64K
mkdir in
for i in $(seq 1 40); do
	random_file "in/small$i" $((i * 100 + 1))
done
random_file in/large 3000005
"$AFAR" put -r in /home/ >put.out
store=$(store_of two)

kill_daemon two
status=0
"$AFAR" store forget "$store" >said.out 2>said.err || status=$?
[ "$status" -eq 1 ] || fail "forget without --yes ended with $status"
# It counts the files that have bytes there, by file system.
home=$(sed -nE 's/^home +file system +([0-9]+) files +.*/\1/p' said.out)
[ -n "$home" ] || fail "it says: $(cat said.out)"
grep -q "^0 regions and $home files are lost with store $store, which server 'two' had on " said.out || fail "it says: $(cat said.out)"
# A server is not its stores: they are named, and stay.
status=0
"$AFAR" server rm two >named.out 2>said.err || status=$?
[ "$status" -eq 1 ] || fail "server rm without --yes ended with $status"
grep -Eq "^its store $store \([0-9a-f-]{36}\) on $scratch/two/.* stays, with [1-9]" named.out || fail "it says: $(cat named.out)"
grep -q '^0 regions are lost with server ' named.out || fail "it says: $(cat named.out)"
eventually "$AFAR" store forget "$store" --yes
compare
echo "$whole whole, $broken broken"
[ "$whole" -gt 5 ] || fail "only $whole files are whole"
[ "$broken" -eq "$home" ] || fail "$home files were to be lost, and $broken are"
agrees
[ "$("$AFAR" ls /home/in | wc -l)" -eq 41 ] || fail "names are gone: $("$AFAR" ls /home/in)"
"$AFAR" put in/large /home/in/large >put.out # whole again, and elsewhere
"$AFAR" get /home/in/large back
same in/large back
agrees
before=$broken
compare
[ "$broken" -eq $((before - 1)) ] || fail "$broken files are broken after one was put again"

# A restart of the manager forgets nothing of that, and lost files can be removed.
stop_daemon manager
start_manager "$port"
eventually "$AFAR" get /home/in/large back
before=$broken
compare
[ "$broken" -eq "$before" ] || fail "$broken files are broken after a restart"
"$AFAR" fs check home --lost --remove --yes >said.out
agrees
[ "$("$AFAR" fs check home --lost)" = "home: no file has lost anything" ] || fail "$("$AFAR" fs check home --lost)"
