# SPDX-License-Identifier: BSD-3-Clause
"""graph.py EDGES FLAG...: compares what afar graph has written (ranks, components, depths, distances) with plain
computations of the same, and with igraph's, where that is installed."""
import heapq
import struct
import sys

path, flags = sys.argv[1], set(sys.argv[2:])


def edges_of():
    if "binary" in flags:
        yield from struct.iter_unpack("<III" if "weighted" in flags else "<II", open(path, "rb").read())
        return
    for line in open(path):
        if line.strip() and line[0] not in "#%":
            yield tuple(int(word) for word in line.split())


edges = [edge if "weighted" in flags else (*edge, 1) for edge in edges_of()]
if "undirected" in flags:
    edges += [(b, a, w) for a, b, w in edges if a != b]
nr = 1 + max(max(a, b) for a, b, _ in edges)
leaving = [[] for _ in range(nr)]
for a, b, w in edges:
    leaving[a].append((b, w))


def written(name, convert):
    lines = [line.split() for line in open(name)]
    assert [int(line[0]) for line in lines] == list(range(nr)), f"{name}: not a line for each vertex"
    return [None if line[1] == "-" else convert(line[1]) for line in lines]


def same(name, got, expected):
    for vertex in range(nr):
        assert got[vertex] == expected[vertex], f"{name} of {vertex}: {got[vertex]}, not {expected[vertex]}"


def near(name, got, expected):
    for vertex in range(nr):
        assert abs(got[vertex] - expected[vertex]) < 1e-6, f"{name} of {vertex}: {got[vertex]}, not {expected[vertex]}"


def ranks(steps):
    now = [1 / nr] * nr
    for _ in range(steps):
        following, rest = [0.0] * nr, 0.0
        for vertex, targets in enumerate(leaving):
            if not targets:
                rest += now[vertex]
            for target, _ in targets:
                following[target] += now[vertex] / len(targets)
        now = [0.15 / nr + 0.85 * (value + rest / nr) for value in following]
    return now


def components():
    names, both = [None] * nr, [[] for _ in range(nr)]
    for a, b, _ in edges:
        both[a].append(b)
        both[b].append(a)
    for vertex in range(nr):
        todo = [vertex] if names[vertex] is None else []
        while todo:
            at = todo.pop()
            if names[at] is None:
                names[at] = vertex
                todo += both[at]
    return names


def distances(weight_of):
    found, todo = [None] * nr, [(0, 0)]
    while todo:
        distance, vertex = heapq.heappop(todo)
        if found[vertex] is None:
            found[vertex] = distance
            for target, weight in leaving[vertex]:
                heapq.heappush(todo, (distance + weight_of(weight), target))
    return found


near("ranks", written("ranks", float), ranks(60))
same("components", written("components", int), components())
same("depths", written("depths", int), distances(lambda weight: 1))
same("distances", written("distances", int), distances(lambda weight: weight))

try:
    import igraph
except ImportError:
    sys.exit(0)
graph = igraph.Graph(n=nr, edges=[(a, b) for a, b, _ in edges], directed=True)
near("ranks beside igraph's", written("ranks", float), graph.pagerank(damping=0.85))
members = graph.connected_components(mode="weak").membership if hasattr(graph, "connected_components") else graph.clusters(mode="weak").membership
first = {}
same("components beside igraph's", written("components", int), [first.setdefault(name, vertex) for vertex, name in enumerate(members)])
paths = getattr(graph, "distances", None) or graph.shortest_paths
weights = [w for _, _, w in edges]
infinite = float("inf")
for name, weighted in (("depths", None), ("distances", weights)):
    if weighted and min(weighted) == 0:
        weighted = [w for w in weighted]
    same(f"{name} beside igraph's", written(name, int), [None if d == infinite else int(d) for d in paths(source=0, weights=weighted)[0]])
