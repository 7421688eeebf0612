#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# files_ahead.sh programs|mounts: a file is read ahead, and somebody, here or elsewhere, changes what comes next. Reads see that.
# shellcheck disable=SC2154 # cluster.sh sets some
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/system/cluster.sh
. "$here/cluster.sh"
if [ "$1" = mounts ]; then
	# shellcheck source=tests/system/mounts.sh
	. "$here/mounts.sh"
fi

start_cluster
"$AFAR" fs create f
random_file bytes 1000000
"$AFAR" put bytes /f/ahead
if [ "$1" = mounts ]; then
	start_mount kept f
	start_mount passed f --direct
	set -- mounts kept passed
fi
shift
timeout $((120 * slowness)) python3 "$here/files_ahead.py" 80 "$FILE_HAND" f bytes "$@" 2>said || fail "$(tail -n 9 said)"
for mount; do
	end_mount "$mount"
done
still_works
