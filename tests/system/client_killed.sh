#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A client that is killed in the middle of a put leaves no session behind once its lease is over, and
# its namespace can be removed.
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
"$AFAR" ns rm doomed --force
nothing_lent() {
	"$AFAR" status --json | python3 -c '
import json, sys
assert not any(s["granted_bytes"] for s in json.load(sys.stdin)["servers"])'
}
eventually nothing_lent
still_works
