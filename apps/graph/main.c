/* SPDX-License-Identifier: BSD-3-Clause */
/* afar-graph, which `afar graph …` runs: makes graphs in remote memory, and computes of their vertices. Here are the command
 * line, and what people see; graph.h has how graphs are made, and compute.h all that is computed. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "commands.h"
#include "graph.h"
#include "team.h"
#include "tools/cli/cli.h"
#include "tools/cli/interrupts.h"
#include "tools/copy/failure.h"
#include "work.h"
#include "workers.h"

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

#define PATIENCE_MS 30000
#define MEMBER_MS   2000 /* for a worker that has told of its failure to end */
#define IN_FLIGHT   64U
#define FLAGS_MAX   9

struct computing {
	const char *name; /* of the command */
	enum graph_kind kind;
	unsigned nr_workers; /* if nobody says how many; 0: as many as cores */
	bool has_steps, has_from, has_to;
};

static const struct computing computings[] = {
	{"graph pagerank", GRAPH_PAGERANK, 0, true, false},
	{"graph components", GRAPH_COMPONENTS, 0, false, false},
	{"graph bfs", GRAPH_BREADTH_FIRST, 1, false, true},
	{"graph sssp", GRAPH_SHORTEST, 1, false, true},
	{"graph path", GRAPH_PATH, 1, false, true, true},
};

static const struct computing *find_computing(const char *name)
{
	for (size_t i = 0; i < sizeof(computings) / sizeof(computings[0]); i++)
		if (!strcmp(computings[i].name, name))
			return &computings[i];
	return NULL;
}

/* A computation, as it was asked for. */
struct request {
	const struct computing *computing;
	struct job_flags job;
	const char *path;		     /* of the result; NULL: standard output */
	const char *number, *to, *in_flight; /* of steps, or the vertex to begin at; as typed */
	char what[300];
};

/* ---- What the workers have found */

static void print_distances(FILE *out, const uint64_t *distances, uint64_t nr)
{
	for (uint64_t i = 0; i < nr && !ferror(out); i++) {
		if (distances[i] == GRAPH_UNREACHED)
			fprintf(out, "%" PRIu64 " -\n", i);
		else
			fprintf(out, "%" PRIu64 " %" PRIu64 "\n", i, distances[i]);
	}
}

static void print_ranks(FILE *out, const double *ranks, uint64_t nr)
{
	for (uint64_t i = 0; i < nr && !ferror(out); i++)
		fprintf(out, "%" PRIu64 " %.9g\n", i, ranks[i]);
}

static void print_components(FILE *out, const uint32_t *components, uint64_t nr)
{
	for (uint64_t i = 0; i < nr && !ferror(out); i++)
		fprintf(out, "%" PRIu64 " %" PRIu32 "\n", i, components[i]);
}

static void print_hops(FILE *out, const struct graph_hop *hops, uint64_t nr)
{
	for (uint64_t i = 0; hops && i < nr && !ferror(out); i++)
		fprintf(out, "%" PRIu32 " %" PRIu64 "\n", hops[i].vertex, hops[i].distance);
}

/* Writes a line for each vertex, or each on the way: its number, and its value. */
static void print_results(FILE *out, const struct graph_work *work)
{
	const struct graph_computation *computation = &work->computation;

	switch (computation->options->kind) {
	case GRAPH_PAGERANK:
		print_ranks(out, work->results, computation->nr_vertices);
		break;
	case GRAPH_COMPONENTS:
		print_components(out, work->results, computation->nr_vertices);
		break;
	case GRAPH_BREADTH_FIRST:
	case GRAPH_SHORTEST:
		print_distances(out, work->results, computation->nr_vertices);
		break;
	case GRAPH_PATH:
		print_hops(out, computation->hops, computation->nr_hops);
		break;
	}
}

static int write_results(const char *path, const struct graph_work *work)
{
	FILE *out = path ? fopen(path, "we") : stdout;
	bool has_failed;

	if (!out)
		return cli_fail("write %s: %s", path, afar_strerror(-errno));
	errno = 0;
	print_results(out, work);
	has_failed = ferror(out) != 0;
	if (path && fclose(out))
		has_failed = true;
	if (has_failed && path)
		return cli_fail("write %s: %s", path, afar_strerror(errno ? -errno : -EIO));
	return 0;
}

