#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mount_posix.sh TIER: the same calls in a mount and in the folder of this test, whose file system is trusted (tests/posix).
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

# Some file systems cannot do all of it.
mkdir trusted
case $(stat -f -c %T trusted) in
ext2/ext3 | xfs | btrfs) ;;
*) skip "$(stat -f -c %T trusted) is no file system to compare with; set TMPDIR to a folder on ext4 or xfs" ;;
esac
start_flash_cluster
"$AFAR" fs create f --tier "$1"
start_mount m f
mkdir m/tested
"$POSIX" "$scratch/trusted" "$scratch/m/tested" >posix.out || fail "$(cat posix.out)"
tail -1 posix.out
end_mount m
still_works
