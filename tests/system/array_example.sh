#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# examples/array.c makes an array, and reads a block and a column of it.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
"$AFAR" ns create tables
"$AFAR" ns reserve tables 64M
"$ARRAY" tables >sums 2>array.err || fail "the example ended with $?: $(cat array.err)"
[ "$(cat sums)" = "block 2504495.0
column 166835.3" ] || fail "the sums are $(cat sums)"
# The region is there now.
"$ARRAY" tables >sums 2>array.err && fail "the example made its region twice"
grep -q table array.err || fail "it says: $(cat array.err)"
"$AFAR" ns rm --force tables
still_works
