#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Graphs: what `afar graph` computes is what a plain program computes, and igraph, where that is installed: of random graphs,
# of this machine's own packages and what they depend on, and of small ones with all that graphs may have; by one worker or
# several. Bad input gets one line.
graph_py=$(cd "$(dirname "$0")" && pwd)/graph.py
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# Debian's own Python has Debian's igraph.
python=python3
if /usr/bin/python3 -c 'import igraph' 2>/dev/null; then
	python=/usr/bin/python3
fi
start_cluster
"$AFAR" ns create g

# compare FILE FLAG…: imports the file of edges, and compares everything. FLAG… are graph.py's.
compare() {
	edges=$1
	shift
	import_flags=
	for flag in "$@"; do
		import_flags="$import_flags --$flag"
	done
	# shellcheck disable=SC2086 # flags are words
	"$AFAR" graph import "$edges" g:graph $import_flags --replace >/dev/null
	compute 1 g:graph
	"$python" "$graph_py" "$edges" "$@" || fail "of $edges $*"
}

# compute WORKERS GRAPH: everything, into ranks, components, depths and distances.
compute() {
	"$AFAR" graph pagerank "$2" --steps 60 --workers "$1" -o ranks >/dev/null
	"$AFAR" graph components "$2" --workers "$1" -o components >/dev/null
	"$AFAR" graph bfs "$2" --from 0 --workers "$1" -o depths >/dev/null
	"$AFAR" graph sssp "$2" --from 0 --workers "$1" -o distances >/dev/null
}

# by_several GRAPH WORKERS…: so many workers find what one has found, and leave nothing.
by_several() {
	graph=$1
	shift
	for result in ranks components depths distances; do
		mv "$result" "one.$result"
	done
	room=$(reserved g)
	for workers in "$@"; do
		compute "$workers" "$graph"
		for result in components depths distances; do
			cmp "$result" "one.$result" || fail "of $workers workers: $result of $graph"
		done
		paste -d ' ' ranks one.ranks | awk '{ d = $2 - $4; if ($1 != $3 || d > 1e-8 || d < -1e-8) exit 1 }' ||
			fail "of $workers workers: ranks of $graph"
	done
	[ "$(reserved g)" = "$room" ] || fail "g has $(reserved g), not $room"
	"$AFAR" region ls g | grep -q ' graph-' && fail "left: $("$AFAR" region ls g)"
	return 0
}
printf '# a circle, a tail, a vertex alone, a loop, an edge twice\n0 1\n1 2\n2 0\n2 3\n\n3\t5\n5 5 \n2 3\n' >small
compare small
refused 1 'g:graph: no way leads from 5 to 0' "$AFAR" graph path g:graph --from 5 --to 0
[ "$("$AFAR" graph path g:graph --from 0 --to 5 | tr '\n' ' ')" = "0 0 1 1 2 2 3 3 5 4 " ] || fail "the way to 5"
compare small undirected
printf '0 1 10\n0 2 3\n2 1 4\n1 3 0\n2 3 8\n3 0 4294967294\n' >weighted
compare weighted weighted
by_several g:graph 2
compare weighted weighted undirected
by_several g:graph 3
: >none
"$AFAR" graph import none g:graph --vertices 3 --replace >/dev/null
"$AFAR" graph pagerank g:graph | awk '{ sum += $2 } END { exit !(NR == 3 && sum > 0.999 && sum < 1.001) }' || fail "ranks without edges"

# Random graphs as text and in binary are the same.
python3 - <<'END'
import random, struct
random.seed(7)
edges = [(int(1000 * random.random() ** 3), random.randrange(1000), random.randrange(1, 50)) for _ in range(8000)]
open("random", "w").writelines(f"{a} {b} {w}\n" for a, b, w in edges)
open("random.bin", "wb").writelines(struct.pack("<III", *edge) for edge in edges)
END
compare random weighted
cp distances first
compare random.bin weighted binary
cmp distances first
by_several g:graph 2 3
"$AFAR" graph sssp g:graph --from 0 --in-flight 1 | cmp - distances
"$AFAR" graph sssp g:graph --from 0 --in-flight 256 | cmp - distances
"$AFAR" graph bfs g:graph --from 0 --in-flight 1 | cmp - depths
# A way is made of edges, and as long as the least distance.
for vertex in 0 1 17 500 998; do
	for in_flight in 1 64; do
		"$AFAR" graph path g:graph --from 0 --to "$vertex" --in-flight $in_flight >way
		python3 - "$vertex" <<'END' || fail "the way to $vertex: $(cat way)"
