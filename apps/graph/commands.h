/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of afar-graph, as it and `afar` show them: COMMAND(name, arguments, summary, the function that runs it). */
#ifndef APPS_GRAPH_COMMANDS_H
#define APPS_GRAPH_COMMANDS_H

#define GRAPH_COMMANDS(COMMAND)                                                                    \
	COMMAND("graph import",                                                                    \
		"FILE NS:NAME [--binary] [--weighted] [--undirected] [--vertices N] [--replace]",  \
		"make a graph of a file of edges", graph_import)                                   \
	COMMAND("graph rmat",                                                                      \
		"NS:NAME --scale S [--edges N] [--weights MAX] [--undirected] [--seed N] "         \
		"[--replace]",                                                                     \
		"make a random graph, as the Graph500 benchmark does", graph_rmat)                 \
	COMMAND("graph pagerank",                                                                  \
		"NS:NAME [--steps N] [-o FILE] [--workers N] [--ns NS] [--meet NS] "               \
		"[--worker I/N --job NAME]",                                                       \
		"how important its vertices are", graph_compute)                                   \
	COMMAND("graph components",                                                                \
		"NS:NAME [-o FILE] [--workers N] [--ns NS] [--meet NS] [--worker I/N --job NAME]", \
		"which vertices hang together", graph_compute)                                     \
	COMMAND("graph bfs",                                                                       \
		"NS:NAME --from V [-o FILE] [--in-flight N] [--workers N] [--ns NS] [--meet NS] "  \
		"[--worker I/N --job NAME]",                                                       \
		"edges on the shortest ways from a vertex", graph_compute)                         \
	COMMAND("graph sssp",                                                                      \
		"NS:NAME --from V [-o FILE] [--in-flight N] [--workers N] [--ns NS] [--meet NS] "  \
		"[--worker I/N --job NAME]",                                                       \
		"least sums of weights from a vertex", graph_compute)                              \
	COMMAND("graph path", "NS:NAME --from V --to V [-o FILE] [--in-flight N]",                 \
		"a shortest way from a vertex to another", graph_compute)

#endif
