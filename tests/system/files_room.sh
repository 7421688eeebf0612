#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What `afar df` shows as available one file can have: what is free in the pool counts when the pool has to grow.
# shellcheck source=tests/system/cluster.sh disable=SC2154 # cluster.sh sets scratch
. "$(dirname "$0")/cluster.sh"

start_manager
start_daemon one --role server --data "$scratch/one" --name one --data-listen "tcp:$host:0" \
	--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 100M --flash 160M
# available FS: in MiB.
available() {
	"$AFAR" df "$1" | awk -v name="$1" '$1 == name { print int($6) }'
}
truncate -s 200M zeros
"$AFAR" fs create f --tier flash
room=$(available f)
[ "$room" -gt 64 ] || fail "only $room MiB are available: $("$AFAR" df f)"
head -c $(((room - 2) << 20)) zeros >most
"$AFAR" put most /f/most >put.out || fail "$room MiB are available: $("$AFAR" df f)"
refused 1 'no room is left' "$AFAR" put most /f/more
"$AFAR" get /f/most back >get.out
same most back

# Within a limit, likewise.
"$AFAR" fs create m --tier dram --max 80M
head -c 33000000 zeros >part
"$AFAR" put part /m/1 >put.out
"$AFAR" put part /m/2 >put.out
room=$(available m)
[ "$room" -ge 16 ] || fail "only $room MiB are available: $("$AFAR" df m)"
head -c $(((room - 1) << 20)) zeros >last
"$AFAR" put last /m/3 >put.out || fail "$room MiB are available: $("$AFAR" df m)"
refused 1 'may have no more' "$AFAR" put part /m/4
