#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A server that is killed under a put fails that put with one line, soon, and nobody else: what lies on
# the other server stays readable, and new regions go there.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_manager
start_server one
"$AFAR" ns create quiet --width 1
random_file in 6000000
"$AFAR" region put in quiet:a >/dev/null # on the only server there is

start_server two
"$AFAR" ns create striped --width 2 --stripe 64K
"$AFAR" region put in striped:old >/dev/null
mkfifo feed
# shellcheck disable=SC2154 # cluster.sh assigns it
timeout $((20 * slowness)) "$AFAR" region put feed striped:a --size 64M >put.out 2>put.err &
put=$!
running="$running $put"
exec 4>feed
head -c 33554432 /dev/zero >&4
kill_daemon two
head -c 33554432 /dev/zero >&4 2>/dev/null || : # as much of it as the put still takes
exec 4>&-
status=0
wait "$put" || status=$?
[ "$status" -eq 1 ] || fail "the put ended with $status: $(cat put.err)"
[ "$(wc -l <put.err)" -eq 1 ] || fail "the put should complain in one line: $(cat put.err)"
grep -q '^afar: put feed into striped:a: ' put.err || fail "the put says $(cat put.err)"

"$AFAR" region get quiet:a out >/dev/null
same in out
eventually sh -c '"$AFAR" status | grep -Eq "^two +down "'
refused 1 'striped|a' "$AFAR" region stat striped:a
# What lay on the dead server is gone, and can be removed or put again.
refused 1 'reach server two: it is down, for [0-9]+ s; start it again' "$AFAR" region get striped:old out
"$AFAR" region stat striped:old >/dev/null
"$AFAR" region put in striped:old --replace >/dev/null
"$AFAR" region get striped:old out >/dev/null
same in out
still_works
eventually "$AFAR" ns rm striped --force
