#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A server that is gone for good is taken out of the cluster by an operator's word: what it kept from others is free, what
# was on it is lost, and it never comes back as it was.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_manager
start_server two
"$AFAR" ns create quiet --width 1
random_file in 6000000
"$AFAR" region put in quiet:a >/dev/null # on the only server there is
start_server one
"$AFAR" ns create striped --width 2 --stripe 64K
"$AFAR" region put in striped:lost >/dev/null
number_of() {
	"$AFAR" status --json | python3 -c '
import json, sys
print(*[s["server"] for s in json.load(sys.stdin)["servers"] if s["name"] == sys.argv[1]])' "$1"
}
old=$(number_of one)

refused 1 'it is up' "$AFAR" server rm one
refused 1 'it is connected' "$AFAR" server rm one --yes
refused 1 'nobody' "$AFAR" server rm nobody --yes
refused 2 'too few' "$AFAR" server rm

# A client dies with a region open on both: what it had on the other server waits for the one that is gone.
mkfifo feed
"$AFAR" region put feed striped:half --size 64M >put.out 2>put.err &
put=$!
running="$running $put"
exec 4>feed
head -c 33554432 /dev/zero >&4
kill_daemon one
kill -9 "$put"
wait "$put" 2>/dev/null || :
forget "$put"
exec 4>&-
is_down() {
	"$AFAR" status | grep -Eq '^one +down '
}
is_ending() {
	"$AFAR" status | grep -Eq ' ending '
}
eventually is_down
eventually is_ending
# It says what is lost, and does nothing without being told twice.
status=0
"$AFAR" server rm one >said.out 2>said.err || status=$?
[ "$status" -eq 1 ] || fail "server rm without --yes ended with $status"
[ "$(wc -l <said.err)" -eq 1 ] || fail "it says: $(cat said.err)"
grep -q 'nothing is done yet.*--yes' said.err || fail "it says: $(cat said.err)"
grep -Eq '^striped +0x1000 +5.7 MiB +lost$' said.out || fail "it says: $(cat said.out)"
if grep -q quiet said.out; then
	fail "it says: $(cat said.out)"
fi
grep -Eq "^2 regions are lost with server $old, .* held [1-9]" said.out || fail "it says: $(cat said.out)"
is_ending || fail "server rm without --yes did something"

"$AFAR" ns rm striped --force
granted_two() {
	"$AFAR" status --json | python3 -c '
import json, sys
print(next(s["granted_bytes"] for s in json.load(sys.stdin)["servers"] if s["name"] == "two"))'
}
held=$(granted_two)
"$AFAR" key add bob --out bob
refused 1 'operator' "$AFAR" --key bob server rm one --yes

"$AFAR" server rm one --yes >said.out
grep -q "^removed server $old" said.out || fail "it says: $(cat said.out)"
[ -z "$(number_of one)" ] || fail "it is listed still"
if is_ending; then
	fail "a session waits for a server that was removed"
fi
is_freed() {
	[ "$(granted_two)" -lt "$held" ]
}
eventually is_freed
"$AFAR" region get quiet:a out >/dev/null
same in out
still_works

# Started again it is a new server.
start_server one
[ "$(number_of one)" -gt "$old" ] || fail "it has its old number $(number_of one)"
"$AFAR" ns create striped --width 2 --stripe 64K
"$AFAR" region put in striped:lost >/dev/null

# One that lives, and could only not be reached, is not let in as it is.
old=$(number_of one)
kill -STOP "$(pid_of one)"
eventually "$AFAR" server rm "$old" --yes
"$AFAR" region stat striped:lost | grep -Eq '^state +lost$' || fail "what was on it is not lost"
refused 1 'lost' "$AFAR" region get striped:lost out
kill -CONT "$(pid_of one)"
eventually has_ended "$(pid_of one)"
status=0
wait "$(pid_of one)" || status=$?
forget "$(pid_of one)"
[ "$status" -eq 1 ] || fail "the server ended with $status: $(cat one.err)"
grep -q '^afard: .* was removed ' one.err || fail "the server says: $(cat one.err)"
start_server one
"$AFAR" region put in striped:lost --replace >/dev/null
"$AFAR" region get striped:lost out >/dev/null
same in out
"$AFAR" ns rm striped --force
still_works
