#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs as people use them, on a namespace on flash: what they were told to be durable is there after kill -9 of server
# and manager. A kill leaves the kernel's cache of the device as it is, so this does not show what a loss of power leaves:
# test_store_power.c does.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_flash() {
	start_daemon one --role server --data "$PWD/one" --name one --data-listen "tcp:$host:0" \
		--key "$PWD/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash 192M
}

crash() {
	kill_daemon one
	kill_daemon manager
	start_manager "$(manager_port)"
	start_flash
}

start_manager
start_flash
"$AFAR" ns create tree --tier flash
"$AFAR" ns create patterns --tier flash
"$AFAR" ns reserve patterns 32M >/dev/null

# A tree goes in, and comes out as it was.
tar -C "$(dirname "$0")/../.." -cf tree.tar src tests/system docs
sha256sum tree.tar >sums
"$AFAR" region put tree.tar tree:tar >/dev/null
crash
mv tree.tar put.tar
"$AFAR" region get tree:tar tree.tar >/dev/null
sha256sum -c sums >/dev/null || fail "the tree is not what it was"
mkdir out
tar -C out -xf tree.tar
cmp out/tests/system/flash_tier.sh "$0" || fail "this script is not what it was"

# Random writes with headers that say what belongs where.
for lines in 1 10 100; do
	rm -f written
	"$REGION_WRITER" patterns "at$lines" write >written 2>writer.err &
	writer=$!
	until [ -e written ] && [ "$(wc -l <written)" -ge "$lines" ]; do
		kill -0 "$writer" 2>/dev/null || fail "the writer ended: $(cat writer.err)"
	done
	kill_daemon one
	wait "$writer" || fail "the writer did not end well: $(cat writer.err)"
	kill_daemon manager
	start_manager "$(manager_port)"
	start_flash
	"$REGION_WRITER" patterns "at$lines" verify "$(tail -n 1 written)" || fail "after $lines"
done

# All of it goes.
"$AFAR" ns rm --force tree
"$AFAR" ns rm --force patterns
[ -z "$("$AFAR" ns ls | sed 1d)" ] || fail "left: $("$AFAR" ns ls)"
stop_daemon one
"$AFAR" flash check --data one/server/flash >found 2>&1 || fail "the layer: $(cat found)"
