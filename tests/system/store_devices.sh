#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Devices come to running servers and go again: what cannot be added or removed is refused in one line, a device that was removed
# can be added elsewhere, and a client of another store of the same server sees no error meanwhile.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# start_flash NAME FLAG…: a server that lends flash.
start_flash() {
	flash=$1
	shift
	# shellcheck disable=SC2154 # cluster.sh assigns it
	start_daemon "$flash" --role server --data "$scratch/$flash" --name "$flash" --data-listen "tcp:$host:0" \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M "$@"
}

# stores EXPRESSION: of `stores`, a dictionary by path's last part, in Python; prints it.
stores() {
	"$AFAR" status --json | python3 -c '
import json, os, sys
stores = {os.path.basename(s["path"]): s for s in json.load(sys.stdin)["stores"]}
print(eval(sys.argv[1]))' "$@"
}

# healthy NAME SERVER OPENING: it is empty, up and well.
healthy() {
	[ "$(stores "[stores['$1'][k] for k in ('server_name', 'state', 'opening', 'granted_bytes', 'nr_orphans', 'failure', 'refusal')]")" = \
		"['$2', 'up', $3, 0, 0, None, None]" ] || fail "$1: $(stores "stores['$1']")"
	"$AFAR" store ls | grep -Eq "^[0-9a-f]{16} $2 .* ok .*/$1\$" || fail "$("$AFAR" store ls)"
}

start_manager
"$AFAR" flash create base --size 64M >/dev/null
"$AFAR" flash create "$PWD/disk" --size 64M >/dev/null
start_flash one --flash base
"$AFAR" ns create kept --tier flash
random_file in 3000000
"$AFAR" region put in kept:a >/dev/null
start_flash two

# A client reads from the other store all the time.
cat >reader.sh <<'END2'
while [ ! -e stop ]; do
	"$AFAR" region get kept:a reader.got >/dev/null 2>reader.said && cmp in reader.got >>reader.said 2>&1 || exit 1
	echo >>reader.count
done
END2
sh reader.sh &
reader=$!
running="$running $reader"

# ---- What cannot be added

"$AFAR" key add bob --out bob
refused 1 'operator' "$AFAR" --key bob store add one "$PWD/disk"
refused 2 "must begin with '/'" "$AFAR" store add one disk
refused 2 'too few' "$AFAR" store add one
refused 1 'there is none of this name' "$AFAR" store add three "$PWD/disk"
refused 1 "server 'one' .*open the store $PWD/none: it is not there" "$AFAR" store add one "$PWD/none"
refused 1 'neither a regular file nor a block device' "$AFAR" store add one /dev/null
truncate -s 64M foreign
refused 1 'holds no flash layer' "$AFAR" store add one "$PWD/foreign"
refused 1 'it is open already, as store' "$AFAR" store add one "$PWD/base"
refused 1 'another process has it open' "$AFAR" store add two "$PWD/base"
cp base copy
refused 1 'it is a copy of another that is open' "$AFAR" store add one "$PWD/copy"
refused 1 "is that which server 'one', which is connected, has on" "$AFAR" store add two "$PWD/copy"
# Another cluster's device is not let in, and its server stays in the cluster.
AFAR_CLUSTER_HERE=$AFAR_CLUSTER
"$AFAR" flash create other --size 64M >/dev/null
start_daemon other --data "$scratch/other.data" --listen 127.0.0.1:0 --memory 64M --flash other
stop_daemon other
AFAR_CLUSTER=$AFAR_CLUSTER_HERE
refused 1 'belongs to cluster [0-9a-f]{32}' "$AFAR" store add one "$PWD/other"
"$AFAR" flash check other >/dev/null || fail "the device that was refused is not closed"
[ "$(stores 'sorted(stores)')" = "['base']" ] || fail "stores: $("$AFAR" store ls)"

# ---- Added, and used

