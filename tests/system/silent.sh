#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A server whose process was stopped: its connections stand, so it is up as far as the manager knows; status and store ls say that it
# is silent, and since when, until it goes on.
# shellcheck source=tests/system/cluster.sh disable=SC2154 # cluster.sh sets scratch
. "$(dirname "$0")/cluster.sh"

start_manager
start_daemon one --role server --data "$scratch/one" --name one --data-listen "tcp:$host:0" \
	--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash 64M
"$AFAR" status | grep -Eq '^one +up ' || fail "$("$AFAR" status)"
if "$AFAR" status | grep -q silent; then
	fail "nobody is silent yet: $("$AFAR" status)"
fi
kill -STOP "$(pid_of one)"
says_so() {
	"$AFAR" status >shown
	grep -q '^one is silent for ' shown
}
attempts=0
until says_so; do # it says something every 10 s
	attempts=$((attempts + 1))
	[ "$attempts" -lt $((60 * slowness)) ] || fail "nobody says that it is silent: $(cat shown)"
	sleep 1
done
grep -Eq '^one is silent for (1[5-9]|[2-9][0-9]) s: ' shown || fail "$(cat shown)"
grep -Eq '^one +silent ' shown || fail "$(cat shown)"
"$AFAR" store ls | grep -Eq '^[0-9a-f]{16} one .* silent for [1-9][0-9] s ' || fail "$("$AFAR" store ls)"
"$AFAR" status --json | python3 -c '
import json, sys
status = json.load(sys.stdin)
assert status["servers"][0]["is_up"] and status["servers"][0]["report_age_ms"] >= 15000
assert status["stores"][0]["report_age_ms"] >= 15000' || fail "$("$AFAR" status --json)"
kill -CONT "$(pid_of one)"
is_heard() {
	"$AFAR" status >shown
	grep -Eq '^one +up ' shown && ! grep -q silent shown
}
eventually is_heard
"$AFAR" store ls | grep -Eq '^[0-9a-f]{16} one .* ok ' || fail "$("$AFAR" store ls)"
