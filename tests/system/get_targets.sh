#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Where a get may put its bytes: as cp would, and never half.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
"$AFAR" ns create to
random_file in 9000000
"$AFAR" region put in to:it >/dev/null

(umask 027 && "$AFAR" region get to:it new >/dev/null)
same in new
[ "$(stat -c %a new)" = 640 ] || fail "a new file's mode is $(stat -c %a new)"

echo before >old
chmod 600 old
ln -s old link
"$AFAR" region get to:it link >/dev/null
[ -L link ] || fail "the link was replaced"
same in old
[ "$(stat -c %a old)" = 600 ] || fail "the old file's mode is $(stat -c %a old)"

"$AFAR" region get to:it /dev/null >/dev/null
mkdir folder
refused 1 'folder' "$AFAR" region get to:it folder
refused 1 'No such file' "$AFAR" region get to:it missing/file
refused 1 'No space' "$AFAR" region get to:it /dev/full
refused 1 'standard output: No space' sh -c '"$AFAR" region get to:it - >/dev/full'
(ulimit -f 1000 && refused 1 'File too large' "$AFAR" region get to:it half)
[ ! -e half ] || fail "a part of the region has its name"
same in old
left=$(find . -name '.afar-*')
[ -z "$left" ] || fail "left behind: $left"
still_works
