#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A device that takes very long for an operation: the health of its store says so, and says ok again once it is well. The server stays
# the manager's meanwhile, reports, and does what it is told of other things, also when it was told to do something at that store.
# shellcheck source=tests/system/cluster.sh disable=SC2154 # cluster.sh sets scratch and slowness
. "$(dirname "$0")/cluster.sh"

start_manager
export AFARD="$AFARD_GATED"
AFARD_FAIL_FLUSHES=$scratch/device
export AFARD_FAIL_FLUSHES
start_daemon one --role server --data "$scratch/one" --name one --data-listen "tcp:$host:0" \
	--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 256M --flash 256M --log-format json --slow 5
"$AFAR" ns create kept --tier flash
"$AFAR" ns create quick
random_file in 300000
"$AFAR" region put in kept:a >put.out 2>&1

touch device.held
"$AFAR" ns reserve kept 64M >reserve.out 2>&1 &
reserving=$!
running="$running $reserving"
is_slow() {
	"$AFAR" store ls | grep -q 'slow: an I/O takes [0-9]* s'
}
eventually is_slow
"$AFAR" region put in kept:slow --timeout 120 >slow.out 2>&1 &
putting=$!
running="$running $putting"
has_come() { # all bytes of the second put
	[ "$("$AFAR" status --json | sed -n 's/^ *"bytes_in": \([0-9]*\),\{0,1\}$/\1/p' | sort -n | tail -n 1)" -gt 600000 ]
}
eventually has_come
"$AFAR" status | grep -q 'slow: an I/O takes [0-9]* s' || fail "status does not show it: $("$AFAR" status)"
# Memory of the same server is reserved, used and given back meanwhile.
"$AFAR" region put in quick:a >put.out 2>&1
"$AFAR" region get quick:a back >get.out 2>&1
same in back
"$AFAR" region rm quick:a
# What waits at the device goes on waiting. The long form waits longer than any call to a server is given.
if [ "${1:-}" = long ]; then
	"$AFAR" region rm kept:a
	sleep 45
	wait "$reserving" && fail "it should have been told that the device takes too long"
	grep -q 'ETIMEDOUT' reserve.out || fail "of the reservation: $(cat reserve.out)"
	is_slow || fail "it is not slow: $("$AFAR" store ls)"
fi
before=$(wc -l <one.err)
rm device.held
is_well() {
	"$AFAR" store ls | grep -q ' ok '
}
eventually is_well
wait "$putting" || fail "a put that had to wait: $(cat slow.out)"
forget "$putting"
# The log tells which transfer took so long, and where, once its client has the answer.
is_told() {
	tail -n "+$((before + 1))" one.err | grep -Eq '"message":"slow: ((durable_)?write of [0-9]+ bytes|sync of store) .* for session '
}
eventually is_told
python3 -c '
import json
told = [t for t in map(json.loads, open("one.err")) if "store" in t]
for t in told:
    assert len(t["store"]) == len(t["session"]) == 16 and t["kind"] in ("read", "write", "durable_write", "sync"), t
    assert t["kind"] == "sync" or (t["transport"] == "tcp" and t["way"] in ("device", "merged", "cache")), t
    assert t["kind"] == "sync" or t["queued_us"] + t["device_us"] <= t["total_us"] + 2, t
assert any(t["kind"] != "sync" for t in told), told
' || fail "$(cat one.err)"
if [ "${1:-}" != long ]; then
	wait "$reserving" || fail "what waited for the device: $(cat reserve.out)"
fi
forget "$reserving"
"$AFAR" region put in kept:b >put.out 2>&1
"$AFAR" region get kept:b back >get.out 2>&1
same in back
grep -q 'trying again until it is back' one.err && fail "the server lost its manager: $(cat one.err)"
stop_daemon one
