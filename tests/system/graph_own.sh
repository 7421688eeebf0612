#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Computations of a user's own: the examples on libafar-graph find what a plain program finds, and igraph, where that is
# installed; by one worker or several, which leave nothing. Bad input gets one line.
# shellcheck disable=SC2154 # cluster.sh sets some
graph_py=$(cd "$(dirname "$0")" && pwd)/graph_own.py
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# Debian's own Python has Debian's igraph.
python=python3
if /usr/bin/python3 -c 'import igraph' 2>/dev/null; then
	python=/usr/bin/python3
fi
start_cluster
"$AFAR" ns create g

# by WORKERS PROGRAM NAME: so many compute, and worker 0 writes NAME.WORKERS.
by() {
	pids=
	for i in $(seq 1 $(($1 - 1))); do
		"$2" g:graph "$i" "$1" >"said.$i" 2>"line.$i" &
		pids="$pids $!"
		running="$running $!"
	done
	"$2" g:graph 0 "$1" >"$3.$1" || fail "$3 by $1 workers"
	for pid in $pids; do
		wait "$pid" || fail "$3 by $1 workers: one ended with $?: $(cat line.*)"
		forget "$pid"
	done
}

# compare KIND: graphs that graph_own.py makes, in the file KIND.
compare() {
	"$python" "$graph_py" make "$1"
	"$AFAR" graph import "$1" g:graph --undirected --replace >/dev/null
	room=$(reserved g)
	for workers in 1 3; do
		by $workers "$LABELS" labels
		by $workers "$CORES" cores
		"$python" "$graph_py" compare "$1" "labels.$workers" "cores.$workers" || fail "of $1 by $workers workers"
	done
	[ "$(reserved g)" = "$room" ] || fail "g has $(reserved g), not $room"
	[ "$("$AFAR" region ls g | wc -l)" -eq 2 ] || fail "left: $("$AFAR" region ls g)"
}
compare communities
compare random
compare star

# No edges at all, and one vertex: more workers than vertices have nothing to do.
: >none
for vertices in 1 3; do
	"$AFAR" graph import none g:graph --vertices $vertices --replace >/dev/null
	"$AFAR" graph import none g:lone --vertices $vertices --undirected --replace >/dev/null
	by 1 "$LABELS" labels
	by 4 "$LABELS" labels
	seq 0 $((vertices - 1)) | cmp - labels.1
	cmp labels.1 labels.4
	"$CORES" g:lone | sed 's/^[0-9]* //' | grep -qv 0 && fail "a vertex alone has a core"
done

# Bad input: one line.
refused_by() {
	"$2" "$3" 0 1 >said 2>line && fail "$2 $3 should fail"
	{ [ "$(wc -l <line)" -eq 1 ] && grep -Eq -- "$1" line; } || fail "$2 $3 says $(cat line)"
}
refused_by "'' is not NAMESPACE:NAME: graphs are in regions" "$LABELS" ''
refused_by 'g:nothing' "$LABELS" g:nothing
refused_by 'imported with --undirected' "$CORES" g:graph
head -c 100000 /dev/zero >zeros
"$AFAR" region put zeros g:zeros >/dev/null
refused_by "g:zeros: it is no graph of 'afar graph', or was damaged: it does not begin as one" "$LABELS" g:zeros

# An edge that leads out of the graph: every worker says so, and nothing is left.
"$AFAR" graph import random g:graph --undirected --replace >/dev/null
"$AFAR" region get g:graph image >/dev/null
vertices=$(od -An -t u8 -j 8 -N 8 image | tr -d ' ')
printf '\377\377\377\377' | dd of=image bs=1 seek=$((4096 + 8 * (vertices + 1))) conv=notrunc status=none
"$AFAR" region put image g:damaged >/dev/null
refused_by 'g:damaged: it is no graph .* an edge leads out of it' "$LABELS" g:damaged
for i in 2 1; do
	"$LABELS" g:damaged $i 3 >said.$i 2>line.$i &
	eval "worker_$i=$!"
	running="$running $!"
done
"$LABELS" g:damaged 0 3 >said 2>line.0 && fail "worker 0 of a damaged graph"
for i in 0 1 2; do
	[ "$i" = 0 ] || { eval "wait \$worker_$i" && fail "worker $i of a damaged graph"; }
	{ [ "$(wc -l <line.$i)" -eq 1 ] && grep -q 'an edge leads out of it' line.$i; } || fail "worker $i says $(cat line.$i)"
done
exit 0
