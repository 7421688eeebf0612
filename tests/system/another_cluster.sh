#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The cluster at an address is made anew, with the same keys and the same names, while programs have handles of the one before. All
# that they call is ESTALE, at once, and nothing of the other is read or written.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# start_all MANAGER BYTE FLAG…: with a server, which lends flash, too, and what has the names.
start_all() {
	folder=$scratch/$1 byte=$2
	shift 2
	start_daemon manager --role manager --data "$folder" --lease-ms 60000 --listen "$host:${port:-0}" "$@"
	AFAR_CLUSTER=$uri
	export AFAR_CLUSTER
	start_daemon one --role server --data "$folder-one" --name one --data-listen "tcp:$host:0" \
		--key "$folder/server.key" --manager "$AFAR_CLUSTER" --memory 128M --flash 160M
	"$AFAR" ns create n
	"$AFAR" ns reserve n 8M
	head -c 1M /dev/zero | tr '\0' "$byte" >bytes
	"$AFAR" region put bytes n:r >put.out
	"$AFAR" volume create v 1M --tier flash
	"$AFAR" volume create w 1M --tier flash
}

# hold NAME VOLUME RETRY-MS
hold() {
	mkfifo "$1.go"
	"$HANDLES" n r "$2" "$3" <"$1.go" >"$1.said" 2>"$1.err" &
	eval "pid_$1=$!"
	running="$running $!"
}
is_ready() {
	grep -q ready "$1.said"
}
is_done() {
	[ "$(grep -c "done" "$1.said")" -eq 1 ]
}

start_all first a
port=$(manager_port)
hold plain v 0
exec 8>plain.go
hold waiting w 600000
exec 9>waiting.go
for name in plain waiting; do
	eventually is_ready "$name"
	! grep -q -- ' -' "$name.said" || fail "at first: $(cat "$name.said")"
done
kill_daemon manager
kill_daemon one
start_all second b --key "$scratch/first/key"
echo >&8
echo >&9
for name in plain waiting; do
	eventually is_done "$name"
	[ "$(grep -c -- ' -116 .*the cluster there is another one' "$name.said")" -eq 10 ] || fail "$name handles answer: $(cat "$name.said")"
done
"$AFAR" region get n:r got >get.out
cmp got bytes || fail "the other's region was written"
echo end >&8
echo end >&9
for name in plain waiting; do
	wait "$(pid_of $name)" || fail "the program ended with $?: $(cat "$name.err")"
	forget "$(pid_of $name)"
done
