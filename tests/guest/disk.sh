# SPDX-License-Identifier: BSD-3-Clause
# Sourced by every test here: a cluster in the emulated machine (scripts/check-verbs), a volume of it on
# flash, and that as the kernel's disk. Elsewhere the test is skipped, since the disks are somebody's.
# FILE_WRITER and REPLAY_WRITES are programs of this folder, which some of them want.
# shellcheck shell=sh disable=SC2154 # cluster.sh assigns what is not assigned here

if [ "${AFAR_GUEST:-}" != 1 ]; then
	echo "runs in the emulated machine only: scripts/check-verbs"
	exit 77
fi
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/../system/cluster.sh"

PATH=$PATH:/usr/sbin:/sbin

# A test that failed has left its disk as it was.
while read -r _ where kind _; do
	[ "$kind" != ext4 ] || umount -l "$where"
done </proc/mounts
dmsetup remove_all
for pid in /sys/block/nbd*/pid; do
	[ ! -e "$pid" ] || nbd-client -d "/dev/$(basename "$(dirname "$pid")")"
done
losetup -D
dmesg --clear
dmesg --console-level 1 # errors that are meant to be are no news

# Unmounts first, so that the folder of the test can go.
let_go() {
	umount -l "$scratch/mnt" 2>/dev/null || :
	(exit "$1") || clean_up
	clean_up
}
trap 'let_go $?' EXIT

# ---- The cluster. Its store is on a loop device, because files in memory have no O_DIRECT.

# new_loop NAME SIZE: $loop is a block device of so many bytes.
new_loop() {
	truncate -s "$2" "$scratch/$1.loop"
	loop=$(losetup --find --show "$scratch/$1.loop")
}

start_store() {
	start_daemon store --role server --data "$scratch/store" --name store --data-listen "${lane:-127.0.0.1:0}" \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash "$store_device"
}

# start_disk SIZE: manager, server, and the volume `disk`.
start_disk() {
	start_manager
	new_loop store 1G
	store_device=$loop
	"$AFAR" flash create "$store_device" --force >/dev/null
	start_store
	"$AFAR" volume create disk "$1" --tier flash
}

# ---- The disk

# start_export FLAG…: lends the volume on the socket ./nbd. nbdkit is its one child.
start_export() {
	mkfifo "$scratch/export.ready"
	"$AFAR" export disk --socket "$scratch/nbd" "$@" >"$scratch/export.ready" 2>>"$scratch/export.err" &
	pid_export=$!
	running="$running $pid_export"
	read -r _ <"$scratch/export.ready" || fail "afar export did not start"
	rm "$scratch/export.ready"
}

# attach FLAG…: /dev/nbd0 is the volume.
attach() {
	nbd-client -unix "$scratch/nbd" /dev/nbd0 "$@" >"$scratch/attach.out" 2>&1 ||
		fail "nbd-client: $(cat "$scratch/attach.out")"
}

# give_up: what the disk has been asked for fails. Without that the kernel waits for 30 s.
give_up() {
	nbd-client -d /dev/nbd0 >/dev/null
}

detach() {
	give_up
	is_detached
}

is_detached() {
	eventually [ ! -e /sys/block/nbd0/pid ]
}

# kill_export: as a crash would. afar export alone would have nbdkit end well.
kill_export() {
	kill -9 "$(children "$pid_export" | tr -d ' ')" "$pid_export"
	wait "$pid_export" 2>/dev/null || :
	forget "$pid_export"
	rm -f "$scratch/nbd"
}

stop_export() {
	stop_daemon export
}

# ---- The file system

make_fs() {
	mkfs.ext4 -q "$@" || fail "mkfs.ext4 $*"
	mkdir -p "$scratch/mnt"
}

# mount_fs [DEVICE]: gives blocks back as soon as they are free.
mount_fs() {
	mount -t ext4 -o discard "${1:-/dev/nbd0}" "$scratch/mnt"
}

unmount_fs() {
	umount "$scratch/mnt"
}

# fs_is_clean [DEVICE]: of one that was unmounted.
fs_is_clean() {
	e2fsck -fn "${1:-/dev/nbd0}" >"$scratch/fsck.out" 2>&1 || fail "e2fsck: $(cat "$scratch/fsck.out")"
}

# kernel_is_content: no operation on a disk has failed.
kernel_is_content() {
	dmesg >"$scratch/dmesg.out"
	if grep -Ei 'I/O error|nbd[0-9]+: .*(error|timed out|Receive control failed)|EXT4-fs (error|warning)|JBD2: .*(err|fail)|aborted journal|Remounting' \
		"$scratch/dmesg.out"; then
		fail "the kernel saw errors of a disk"
	fi
}

# ---- A program that writes to it

start_writer() {
	mkfifo "$scratch/writer.in"
	"$FILE_WRITER" write "$scratch/mnt" "$scratch/writer.log" <"$scratch/writer.in" 2>>"$scratch/writer.err" &
	pid_writer=$!
	running="$running $pid_writer"
	exec 4>"$scratch/writer.in" # which daemons do not keep open
	rm "$scratch/writer.in"
}

# stop_writer: until SIGCONT.
stop_writer() {
	kill -STOP "$pid_writer"
	eventually grep -q '^State:.T' "/proc/$pid_writer/status"
}

# end_writer STATUS: it ends with that: 3 if the disk has failed it.
end_writer() {
	exec 4>&-
	got=0
	wait "$pid_writer" || got=$?
	[ "$got" -eq "$1" ] || fail "the writer ended with $got: $(cat "$scratch/writer.err")"
	forget "$pid_writer"
}

# writer_gets_on: it makes something durable, from now on.
writer_gets_on() {
	size=$(stat -c %s "$scratch/writer.log" 2>/dev/null || echo 0)
	eventually sh -c "[ \"\$(stat -c %s '$scratch/writer.log')\" -gt $size ]"
}

files_are_whole() {
	"$FILE_WRITER" verify "${1:-$scratch/mnt}" "$scratch/writer.log" || fail "what was made durable is not there"
}

# end_disk: ends all in good order.
end_disk() {
	detach
	stop_export
}

# dice MAX: $roll is a number from 0 to MAX - 1; AFAR_TEST_SEED says which come.
seed=${AFAR_TEST_SEED:-$(date +%s)}
dice() {
	seed=$(((seed * 1103515245 + 12345) % 2147483648))
	roll=$((seed / 65536 % $1))
}

# a_while MILLISECONDS: less than that.
a_while() {
	dice "$1"
	sleep "$(printf '%d.%03d' $((roll / 1000)) $((roll % 1000)))"
}
