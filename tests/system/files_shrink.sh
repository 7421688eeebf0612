#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# files_shrink.sh dram|flash: an emptied file system gives its room back, also while somebody writes to it, and gets other room
# when it needs some again. What is given back is others' from then on, also after a restart of the manager.
# shellcheck source=tests/system/cluster.sh disable=SC2154 # cluster.sh sets scratch
. "$(dirname "$0")/cluster.sh"
tier=$1

start_manager
for name in one two; do
	start_daemon $name --role server --data "$scratch/$name" --name $name --data-listen "tcp:$host:0" \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 40M --flash 64M
done
# figure NAME: in bytes.
figure() {
	"$AFAR" fs stat f | awk -v name="$1" '$1 == name { print $2 }'
}

"$AFAR" fs create f --tier "$tier"
random_file small 3000000
random_file large 70000000
"$AFAR" put small /f/small >put.out
"$AFAR" put large /f/large >put.out
pool=$(figure pool)
# One that has it open, and writes only later.
random_file slow 3000000
mkfifo feed
"$AFAR" put - /f/slow <feed >slow.out &
writer=$!
running="$running $writer"
exec 4>feed
is_open() {
	[ "$(figure open)" -eq 1 ]
}
eventually is_open
"$AFAR" rm /f/large
"$AFAR" fs shrink f >shrink.out
grep -q '^released [1-9]' shrink.out || fail "nothing went: $(cat shrink.out)"
[ "$(figure pool)" -lt "$pool" ] || fail "$(figure pool) of $pool are left: $(cat shrink.out)"
grep -q 'are free and stay' shrink.out || fail "why not all: $(cat shrink.out)"
cat slow >&4
exec 4>&-
wait "$writer" || fail "the writer: $(cat slow.out)"
forget "$writer"
"$AFAR" get /f/slow back >get.out
same slow back
"$AFAR" get /f/small back >get.out
same small back

# All of it, and what others then get.
"$AFAR" rm /f/slow /f/small
"$AFAR" fs shrink f >shrink.out
[ "$(figure pool)" -eq 0 ] || fail "$(figure pool) are left: $(cat shrink.out)"
kill_daemon manager
start_manager "$(manager_port)"
eventually "$AFAR" fs create other --tier "$tier"
head -c 60000000 large >most
eventually "$AFAR" put most /other/most
# It grows again.
"$AFAR" put slow /f/slow >put.out
"$AFAR" get /f/slow back >get.out
same slow back
"$AFAR" get /other/most back >get.out
same most back
[ "$("$AFAR" fs check f)" = 'f: its records agree' ] || fail "$("$AFAR" fs check f)"
refused 1 'nothing' "$AFAR" fs shrink nothing
refused 2 '' "$AFAR" fs shrink
