#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Somebody is stopped, and answers nothing. The manager: programs of a mount read files that they have open, and see what others write. All servers:
# what is opened again is read from the pages of before. Another mount: a file that it has open is made shorter when its session has ended, and servers are fenced from it; then it goes on with what is there.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/system/cluster.sh
. "$here/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$here/mounts.sh"

# silent WHAT PID FILE…
silent() {
	timeout $((120 * slowness)) python3 "$here/mount_silent.py" "$@" 2>silent.said || fail "$1: $(tail -n 4 silent.said)"
}

start_cluster
"$AFAR" fs create f
start_mount here f
start_mount there f
silent read "$(pid_of manager)" here/file there/file
silent warm "$(pid_of one),$(pid_of two)" here/file there/file
silent resume "$(pid_of there)" here/file there/file
silent shrink "$(pid_of there)" here/file there/file
grep -q 'it goes on with another' there.err || fail "the mount that was stopped has its session still: $(cat there.err)"
: >there.err
end_mount there
end_mount here
still_works
