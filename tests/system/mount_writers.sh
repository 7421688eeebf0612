#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Writers on two mounts of one file system: appended records are all there and whole, however large and by which pages they go, and a size is never less than
# what was acknowledged, also if the writer is killed.
# AFAR_RECORDS: appended, 2000 by default.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/system/cluster.sh
. "$here/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$here/mounts.sh"

start_flash_cluster
"$AFAR" fs create f --tier flash
start_mount here f
start_mount there f
python3 "$here/mount_writers.py" append "${AFAR_RECORDS:-2000}" here/log there/log || fail "two append"
start_mount direct f --direct
python3 "$here/mount_writers.py" late 200 here/late there/late || fail "two append, with the flag set later"
python3 "$here/mount_writers.py" late 200 here/late direct/late || fail "two append, one of them past the page cache"
timeout $((60 * slowness)) python3 "$here/mount_writers.py" spliced 20 here/spliced direct/spliced || fail "what is spliced past the page cache stays old"
end_mount direct
for round in 1 2 3; do
	python3 "$here/mount_writers.py" watch 300 "here/watched $round" "there/watched $round" || fail "one looks at what the other writes"
done
end_mount there
end_mount here
still_works
