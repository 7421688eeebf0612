#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A store whose journal can no longer be flushed: it says so everywhere, reads go on, writes are refused, and nothing new goes there.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# start_flash NAME FLAG…: a server that lends flash, whose flushes can be made to fail.
start_flash() {
	flash=$1
	shift
	# shellcheck disable=SC2154 # cluster.sh assigns it
	AFARD_FAIL_FLUSHES=$scratch/$flash.fails
	export AFARD_FAIL_FLUSHES
	start_daemon "$flash" --role server --data "$scratch/$flash" --name "$flash" --data-listen "tcp:$host:0" \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash 64M "$@"
}

start_manager
export AFARD="$AFARD_GATED"
start_flash one
"$AFAR" ns create kept --tier flash
random_file in 3000000
"$AFAR" region put in kept:a >/dev/null
"$AFAR" ns reserve kept 16M
"$AFAR" store ls | grep -Eq '^[0-9a-f]{16} one .* ok ' || fail "$("$AFAR" store ls)"

: >one.fails
refused 1 'EIO|Input/output error' "$AFAR" region put in kept:b
health='^[0-9a-f]{16} one .* read only for [0-9]+ s \(Input/output error\)'
"$AFAR" store ls | grep -Eq "$health" || fail "$("$AFAR" store ls)"
"$AFAR" status | grep -Eq "$health" || fail "$("$AFAR" status)"
"$AFAR" top --interval 0.1 --count 1 | grep -Eq '^ +[0-9a-f]{16} +read only +store' || fail "top: $("$AFAR" top --count 1)"
"$AFAR" store ls --json | python3 -c '
import json, sys
(store,) = json.load(sys.stdin)
assert store["state"] == "up" and store["failure"] is None
assert store["refusal"] == "Input/output error" and store["refusal_ms"] >= 0, store' || fail "$("$AFAR" store ls --json)"
"$AFAR" region get kept:a out >/dev/null
same in out

# What is new goes elsewhere, or nowhere.
"$AFAR" ns create new --tier flash
refused 1 'all stores are away, or read only' "$AFAR" ns reserve new 4M
refused 1 'all stores are away, or read only' "$AFAR" region put in kept:c
start_flash two
"$AFAR" region put in new:a >/dev/null
"$AFAR" region get new:a out >/dev/null
same in out

# Files go on elsewhere, for a program that had the file system open before, too: a sync asks only stores that were written to.
start_flash three
"$AFAR" fs create home --tier flash --width 2 --stripe 64K
mkdir tree
for i in $(seq 1 30); do
	random_file "tree/$i" 5000
done
"$AFAR" put -r tree /home/before >put.out
: >three.fails
"$AFAR" put -r tree /home/tree >put.out 2>&1 || : # the store hears of it by a flush
"$AFAR" store ls | grep -Eq '^[0-9a-f]{16} three .* read only' || fail "$("$AFAR" store ls)"
for i in $(seq 1 30); do
	"$AFAR" put "tree/$i" /home/ >put.out 2>&1 || fail "file $i beside a store that is read only: $(cat put.out)"
done
"$AFAR" get -r /home/before back >get.out
diff -r tree back || fail "what was there before differs"
for i in $(seq 1 30); do
	"$AFAR" get "/home/$i" out >get.out
	same "tree/$i" out
done

# Opened again, it is well, and can be written.
rm one.fails
kill_daemon one
start_flash one
"$AFAR" store ls | grep -Eq '^[0-9a-f]{16} one .* ok ' || fail "$("$AFAR" store ls)"
"$AFAR" region get kept:a out >/dev/null
same in out
"$AFAR" region put in kept:d >/dev/null
