#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Servers on addresses of their own, and two clients at once that use both.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_manager
for host in ${AFAR_TEST_HOSTS:-127.0.0.2 127.0.0.3}; do
	AFAR_TEST_HOST=$host start_server "at_$(echo "$host" | tr . _)"
	"$AFAR" status | grep -q "$host:" || fail "no server is at $host"
done
"$AFAR" ns create shared --width 2 --stripe 64K

# client NUMBER: puts and gets what is its own.
client() {
	for round in 1 2 3; do
		random_file "in.$1" 1000000
		"$AFAR" region put "in.$1" "shared:$1.$round" >/dev/null
		"$AFAR" region get "shared:$1.$round" "out.$1" >/dev/null
		same "in.$1" "out.$1"
	done
}

client 1 &
other=$!
client 2
wait "$other" || fail "the other client"
