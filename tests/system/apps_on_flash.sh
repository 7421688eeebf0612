#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Sorts and graphs whose workers exchange what they have on flash: a sort of four times the memory that the cluster lends,
# and graphs with the results that they have in memory. Workers meet in memory. What a killed sort had goes back.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

AFAR_TEST_LEASE_MS=${AFAR_TEST_LEASE_MS:-500} # a session ends by being killed
start_manager
start_daemon one --role server --data "$scratch/one" --name one --data-listen "tcp:$host:0" --flash 512M \
	--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 16M
"$AFAR" ns create m
"$AFAR" ns create f --tier flash

# emptied: nothing of a job is left, in memory or on flash.
emptied() {
	"$AFAR" ns release m >/dev/null && "$AFAR" ns release f >/dev/null
	[ "$(reserved m)" = "0 B" ] && [ "$(reserved f)" = "$room" ] && ! "$AFAR" region ls f | grep -Eq ' (sort|graph)-'
}

"$AFAR" sort generate f:in --records 640000 >/dev/null
room=$(reserved f)
"$AFAR" sort run f:in f:out --meet m --workers 3 >said
grep -Eq '^sorting 61.0 MiB .* takes .* of f, .* of m, and about ' said || fail "it says $(cat said)"
"$AFAR" sort verify f:out --against f:in >/dev/null
"$AFAR" region rm f:out
eventually emptied

# Where workers may meet. The output's namespace is there before the input's.
head -c 1000000 /dev/urandom | base64 >lines
LC_ALL=C sort lines >sorted
"$AFAR" region put lines f:lines >/dev/null
"$AFAR" sort run f:lines m:sorted --lines --ns f --workers 2 >/dev/null
"$AFAR" region get m:sorted - | cmp - sorted || fail "lines through flash"
"$AFAR" region rm m:sorted
refused 1 'cannot meet in f, which is on flash; name a namespace in memory with --meet' "$AFAR" sort run f:in f:out
refused 1 'cannot meet in f, which is on flash' "$AFAR" sort run m:in f:out --meet f
refused 1 'nowhere' "$AFAR" sort run f:in f:out --meet nowhere

"$AFAR" graph rmat m:graph --scale 12 --weights 9 --seed 5 >/dev/null
"$AFAR" graph rmat f:graph --scale 12 --weights 9 --seed 5 >/dev/null
"$AFAR" ns release f >/dev/null
room=$(reserved f)
for what in components 'bfs --from 1' 'sssp --from 1'; do
	# shellcheck disable=SC2086 # words
	{
		"$AFAR" graph $what m:graph --workers 1 -o alone >/dev/null
		"$AFAR" graph $what f:graph --workers 3 --meet m -o three >/dev/null
	}
	cmp alone three || fail "$what of three workers, by flash"
done
"$AFAR" graph pagerank m:graph --workers 1 -o alone >/dev/null
"$AFAR" graph pagerank f:graph --workers 3 --meet m -o three >/dev/null
paste -d ' ' alone three | awk '{ d = $2 - $4; if ($1 != $3 || d > 1e-8 || d < -1e-8) exit 1 }' || fail "ranks, by flash"
refused 1 'cannot meet in f' "$AFAR" graph components f:graph --workers 2
"$AFAR" region rm m:graph
eventually emptied

# All are killed in the midst of it, so nobody removes what is there but the manager.
"$AFAR" sort run f:in f:out --meet m --workers 3 >said 2>line &
sorting=$!
eventually grep -q sorting said
others=$(children "$sorting")
# shellcheck disable=SC2086 # pids
kill -9 $sorting $others
wait "$sorting" || :
gone() {
	[ "$("$AFAR" region ls f | wc -l)" -eq 4 ] && [ "$("$AFAR" region ls m | wc -l)" -eq 1 ]
}
eventually gone
"$AFAR" sort run f:in f:out --meet m >/dev/null
"$AFAR" sort verify f:out --against f:in >/dev/null
