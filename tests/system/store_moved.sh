#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A disk is moved to another server, and its regions with it. A copy beside the original, an older image, another cluster's
# disk and one that is in use are refused, and nothing is lost by that.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# start_flash NAME FLASH: a server with a store, a size or a path.
start_flash() {
	start_daemon "$1" --role server --data "$PWD/$1" --name "$1" --data-listen "tcp:$host:0" \
		--key "$PWD/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash "$2"
}

# refused_store NAME FLASH PATTERN: its server does not join, and says why.
refused_store() {
	"$AFARD" --role server --data "$PWD/$1" --name "$1" --data-listen "tcp:$host:0" \
		--key "$PWD/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash "$2" \
		>"$1.out" 2>"$1.err" &
	refused=$!
	running="$running $refused"
	eventually grep -Eq -- "$3" "$1.err"
	kill -TERM "$refused" 2>/dev/null || :
	wait "$refused" || :
	forget "$refused"
	[ "$(grep -c ready "$1.out")" -eq 0 ] || fail "$1 has joined with $2"
	rm "$1.err"
}

start_manager
start_flash one 96M
"$AFAR" ns create kept --tier flash
random_file in 3000000
"$AFAR" region put in kept:first >/dev/null

# While the original is there, its copy is not let in; nor is the original a second time.
cp one/server/flash copy
refused_store two copy 'one.*has on .*close it there first'
refused_store two one/server/flash 'another process has it open'

# Moved: stopped here, started there.
stop_daemon one
mv one/server/flash disk
cp disk image
start_flash two disk
"$AFAR" region get kept:first out >/dev/null
same in out
"$AFAR" region put in kept:second >/dev/null

# An image from before is refused, whichever server has it, and the disk itself is welcome again.
kill_daemon two
refused_store three image 'older image'
refused_store two image 'older image'
refused_store two copy 'older image'
start_flash three disk
for name in first second; do
	"$AFAR" region get "kept:$name" out >/dev/null
	same in out
done

# Another cluster's disk.
stop_daemon three
stop_daemon manager
mv manager manager.before
start_manager
refused_store four disk 'store on .* belongs to cluster'
stop_daemon manager
rm -r manager
mv manager.before manager
start_manager
start_flash five disk
"$AFAR" region get kept:second out >/dev/null
same in out
