#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154 # disk.sh assigns scratch
# No test: scripts/bench-guest runs it. How quick a volume on flash is in the emulated machine, beside the
# kernel's NVMe over TCP. Both lend a disk like the other's over loopback: /dev/vda has the store, /dev/vdb is
# nvmet's. /dev/vdc is used as it is. Prints a table of medians.
#
# DISK_LOAD and ZIPF_READS are programs of this folder. AFAR_REPS (5) and AFAR_SPAN (3, in seconds): how often
# and for how long each is measured.
# shellcheck source=tests/guest/disk.sh
. "$(dirname "$0")/disk.sh"

reps=${AFAR_REPS:-5}
span=${AFAR_SPAN:-3}
bytes=$((256 << 20)) # of each disk
nqn=nqn.2026-01.afar:disk
values=$scratch/values # of measurements: "ROW|WAY VALUE"

# ---- The kernel's NVMe over TCP

# lend_nvme DEVICE: to whoever asks. NVMe of a block device has no cache between, as the store.
lend_nvme() {
	mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
	nvmet=/sys/kernel/config/nvmet
	mkdir "$nvmet/subsystems/$nqn"
	echo 1 >"$nvmet/subsystems/$nqn/attr_allow_any_host"
	mkdir "$nvmet/subsystems/$nqn/namespaces/1"
	echo "$1" >"$nvmet/subsystems/$nqn/namespaces/1/device_path"
	echo 1 >"$nvmet/subsystems/$nqn/namespaces/1/enable"
	mkdir "$nvmet/ports/1"
	echo tcp >"$nvmet/ports/1/addr_trtype"
	echo ipv4 >"$nvmet/ports/1/addr_adrfam"
	echo 127.0.0.1 >"$nvmet/ports/1/addr_traddr"
	echo 4420 >"$nvmet/ports/1/addr_trsvcid"
	ln -s "$nvmet/subsystems/$nqn" "$nvmet/ports/1/subsystems/$nqn"
}

# attach_nvme: /dev/nvme0n1 is what was lent, with a queue for each processor.
attach_nvme() {
	echo "transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=$nqn" >/dev/nvme-fabrics
	eventually [ -b /dev/nvme0n1 ]
}

detach_nvme() {
	echo 1 >/sys/class/nvme/nvme0/delete_controller
	rm "$nvmet/ports/1/subsystems/$nqn"
	rmdir "$nvmet/ports/1" "$nvmet/subsystems/$nqn/namespaces/1" "$nvmet/subsystems/$nqn"
}

# ---- Measuring

# load WAY ARGUMENT…
load() {
	way=$1
	shift
	case $way in
	queue) "$DISK_LOAD" volume own "$@" ;;
	nbd) "$DISK_LOAD" device /dev/nbd0 "$@" ;;
	nvme) "$DISK_LOAD" device /dev/nvme0n1 "$@" ;;
	raw) "$DISK_LOAD" device /dev/vdc "$@" ;;
	esac
}

# note ROW WAY VALUE
note() {
	echo "$1|$2 $3" >>"$values"
}

# in_turn REPETITION WAY…: them, and another one first each time.
in_turn() {
	nr=$1
	shift
	nr=$((nr % $#))
	while [ "$nr" -gt 0 ]; do
		nr=$((nr - 1))
		first=$1
		shift
		set -- "$@" "$first"
	done
	echo "$@"
}

# measure_blocks ROW READ|WRITE DEPTH: the first time is not counted.
measure_blocks() {
	for rep in $(seq 0 "$reps"); do
		for way in $(in_turn "$rep" queue nbd nvme raw); do
			value=$(load "$way" "$2" "$bytes" "$3" "$span") || fail "$way: $1"
			[ "$rep" -eq 0 ] || note "$1" "$way" "$value"
		done
	done
	echo "measured: $1"
}

measure_files() {
	for rep in $(seq 1 "$reps"); do
		for way in $(in_turn "$rep" nbd nvme raw); do
			for how in direct cached; do
				echo 3 >/proc/sys/vm/drop_caches
				value=$("$ZIPF_READS" $how "$scratch/on-$way" "$span") || fail "$way: files"
				note "files, $how" "$way" "$value"
			done
		done
	done
	echo "measured: files"
}

# ---- What was measured

# A line for each row and each way: its median, how far the least and the largest value are from it, and the
# ratio to NVMe over TCP.
show() {
	echo "| row | way | 1/s | ratio to NVMe over TCP |"
	echo "|---|---|---|---|"
	awk -F '|' '
		{ if (!($1 in known)) { known[$1] = 1; rows[++nr_rows] = $1 }
		  split($2, words, " "); key = $1 "|" words[1]
		  all[key, ++nr[key]] = words[2] + 0 }
		function sort(key,  i, j, swap) {
			for (i = 2; i <= nr[key]; i++)
				for (j = i; j > 1 && all[key, j - 1] > all[key, j]; j--) {
					swap = all[key, j]; all[key, j] = all[key, j - 1]; all[key, j - 1] = swap
				}
		}
		function median(key,  half) {
			half = int((nr[key] + 1) / 2)
			return nr[key] % 2 ? all[key, half] : (all[key, half] + all[key, half + 1]) / 2
		}
		END {
			names["queue"] = "Afar, libafar"; names["nbd"] = "Afar, /dev/nbd0"
			names["nvme"] = "NVMe over TCP"; names["raw"] = "the disk itself"
			nr_ways = split("queue nbd nvme raw", ways, " ")
			for (r = 1; r <= nr_rows; r++) {
				for (w = 1; w <= nr_ways; w++)
					sort(rows[r] "|" ways[w])
				reference = median(rows[r] "|nvme")
				for (w = 1; w <= nr_ways; w++) {
					key = rows[r] "|" ways[w]
					if (!nr[key])
						continue
					value = median(key)
					printf "| %s | %s | %.0f (-%.0f +%.0f %%) | %.2f |\n", rows[r], names[ways[w]], value,
						100 - 100 * all[key, 1] / value, 100 * all[key, nr[key]] / value - 100,
						value / reference
				}
			}
		}' "$values"
}

# ---- All of it

start_manager
store_device=/dev/vda
"$AFAR" flash create "$store_device" --force >/dev/null
start_store
"$AFAR" volume create disk "$bytes" --tier flash
"$AFAR" volume create own "$bytes" --tier flash
start_export
attach -b 4096 -C "$(nproc)"
lend_nvme /dev/vdb
attach_nvme
for way in queue nbd nvme raw; do
	load "$way" fill "$bytes"
done
echo "disks are filled"

measure_blocks "read 4 KiB, depth 1" read 1
measure_blocks "read 4 KiB, depth 32" read 32
measure_blocks "durable write 4 KiB, depth 1" write 1
measure_blocks "durable write 4 KiB, depth 32" write 32

for way in nbd:/dev/nbd0 nvme:/dev/nvme0n1 raw:/dev/vdc; do
	mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "${way#*:}" 256M
	mkdir "$scratch/on-${way%%:*}"
	mount -t ext4 -o noatime "${way#*:}" "$scratch/on-${way%%:*}"
	"$ZIPF_READS" make "$scratch/on-${way%%:*}"
done
measure_files

echo "processors: $(nproc), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1); Linux $(uname -r)"
echo "medians of $reps, $span s each, in turn; spread: to the least and the largest"
show
umount "$scratch/on-nbd" "$scratch/on-nvme" "$scratch/on-raw"
detach_nvme
end_disk
