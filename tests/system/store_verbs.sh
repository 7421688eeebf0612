#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Flash over verbs: it is what clients take, and no byte of theirs goes over tcp. What holds over tcp
# holds there: what was durable is there after kill -9 of the server, a client that is killed in the middle of requests
# holds nobody up, and an extent that is taken from a namespace ends connections and loses nothing.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

if [ "${AFAR_TEST_TRANSPORT-} ${AFAR_GUEST-}" != "verbs 1" ]; then
	echo "it wants verbs, and a machine whose disks are nobody's: scripts/check-verbs runs this"
	exit 77
fi

# On a block device, because files in memory have no O_DIRECT. A test that failed has left its own.
losetup -D
truncate -s 192M flash
device=$(losetup --find --show "$PWD/flash")

# start_flash LANES: with a store that clients reach over verbs if the server's memory is.
start_flash() {
	start_daemon one --role server --data "$PWD/one" --name one --data-listen "$1" --key "$PWD/manager/server.key" \
		--manager "$AFAR_CLUSTER" --memory 64M --flash "$device" --cache 16M
}

both=verbs:$AFAR_TEST_HOST:0,tcp:$AFAR_TEST_HOST:0

# round_trip PUT GET BYTES: puts by one transport, and gets by the other.
round_trip() {
	random_file in "$3"
	"$AFAR" --path "$1" region put in works:a >/dev/null
	"$AFAR" --path "$2" region get works:a out >/dev/null
	same in out
	"$AFAR" region rm works:a
}

# The transports with bytes that sessions have written over them.
used() {
	"$AFAR" status --json >status.json
	python3 -c 'import json
uses = [s["use"] for s in json.load(open("status.json"))["sessions"] if s["use"] and s["use"]["paths"]]
print(*sorted({p["transport"] for use in uses for p in use["paths"] if p["bytes_written"] > 0}))'
}

uses_verbs_alone() {
	[ "$(used)" = verbs-driven ]
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

# way [FLAG…]: the transport that a client would take.
way() {
	"$AFAR" "$@" status --json >status.json
	python3 -c 'import json; print(json.load(open("status.json"))["stores"][0]["transport"])'
}

"$AFAR" flash create "$device" --force >/dev/null
start_manager
start_flash "$both"
make_works
[ "$(way) $(way --path verbs) $(way --path tcp)" = "verbs-driven verbs-driven tcp" ] ||
	fail "the ways: $(way), $(way --path verbs), $(way --path tcp)"

# Both ways lead to the same bytes.
for bytes in 1 100001 3000000; do
	round_trip verbs tcp "$bytes"
	round_trip tcp verbs "$bytes"
done

# It is what a client takes, for all of its bytes; a server that is killed in the middle has lost nothing.
start_writer works first
eventually uses_verbs_alone
kill_daemon one
wait "$writer" || fail "the writer did not end well: $(cat writer.err)"
start_flash "$both"
"$REGION_WRITER" works first verify "$(tail -n 1 written)" || fail "over verbs"

# A client that is killed with requests under way: the others go on, and its namespace can be taken away.
start_writer works second
kill -9 "$writer"
wait "$writer" 2>/dev/null || :
"$REGION_WRITER" works second verify "$(tail -n 1 written)" || fail "after the client was killed"
eventually "$AFAR" ns rm --force works

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

# A store whose server has no verbs serves over tcp.
stop_daemon one
start_flash "tcp:$AFAR_TEST_HOST:0"
make_works
round_trip tcp tcp 3000000
[ "$(way)" = tcp ] || fail "the way: $(way)"
refused 1 'no lane over verbs' "$AFAR" --path verbs region put in works:a
