#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154 # disk.sh assigns scratch, roll, loop
# ext4 on a volume, with a program that writes files and has them synced. In turn the server is killed,
# the export, and both. A server that is killed and comes back is no error to the file system. Behind
# a new export the file system is clean, and all that was synced is there.
# shellcheck source=tests/guest/disk.sh
. "$(dirname "$0")/disk.sh"

echo "AFAR_TEST_SEED=$seed"
rounds=1
[ "${AFAR_LONG:-}" != 1 ] || rounds=50

# The server alone, and the disk goes on: also with what it had completed and not synced.
lose_server() {
	head -c 1M /dev/urandom >"$scratch/unsynced"
	stop_writer # which would sync
	dd if="$scratch/unsynced" of="$scratch/mnt/unsynced" bs=64K oflag=direct status=none
	kill -CONT "$pid_writer"
	kill_daemon store
	a_while 1000
	start_store
	writer_gets_on
	end_writer 0
	kernel_is_content
	unmount_fs
	fs_is_clean
	mount_fs
	same "$scratch/unsynced" "$scratch/mnt/unsynced"
	unmount_fs
}

# What follows when the disk is gone: its user loses it, and another export brings it back.
disk_is_gone() {
	give_up
	end_writer 3
	unmount_fs
	is_detached
	start_export --take-over
	attach -b 4096
	mount_fs # which replays its journal
	unmount_fs
	fs_is_clean
	dmesg -C
}

lose_export() {
	kill_export
	disk_is_gone
}

lose_both() {
	dice 2
	if [ "$roll" -eq 0 ]; then
		kill_daemon store
		kill_export
	else
		kill_export
		kill_daemon store
	fi
	start_store
	disk_is_gone
}

start_disk 96M
start_export
attach -b 4096
make_fs /dev/nbd0

while [ "$rounds" -gt 0 ]; do
	rounds=$((rounds - 1))
	for lose in lose_server lose_export lose_server lose_both; do
		mount_fs
		start_writer
		writer_gets_on
		a_while 2000
		$lose
		mount_fs
		files_are_whole
		unmount_fs
	done
done
kernel_is_content
end_disk
