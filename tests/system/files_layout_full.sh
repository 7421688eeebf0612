#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A file with a layout of its own, larger than the server it belongs to: the rest goes elsewhere, and the pool does not take the whole cluster.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster 192M
start_server three 1G
"$AFAR" fs create f --mode 777
"$AFAR" mkdir /f/narrow
"$AFAR" fs set-layout /f/narrow --width 1
"$AFAR" fs create fine --mode 777 --stripe 32K
"$AFAR" mkdir /fine/narrow
refused 1 'has a stripe unit of 32768 bytes' "$AFAR" fs set-layout /fine/narrow --width 1

# One on each of them: their numbers follow each other.
random_file in $((220 << 20))
for i in 1 2 3; do
	"$AFAR" put in "/f/narrow/in$i"
done
for i in 1 2 3; do
	"$AFAR" get "/f/narrow/in$i" got
	same got in
done
"$AFAR" fs ls --json >systems.json
python3 - <<'END' || fail "the pool: $(cat systems.json)"
import json
pool = [system["pool_bytes"] for system in json.load(open("systems.json")) if system["name"] == "f"][0]
assert pool < 1 << 30, pool
END
"$AFAR" fs check f >check.out || fail "fs check: $(cat check.out)"
