#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A directory of a mount is the upper layer of an overlay, as container engines stack them: names of the layer below are
# removed, renamed and replaced, and are so for another mount, and when the overlay is mounted again.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/system/cluster.sh
. "$here/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$here/mounts.sh"

# The overlay is mounted in a namespace of its own, so it ends with its last program.
in_overlay() {
	unshare --mount --propagation private sh -eu -c "
		mount -t overlay overlay -o lowerdir=$scratch/low,upperdir=$scratch/m/up,workdir=$scratch/m/work $scratch/merged
		cd $scratch/merged
		$1"
}

grep -qw overlay /proc/filesystems || skip "this kernel has no overlayfs"
unshare --mount true 2>/dev/null || skip "mount namespaces cannot be made here"
start_cluster
"$AFAR" fs create f
start_mount m f
mkdir -p low/dir/sub low/dir.old merged m/up m/work
echo removed >low/removed
echo renamed >low/renamed
echo changed >low/changed
echo deep >low/dir/sub/deep
echo old >low/dir.old/file
in_overlay '
	rm removed
	mv renamed other
	echo more >>changed
	rm -r dir.old
	mkdir dir.old
	echo new >dir/sub/new
	mv dir/sub/new dir/sub/deep
	mv -T --no-clobber other dir/other' >overlay.out 2>&1 || fail "an overlay over a mount: $(cat overlay.out)"
start_mount there f
[ "$(stat -c %F:%t,%T there/up/removed)" = "character special file:0,0" ] || fail "a removed name is no whiteout: $(stat there/up/removed)"
[ "$(stat -c %F:%t,%T there/up/renamed)" = "character special file:0,0" ] || fail "a renamed name is no whiteout: $(stat there/up/renamed)"
in_overlay '
	[ "$(find . -type f | sort | tr "\n" " ")" = "./changed ./dir/other ./dir/sub/deep " ]
	[ "$(cat changed)" = "changed
more" ]
	[ "$(cat dir/sub/deep)" = new ]
	[ "$(cat dir/other)" = renamed ]
	[ -d dir.old ]' >overlay.out 2>&1 || fail "the overlay is another when it is mounted again: $(cat overlay.out; ls -lR there/up)"
end_mount there
end_mount m
"$AFAR" fs check f >/dev/null
still_works