/* Says what it will take, before it begins. */
static void say_needs(const struct graph_work *work)
{
	const unsigned nr_workers = work->computation.options->job.nr_workers;
	char bytes[SIZE_TEXT_MAX];

	printf("%" PRIu64 " vertices, %" PRIu64 " edges, %u worker%s",
	       work->computation.nr_vertices, work->nr_edges, nr_workers, cli_plural(nr_workers));
	if (work->needs.ns_bytes) {
		printf(": takes %s of ", size_text(work->needs.ns_bytes, bytes));
		cli_print(work->needs.ns);
	}
	putchar('\n');
	fflush(stdout);
}

static void say_done(const struct request *request, const struct graph_work *work, uint64_t took_ns)
{
	const struct graph_options *options = work->computation.options;
	uint64_t nr_looked = work->nr_looked;
	double seconds = (double)took_ns / 1e9;

	/* Edges that other workers have looked at are counted there. */
	if (options->kind == GRAPH_PAGERANK)
		nr_looked = work->nr_edges * options->nr_steps;
	cli_print(options->graph);
	printf(": %s in %.3f s", strchr(request->computing->name, ' ') + 1, seconds);
	if (options->job.nr_workers == 1 || options->kind == GRAPH_PAGERANK)
		printf(", looked at %" PRIu64 " edges, %.1f million edges/s", nr_looked,
		       (double)nr_looked / seconds / 1e6);
	putchar('\n');
}

/* ---- The workers */

static int is_interrupted_too(void *context)
{
	return is_ended(context);
}

static int is_over(void *context)
{
	struct workers *workers = context;

	return is_interrupted() || workers_look(workers);
}

static int start_others(struct cli *cli, const struct request *request,
			const struct graph_options *options, struct workers *workers)
{
	const char *words[16] = {strchr(request->computing->name, ' ') + 1};
	unsigned nr = 1;

	if (options->job.ns) {
		words[nr++] = "--ns";
		words[nr++] = options->job.ns;
	}
	if (options->job.meet_ns) {
		words[nr++] = "--meet";
		words[nr++] = options->job.meet_ns;
	}
	if (request->number) {
		words[nr++] = request->computing->has_from ? "--from" : "--steps";
		words[nr++] = request->number;
	}
	if (request->in_flight) {
		words[nr++] = "--in-flight";
		words[nr++] = request->in_flight;
	}
	words[nr++] = "--";
	words[nr++] = options->graph;
	words[nr] = NULL;
	return workers_start(cli, request->what, &request->job, words, workers);
}

/* Says what has gone wrong, in one line of whoever knows. */
static int complain(struct workers *workers, int error)
{
	if (is_interrupted())
		return CLI_INTERRUPTED;
	if (error == -EREMOTEIO)
		workers_wait(workers, MEMBER_MS);
	return workers->failed ? workers_complain(workers) : fail();
}

/* Works as worker 0, beside those that it has started. */
static int lead(struct cli *cli, const struct request *request, const struct graph_options *asked)
{
	struct graph_options options = *asked;
	struct workers workers = {0};
	struct graph_work work;
	uint64_t started_ns = clock_ns();
	int ret, status;

	options.job.is_ended = is_over;
	options.job.context = &workers;
	if (graph_prepare(cli->session, &options, &work))
		return fail();
	if (request->path)
		say_needs(&work);
	status = request->job.worker ? 0 : start_others(cli, request, &options, &workers);
	ret = status ? status : graph_work(&work);
	started_ns = clock_ns() - started_ns;
	if (ret && !status)
		status = complain(&workers, ret);
	/* Nobody runs on who could keep memory from being given back: one that stands still would. */
	if (!ret)
		workers_wait(&workers, (int)options.job.patience_ms);
	workers_stop(&workers);
	if (!status && request->computing->has_to && !work.computation.hops)
		status = cli_fail("%s: no way leads from %" PRIu32 " to %" PRIu32, options.graph,
				  options.from, options.to);
	if (!status)
		status = write_results(request->path, &work);
	if (!status && request->path)
		say_done(request, &work, started_ns);
	graph_end(&work);
	workers_free(&workers);
	return status;
}

static int follow(struct cli *cli, struct graph_options *options)
{
	struct graph_work work;
	int ret;

	options->job.is_ended = is_interrupted_too;
	ret = graph_prepare(cli->session, options, &work);
	if (ret)
		return fail();
	ret = graph_work(&work);
	graph_end(&work);
	return ret ? fail() : 0;
}

/* ---- The command line */

static int take_options(const struct cli *cli, const struct cli_command *command,
			struct request *request, struct graph_options *options)
{
	const struct computing *computing = request->computing;
	uint64_t number = STEPS, in_flight = IN_FLIGHT, to = 0;

