/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar graph …`: makes graphs in remote memory, and computes of their vertices. That itself is src/apps/graph; here are
 * the command line, and what people see. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli.h"
#include "failure.h"
#include "graph.h"
#include "interrupts.h"

#define SCALE_MAX  31U
#define FACTOR_MAX 65536U
#define FACTOR	   16U
#define STEPS	   32U
#define STEPS_MAX  1000000U

static bool is_ended(void *context)
{
	(void)context;
	return is_interrupted();
}

/* Fails with the program's line, or silently after an interrupt. */
static int fail(void)
{
	return is_interrupted() ? CLI_INTERRUPTED : cli_fail("%s", app_failure());
}

/* Parses a number from `min` to `max`, if there is one. */
static int take_number(const struct cli_command *command, const char *flag, const char *text,
		       uint64_t min, uint64_t max, uint64_t *out)
{
	if (!text)
		return 0;
	if (number_parse(text, max, out) || *out < min)
		return cli_misuse(command,
				  "%s '%.64s' is not a number from %" PRIu64 " to %" PRIu64, flag,
				  text, min, max);
	return 0;
}

/* ---- Making graphs */

static int write_graph(struct cli *cli, const char *name, const struct graph_source *source,
		       const struct graph_edges *edges, uint64_t started_ns)
{
	char bytes[SIZE_TEXT_MAX], local[SIZE_TEXT_MAX];
	struct graph_size size;

	graph_measure(edges, &size);
	printf("%" PRIu64 " vertices, %" PRIu64 " edges: takes %s of ", size.nr_vertices,
	       size.nr_edges, size_text(size.region_bytes, bytes));
	cli_print(name);
	printf(", and %s here until it is written\n", size_text(size.local_bytes, local));
	fflush(stdout);
	if (graph_write(cli->session, name, source, edges))
		return fail();
	cli_print(name);
	printf(": made in %.3f s\n", (double)(clock_ns() - started_ns) / 1e9);
	return 0;
}

static int make_graph(struct cli *cli, const char *name, struct graph_source *source)
{
	uint64_t started_ns = clock_ns();
	struct graph_edges *edges;
	int status = cli_open(cli);

	if (status)
		return status;
	catch_interrupts();
	source->is_ended = is_ended;
	if (graph_check_name(name) || graph_gather(source, &edges))
		return cli_close(cli, fail());
	status = write_graph(cli, name, source, edges, started_ns);
	graph_edges_free(edges);
	return cli_close(cli, status);
}

static int graph_import(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *binary = NULL, *weighted = NULL, *undirected = NULL, *vertices = NULL;
	const char *replace = NULL;
	const struct cli_flag flags[] = {
		{"binary", NULL, "pairs of 32-bit words, little-endian, and not lines", &binary},
		{"weighted", NULL, "each edge has a weight, too", &weighted},
		{"undirected", NULL, "each edge goes both ways", &undirected},
		{"vertices", "N", "they are 0 to N-1 (default: up to the largest with an edge)",
		 &vertices},
		{"replace", NULL, "a region of that name", &replace},
		{0},
	};
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct graph_source source = {0};
	int status;

	if (cli_arguments(cli, command, flags, argc, argv, 2, 2, arguments, &status) < 0)
		return status;
	if (take_number(command, "--vertices", vertices, 1, GRAPH_VERTICES_MAX,
			&source.nr_vertices))
		return CLI_USAGE;
	source.path = arguments[0];
	source.is_binary = binary != NULL;
	source.is_weighted = weighted != NULL;
	source.is_undirected = undirected != NULL;
	source.may_replace = replace != NULL;
	return make_graph(cli, arguments[1], &source);
}

static int graph_rmat(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *scale_text = NULL, *factor_text = NULL, *weight_text = NULL, *seed = NULL;
	const char *undirected = NULL, *replace = NULL;
	const struct cli_flag flags[] = {
		{"scale", "S", "it has 2 to the power of S vertices", &scale_text},
		{"edges", "N", "for each vertex (default 16)", &factor_text},
		{"weights", "MAX", "edges have weights from 1 to MAX", &weight_text},
		{"undirected", NULL, "each edge goes both ways", &undirected},
		{"seed", "N", "equal seeds make equal graphs (default 0)", &seed},
		{"replace", NULL, "a region of that name", &replace},
		{0},
	};
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct graph_source source = {0};
	uint64_t scale = 0, factor = FACTOR, weight_max = 0;
	int status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	if (!scale_text)
		return cli_misuse(command, "how large? Give --scale");
	if (take_number(command, "--scale", scale_text, 1, SCALE_MAX, &scale) ||
	    take_number(command, "--edges", factor_text, 1, FACTOR_MAX, &factor) ||
	    take_number(command, "--weights", weight_text, 1, UINT32_MAX - 1, &weight_max) ||
	    take_number(command, "--seed", seed, 0, UINT64_MAX, &source.seed))
		return CLI_USAGE;
	source.scale = (unsigned)scale;
	source.edge_factor = (unsigned)factor;
	source.weight_max = (uint32_t)weight_max;
	source.is_undirected = undirected != NULL;
	source.may_replace = replace != NULL;
	return make_graph(cli, arguments[0], &source);
}

/* ---- Computing */

/* What the vertices get: one of these, an element for each. */
struct values {
	double *ranks;
	uint32_t *components;
	uint64_t *distances;
};

static void free_values(struct values *values)
{
	free(values->ranks);
	free(values->components);
	free(values->distances);
}

static void print_distances(FILE *out, const uint64_t *distances, uint64_t nr)
{
	for (uint64_t i = 0; i < nr && !ferror(out); i++) {
		if (distances[i] == GRAPH_UNREACHED)
			fprintf(out, "%" PRIu64 " -\n", i);
		else
			fprintf(out, "%" PRIu64 " %" PRIu64 "\n", i, distances[i]);
	}
}

/* Writes a line for each vertex: its number, and its value. */
static void print_values(FILE *out, const struct values *values, uint64_t nr)
{
	if (values->distances)
		print_distances(out, values->distances, nr);
	for (uint64_t i = 0; values->ranks && i < nr && !ferror(out); i++)
		fprintf(out, "%" PRIu64 " %.9g\n", i, values->ranks[i]);
	for (uint64_t i = 0; values->components && i < nr && !ferror(out); i++)
		fprintf(out, "%" PRIu64 " %" PRIu32 "\n", i, values->components[i]);
}

static int write_values(const char *path, const struct values *values, uint64_t nr)
{
	FILE *out = path ? fopen(path, "we") : stdout;
	bool has_failed;

	if (!out)
		return cli_fail("write %s: %s", path, afar_strerror(-errno));
	errno = 0;
	print_values(out, values, nr);
	has_failed = ferror(out) != 0;
	if (path && fclose(out))
		has_failed = true;
	if (has_failed && path)
		return cli_fail("write %s: %s", path, afar_strerror(errno ? -errno : -EIO));
	return 0;
}

static void say_done(const char *name, const struct graph *graph, const char *what,
		     uint64_t nr_looks, uint64_t took_ns)
{
	double seconds = (double)took_ns / 1e9;

	cli_print(name);
	printf(": %" PRIu64 " vertices, %" PRIu64 " edges: %s in %.3f s, %.1f million edges/s\n",
	       graph_nr_vertices(graph), graph_nr_edges(graph), what, seconds,
	       (double)graph_nr_edges(graph) * (double)nr_looks / seconds / 1e6);
}

struct computing {
	const char *what;
	/* Makes the values. Returns 0 or a failure with a line. */
	int (*run)(struct graph *graph, const struct graph_run *run, struct values *values);
	bool has_steps, has_from;
};

static int no_memory(const struct graph *graph)
{
	return app_fail(-ENOMEM, "no memory for values of %" PRIu64 " vertices",
			graph_nr_vertices(graph));
}

static int run_pagerank(struct graph *graph, const struct graph_run *run, struct values *values)
{
	values->ranks = calloc(graph_nr_vertices(graph), sizeof(*values->ranks));
	return values->ranks ? graph_pagerank(graph, run, values->ranks) : no_memory(graph);
}

static int run_components(struct graph *graph, const struct graph_run *run, struct values *values)
{
	values->components = calloc(graph_nr_vertices(graph), sizeof(*values->components));
	return values->components ? graph_components(graph, run, values->components)
				  : no_memory(graph);
}

static int run_bfs(struct graph *graph, const struct graph_run *run, struct values *values)
{
	values->distances = calloc(graph_nr_vertices(graph), sizeof(*values->distances));
	return values->distances ? graph_breadth_first(graph, run, values->distances)
				 : no_memory(graph);
}

static int run_sssp(struct graph *graph, const struct graph_run *run, struct values *values)
{
	values->distances = calloc(graph_nr_vertices(graph), sizeof(*values->distances));
	return values->distances ? graph_shortest(graph, run, values->distances) : no_memory(graph);
}

static const struct computing computings[] = {
	{"graph pagerank", run_pagerank, true, false},
	{"graph components", run_components, false, false},
	{"graph bfs", run_bfs, false, true},
	{"graph sssp", run_sssp, false, true},
};

static const struct computing *find_computing(const char *name)
{
	for (size_t i = 0; i < sizeof(computings) / sizeof(computings[0]); i++)
		if (!strcmp(computings[i].what, name))
			return &computings[i];
	return NULL;
}

static int check_from(const struct graph *graph, const char *name, uint32_t from)
{
	if (from < graph_nr_vertices(graph))
		return 0;
	return app_fail(-EINVAL, "%s: there is no vertex %u; its vertices are 0 to %" PRIu64, name,
			from, graph_nr_vertices(graph) - 1);
}

static int compute_of(struct graph *graph, const char *name, const struct computing *computing,
		      const struct graph_run *run, const char *path)
{
	uint64_t started_ns = clock_ns(), took_ns;
	struct values values = {0};
	int status = 0;

	if (check_from(graph, name, run->from) || computing->run(graph, run, &values))
		status = fail();
	took_ns = clock_ns() - started_ns;
	if (!status)
		status = write_values(path, &values, graph_nr_vertices(graph));
	if (!status && path)
		say_done(name, graph, strchr(computing->what, ' ') + 1,
			 computing->has_steps ? run->nr_steps : 1, took_ns);
	free_values(&values);
	return status;
}

static int graph_compute(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const struct computing *computing = find_computing(command->name);
	const char *path = NULL, *number = NULL;
	struct cli_flag flags[] = {
		{"o", "FILE", "write the result there (default: standard output)", &path},
		{0},
		{0},
	};
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct graph_run run = {.is_ended = is_ended};
	uint64_t value = computing->has_steps ? STEPS : 0;
	struct graph *graph;
	int status;

	if (computing->has_steps)
		flags[1] = (struct cli_flag){"steps", "N", "how many (default 32)", &number};
	if (computing->has_from)
		flags[1] = (struct cli_flag){"from", "V", "the vertex to begin at", &number};
	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	if (computing->has_from && !number)
		return cli_misuse(command, "from which vertex? Give --from");
	if (take_number(command, computing->has_from ? "--from" : "--steps", number,
			computing->has_from ? 0 : 1,
			computing->has_from ? GRAPH_VERTICES_MAX - 1 : STEPS_MAX, &value))
		return CLI_USAGE;
	if (computing->has_from)
		run.from = (uint32_t)value;
	run.nr_steps = (unsigned)value;
	status = cli_open(cli);
	if (status)
		return status;
	catch_interrupts();
	if (graph_open(cli->session, arguments[0], &graph))
		return cli_close(cli, fail());
	status = compute_of(graph, arguments[0], computing, &run, path);
	graph_close(graph);
	return cli_close(cli, status);
}

const struct cli_command graph_commands[] = {
	{"graph import",
	 "FILE NS:NAME [--binary] [--weighted] [--undirected] [--vertices N] [--replace]",
	 "make a graph of a file of edges", graph_import},
	{"graph rmat",
	 "NS:NAME --scale S [--edges N] [--weights MAX] [--undirected] [--seed N] [--replace]",
	 "make a random graph, as the Graph500 benchmark does", graph_rmat},
	{"graph pagerank", "NS:NAME [--steps N] [-o FILE]", "how important its vertices are",
	 graph_compute},
	{"graph components", "NS:NAME [-o FILE]", "which vertices hang together", graph_compute},
	{"graph bfs", "NS:NAME --from V [-o FILE]", "edges on the shortest ways from a vertex",
	 graph_compute},
	{"graph sssp", "NS:NAME --from V [-o FILE]", "least sums of weights from a vertex",
	 graph_compute},
	{0},
};
