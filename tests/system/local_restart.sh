#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A server with a local lane at a place of its own: killed, it leaves its socket there, and takes it over when it
# starts again; a second one does not get the place, and a file that is no socket is left alone.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_here() {
	# shellcheck disable=SC2154 # cluster.sh assigns it
	start_daemon here --role server --data "$scratch/here" --name here --data-listen "local:$scratch/s" \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M
}

cannot_start() {
	refused 1 "$1" "$AFARD" --role server --data "$scratch/other" --name other --data-listen "local:$scratch/s" \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M
}

there_and_back() {
	random_file in 3000000
	"$AFAR" region put in "works:$1" >/dev/null
	"$AFAR" region get "works:$1" out >/dev/null
	same in out
	"$AFAR" region rm "works:$1"
}

start_manager
start_here
"$AFAR" status >status.out
grep -q "here .* \*local" status.out || fail "status: $(cat status.out)"
"$AFAR" ns create works --width 1
for round in 1 2 3; do
	there_and_back "$round"
	cannot_start 'another server is there'
	kill_daemon here
	[ -S "$scratch/s" ] || fail "a server that was killed has taken its socket with it"
	start_here
done
there_and_back last
stop_daemon here
[ ! -e "$scratch/s" ] || fail "a server that was stopped has left its socket"
echo mine >"$scratch/s"
cannot_start 'Address already in use|another server'
[ "$(cat "$scratch/s")" = mine ] || fail "a server has taken a file away that is no socket"
