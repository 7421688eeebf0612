#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Several devices of a server over verbs, one of which comes while it runs: each has a lane, clients that use all of them at once
# read what they have written, and when one goes the others serve on.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

if [ "${AFAR_TEST_TRANSPORT-} ${AFAR_GUEST-}" != "verbs 1" ]; then
	echo "it wants verbs, and a machine whose disks are nobody's: scripts/check-verbs runs this"
	exit 77
fi

# stores EXPRESSION: of `stores`, what status says of each, in Python; prints it.
stores() {
	"$AFAR" status --json | python3 -c '
import json, sys
stores = json.load(sys.stdin)["stores"]
print(eval(sys.argv[1]))' "$@"
}

# client NUMBER NAMESPACE: puts and gets what is its own.
client() {
	random_file "in.$1" 3000000
	"$AFAR" region put "in.$1" "$2:$1" >/dev/null
	"$AFAR" region get "$2:$1" "out.$1" >/dev/null
	same "in.$1" "out.$1"
}

losetup -D
for i in 1 2 3; do
	truncate -s 128M "flash$i"
	eval "device$i=$(losetup --find --show "$PWD/flash$i")"
done
# shellcheck disable=SC2154 # the loop has set them
"$AFAR" flash create "$device1" --force >/dev/null
# shellcheck disable=SC2154
"$AFAR" flash create "$device2" --force >/dev/null
# shellcheck disable=SC2154
"$AFAR" flash create "$device3" --force >/dev/null
start_manager
start_daemon one --role server --data "$PWD/one" --name one --data-listen "verbs:$AFAR_TEST_HOST:0" --key "$PWD/manager/server.key" \
	--manager "$AFAR_CLUSTER" --memory 64M --flash "$device1" --flash "$device2" --cache 8M
"$AFAR" store add one "$device3" >/dev/null
[ "$(stores '[s["transport"] for s in stores]')" = "['verbs-driven', 'verbs-driven', 'verbs-driven']" ] ||
	fail "the ways: $(stores '[s["transport"] for s in stores]')"

"$AFAR" ns create all --tier flash --width 3 --stripe 64K
client 1 all &
one=$!
client 2 all &
two=$!
client 3 all
wait "$one" || fail "the first client"
wait "$two" || fail "the second client"
[ "$(stores 'all(s["granted_bytes"] > 0 for s in stores)')" = True ] || fail "a store has nothing: $(stores stores)"

# The one that came has no namespace any more, and goes.
"$AFAR" ns rm --force all
"$AFAR" store rm "$(stores "[s['store'] for s in stores if s['path'] == '$device3'][0]")" >/dev/null
"$AFAR" ns create two --tier flash --width 2 --stripe 64K
client 4 two
