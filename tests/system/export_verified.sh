#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fio writes an exported volume on flash and verifies what it reads, while both servers of the volume are killed (-9) in the
# middle, again and again: it sees no error, and every sum is right.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/exports.sh
. "$(dirname "$0")/exports.sh"
requires fio fio
fio --enghelp=nbd >fio.out 2>&1 || {
	echo "fio has no engine for NBD"
	exit 77
}

start_manager
start_store one
start_store two
"$AFAR" volume create v 64M --tier flash --width 2 --stripe 64K
start_export v v

# shellcheck disable=SC2154 # exports.sh sets nbd
fio --name=verify --thread --ioengine=nbd --uri="$nbd" --rw=randrw --bsrange=512-64k --size=64M --rate=10m,10m --status-interval=1 \
	--iodepth=16 --verify=crc32c --verify_fatal=1 --verify_backlog=256 --fsync=512 --randrepeat=0 >fio.out 2>&1 &
fio=$!
running="$running $fio"
# has_gone_on SECONDS: fio tells each second what it has done.
has_gone_on() {
	has_ended "$fio" || [ "$(grep -c '^ *write: IOPS=' fio.out)" -ge "$1" ]
}
for round in 1 2 3; do
	eventually has_gone_on "$round"
	! has_ended "$fio" || fail "fio ended before the servers were killed: $(cat fio.out)"
	kill_daemon one
	[ "$round" = 2 ] || kill_daemon two
	start_store one
	[ "$round" = 2 ] || start_store two
done
wait "$fio" || fail "fio: $(cat fio.out)"
forget "$fio"
end_export v
nothing_is_left
