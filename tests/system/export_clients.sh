#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154 # exports.sh sets nbd
# export_clients.sh TIER: programs that people use, on an exported volume: what they write is there, for others and after the
# export.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/exports.sh
. "$(dirname "$0")/exports.sh"
requires nbdcopy libnbd-bin
requires qemu-img qemu-utils
tier=$1

start_manager
start_store one
start_store two
"$AFAR" volume create v 40M --tier "$tier" --width 2 --stripe 64K
start_export v v

# New bytes are zeros.
head -c 40M /dev/zero >zeros
nbdcopy "$nbd" back
same back zeros

# What is discarded reads as zeros on flash, where whole blocks go, and their room comes back.
uses() {
	used=$("$AFAR" store ls --json | sed -n 's/.*"used_bytes": \([0-9]*\).*/\1/p' | awk '{ sum += $1 } END { print sum }')
	[ "$used" -eq "$1" ]
}
qemu-io -f raw -c 'write -P 9 8M 16M' -c flush "$nbd" >io.out 2>&1 || fail "write: $(cat io.out)"
if [ "$tier" = flash ]; then
	eventually uses 16777216
	discarded='read -P 0 8M 8M'
else
	discarded='read -P 9 16M 1M'
fi
qemu-io -f raw -c 'discard 8191k 8194k' -c flush -c "$discarded" -c 'read -P 9 16385k 1M' "$nbd" >io.out 2>&1
! grep -q failed io.out || fail "discard: $(cat io.out)"
[ "$tier" = dram ] || eventually uses 8388608

# Copies over several connections at once come back as they went.
random_file in 41943040
nbdcopy --connections=4 in "$nbd"
nbdcopy --connections=4 "$nbd" back
[ "$(sha256sum <back)" = "$(sha256sum <in)" ] || fail "nbdcopy: not what was written"
nbdcopy --synchronous --request-size=65536 "$nbd" back
same back in

qemu-img info "$nbd" | grep -q '^virtual size: 40 MiB' || fail "$(qemu-img info "$nbd")"
qemu-img compare -f raw -F raw in "$nbd" >compare.out || fail "$(cat compare.out)"
qemu-img convert -f raw -O qcow2 "$nbd" copy.qcow2
qemu-img compare -f qcow2 -F raw copy.qcow2 "$nbd" >compare.out || fail "$(cat compare.out)"

# Any offsets and lengths. What is next to them stays.
cat >script <<'COMMANDS'
write -P 1 0 1M
write -P 2 1 1
write -P 3 4095 2
write -P 4 65535 8193
write -f -P 5 100000 1
write -f -P 6 131072 4096
read -P 1 0 1
read -P 2 1 1
read -P 1 2 4093
read -P 3 4095 2
read -P 1 4097 61438
read -P 4 65535 8193
read -P 1 73728 26272
read -P 5 100000 1
read -P 1 100001 31071
read -P 6 131072 4096
write -z 10 5000
write -z -u 200000 100000
write -z -f 400000 12345
read -P 1 9 1
read -P 0 10 5000
read -P 1 5010 1000
read -P 1 199999 1
read -P 0 200000 100000
read -P 1 300000 100000
read -P 0 400000 12345
read -P 1 412345 1000
write -z 2M 37M
read -P 0 2M 37M
aio_write -P 7 2M 1M
aio_write -P 8 3M 1M
aio_write -z 4M 1M
aio_flush
read -P 7 2M 1M
read -P 8 3M 1M
read -P 0 4M 1M
flush
COMMANDS
qemu-io -f raw "$nbd" <script >io.out 2>&1 || fail "qemu-io: $(cat io.out)"
! grep -Eq 'failed|error|rror:' io.out || fail "qemu-io: $(cat io.out)"
[ "$(grep -Ec '(read|wrote) [0-9]' io.out)" -eq 35 ] || fail "qemu-io: $(cat io.out)"

if command -v fio >/dev/null && fio --enghelp=nbd >fio.out 2>&1; then
	fio --name=verify --ioengine=nbd --uri="$nbd" --rw=randrw --bs=512-64k --bsrange=512-64k --size=24M --io_size=24M \
		--iodepth=16 --verify=crc32c --verify_fatal=1 --verify_backlog=256 --fsync=64 --randseed=7 >fio.out 2>&1 ||
		fail "fio: $(cat fio.out)"
else
	echo "without fio, or its engine for NBD"
fi

# All of it is there for the next export.
nbdcopy "$nbd" in
end_export v
start_export v v --read-only --threads 4
nbdcopy "$nbd" back
same back in
end_export v
nothing_is_left
"$AFAR" volume rm v
