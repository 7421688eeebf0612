#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpiio_mount.sh: MPI programs name files as paths in a mount. With our components they go around the mount, and the mount shows the same.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mpis.sh
. "$(dirname "$0")/mpis.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

start_cluster
"$AFAR" fs create fs
start_mount m fs

# is_around NAME: the components take it. is_through NAME: they leave it to the mount.
is_around() {
	mpi 2 --mca fs_base_verbose 10 "$MPI_WRITES" "$1" 1 all >printed 2>said || fail "write $1: $?: $(cat said)"
	[ "$(grep -c 'rank .*opened by libafar' said)" -eq 2 ]
}
is_through() {
	mpi 2 --mca fs_base_verbose 10 "$MPI_WRITES" "$1" 1 all >printed 2>said || fail "write $1: $?: $(cat said)"
	! grep -q 'opened by libafar' said || fail "$1 went around the mount: $(cat said)"
}

mkdir "$scratch/m/dir name"
echo something >"$scratch/m/dir name/old"
for name in "$scratch/m/one" "m/two" "$scratch/m/dir name/three" afar:/fs/four; do
	is_around "$name" || fail "$name went through the mount: $(cat said)"
done
head -c 1048576 /dev/zero | tr '\0' a >wanted
head -c 1048576 /dev/zero | tr '\0' b >>wanted
for name in one two "dir name/three" four; do
	same "$scratch/m/$name" wanted
done
mpi 4 "$MPI_VIEWS" "$scratch/m/views" "$scratch/views" 3 30 || fail "views in a mount: $?"
same "$scratch/m/views" views

# Also below a directory that is mounted alone. A file is deleted where it is.
mkdir "$scratch/m/sub"
start_mount n fs -o subdir=/sub
is_around "$scratch/n/file" || fail "a mount of a directory was used: $(cat said)"
same "$scratch/m/sub/file" wanted
end_mount n

# What is no file of ours, and mounts that are not to be gone around.
is_through "$scratch/plain"
ln -s "$scratch/plain" "$scratch/m/link"
is_through "$scratch/m/link"
start_mount strict fs -o no_bypass
is_through "$scratch/strict/five"
same "$scratch/strict/five" wanted
end_mount strict
end_mount m
