#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What docs/files.md promises to programs of two mounts with default options, and of the library: what one has written, made shorter, renamed or removed, the
# others see at once, whenever they opened the file. Mappings made before the writer came are old for a moment, and never after his fsync or close.
# mount_litmus.sh [NR]: changes, 300 by default; 100 000 with AFAR_LONG=1, which take half an hour.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/system/cluster.sh
. "$here/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$here/mounts.sh"

nr=${1:-300}
[ "${AFAR_LONG:-0}" = 0 ] || nr=100000

# litmus WHAT NR
litmus() {
	timeout $((($2 / 5 + 300) * slowness)) python3 "$here/mount_litmus.py" "$1" "$2" here there "$FILE_HAND" f 2>litmus.said ||
		fail "$1: $(tail -n 9 litmus.said)"
}

start_cluster
"$AFAR" fs create f
start_mount here f
start_mount there f
litmus turns "$nr"
litmus beside "$((nr / 2))"
litmus crossing "$((nr / 10))"
end_mount there
end_mount here
still_works
