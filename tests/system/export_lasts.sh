#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What clients of an exported volume on flash were told to be durable is there after kill -9 of nbdkit and of the server, and
# an export outlives its server.
# shellcheck disable=SC2154 # cluster.sh and exports.sh set some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/exports.sh
. "$(dirname "$0")/exports.sh"

start_manager
start_store one
"$AFAR" volume create v 16M --tier flash

# crash: nobody can write again what was not durable, nor have it synced.
crash() {
	kill -9 "$(nbdkit_of v)" "$(pid_of v)"
	ends_with 137 v
	rm -r "${XDG_RUNTIME_DIR:?}"/*
	kill_daemon one
	start_store one
	start_export v v --take-over
}

# ---- Durable requests, and flushes

# Servers count what they sync.
nr_syncs() {
	"$AFAR" store ls --json | sed -n 's/.*"nr_syncs": \([0-9]*\).*/\1/p'
}
# Servers report about once a second: what many looks in a row have shown is all.
syncs=-1 looks=0
have_settled() {
	now=$(nr_syncs)
	looks=$((looks + 1))
	[ "$now" -eq "$syncs" ] || looks=0 syncs=$now
	[ "$looks" -ge 15 ]
}
are_synced() {
	[ "$(nr_syncs)" -ge $((syncs + 4)) ]
}

start_export v v
request 1 0 8192
eventually have_settled
request 1 1 5000 # a write, a trim and a zero with FUA, and a flush
request 4 1 8192
request 6 1 6000
request 3 0 0
eventually are_synced

# They last.
io 'write -P 4 2M 1M' 'write -P 5 3M 8M' flush || fail "$(cat io.out)"
crash
io 'read -P 4 2M 1M' 'read -P 5 3M 8M' || fail "$(cat io.out)"
io 'write -z -f 2M 2M' 'write -f -P 3 100 5000' || fail "$(cat io.out)"
crash
io 'read -P 0 2M 2M' 'read -P 5 4M 7M' 'read -P 3 100 5000' || fail "$(cat io.out)"
# A flush of one connection covers what was answered on another.
mkfifo feed
qemu-io -f raw "$nbd" <feed >first.out 2>&1 &
client=$!
exec 5>feed
echo 'write -P 6 0 1M' >&5
is_written() {
	grep -q wrote first.out
}
eventually is_written
io flush || fail "$(cat io.out)"
kill -9 "$client"
wait "$client" || :
exec 5>&-
crash
io 'read -P 6 0 1M' || fail "$(cat io.out)"

# ---- What was answered and not flushed: the end of an export has it synced, and so has an nbdkit that follows one which died.

stay idle
request 1 0 8192
end_export v
is_cut_off idle
kill_daemon one
start_store one
start_export v v
io 'read -P 120 4096 8192' 'write -P 0 4096 8192' || fail "the end synced nothing: $(cat io.out)"
request 1 0 8192
kill -9 "$(nbdkit_of v)"
nbdinfo --size "$nbd" >info || fail "nbdkit did not come back" # which flushes nothing
kill_daemon one
start_store one
io 'read -P 120 4096 8192' || fail "the next nbdkit synced nothing: $(cat io.out)"
end_export_that_said v 'another one starts'

# ---- A server that goes, and comes back

start_export v v

io 'write -P 7 0 1M' || fail "$(cat io.out)"
kill_daemon one
io 'write -P 8 1M 1M' 'flush' 'read -P 7 0 1M' 'read -P 8 1M 1M' &
client=$!
start_store one
wait "$client" || fail "over a restart: $(cat io.out)"
end_export v

# An export that is told to end waits no longer for a server than is said, and tells.
start_export v v
kill_daemon one
io 'write -P 9 0 4k' &
client=$!
kill -TERM "$(pid_of v)"
ends_with 1 v
wait "$client" || :
grep -q 'could not be synced and closed in 4 s: .* may be lost' v.err || fail "no sync: $(cat v.err)"
start_store one

# Without waiting requests fail, and the end says that nothing was synced.
start_export v v --take-over --retry 0
kill_daemon one
io_fails 'write -P 9 0 4k'
kill -TERM "$(pid_of v)"
ends_with 1 v
grep -q 'without a last sync' v.err || fail "no sync, and nothing said: $(cat v.err)"
nothing_is_left
