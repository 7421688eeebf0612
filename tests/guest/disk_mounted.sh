#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A volume as the kernel's disk: mkfs, mount, a copy of many files, fsck. The server is killed twice
# while the copy is made, and nobody sees an error. Afterwards the volume is lent and mounted anew.
# shellcheck source=tests/guest/disk.sh
. "$(dirname "$0")/disk.sh"

source=$(cd "$(dirname "$0")/../.." && pwd)/src
start_disk 128M
start_export
attach -C 4 -b 512 # so parts of blocks are written, too
make_fs -b 1024 /dev/nbd0
mount_fs

cp -r "$source" "$scratch/mnt/first" &
copy=$!
running="$running $copy"
for _ in 1 2; do
	a_while 2000
	kill_daemon store
	a_while 1000
	start_store
done
wait "$copy" || fail "the copy failed"
forget "$copy"
cp -r "$scratch/mnt/first" "$scratch/mnt/second"
rm -r "$scratch/mnt/first"
unmount_fs
fs_is_clean
mount_fs
diff -r "$source" "$scratch/mnt/second" || fail "the copy differs"
unmount_fs
end_disk

start_export --read-only
attach -b 1024
mount -t ext4 -o ro,noload /dev/nbd0 "$scratch/mnt"
diff -r "$source" "$scratch/mnt/second" || fail "the copy differs behind a new export"
unmount_fs
kernel_is_content
end_disk
