#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# SQLite in WAL mode on two mounts, which cannot share the memory that it needs for that: an error, and never a lost row.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/system/cluster.sh
. "$here/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$here/mounts.sh"
python3 -c 'import sqlite3' 2>python.said || skip "Python has no sqlite3"

start_cluster
"$AFAR" fs create f
start_mount here f
start_mount there f
timeout $((200 * slowness)) python3 "$here/mount_sqlite.py" here there 2>sqlite.said || fail "SQLite on two mounts: $(tail -n 4 sqlite.said)"
end_mount there
end_mount here
still_works