import sys
hops = [tuple(int(word) for word in line.split()) for line in open("way")]
edges = {tuple(int(word) for word in line.split()) for line in open("random")}
least = dict(line.split() for line in open("distances"))
assert hops[0] == (0, 0) and hops[-1] == (int(sys.argv[1]), int(least[sys.argv[1]]))
assert all((a, b, later - sooner) in edges for (a, sooner), (b, later) in zip(hops, hops[1:]))
END
	done
done

# What the packages of this machine depend on.
if [ -r /var/lib/dpkg/status ]; then
	python3 - <<'END'
import re
numbers, edges, package = {}, [], None
number = lambda name: numbers.setdefault(name, len(numbers))
for line in open("/var/lib/dpkg/status", errors="replace"):
    if line.startswith("Package: "):
        package = number(line[9:].strip())
    elif line.startswith(("Depends: ", "Pre-Depends: ")):
        edges += [(package, number(re.match(r"[^ :(]+", name.strip())[0])) for name in re.split("[,|]", line.split(": ", 1)[1])]
open("packages", "w").writelines(f"{a} {b}\n" for a, b in edges)
END
	compare packages
	by_several g:graph 3
fi

# R-MAT: equal seeds make equal graphs.
"$AFAR" graph rmat g:rmat --scale 12 --edges 8 --weights 9 --seed 5 >said
grep -q '^4096 vertices, 32768 edges: takes .* of g:rmat' said || fail "it says $(cat said)"
"$AFAR" graph sssp g:rmat --from 0 >ways
"$AFAR" graph rmat g:rmat --scale 12 --edges 8 --weights 9 --seed 5 --replace >/dev/null
"$AFAR" graph sssp g:rmat --from 0 >ways.again
cmp ways ways.again
[ "$(wc -l <ways)" -eq 4096 ]
grep -v ' -$' ways | grep -qv '^0 ' || fail "nothing is reached from vertex 0"
compute 1 g:rmat
by_several g:rmat 2

# Workers that are started one by one know the job's name. Mailboxes may be elsewhere.
"$AFAR" ns create mail
for i in 2 0 1; do
	"$AFAR" graph sssp g:rmat --from 0 --worker $i/3 --job together --ns mail >worker.$i 2>&1 &
	eval "worker_$i=$!"
done
for i in 0 1 2; do
	eval "wait \$worker_$i" || fail "worker $i failed: $(cat worker.$i)"
done
cmp worker.0 ways
[ "$("$AFAR" region ls mail | wc -l)" -eq 1 ] || fail "left in mail: $("$AFAR" region ls mail)"
# One that is told something else.
"$AFAR" graph sssp g:rmat --from 1 --worker 1/2 --job apart >worker.1 2>&1 &
other=$!
"$AFAR" graph sssp g:rmat --from 0 --worker 0/2 --job apart >said 2>line && fail "workers that begin at different vertices"
grep -Eq '^afar: graph g:rmat: worker 1 has failed' line || fail "worker 0 says $(cat line)"
wait "$other" && fail "worker 1 began elsewhere"
grep -Eq '^afar: .*worker 0 computes something else' worker.1 || fail "worker 1 says $(cat worker.1)"

# refused_late PATTERN COMMAND…: it has said how large the graph is before it fails.
refused_late() {
	late=$1
	shift
	"$@" >late.out 2>late.line && fail "$* should fail"
	{ [ "$(wc -l <late.line)" -eq 1 ] && grep -Eq -- "^afar: .*$late" late.line; } || fail "$*: $(cat late.line)"
}

# Bad input: one line, and nothing is left.
refuse_edges() {
	printf "$2" >bad
	shift 2
	refused 1 "$pattern" "$AFAR" graph import bad g:bad "$@"
}
for case in \
	"bad:2: 'x 3' is no number|0 1\nx 3\n" \
	'bad:1: .* no number, where the vertex should be; a line is FROM TO|7\n' \
	'bad:1: vertex .-4. is negative|0 -4\n' \
	'bad:1: there is more on the line .* --weighted|0 1 2\n' \
	'bad:1: vertex 4294967295 is more than|0 4294967295\n' \
	'it is no text; say --binary|0 \0001\n' \
	'bad: it has no edges|# nothing\n'; do
	pattern=${case%%|*}
	refuse_edges - "${case#*|}"
