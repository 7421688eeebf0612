#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The volume of an export is removed and made anew, or its whole cluster is, while nbdkit is cut off from it, or dead. Clients hear an
# error, and the export ends with a line: nobody reads or writes the other.
# shellcheck disable=SC2154,SC2034 # cluster.sh and exports.sh set some, and use some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/exports.sh
. "$(dirname "$0")/exports.sh"

# start_cluster_in FOLDER FLAG…: with a volume whose bytes are FOLDER's first.
start_cluster_in() {
	folder=$1
	shift
	start_daemon manager --role manager --data "$scratch/$folder" --lease-ms 2000 --listen "$host:${port:-0}" "$@"
	AFAR_CLUSTER=$uri
	export AFAR_CLUSTER
	start_daemon one --role server --data "$scratch/$folder-one" --name one --data-listen "tcp:$host:0" \
		--key "$scratch/$folder/server.key" --manager "$AFAR_CLUSTER" --memory 128M --flash 160M
	"$AFAR" volume create v 1M --tier flash
}

# ends_as_another: the export, and nbdkit was started anew at most once.
ends_as_another() {
	ends_with 1 v
	grep -q '^afar: export v: the volume that it had is gone, ' v.err || fail "$1: the export said $(cat v.err)"
	[ "$(grep -c 'starts at the same address' v.err)" -le 1 ] || fail "$1: nbdkit was started again and again: $(cat v.err)"
}

# is_as_it_was PATTERN: the volume, to whom exports it now.
is_as_it_was() {
	start_export u v
	io "read -P $1 0 1M" || fail "the other was written: $(cat io.out)"
	end_export u
}

has_ended_session() {
	"$AFAR" volume rm v
}

# replace: nbdkit dies, and the next one starts when the volume is another one.
replace() {
	kill -STOP "$(pid_of v)"
	kill -9 "$(nbdkit_of v)"
	eventually has_ended_session
	[ "$1" = gone ] || "$AFAR" volume create v 1M --tier flash
	kill -CONT "$(pid_of v)"
}

start_cluster_in first
port=$(manager_port)
start_export v v
io 'write -P 1 0 1M' flush || fail "$(cat io.out)"
replace by_another
ends_as_another 'another volume'
is_as_it_was 0

start_export v v
replace gone
ends_as_another 'no volume'
"$AFAR" volume create v 1M --tier flash

# ---- Another cluster

for nbdkit in lives dies; do
	start_export v v
	io 'write -P 1 0 1M' flush || fail "$(cat io.out)"
	[ $nbdkit = lives ] || kill -STOP "$(pid_of v)"
	[ $nbdkit = lives ] || kill -9 "$(nbdkit_of v)"
	kill_daemon manager
	kill_daemon one
	[ $nbdkit = dies ] || qemu-io -f raw -c 'write -P 2 0 1M' "$nbd" >late.out 2>&1 4>&- &
	client=$!
	start_cluster_in "second-$nbdkit" --key "$scratch/first/key"
	[ $nbdkit = lives ] || kill -CONT "$(pid_of v)"
	ends_as_another "another cluster, nbdkit $nbdkit"
	[ $nbdkit = dies ] || ! wait "$client" || fail "a write to what is gone went well: $(cat late.out)"
	is_as_it_was 0
done
# With other keys, too.
start_export v v
io 'write -P 1 0 1M' flush || fail "$(cat io.out)"
kill_daemon manager
kill_daemon one
qemu-io -f raw -c 'read -P 1 0 1M' "$nbd" >late.out 2>&1 4>&- &
client=$!
start_cluster_in third
ends_with 1 v
grep -q '^afar: export v: its session has ended, ' v.err || fail "where its key is not accepted, the export said $(cat v.err)"
! wait "$client" || fail "a read of what is gone went well: $(cat late.out)"
is_as_it_was 0
nothing_is_left
