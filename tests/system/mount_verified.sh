#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fio writes a file of a mount on flash durably, and verifies what it reads, while both servers, which keep pages, are killed (-9) in the
# middle: it sees no error, and every sum is right.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

command -v fio >/dev/null || skip "fio is not there (apt install fio)"
start_flash_cluster
"$AFAR" fs create f --tier flash --width 2 --stripe 64K
start_mount m f --direct

# hits: what was read from memory of the servers, since they were started.
hits() {
	"$AFAR" store ls --json | sed -n 's/.*"cache_hits": \([0-9]*\).*/\1/p' | awk '{ sum += $1 } END { print sum + 0 }'
}

fio --name=verify --directory="$PWD/m" --ioengine=libaio --iodepth=8 --rw=randrw --bsrange=512-64k --blocksize_unaligned=1 --size=24m \
	--rate=10m,10m --status-interval=1 --verify=crc32c --verify_fatal=1 --verify_backlog=64 --sync=1 --randseed=11 >fio.out 2>&1 &
fio=$!
running="$running $fio"
has_begun() {
	has_ended "$fio" || grep -q '^ *write: IOPS=' fio.out
}
eventually has_begun
! has_ended "$fio" || fail "fio ended before the servers were killed: $(cat fio.out)"
echo "$(hits) hits before the servers are killed"
kill_daemon one
kill_daemon two
start_flash_server one
start_flash_server two
wait "$fio" || fail "fio: $(cat fio.out)"
forget "$fio"
has_hits() {
	[ "$(hits)" -gt 0 ]
}
eventually has_hits
end_mount m
