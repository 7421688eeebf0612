#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A manager that is killed and started again has lost nothing, and a put that runs meanwhile ends well.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

export AFAR_TEST_LEASE_MS=500
start_cluster
port=$(manager_port)
"$AFAR" ns create kept --width 2 --stripe 64K
random_file in 5000000
"$AFAR" region put in kept:before >/dev/null
"$AFAR" ns create empty

# The put and who asks.
nr_connected() {
	[ "$("$AFAR" status --json | grep -c '"is_connected": true')" -eq "$1" ]
}

mkfifo feed
"$AFAR" region put feed kept:meanwhile --size 5000000 >put.out 2>put.err &
put=$!
running="$running $put"
exec 4>feed
head -c 3000000 in >&4
kill_daemon manager
sleep 0.7 # so long that who tries less and less often would be back after the end of its lease
start_manager "$port"
eventually nr_connected 2
tail -c +3000001 in >&4
exec 4>&-
wait "$put" || fail "the put ended with $?: $(cat put.err)"

"$AFAR" region get kept:before out >get.out
same in out
"$AFAR" region get kept:meanwhile out >get.out
same in out

# A program that begins before servers are back waits for them.
for name in one two; do
	kill -STOP "$(pid_of "$name")"
done
kill_daemon manager
start_manager "$port"
"$AFAR" region get kept:before back >get.out 2>get.err &
get=$!
running="$running $get"
eventually nr_connected 2
! has_ended "$get" || fail "the get did not wait: $(cat get.err)"
for name in one two; do
	kill -CONT "$(pid_of "$name")"
done
wait "$get" || fail "the get ended with $?: $(cat get.err)"
forget "$get"
same in back
"$AFAR" ns ls | grep -q '^empty ' || fail "a namespace is lost"
eventually "$AFAR" region put in kept:after
"$AFAR" region rm kept:before
refused 1 'before' "$AFAR" region rm kept:before
still_works