"$AFAR" store add one "$PWD/disk" >said
grep -Eq "^added store [0-9a-f]{16}; .* server one .*flash = $PWD/disk'" said || fail "it says: $(cat said)"
healthy disk one 1
number=$(stores 'stores["disk"]["store"]')
[ "$("$AFAR" complete store rm "${number%????????}")" = "$number" ] || fail "complete: $("$AFAR" complete store rm '')"
[ "$("$AFAR" complete store add o)" = one ] || fail "complete: $("$AFAR" complete store add '')"
"$AFAR" ns create wide --tier flash --width 2 --stripe 64K 2>note
[ ! -s note ] || fail "there are two: $(cat note)"
"$AFAR" region put in wide:first >/dev/null
"$AFAR" region put in wide:second >/dev/null
"$AFAR" region get wide:first out >/dev/null
same in out
is_used() { [ "$(stores 'stores["disk"]["used_bytes"] > 2900000')" = True ]; }
eventually is_used

# ---- Not removed while it is used

refused 1 'operator' "$AFAR" --key bob store rm "$number"
refused 1 "it holds region 'wide:first', region 'wide:second'; copy" "$AFAR" store rm "$number"
"$AFAR" region rm wide:first
"$AFAR" region rm wide:second
refused 1 "MiB on it are reserved, for namespace 'wide'; 'afar ns release'" "$AFAR" store rm "$number"
refused 1 'there is none' "$AFAR" store rm 0000000000000001
"$AFAR" ns rm wide
eventually "$AFAR" store rm "$number"
grep -q "^removed store $number; if server one is told" eventually.out || fail "it says: $(cat eventually.out)"
[ "$(stores 'sorted(stores)')" = "['base']" ] || fail "stores: $("$AFAR" store ls)"
refused 1 'there is none' "$AFAR" store rm "$number"
# It is closed, and was closed in order.
"$AFAR" flash check disk >/dev/null || fail "the device is not closed, or not well"

# ---- Added again: to the same server, and to another one

"$AFAR" store add one "$PWD/disk" >/dev/null
healthy disk one 2
"$AFAR" ns create again --tier flash --width 2
"$AFAR" region put in again:a >/dev/null
"$AFAR" region get again:a out >/dev/null
same in out
"$AFAR" ns rm again --with-regions 2>/dev/null || { "$AFAR" region rm again:a && "$AFAR" ns rm again; }
eventually "$AFAR" store rm "$number"
"$AFAR" store add two "$PWD/disk" >/dev/null
healthy disk two 3

# ---- The server is killed while it closes one

"$AFAR" store rm "$number" >said 2>&1 &
removing=$!
kill_daemon two
wait "$removing" || :
start_flash two
if [ "$(stores '"disk" in stores')" = True ]; then
	"$AFAR" store ls | grep -Eq "^$number two .* away for" || fail "$("$AFAR" store ls)"
	"$AFAR" store rm "$number" >/dev/null
fi
[ "$(stores 'sorted(stores)')" = "['base']" ] || fail "stores: $("$AFAR" store ls)"
"$AFAR" store add two "$PWD/disk" >/dev/null
[ "$(stores '[stores["disk"][k] for k in ("state", "granted_bytes", "nr_orphans", "failure")]')" = "['up', 0, 0, None]" ] ||
	fail "after the kill: $(stores 'stores["disk"]')"

# ---- A device with regions moves to a running server

"$AFAR" ns create moved --tier flash --width 2 --stripe 64K
"$AFAR" region put in moved:a >/dev/null
stop_daemon two
is_away() { [ "$(stores 'stores["disk"]["state"]')" = away ]; }
eventually is_away
refused 1 "it holds region 'moved:a'; copy" "$AFAR" store rm "$number"
"$AFAR" store add one "$PWD/disk" >/dev/null
"$AFAR" region get moved:a out >/dev/null
same in out
# Whoever read from the other store all the while has seen no error.
[ "$(wc -l <reader.count)" -ge 3 ] || fail "the reader read $(wc -l <reader.count) times"
: >stop
wait "$reader" || fail "another store's reader: $(cat reader.said)"
forget "$reader"

# It is the server's like the others: it is closed and counted with them, and comes back when it is told to open it.
stop_daemon one
start_flash one --flash base --flash disk
"$AFAR" region get moved:a out >/dev/null
same in out
