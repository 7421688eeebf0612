#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Five processes of examples/barrier.c find each other, share the work, and all know the sum; twice in
# the memory of the same namespace.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

ranks="4 3 2 1 0"
start_cluster
"$AFAR" ns create pi
"$AFAR" ns reserve pi 2M
for round in 1 2; do
	pids=
	for rank in $ranks; do
		"$BARRIER" pi "$rank" 5 >"rank.$rank" 2>"rank$rank.err" &
		pids="$pids $!"
		running="$running $!"
	done
	for pid in $pids; do
		wait "$pid" || fail "round $round: a process ended with $?"
	done
	for rank in $ranks; do
		[ "$(cat "rank.$rank")" = "rank $rank of 5: 3.141592654" ] ||
			fail "round $round: rank $rank says: $(cat "rank.$rank")"
	done
done
"$AFAR" ns rm pi
still_works
