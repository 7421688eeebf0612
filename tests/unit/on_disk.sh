#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# on_disk.sh PROGRAM [ARGUMENT…]: runs a program that wants RDMA verbs, and O_DIRECT on files in /tmp, which those in memory
# do not have. So it has a file system on a block device there, that nobody else sees.
set -eu

if [ "${AFAR_GUEST-}" != 1 ]; then
	echo "it wants verbs, and a machine whose disks are nobody's: scripts/check-verbs runs this"
	exit 77
fi
if [ "${AFAR_ON_DISK-}" != 1 ]; then
	AFAR_ON_DISK=1 exec unshare --mount "$0" "$@"
fi
image=$(mktemp)
truncate -s 512M "$image"
mkfs.ext4 -q -F "$image"
mount -o loop "$image" /tmp
exec "$@"
