#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154 # disk.sh assigns scratch, roll, loop
# A volume as the kernel's disk: mkfs, mount, a copy of many files, fsck. The server is killed twice
# while the copy is made, and nobody sees an error. Afterwards the volume is lent and mounted anew.
tree=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/guest/disk.sh
. "$(dirname "$0")/disk.sh"

source=$scratch/source
cp -r "$tree/src/client" "$source"
start_disk 128M
start_export
attach -C 4 -b 512 # so parts of blocks are written, too
make_fs -b 1024 /dev/nbd0
mount_fs

# copy: several times, so that it lasts.
copy() {
	for i in 1 2 3 4; do
		cp -r "$source" "$scratch/mnt/$i" && sync -f "$scratch/mnt" || return 1
	done
}

copy &
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
rm -r "$scratch/mnt/2" "$scratch/mnt/4"
unmount_fs
fs_is_clean
mount_fs
diff -r "$source" "$scratch/mnt/3" || fail "the copy differs"
unmount_fs
end_disk

start_export --read-only
attach -b 1024
mount -t ext4 -o ro,noload /dev/nbd0 "$scratch/mnt"
diff -r "$source" "$scratch/mnt/1" || fail "the copy differs behind a new export"
unmount_fs
kernel_is_content
end_disk
