#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A layer that is in use is nobody else's: not to be shown, checked or made anew.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

"$AFAR" flash create it --size 32M >/dev/null
mkfifo end
"$FLASH_WRITER" it write <end >written 2>writer.err &
writer=$!
running="$running $writer"
exec 5>end
eventually test -s written
refused 1 'another has it' "$AFAR" flash info it
refused 1 'another has it' "$AFAR" flash check it
refused 1 'another has it' "$AFAR" flash create it --force
ln it linked
refused 1 'another has it' "$AFAR" flash create linked --force
exec 5>&-
wait "$writer" || fail "the writer: $(cat writer.err)"
"$AFAR" flash check it --data >found || fail "$(cat found)"
"$FLASH_WRITER" it verify "$(tail -n 1 written)"