	if (computing->has_from && !request->number)
		return cli_misuse(command, "from which vertex? Give --from");
	if (computing->has_to && !request->to)
		return cli_misuse(command, "to which vertex? Give --to");
	if (computing->has_to &&
	    take_number(command, "--to", request->to, 0, GRAPH_VERTICES_MAX - 1, &to))
		return CLI_USAGE;
	if (take_number(command, computing->has_from ? "--from" : "--steps", request->number,
			computing->has_from ? 0 : 1,
			computing->has_from ? GRAPH_VERTICES_MAX - 1 : STEPS_MAX, &number) ||
	    take_number(command, "--in-flight", request->in_flight, 1, AFAR_GRAPH_IN_FLIGHT_MAX,
			&in_flight) ||
	    workers_take_flags(command, "graph", computing->nr_workers, &request->job))
		return CLI_USAGE;
	if (options->job.ns && strlen(options->job.ns) > AFAR_NAME_MAX)
		return cli_misuse(command, "--ns: a namespace's name has at most %d bytes",
				  AFAR_NAME_MAX);
	options->kind = computing->kind;
	options->nr_steps = computing->has_steps ? (unsigned)number : 0;
	options->from = computing->has_from ? (uint32_t)number : 0;
	options->to = (uint32_t)to;
	options->nr_in_flight = (unsigned)in_flight;
	options->job.size = sizeof(options->job);
	options->job.name = request->job.name;
	options->job.worker = request->job.number;
	options->job.nr_workers = request->job.nr;
	options->job.patience_ms = cli->timeout_ms ? cli->timeout_ms : PATIENCE_MS;
	snprintf(request->what, sizeof(request->what), "graph %.256s", options->graph);
	return 0;
}

/* Lists what the computation takes. Several workers share all but a way. */
static void list_flags(struct request *request, struct graph_options *options,
		       struct cli_flag *flags)
{
	const struct computing *computing = request->computing;
	const struct cli_flag shared[] = {
		{"workers", "N",
		 computing->nr_workers ? "processes of this machine (default 1)"
				       : "processes of this machine (default: as many as cores)",
		 &request->job.workers},
		{"ns", "NS", "for the mailboxes (default: that of the graph)", &options->job.ns},
		{"meet", "NS",
		 "where workers meet, in memory (default: that of the mailboxes or graph)",
		 &options->job.meet_ns},
		{"worker", "I/N", "be worker I, from 0 on, of N on several machines",
		 &request->job.worker},
		{"job", "NAME", "what workers on several machines meet by", &request->job.job},
	};

	*flags++ = (struct cli_flag){
		"o", "FILE", "write the result there (default: standard output)", &request->path};
	for (size_t i = 0; !computing->has_to && i < sizeof(shared) / sizeof(shared[0]); i++)
		*flags++ = shared[i];
	if (computing->has_steps)
		*flags++ =
			(struct cli_flag){"steps", "N", "how many (default 32)", &request->number};
	if (!computing->has_from)
		return;
	*flags++ = (struct cli_flag){"from", "V", "the vertex to begin at", &request->number};
	if (computing->has_to)
		*flags++ = (struct cli_flag){"to", "V", "the vertex to end at", &request->to};
	*flags = (struct cli_flag){"in-flight", "N", "reads at a time, of each (default 64)",
				   &request->in_flight};
}

static int graph_compute(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	struct request request = {.computing = find_computing(command->name)};
	struct graph_options options = {0};
	struct cli_flag flags[FLAGS_MAX + 1] = {0};
	const char *arguments[CLI_ARGUMENTS_MAX];
	int status;

	list_flags(&request, &options, flags);
	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	options.graph = arguments[0];
	status = take_options(cli, command, &request, &options);
	if (!status)
		status = cli_open(cli);
	if (status)
		return status;
	catch_interrupts();
	status = options.job.worker ? follow(cli, &options) : lead(cli, &request, &options);
	return cli_close(cli, status);
}

#define COMMAND(name, arguments, summary, run) {name, arguments, summary, run},

static const struct cli_command commands[] = {GRAPH_COMMANDS(COMMAND){0}};

int main(int argc, char **argv)
{
	static const struct cli_command *const groups[] = {commands, NULL};
	struct cli cli = {.groups = groups};

	cli_begin();
	return cli_end(cli_run(&cli, "graph", argc, argv));
}
