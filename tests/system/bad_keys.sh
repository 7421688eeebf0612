#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Keys: another secret, another identity, none, malformed, readable by others — for client and daemons.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
key=$PWD/manager/key
[ "$(stat -c %a "$key")" = 600 ] || fail "the key's mode is $(stat -c %a "$key")"
[ "$(stat -c %a "$PWD/manager")" = 700 ] || fail "the folder's mode"

install -m 600 /dev/null wrong
echo "admin:$(printf '%064d' 0)" >wrong
install -m 600 /dev/null stranger
sed 's/^admin:/nobody:/' "$key" >stranger
install -m 600 /dev/null malformed
echo 'this is no key' >malformed
install -m 600 /dev/null empty
cp "$key" open
chmod 644 open

refused 1 'key' "$AFAR" --key wrong status
refused 1 'key' "$AFAR" --key stranger status
refused 1 'malformed' "$AFAR" --key malformed status
refused 1 'empty' "$AFAR" --key empty status
refused 1 'missing' "$AFAR" --key missing status
refused 1 'open' "$AFAR" --key open status
refused 1 'wrong|key' "$AFAR" --key=wrong region ls x
"$AFAR" --key "$key" status >/dev/null

refused 1 'malformed' "$AFARD" --role manager --data a --listen 127.0.0.1:0 --key malformed
refused 1 'open' "$AFARD" --role manager --data a --listen 127.0.0.1:0 --key open
refused 1 'missing' "$AFARD" --role server --data b --manager 127.0.0.1:1 --key missing
refused 1 'no server.key' "$AFARD" --role server --data c --manager 127.0.0.1:1

# Names that no principal can have, and one that is two.
install -m 600 /dev/null odd
echo "a/b:$(printf '%064d' 1)" >odd
install -m 600 /dev/null twice
echo "server:$(printf '%064d' 1)" >twice
refused 1 "odd.*a/b.*principal" "$AFARD" --role manager --data d --listen 127.0.0.1:0 --key odd
refused 1 "odd.*a/b.*principal" "$AFARD" --role server --data e --manager 127.0.0.1:1 --key odd
refused 1 "server.key.*'server'.*twice" "$AFARD" --role manager --data f --listen 127.0.0.1:0 --key twice
still_works
