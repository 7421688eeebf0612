#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Flash at a server of this machine, over the transport local: it is what clients take, no byte of theirs goes over tcp, and
# what holds over tcp holds there: what was durable is there after kill -9 of the server, and a client that is killed in the
# middle of requests holds nobody up.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# start_flash LANES: with a store that clients of this machine may reach over local if the server's memory may be.
start_flash() {
	start_daemon one --role server --data "$PWD/one" --name one --data-listen "$1" --key "$PWD/manager/server.key" \
		--manager "$AFAR_CLUSTER" --memory 64M --flash 192M
}

both=local,tcp:127.0.0.1:0

# round_trip PUT GET BYTES: puts by one transport, and gets by the other.
round_trip() {
	random_file in "$3"
	"$AFAR" --path "$1" region put in works:a >/dev/null
	"$AFAR" --path "$2" region get works:a out >/dev/null
	same in out
	"$AFAR" region rm works:a
}

# Which transports the one session that writes says it has used, with the bytes it has written.
used() {
	"$AFAR" status --json >status.json
	python3 -c 'import json
uses = [s["use"] for s in json.load(open("status.json"))["sessions"] if s["use"] and s["use"]["paths"]]
print(*sorted({p["transport"] for use in uses for p in use["paths"] if p["bytes_written"] > 0}))'
}

uses_local_alone() {
	[ "$(used)" = local ]
}

# start_writer NAMESPACE NAME
start_writer() {
	rm -f written
	"$REGION_WRITER" "$1" "$2" write >written 2>writer.err &
	writer=$!
	until [ -e written ] && [ "$(wc -l <written)" -ge 5 ]; do
		kill -0 "$writer" 2>/dev/null || fail "the writer ended: $(cat writer.err)"
	done
}

make_works() {
	"$AFAR" ns create works --tier flash --width 1
	"$AFAR" ns reserve works 32M >/dev/null
}

start_manager
start_flash "$both"
make_works

# way [FLAG…]: the transport that a client would take.
way() {
	"$AFAR" "$@" status --json >status.json
	python3 -c 'import json; print(json.load(open("status.json"))["stores"][0]["transport"])'
}
[ "$(way) $(way --path tcp)" = "local tcp" ] || fail "the ways: $(way), $(way --path tcp)"

# Both ways lead to the same bytes.
for bytes in 1 4096 100001 3000000; do
	round_trip local tcp "$bytes"
	round_trip tcp local "$bytes"
	round_trip local local "$bytes"
done

# It is what a client takes, for all of its bytes; a server that is killed in the middle has lost nothing.
start_writer works first
eventually uses_local_alone
kill_daemon one
wait "$writer" || fail "the writer did not end well: $(cat writer.err)"
start_flash "$both"
"$REGION_WRITER" works first verify "$(tail -n 1 written)" || fail "over local"

# A client that is killed with requests under way: the others go on, and its namespace can be taken away.
start_writer works second
kill -9 "$writer"
wait "$writer" 2>/dev/null || :
"$REGION_WRITER" works second verify "$(tail -n 1 written)" || fail "after the client was killed"

# Its session ends, and so the namespace can be taken away, with all that was reserved.
eventually "$AFAR" ns rm --force works
make_works
round_trip local tcp 3000000
still_works

# An extent is taken from a namespace. Those of its connections that could reach it are ended, in the middle of requests to
# another one: what was durable there is there. Each file and region fills an extent.
"$AFAR" ns create fenced --tier flash --width 1
random_file in 8388608
for name in a b; do
	"$AFAR" ns reserve fenced 8M >/dev/null
	"$AFAR" region put in "fenced:$name" >/dev/null
done
"$AFAR" region rm fenced:a
start_writer fenced third
"$AFAR" region rm fenced:b
"$AFAR" ns release fenced >/dev/null
wait "$writer" || fail "the writer did not end well: $(cat writer.err)"
"$REGION_WRITER" fenced third verify "$(tail -n 1 written)" || fail "after its connections were ended"

# A store that nobody reaches over local serves over tcp.
stop_daemon one
start_flash tcp:127.0.0.1:0
round_trip tcp tcp 3000000
[ "$(way)" = tcp ] || fail "the way: $(way)"
refused 1 'no lane over local' "$AFAR" --path local region put in works:a
