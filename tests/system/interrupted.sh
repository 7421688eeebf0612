#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A put or a get that is interrupted ends with 130 and takes back what it had begun.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
"$AFAR" ns create stopped
mkfifo feed
"$AFAR" region put feed stopped:half --size 64M >put.out 2>put.err &
put=$!
running="$running $put"
exec 4>feed
head -c 33554432 /dev/zero >&4
kill -TERM "$put"
status=0
wait "$put" || status=$?
exec 4>&-
[ "$status" -eq 130 ] || fail "the put ended with $status: $(cat put.err)"
[ ! -s put.err ] || fail "the put says $(cat put.err)"
refused 1 'half' "$AFAR" region stat stopped:half
[ "$(reserved stopped)" = "0 B" ] || fail "still reserved: $(reserved stopped)"

random_file in 50000000
"$AFAR" region put in stopped:whole >/dev/null
mkfifo drain
"$AFAR" region get stopped:whole drain >get.out 2>get.err &
get=$!
running="$running $get"
exec 5<drain
head -c 1000000 <&5 >/dev/null
kill -TERM "$get"
status=0
wait "$get" || status=$?
exec 5<&-
[ "$status" -eq 130 ] || fail "the get ended with $status: $(cat get.err)"
"$AFAR" ns rm stopped --force

# While servers are to get memory ready, too: one that does not answer keeps nobody, and what it grants later is given
# back by the manager, not by the end of a session, which is far away.
stop_daemon two
stop_daemon one
stop_daemon manager
AFAR_TEST_LEASE_MS=600000
export AFAR_TEST_LEASE_MS
start_cluster
"$AFAR" ns create waiting
"$AFAR" ns reserve waiting 32M
# interrupt COMMAND…: while it reserves, and server two is stopped.
interrupt() {
	kill -STOP "$(pid_of two)"
	"$AFAR" "$@" >reserve.out 2>reserve.err &
	reserving=$!
	running="$running $reserving"
	eventually is_reserving
	kill -TERM "$reserving"
	eventually has_ended "$reserving"
	status=0
	wait "$reserving" || status=$?
	forget "$reserving"
	[ "$status" -eq 130 ] || fail "$* ended with $status: $(cat reserve.err)"
	[ ! -s reserve.err ] || fail "$* says $(cat reserve.err)"
	kill -CONT "$(pid_of two)"
	eventually nothing_more
	[ "$(reserved waiting)" = "32 MiB" ] || fail "$* left $(reserved waiting)"
}
# Server one has granted its share.
granted_one() {
	"$AFAR" status --json | python3 -c '
import json, sys
print(next(s["granted_bytes"] for s in json.load(sys.stdin)["servers"] if s["name"] == "one"))'
}
is_reserving() {
	[ "$(granted_one)" -gt "$before" ]
}
nothing_more() {
	"$AFAR" status --json | python3 -c '
import json, sys
assert sum(s["granted_bytes"] for s in json.load(sys.stdin)["servers"]) == 32 << 20'
}
eventually nothing_more
before=$(granted_one)
interrupt ns reserve waiting 35M
head -c 70000000 /dev/zero >in
interrupt region put in waiting:zeros
refused 1 'zeros' "$AFAR" region stat waiting:zeros
# On a terminal it is seen that servers get memory ready, until it ends.
kill -STOP "$(pid_of two)"
python3 - "$AFAR" ns reserve waiting 35M <<'END' || fail "ns reserve on a terminal"
import os, pty, signal, sys
process, terminal = pty.fork()
if process == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # where tests run in the background it is ignored
    os.execv(sys.argv[1], sys.argv[1:])
shown = b""
def read():
    try:
        return os.read(terminal, 4096)
    except OSError:  # nobody has it open any more
        return b""
while b"reserving 35 MiB  " not in shown:
    part = read()
    assert part, shown
    shown += part
os.kill(process, signal.SIGINT)
while part := read():
    shown += part
assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 130
assert shown.endswith(b"\r\x1b[K"), shown
END
kill -CONT "$(pid_of two)"
eventually nothing_more
"$AFAR" ns rm waiting
still_works
