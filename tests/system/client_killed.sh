#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A client that is killed in the middle of a put leaves no session behind once its lease is over, and
# its namespace can be removed. The region counts as unfinished until it is put again.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
"$AFAR" ns create doomed
mkfifo feed
"$AFAR" region put feed doomed:half --size 64M >put.out 2>put.err &
put=$!
running="$running $put"
exec 4>feed
head -c 33554432 /dev/zero >&4
kill -9 "$put"
wait "$put" 2>/dev/null || :
exec 4>&-

alone() {
	[ "$("$AFAR" status --json | grep -c '"client"')" -eq 1 ]
}
eventually alone
# state_of NAME: what ls says.
state_of() {
	"$AFAR" region ls doomed | awk -v name="$1" '$NF == name { print $(NF - 1) }'
}
[ "$(state_of half)" = unfinished ] || fail "ls says of the half region: $(state_of half)"
"$AFAR" region stat doomed:half | grep -Eq '^state +unfinished$' || fail "stat does not say unfinished"
refused 1 'unfinished.*--partial' "$AFAR" region get doomed:half out
[ ! -e out ] || fail "a refused get left a file"
"$AFAR" region get doomed:half out --partial >/dev/null
[ "$(wc -c <out)" -eq 67108864 ] || fail "get --partial took $(wc -c <out) bytes"
# Neither does a manager that starts anew take it for finished.
kill_daemon manager
start_manager "$(manager_port)"
eventually sh -c '"$AFAR" status | grep -Eq "^one +up "'
[ "$(state_of half)" = unfinished ] || fail "ls says after a restart: $(state_of half)"
random_file in 3000000
refused 1 'unfinished.*--replace' "$AFAR" region put in doomed:half
"$AFAR" region put in doomed:half --replace >/dev/null
[ "$(state_of half)" = ok ] || fail "ls says when it was put again: $(state_of half)"
"$AFAR" region get doomed:half out >/dev/null
same in out
"$AFAR" ns rm doomed --force
nothing_lent() {
	"$AFAR" status --json | python3 -c '
import json, sys
assert not any(s["granted_bytes"] for s in json.load(sys.stdin)["servers"])'
}
eventually nothing_lent
still_works
