#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A process that writes to a layer is killed, again and again: what it was told to be durable is there, and nothing is damaged.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

"$AFAR" flash create it --size 32M --segment 128K >/dev/null
mkfifo end
for lines in 1 7 40 200; do
	rm -f written
	"$FLASH_WRITER" it write <end >written 2>writer.err &
	writer=$!
	exec 5>end
	until [ -e written ] && [ "$(wc -l <written)" -ge "$lines" ]; do
		kill -0 "$writer" 2>/dev/null || fail "the writer ended: $(cat writer.err)"
	done
	kill -9 "$writer"
	wait "$writer" || :
	exec 5>&-
	# What the ring of the dead had under way may hold the file for a moment.
	eventually "$AFAR" flash check it --data
	"$FLASH_WRITER" it verify "$(grep -E '^[0-9]+$' written | tail -n 1)" || fail "after $lines"
	"$AFAR" flash check it --data >found 2>&1 || fail "recovered after $lines: $(cat found)"
done
