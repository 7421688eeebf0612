#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No cluster where it is said to be: never started, stopped, or crashed and its announcement left.
. "$(dirname "$0")/cluster.sh"

refused 1 'afar up' "$AFAR" status
refused 1 'afar up' "$AFAR" region ls x

start_daemon all --data afar-data --listen 127.0.0.1:0 --memory 32M
uri=$(cat afar-data/cluster)
[ "$(cat all.out)" = "afard: ready on $uri" ] || fail "it said $(cat all.out)"
"$AFAR" status >/dev/null
still_works
stop_daemon all
[ ! -e afar-data/cluster ] || fail "the announcement of a stopped cluster stayed"
refused 1 'afar up' "$AFAR" status
refused 1 'nobody answers' "$AFAR" --key afar-data/key --cluster "$uri" status

start_daemon all --data afar-data --listen 127.0.0.1:0 --memory 32M
kill_daemon all
refused 1 'nobody answers' "$AFAR" status
start_daemon all --data afar-data --listen 127.0.0.1:0 --memory 32M
still_works