done
pattern="weight '-1' is negative"
refuse_edges - '0 1 -1\n' --weighted
pattern='vertex 3 is out of range: they are numbered from 0 to 2'
refuse_edges - '0 3\n' --vertices 3
pattern='bad:2: the last edge is cut short: it has 3 bytes of 8'
refuse_edges - '01234567abc' --binary
refused 1 'No such file' "$AFAR" graph import no/such g:bad
refused 1 'g:none' "$AFAR" graph bfs g:none --from 0
refused 1 'there is no vertex 4096; its vertices are 0 to 4095' "$AFAR" graph bfs g:rmat --from 4096
refused_late 'choose another name, or use --replace' "$AFAR" graph rmat g:rmat --scale 3
refused 1 'graphs are in regions' "$AFAR" graph import small file
refused 2 'how large. Give --scale' "$AFAR" graph rmat g:bad
refused_late 'write no/such: No such file' "$AFAR" graph pagerank g:rmat -o no/such
refused 1 'graph g:rmat: .*mail2' "$AFAR" graph pagerank g:rmat --ns mail2 --workers 2
refused 2 "worker '3/3' is not I/N" "$AFAR" graph pagerank g:rmat --worker 3/3 --job a
refused 1 'there is no vertex 4096; its vertices are 0 to 4095' "$AFAR" graph path g:rmat --from 0 --to 4096
refused 2 'to which vertex. Give --to' "$AFAR" graph path g:rmat --from 0
refused 2 'unknown flag --workers' "$AFAR" graph path g:rmat --from 0 --to 1 --workers 2
refused 2 'in-flight .0. is not a number from 1 to 256' "$AFAR" graph bfs g:rmat --from 0 --in-flight 0
"$AFAR" ns create tight --max 2M
before=$(reserved tight)
refused_late 'tight' "$AFAR" graph rmat tight:graph --scale 16
[ "$(reserved tight)" = "$before" ] || fail "tight has $(reserved tight), not $before"
# No room for mailboxes: nothing is left either. More workers than cores are slow, and right.
refused 1 'tight' "$AFAR" graph sssp g:rmat --from 0 --workers 40 --ns tight
[ "$(reserved tight)" = "$before" ] || fail "tight has $(reserved tight), not $before"
"$AFAR" graph sssp g:rmat --from 0 --workers 12 | cmp - ways
# Regions that are no graphs, or were damaged.
head -c 100000 /dev/zero >zeros
"$AFAR" region put zeros g:zeros >/dev/null
refused 1 "it is no graph of 'afar graph', or was damaged: it does not begin as one" "$AFAR" graph components g:zeros
"$AFAR" region get g:rmat image >/dev/null
computation=components
damage() {
	cp image damaged
	printf "$2" | dd of=damaged bs=1 seek="$1" conv=notrunc status=none
	"$AFAR" region rm g:damaged 2>/dev/null || :
	"$AFAR" region put damaged g:damaged >/dev/null
	refused 1 "$3" "$AFAR" graph $computation g:damaged
}
damage 8 '\377\377' 'not as long as its vertices and edges'
damage 15 '\377' 'numbers of vertices and edges cannot be'
damage 4104 '\377\377\377\377' 'where edges begin goes backwards'
damage $((4096 + 2 * 8 * 4097)) '\377\377\377\377' 'an edge leads out of it'
for workers in 1 2; do
	refused 1 'an edge leads out of it' "$AFAR" graph path g:damaged --from 0 --to 1
	refused 1 'an edge leads out of it' "$AFAR" graph bfs g:damaged --from 0 --workers $workers
done
computation=pagerank
damage $((4096 + 2 * 8 * 4097 + 8 * 32768)) '\377\377\377\377' 'an edge leads out of it'
damage $((4096 + 8 * 4097 + 8)) '\377\377\377\377' 'where edges begin goes backwards'
"$AFAR" region ls g | grep -q ' bad$' && fail "bad input left a region"
exit 0
