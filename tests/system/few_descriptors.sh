#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# With too few descriptors, wherever they run out, a command says in one line what to do.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_manager
start_server one
"$AFAR" ns create shared >/dev/null
random_file in 100000
"$AFAR" region put in shared:x >/dev/null

limit=4
# shellcheck disable=SC2016 # the inner shell expands
until sh -c 'ulimit -n "$0"; exec "$@"' "$limit" "$AFAR" region get shared:x out >/dev/null 2>err; do
	[ "$(wc -l <err)" -eq 1 ] || fail "with $limit descriptors: not one line: $(cat err)"
	grep -q 'ulimit -n' err || fail "with $limit descriptors: $(cat err)"
	limit=$((limit + 1))
	[ "$limit" -lt 100 ] || fail "100 descriptors are not enough: $(cat err)"
done
same in out
[ "$limit" -gt 6 ] || fail "$limit descriptors were enough"
