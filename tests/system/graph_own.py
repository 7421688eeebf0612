# SPDX-License-Identifier: BSD-3-Clause
"""graph_own.py make KIND: writes a file of edges, and what plain computations of its labels and cores find. compare KIND LABELS CORES:
compares that with what examples/labels and cores have printed, and with igraph's, where that is installed."""
import random
import sys

COMMUNITIES, MEMBERS = 12, 9


def communities():
    """All know all of their own, and one of the next."""
    for own in range(COMMUNITIES):
        members = range(own * MEMBERS, (own + 1) * MEMBERS)
        yield from ((a, b) for a in members for b in members if a < b)
        yield members[0], (own + 1) % COMMUNITIES * MEMBERS + 4


def some():
    rolls = random.Random(3)
    return {tuple(sorted((int(400 * rolls.random() ** 3), rolls.randrange(400)))) for _ in range(3000)}


def star():
    """The first one has more edges than the library reads at once."""
    return [(0, i) for i in range(1, 34000)]


def edges_of(kind):
    made = {"communities": communities, "random": some, "star": star}[kind]()
    return [(a, b) for a, b in made if a != b]


def neighbours(edges):
    found = [[] for _ in range(1 + max(map(max, edges)))]
    for a, b in edges:
        found[a].append(b)
        found[b].append(a)
    return found


def labels(found):
    before, now = [], list(range(len(found)))
    for step in range(100):
        following = []
        for vertex, others in enumerate(found):
            counts = {now[vertex]: 0}
            for other in others:
                counts[now[other]] = counts.get(now[other], 0) + 1
            most = max(counts.values())
            following.append(min((label for label in counts if counts[label] == most), default=now[vertex]))
        if following == now or (following == before and step % 2 == 0):
            break  # it stays, or goes to and fro: after 100 steps it is as now
        before, now = now, following
    return now


def cores(found):
    """By taking the vertex with the fewest neighbours away, again and again."""
    degrees = [len(others) for others in found]
    buckets = {}
    for vertex, degree in enumerate(degrees):
        buckets.setdefault(degree, set()).add(vertex)
    result, gone, k = [0] * len(found), set(), 0
    while len(gone) < len(found):
        least = min(degree for degree in buckets if buckets[degree])
        k = max(k, least)
        vertex = buckets[least].pop()
        gone.add(vertex)
        result[vertex] = k
        for other in found[vertex]:
            if other not in gone:
                buckets[degrees[other]].discard(other)
                degrees[other] -= 1
                buckets.setdefault(degrees[other], set()).add(other)
    return result


def same(name, got, expected):
    assert len(got) == len(expected), f"{name}: {len(got)} lines, not {len(expected)}"
    for vertex, (one, other) in enumerate(zip(got, expected)):
        assert one == other, f"{name} of {vertex}: {one}, not {other}"


def partition(members):
    """Communities by their first vertex, whatever they are called."""
    first = {}
    return [first.setdefault(name, vertex) for vertex, name in enumerate(members)]


def numbers(path):
    return [int(line.split()[-1]) for line in open(path)]


def write(path, values):
    open(path, "w").writelines(f"{value}\n" for value in values)


kind = sys.argv[2]
edges = edges_of(kind)
if sys.argv[1] == "make":
    found = neighbours(edges)
    open(kind, "w").writelines(f"{a} {b}\n" for a, b in edges)
    write(f"{kind}.labels", labels(found))
    write(f"{kind}.cores", cores(found))
    sys.exit(0)
got_labels, got_cores = numbers(sys.argv[3]), numbers(sys.argv[4])
same("label", got_labels, numbers(f"{kind}.labels"))
same("core", got_cores, numbers(f"{kind}.cores"))

try:
    import igraph
except ImportError:
    sys.exit(0)
graph = igraph.Graph(n=len(got_cores), edges=edges)
same("core beside igraph's", got_cores, graph.coreness())
if kind == "communities":  # others have no one answer: igraph takes vertices in an order that it draws
    random.seed(5)
    same("label beside igraph's", partition(got_labels), partition(graph.community_label_propagation().membership))
