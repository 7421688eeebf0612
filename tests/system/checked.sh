#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# `afar region put|get --checked`: regions of any length go to flash and back with their sums, which outlive their
# server; a block that its device has changed is told with its place; in memory there is nothing to check.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_store() {
	: "${scratch:?made by cluster.sh}"
	start_daemon one --role server --data "$scratch/one" --name one --data-listen "$host:0" --log error \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash 128M --scrub 0
}

start_manager
start_store
"$AFAR" ns create kept --tier flash
for length in 1 4095 4096 4097 20000000; do
	random_file "file.$length" $length
	# With sums or without, whoever wrote and whoever reads.
	"$AFAR" region put "file.$length" "kept:with.$length" --checked >put.out
	"$AFAR" region put "file.$length" "kept:without.$length" >put.out
	for region in with without; do
		"$AFAR" region get "kept:$region.$length" back --checked >get.out
		same "file.$length" back
		"$AFAR" region get "kept:$region.$length" back >get.out
		same "file.$length" back
	done
done

# A put is durable, and so are its sums.
kill_daemon one
start_store
for length in 1 4095 4096 4097 20000000; do
	eventually "$AFAR" region get "kept:with.$length" back --checked
	same "file.$length" back
done

random_file file 10000000
printf 'the block that rots' | dd of=file bs=1 seek=1234567 conv=notrunc status=none
"$AFAR" region put file kept:file --checked >put.out
stop_daemon one
at=$(grep -abo 'the block that rots' one/server/flash | head -n 1 | cut -d: -f1)
[ -n "$at" ] || fail "the block is not on the device"
printf 'T' | dd of=one/server/flash bs=1 seek="$at" conv=notrunc status=none
start_store
eventually "$AFAR" region get kept:with.1 back --checked
refused 1 'read .* of the region at 0x[0-9a-f]+ .*bytes at [0-9]+: store [0-9a-f]{16} \(.*/one/server/flash at server one\) has a block there that is not what was written' \
	"$AFAR" region get kept:file back --checked
"$AFAR" region put file kept:file --checked --replace >put.out
"$AFAR" region get kept:file back --checked >get.out
same file back

"$AFAR" ns create loose
refused 1 "put loose:file with --checked: its namespace is in memory" "$AFAR" region put file loose:file --checked
"$AFAR" region put file loose:file >put.out
refused 1 'a checked operation: the region at 0x[0-9a-f]+ is in memory' "$AFAR" region get loose:file back --checked
still_works
