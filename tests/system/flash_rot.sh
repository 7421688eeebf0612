#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A block of a store that its device has changed: the scrub finds it, a read of it fails with a line that says
# where it is, the rest of the region is read, and writing it anew mends it.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# start_store SCRUB: a server with a store, which it makes at the first time.
start_store() {
	: "${scratch:?made by cluster.sh}"
	start_daemon one --role server --data "$scratch/one" --name one --data-listen "$host:0" --log error \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash 128M --scrub "$1"
}

start_manager
start_store 0
random_file file 20000000
printf 'the block that rots' | dd of=file bs=1 seek=12345678 conv=notrunc status=none
"$AFAR" ns create kept --tier flash
"$AFAR" region put file kept:file >put.out
"$AFAR" region get kept:file back >get.out
same file back

stop_daemon one
at=$(grep -abo 'the block that rots' one/server/flash | head -n 1 | cut -d: -f1)
[ -n "$at" ] || fail "the block is not on the device"
printf 'T' | dd of=one/server/flash bs=1 seek="$at" conv=notrunc status=none
start_store 1G
eventually grep -q 'scrub: the 4 KiB at 12345344 of extent [0-9a-f]* of namespace [0-9]* are bad' one.err
refused 1 'bytes at [0-9]+: store [0-9a-f]{16} \(.*/one/server/flash at server one\) has a block there that is not what was written' \
	"$AFAR" region get kept:file back
stop_daemon one
start_store 0
"$AFAR" region put file kept:file --replace >put.out
"$AFAR" region get kept:file back >get.out
same file back
still_works
