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
