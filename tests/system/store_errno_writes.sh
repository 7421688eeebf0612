#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A device answers each kind of errno to writes: of a region, of a file, through a mount and of an export. Programs hear of an input/output
# error, at once, and what was there before is there when a server has opened the well device again. Reads through a mount and of an
# export likewise. With `all`, twenty kinds; else some.
# shellcheck disable=SC2154 # cluster.sh, mounts.sh and exports.sh set some
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/system/cluster.sh
. "$here/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$here/mounts.sh"
# shellcheck source=tests/system/exports.sh
. "$here/exports.sh"

errnos='28 110 107 11'
[ "${1:-}" != all ] || errnos='1 2 4 7 11 12 13 16 17 22 28 30 95 110 107 104 111 116 61 121 84 5 19'
start_manager
export AFARD="$AFARD_GATED"
AFARD_FAIL_FLUSHES=$scratch/fails
export AFARD_FAIL_FLUSHES
start_gated() {
	start_daemon one --role server --data "$scratch/one" --name one --data-listen "tcp:$host:0" \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash 512M
}

# fails WHAT COMMAND…: with an input/output error, soon.
fails() {
	what=$1
	shift
	got=0
	timeout $((20 * slowness)) "$@" >out 2>line || got=$?
	[ "$got" -ne 0 ] && [ "$got" -lt 124 ] || fail "$what with errno $errno ended with $got: $(cat out line)"
	grep -Eq 'cannot use its device|Input/output error|all stores are away, or read only' line out || fail "$what with errno $errno said: $(cat out line)"
}

# well COMMAND…: it does, once the server is back.
well() {
	"$@" >out 2>line
}

volume_fails() {
	fails "a volume's $1" qemu-io -f raw -c "$2" "$nbd"
}

start_gated
"$AFAR" ns create kept --tier flash
"$AFAR" fs create home --tier flash
"$AFAR" volume create disk 8M --tier flash
random_file in 300000
random_file other 300000
"$AFAR" region put in kept:a >put.out 2>&1
"$AFAR" put in /home/a >put.out
start_mount m home --direct
cp in m/b
start_export x disk
io 'write -P 1 0 1M' 'flush' || fail "$(cat io.out)"

for errno in $errnos; do
	echo "$errno" >fails.reads
	fails 'a read of a mount' dd if=m/a of=back bs=64K status=none
	volume_fails read 'read 0 64k'
	echo 0 >fails.reads
	same in m/a
	io 'read -P 1 0 1M' || fail "after reads with errno $errno: $(cat io.out)"

	echo "$errno" >fails.writes
	fails "a region's put" "$AFAR" region put other kept:b --replace
	fails "a file's put" "$AFAR" put other /home/c
	fails 'a write of a mount' dd if=other of=m/d bs=64K conv=fsync status=none
	volume_fails write 'write -P 2 4M 64k'
	same in m/a
	echo 0 >fails.writes
	kill_daemon one
	start_gated
	eventually well "$AFAR" region get kept:a back
	same in back
	same in m/b
	eventually io 'read -P 1 0 1M'
done
"$AFAR" umount m || fail "umount"
has_ended_with 0 m
kill -TERM "$(pid_of x)"
ends_with 0 x
