#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# files_listed.sh programs|mounts: a file that another session makes longer is listed with its right size, also if the one dies while servers stand
# still, so that the manager cannot tell it at once.
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
if [ "$1" = mounts ]; then
	start_mount look f
	start_mount aged f -o age=10
	set -- mounts look aged
fi
shift
timeout $((120 * slowness)) python3 "$here/files_listed.py" "$FILE_HAND" f "$(pid_of one),$(pid_of two)" "$@" 2>said || fail "$(tail -n 9 said)"
for mount; do
	end_mount "$mount"
done
still_works
