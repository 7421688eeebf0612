#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# File handles, as NFS servers keep them: what one mount has told, another opens, which has never seen the file by its name.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/system/cluster.sh
. "$here/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$here/mounts.sh"

[ "$(id -u)" -eq 0 ] || skip "only root may open files by their handles"
start_cluster 512M
"$AFAR" fs create f
"$AFAR" fs create g
start_mount here f
start_mount there f
start_mount other g
mkdir here/sub
start_mount below f --subdir sub
python3 "$here/mount_handles.py" here there other below || fail "files by their handles"
end_mount below
end_mount other
end_mount there
end_mount here
"$AFAR" fs check f >/dev/null
still_works
