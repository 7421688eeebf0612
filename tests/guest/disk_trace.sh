#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154 # disk.sh assigns scratch, roll, loop
# A trace of all that ext4 writes to a volume, with its flushes, by device-mapper's log-writes target.
# Replayed up to each flush, it is what a loss of power at that moment would leave: the file system is
# clean there, and all that was synced before is there. Replayed to its end it is what is in the
# volume, although the server was killed meanwhile, and after the last write.
# shellcheck source=tests/guest/disk.sh
. "$(dirname "$0")/disk.sh"

export DM_DISABLE_UDEV=1
steps=4
[ "${AFAR_LONG:-}" != 1 ] || steps=400

# write_steps N: one after the other; the trace says how many lines of the writer's log are durable.
write_steps() {
	for _ in $(seq "$1"); do
		"$FILE_WRITER" write "$scratch/mnt" "$scratch/writer.log" 1 || fail "the writer failed"
		dmsetup message trace 0 mark "$(wc -l <"$scratch/writer.log")"
	done
}

# look FLUSH LINES: at what a loss of power after this flush would leave.
look() {
	cp --sparse=always "$scratch/replay" "$scratch/look"
	mount -t ext4 -o loop "$scratch/look" "$scratch/mnt" || fail "flush $1: mount"
	head -n "$2" "$scratch/writer.log" >"$scratch/durable.log"
	"$FILE_WRITER" verify "$scratch/mnt" "$scratch/durable.log" >"$scratch/verify.out" || fail "flush $1, line $2"
	unmount_fs
	fs_is_clean "$scratch/look"
}

start_disk 64M
start_export
attach -b 4096
new_loop log 1G
dmsetup create trace --table "0 $(blockdev --getsz /dev/nbd0) log-writes /dev/nbd0 $loop"
make_fs /dev/mapper/trace
mount_fs /dev/mapper/trace

write_steps "$steps"
write_steps "$steps" &
writer=$!
running="$running $writer"
a_while 1000
# Completed and not synced.
head -c 1M /dev/urandom | dd of="$scratch/mnt/unsynced" bs=64K iflag=fullblock oflag=direct status=none
kill_daemon store
a_while 500
start_store
wait "$writer" || fail "the writer failed when the server ended"
forget "$writer"
unmount_fs
dmsetup remove trace
kernel_is_content
kill_daemon store
start_store

truncate -s 64M "$scratch/replay"
mkfifo "$scratch/shown" "$scratch/seen"
"$REPLAY_WRITES" "$loop" "$scratch/replay" <"$scratch/seen" >"$scratch/shown" &
running="$running $!"
exec 6>"$scratch/seen" 7<"$scratch/shown"
nr_looks=0
while read -r what nr lines <&7 && [ "$what" = flush ]; do
	case $lines in
	none | dm-log-writes-end) ;;
	*)
		look "$nr" "$lines"
		nr_looks=$((nr_looks + 1))
		;;
	esac
	echo >&6
done
[ "$what" = end ] || fail "the replay ended early"
wait "$!"
forget "$!"
[ "$nr_looks" -ge "$steps" ] || fail "there were $nr_looks flushes in $steps steps"
echo "$nr entries of the trace, $nr_looks flushes; $(cat "$scratch/verify.out")"
cmp "$scratch/replay" /dev/nbd0 || fail "the volume is not what was written to it"
kernel_is_content
end_disk
