#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Regions that become longer and shorter, from the command line, in memory and on flash: what stays is as it was, what goes is the
# namespace's again, and a manager that is killed has forgotten nothing.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

length() {
	"$AFAR" region stat "$1" --json | sed -n 's/.*"length_bytes": \([0-9]*\).*/\1/p'
}

allocated() {
	"$AFAR" ns stat "$1" | awk '$1 == "allocated" { print $2 }'
}

reserved() {
	"$AFAR" ns stat "$1" | awk '$1 == "reserved" { print $2 }'
}

is_allocated() {
	[ "$(allocated "$1")" -eq "$2" ]
}

# starts_with REGION FILE BYTES: the region's first BYTES are the file's.
starts_with() {
	"$AFAR" region get "$1" back >/dev/null
	head -c "$3" back >back.head
	head -c "$3" "$2" | cmp -s - back.head || fail "$1 is not what it was, in its first $3 bytes"
}

start_cluster
start_daemon three --role server --data "$PWD/three" --name three --data-listen "tcp:$host:0" \
	--key "$PWD/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash 256M
random_file a 9000001

for tier in dram flash; do
	"$AFAR" ns create $tier --tier $tier --stripe 64K --width 2
	"$AFAR" region put a $tier:a >put.out
	"$AFAR" region put a $tier:beside >put.out
	before=$(allocated $tier)

	# Longer, by what has to be reserved for that, and by less than a block.
	"$AFAR" region resize $tier:a 9000002
	[ "$(length $tier:a)" -eq 9000002 ] || fail "$tier: $(length $tier:a) bytes"
	is_allocated $tier "$before" || fail "$tier: one byte more took memory"
	"$AFAR" region resize $tier:a 24M
	[ "$(length $tier:a)" -eq 25165824 ] || fail "$tier: $(length $tier:a) bytes"
	starts_with $tier:a a 9000001

	# Shorter: only what whole stripes need stays. On flash the rest is trimmed first.
	"$AFAR" region resize $tier:a 100001
	[ "$(length $tier:a)" -eq 100001 ] || fail "$tier: $(length $tier:a) bytes"
	starts_with $tier:a a 100001
	"$AFAR" region rm $tier:beside
	if [ $tier = flash ]; then
		eventually is_allocated flash 102400
	else
		is_allocated dram 131072 || fail "dram: $(allocated dram) bytes are allocated"
	fi

	# What went is others': a region takes all that is free, and the two do not share a byte.
	"$AFAR" region resize $tier:a 50000
	"$AFAR" region put a $tier:other >put.out
	starts_with $tier:a a 50000
	"$AFAR" region get $tier:other back >/dev/null
	same a back
	"$AFAR" region resize $tier:a 50000 # nothing happens
	"$AFAR" region resize $tier:other 1
	[ "$(length $tier:other)" -eq 1 ] || fail "$tier: not 1 byte"

	# What its chunks can hold is its own: nothing is reserved for that.
	"$AFAR" ns create full --tier $tier --stripe 64K --width 2
	head -c 4194304 /dev/zero >zeros
	"$AFAR" region put zeros full:r >put.out
	"$AFAR" region resize full:r 4194303
	"$AFAR" ns release full >release.out
	[ "$(reserved full)" -eq 4194304 ] || fail "$tier: $(reserved full) bytes are reserved"
	"$AFAR" region resize full:r 4194304
	[ "$(reserved full)" -eq 4194304 ] || fail "$tier: reserved what it did not need"
	"$AFAR" ns rm full --force >/dev/null

	refused 2 'at least 1 byte' "$AFAR" region resize $tier:a 0
	refused 1 'there is none' "$AFAR" region resize $tier:none 5
	refused 2 'SIZE' "$AFAR" region resize $tier:a many
	refused 2 'NAMESPACE:NAME' "$AFAR" region resize $tier 5
	# Too much for the cluster, and for 64 bits: nothing stays reserved for it.
	reserved_before=$("$AFAR" ns stat $tier | awk '$1 == "reserved"')
	for size in 9223372036854775808 18446744073709551615; do
		refused 1 'afar:' "$AFAR" region resize $tier:a $size
		[ "$(length $tier:a)" -eq 50000 ] || fail "$tier: resized to $size"
	done
	[ "$("$AFAR" ns stat $tier | awk '$1 == "reserved"')" = "$reserved_before" ] ||
		fail "$tier: more is reserved than before"
done

# Others are refused.
"$AFAR" region put a dram:sealed --seal >put.out
refused 1 'sealed' "$AFAR" region resize dram:sealed 5
"$AFAR" region put a dram:versions --cow >put.out
refused 1 'copy-on-write' "$AFAR" region resize dram:versions 5
"$AFAR" volume create disk 4M >/dev/null
refused 1 'volume' "$AFAR" region resize disk:@0x1000 8M

# Over the death of the manager, with trims that it had not heard of.
"$AFAR" region put a flash:last >put.out
"$AFAR" region resize flash:last 4096
port=$(manager_port)
kill_daemon manager
start_manager "$port"
for tier in dram flash; do
	[ "$(length $tier:a)" -eq 50000 ] || fail "$tier: forgotten by a manager that was killed"
done
[ "$(length flash:last)" -eq 4096 ] || fail "forgotten by a manager that was killed"
eventually starts_with flash:last a 4096
eventually is_allocated flash $((53248 + 4096 + 4096))
starts_with dram:a a 50000
starts_with flash:a a 50000

# All servers that hold part of it are needed to make it shorter.
stop_daemon three
refused 1 'cannot be reached' "$AFAR" region resize flash:a 4096
[ "$(length flash:a)" -eq 50000 ] || fail "made shorter without its server"
still_works
