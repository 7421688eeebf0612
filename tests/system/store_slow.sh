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
	--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 256M --flash 256M
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
rm device.held
is_well() {
	"$AFAR" store ls | grep -q ' ok '
}
eventually is_well
if [ "${1:-}" != long ]; then
	wait "$reserving" || fail "what waited for the device: $(cat reserve.out)"
fi
forget "$reserving"
"$AFAR" region put in kept:b >put.out 2>&1
"$AFAR" region get kept:b back >get.out 2>&1
same in back
grep -q 'trying again until it is back' one.err && fail "the server lost its manager: $(cat one.err)"
stop_daemon one
