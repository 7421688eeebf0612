/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs from C: edges, exploring and supersteps are right, by one worker and by several, which are threads here. Whatever
 * fails, fails at every worker with the same code and one line, and leaves nothing.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <afar/graph.h>

#include "apps/graph/layout.h"
#include "lib/api/api.h"

#define NR	    1000U /* vertices; vertex i has edges to i + 1 and 7 i + 3 */
#define NR_EDGES    (2 * NR)
#define NR_WORKERS  3U
#define PATIENCE_MS 120000U /* where all get a core too seldom */

static struct afar_namespace *ns;

static uint32_t target(uint32_t vertex, unsigned edge)
{
	return (edge ? 7 * vertex + 3 : vertex + 1) % NR;
}

static uint32_t weight(uint32_t vertex, unsigned edge)
{
	return 10 * vertex + edge;
}

/* ---- A graph */

static void write_arriving(uint64_t *offsets, uint32_t *words)
{
	uint64_t at = 0;

	for (uint32_t to = 0; to < NR; to++) {
		for (uint32_t from = 0; from < NR; from++)
			for (unsigned edge = 0; edge < 2; edge++)
				if (target(from, edge) == to)
					words[at++] = from;
		offsets[to + 1] = at;
	}
	assert_int_equal(at, NR_EDGES);
}

/* Makes it, with its last edge to `last`. */
static void make_graph(const char *name, uint32_t last)
{
	const struct graph_header header = {GRAPH_MAGIC, NR, NR_EDGES, .is_weighted = 1};
	const uint64_t bytes = graph_bytes(&header);
	struct afar_region *region;
	char *image = calloc(1, bytes);
	uint64_t *leaving = (void *)(image + graph_offsets_at(&header, GRAPH_OUT));
	uint32_t *words = (void *)(image + graph_edges_at(&header, GRAPH_OUT));

	assert_non_null(image);
	memcpy(image, &header, sizeof(header));
	for (uint32_t i = 0; i < NR; i++) {
		leaving[i + 1] = 2 * (i + 1);
		for (unsigned edge = 0; edge < 2; edge++) {
			words[2 * (2 * i + edge)] = target(i, edge);
			words[2 * (2 * i + edge) + 1] = weight(i, edge);
		}
	}
	words[2 * (NR_EDGES - 1)] = last;
	write_arriving((void *)(image + graph_offsets_at(&header, GRAPH_IN)),
		       (void *)(image + graph_edges_at(&header, GRAPH_IN)));
	assert_int_equal(afar_region_create(ns, name, bytes, 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, image, bytes, 0), bytes);
	assert_int_equal(afar_region_close(region), 0);
	free(image);
}

static int make_graphs(void **state)
{
	if (start(state))
		return -1;
	ns = make_namespace("g", 0, 64 * MIB);
	make_graph("graph", target(NR - 1, 1));
	make_graph("damaged", NR);
	return 0;
}

static int drop_graphs(void **state)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_namespace_stat(ns, &stat), 0);
	assert_int_equal(stat.nr_regions, 2); /* no job has left one */
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_namespace_delete(session, "g", AFAR_DELETE_REGIONS), 0);
	return stop(state);
}

static struct afar_graph *open_graph(const char *name)
{
	struct afar_graph *graph;

	assert_int_equal(afar_graph_open(session, name, &graph), 0);
	return graph;
}

/* ---- Edges */

static void test_cursor(void **state)
{
	struct afar_graph *graph = open_graph("g:graph");
	struct afar_graph_stat stat = {.size = sizeof(stat)};
	struct afar_graph_vertex vertex;
	struct afar_graph_cursor *cursor;

	(void)state;
	assert_int_equal(afar_graph_cursor_open(graph, AFAR_GRAPH_OUT, 5, NR, &cursor), 0);
	for (uint32_t i = 5; i < NR; i++) {
		assert_int_equal(afar_graph_cursor_next(cursor, &vertex), 1);
		assert_int_equal(vertex.number, i);
		assert_int_equal(vertex.edges.nr, 2);
		for (unsigned edge = 0; edge < 2; edge++) {
			assert_int_equal(afar_graph_neighbour(&vertex.edges, edge),
					 target(i, edge));
			assert_int_equal(afar_graph_weight(&vertex.edges, edge), weight(i, edge));
		}
	}
	assert_int_equal(afar_graph_cursor_next(cursor, &vertex), 0);
	assert_int_equal(afar_graph_cursor_move(cursor, 17, 18), 0);
	assert_int_equal(afar_graph_cursor_next(cursor, &vertex), 1);
	assert_int_equal(vertex.number, 17);
	assert_int_equal(afar_graph_neighbour(&vertex.edges, 1), target(17, 1));
	assert_int_equal(afar_graph_cursor_next(cursor, &vertex), 0);
	expect_error(afar_graph_cursor_move(cursor, 3, NR + 1), -ERANGE);
	expect_error(afar_graph_cursor_move(cursor, 4, 3), -ERANGE);
	expect_error(afar_graph_close(graph), -EBUSY);
	assert_int_equal(afar_graph_cursor_close(cursor), 0);

	/* Those that arrive are the same ones, without weights. */
	assert_int_equal(afar_graph_cursor_open(graph, AFAR_GRAPH_IN, 0, NR, &cursor), 0);
	for (uint32_t i = 0; i < NR; i++) {
		assert_int_equal(afar_graph_cursor_next(cursor, &vertex), 1);
		assert_int_equal(vertex.edges.nr, afar_graph_degree(graph, AFAR_GRAPH_IN, i));
		for (uint64_t j = 0; j < vertex.edges.nr; j++) {
			uint32_t from = afar_graph_neighbour(&vertex.edges, j);

			assert_true(target(from, 0) == i || target(from, 1) == i);
			assert_int_equal(afar_graph_weight(&vertex.edges, j), 1);
		}
	}
	assert_int_equal(afar_graph_cursor_close(cursor), 0);
	expect_error(afar_graph_degree(graph, AFAR_GRAPH_OUT, NR), -ERANGE);
	assert_int_equal(afar_graph_stat(graph, &stat), 0);
	assert_int_equal(stat.nr_vertices, NR);
	assert_int_equal(stat.nr_edges, NR_EDGES);
	assert_int_equal(stat.is_weighted, 1);
	assert_int_equal(stat.is_symmetric, 0);
	assert_true(stat.nr_read >= 2 * NR_EDGES - 10);
	assert_int_equal(afar_graph_close(graph), 0);
}

struct tour {
	uint32_t vertices[NR + 1];
	uint32_t nr, at; /* found, and given out */
	bool is_found[NR];
	uint32_t bad; /* takes of this vertex fail */
};

static int next_of_tour(void *context, uint32_t *vertex)
{
	struct tour *tour = context;

	if (tour->at == tour->nr)
		return 0;
	*vertex = tour->vertices[tour->at++];
	return 1;
}

static int take_of_tour(void *context, uint32_t vertex, const struct afar_graph_edges *edges)
{
	struct tour *tour = context;

	if (vertex == tour->bad)
		return afar_fail(-EDOM, "the tour does not like it here");
	for (uint64_t i = 0; i < edges->nr; i++) {
		uint32_t other = afar_graph_neighbour(edges, i);

		if (!tour->is_found[other])
			tour->vertices[tour->nr++] = other;
		tour->is_found[other] = true;
	}
	return 0;
}

static void test_exploring(void **state)
{
	struct afar_graph *graph = open_graph("g:graph");
	struct tour tour = {.nr = 1, .bad = NR};
	struct afar_graph_exploration exploration = {.size = sizeof(exploration),
						     .next = next_of_tour,
						     .take = take_of_tour,
						     .context = &tour};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		exploration.nr_in_flight = (const uint32_t[]){1, 64, 256}[i];
		exploration.flags = i == 2 ? AFAR_GRAPH_IN_ORDER : 0;
		tour = (struct tour){.nr = 1, .bad = NR};
		assert_int_equal(afar_graph_explore(graph, &exploration), 0);
		assert_int_equal(tour.nr, NR + 1); /* the first is found again */
	}
	tour = (struct tour){.nr = 1, .vertices = {NR}};
	expect_error(afar_graph_explore(graph, &exploration), -ERANGE);
	tour = (struct tour){.nr = 1, .bad = 1};
	expect_error(afar_graph_explore(graph, &exploration), -EDOM);
	assert_string_equal(afar_last_error(), "the tour does not like it here");
	exploration.nr_in_flight = 257;
	expect_error(afar_graph_explore(graph, &exploration), -EINVAL);
	assert_int_equal(afar_graph_close(graph), 0);
}

/* ---- Supersteps, by threads */

struct party {
	const char *graph;
	struct afar_graph_program programs[NR_WORKERS];
	uint32_t nr_workers, patience_ms;
	int (*is_ended)(void *context);
	int results[NR_WORKERS];
	char said[NR_WORKERS][256];
	uint64_t values[NR_WORKERS][NR];
};

struct worker {
	struct party *party;
	uint32_t number;
};

static int run_job(struct afar_graph *graph, const struct worker *worker)
{
	struct party *party = worker->party;
	const struct afar_graph_job_options options = {
		.size = sizeof(options),
		.name = "party",
		.worker = worker->number,
		.nr_workers = party->nr_workers,
		.patience_ms = party->patience_ms,
		.is_ended = worker->number == 1 ? party->is_ended : NULL,
	};
	struct afar_graph_job *job;
	int ret = afar_graph_job_open(graph, &party->programs[worker->number], &options, &job);

	if (ret)
		return ret;
	ret = afar_graph_job_run(job);
	snprintf(party->said[worker->number], sizeof(party->said[0]), "%s",
		 ret ? afar_last_error() : "");
	if (!ret && afar_graph_job_values(job))
		memcpy(party->values[worker->number], afar_graph_job_values(job),
		       sizeof(party->values[0]));
	afar_graph_job_close(job);
	return ret;
}

static void *work(void *context)
{
	struct worker *worker = context;
	struct afar_graph *graph;
	int ret = afar_graph_open(session, worker->party->graph, &graph);

	if (!ret) {
		ret = run_job(graph, worker);
		afar_graph_close(graph);
	}
	worker->party->results[worker->number] = ret;
	return NULL;
}

static void hold(struct party *party)
{
	struct worker workers[NR_WORKERS];
	pthread_t threads[NR_WORKERS];

	for (uint32_t i = 0; i < party->nr_workers; i++) {
		workers[i] = (struct worker){party, i};
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < party->nr_workers; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static struct party *party_of(const struct afar_graph_program *program, uint32_t nr_workers)
{
	static struct party party;

	party = (struct party){
		.graph = "g:graph", .nr_workers = nr_workers, .patience_ms = PATIENCE_MS};
	for (uint32_t i = 0; i < NR_WORKERS; i++)
		party.programs[i] = *program;
	return &party;
}

/* All fail so, with such a line. */
static void expect_all(const struct party *party, int code, const char *said)
{
	for (uint32_t i = 0; i < party->nr_workers; i++) {
		assert_int_equal(party->results[i], code);
		if (!strstr(party->said[i], said) || strchr(party->said[i], '\n'))
			fail_msg("worker %u says '%s', not '%s'", i, party->said[i], said);
	}
}

static void add(void *message, const void *other)
{
	uint64_t one, another;

	memcpy(&one, message, sizeof(one));
	memcpy(&another, other, sizeof(another));
	one += another;
	memcpy(message, &one, sizeof(one));
}

/* In step 0 a vertex sends its number along its edges. In step 1 it has their sum, and the sum of all numbers. */
static int send_number(struct afar_graph_step *step, const struct afar_graph_vertex *vertex,
		       void *value)
{
	const uint64_t number = vertex->number;
	uint64_t got = 0;
	int ret = 0;

	if (step->number == 0) {
		step->added += (double)number;
		for (uint64_t i = 0; i < vertex->edges.nr && !ret; i++)
			ret = afar_graph_send(step, afar_graph_neighbour(&vertex->edges, i),
					      &number);
		return ret;
	}
	if (vertex->message)
		memcpy(&got, vertex->message, sizeof(got));
	got = step->sum == NR * (NR - 1) / 2 ? got : UINT64_MAX;
	memcpy(value, &got, sizeof(got));
	return 0;
}

static void test_messages(void **state)
{
	const struct afar_graph_program program = {.size = sizeof(program),
						   .name = "numbers",
						   .value_bytes = 8,
						   .message_bytes = 8,
						   .compute = send_number,
						   .combine = add};
	uint64_t expected[NR] = {0};

	(void)state;
	for (uint32_t i = 0; i < NR; i++)
		for (unsigned edge = 0; edge < 2; edge++)
			expected[target(i, edge)] += i;
	for (uint32_t nr = 1; nr <= NR_WORKERS; nr++) {
		struct party *party = party_of(&program, nr);

		hold(party);
		for (uint32_t i = 0; i < nr; i++) {
			assert_int_equal(party->results[i], 0);
			assert_memory_equal(party->values[i], expected, sizeof(expected));
		}
	}
}

/* ---- Failing */

static int fail_silently(struct afar_graph_step *step, const struct afar_graph_vertex *vertex,
			 void *value)
{
	(void)value;
	return step->number == 2 && vertex->number == 700 ? -EDOM : 1;
}

static int fail_with_line(struct afar_graph_step *step, const struct afar_graph_vertex *vertex,
			  void *value)
{
	(void)step;
	(void)value;
	return vertex->number == 700 ? afar_fail(-EDOM, "vertex 700 is too odd") : 1;
}

static int fail_to_send(struct afar_graph_step *step, const struct afar_graph_vertex *vertex,
			void *value)
{
	return vertex->number == NR - 1 ? afar_graph_send(step, NR, value) : 1;
}

static int fail_to_start(struct afar_graph_step *step, uint32_t vertex, void *value)
{
	(void)step;
	(void)value;
	return vertex == 3 ? -ENOTNAM : 0;
}

static int go_on(struct afar_graph_step *step, const struct afar_graph_vertex *vertex, void *value)
{
	(void)step;
	(void)vertex;
	(void)value;
	return 1;
}

static int end_at_once(void *context)
{
	(void)context;
	return 1;
}

static void test_failures(void **state)
{
	static const struct {
		const char *said;
		int (*compute)(struct afar_graph_step *step, const struct afar_graph_vertex *vertex,
			       void *value);
		int (*start)(struct afar_graph_step *step, uint32_t vertex, void *value);
		int code;
	} cases[] = {
		{"failing, step 2, vertex 700: ", fail_silently, NULL, -EDOM},
		{"vertex 700 is too odd", fail_with_line, NULL, -EDOM},
		{"a message to vertex 1000: there is none", fail_to_send, NULL, -ERANGE},
		{"failing, step 0, vertex 3: ", go_on, fail_to_start, -ENOTNAM},
	};
	struct afar_graph_program program = {.size = sizeof(program),
					     .name = "failing",
					     .value_bytes = 8,
					     .message_bytes = 8,
					     .combine = add};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		program.compute = cases[i].compute;
		program.start = cases[i].start;
		for (uint32_t nr = 1; nr <= NR_WORKERS; nr += 2) {
			struct party *party = party_of(&program, nr);

			hold(party);
			expect_all(party, cases[i].code, cases[i].said);
		}
	}
}

static void test_damaged(void **state)
{
	const struct afar_graph_program program = {
		.size = sizeof(program), .name = "going", .compute = go_on};

	(void)state;
	for (uint32_t nr = 1; nr <= NR_WORKERS; nr += 2) {
		struct party *party = party_of(&program, nr);

		party->graph = "g:damaged";
		hold(party);
		expect_all(party, -EBADMSG, "an edge leads out of it");
	}
}

/* Workers that compute something else, and one that is told to end. */
static void test_early_ends(void **state)
{
	const uint32_t parameters[] = {1, 2};
	const struct afar_graph_program program = {.size = sizeof(program),
						   .name = "going",
						   .parameters = &parameters[0],
						   .parameters_bytes = 4,
						   .compute = go_on};
	struct party *party = party_of(&program, NR_WORKERS);

	(void)state;
	party->programs[2].parameters = &parameters[1];
	hold(party);
	assert_int_equal(party->results[0], -EREMOTEIO);
	assert_int_equal(party->results[1], -ESHUTDOWN);
	assert_int_equal(party->results[2], -EINVAL);
	assert_non_null(strstr(party->said[2], "worker 0 computes something else"));

	party = party_of(&program, 2);
	party->is_ended = end_at_once;
	party->patience_ms = 1000;
	hold(party);
	assert_int_equal(party->results[1], -ECANCELED);
	assert_true(party->results[0] < 0);
}

static void test_misuse(void **state)
{
	const struct afar_graph_program good = {
		.size = sizeof(good), .name = "good", .compute = go_on, .nr_steps = 1};
	struct afar_graph_program bad;
	struct afar_graph_job_options options = {.size = sizeof(options), .nr_workers = 2};
	struct afar_graph *graph = open_graph("g:graph"), *none;
	struct afar_graph_stat stat = {.size = 8};
	struct afar_graph_job *job, *other;

	(void)state;
	expect_error(afar_graph_open(NULL, "g:graph", &none), -EINVAL);
	expect_error(afar_graph_open(session, "graph", &none), -EINVAL);
	expect_error(afar_graph_open(session, "g:none", &none), -ENOENT);
	expect_error(afar_graph_close(NULL), -EINVAL);
	expect_error(afar_graph_stat(graph, &stat), -EINVAL);
	expect_error(afar_graph_cursor_next(NULL, NULL), -EINVAL);
	expect_error(afar_graph_explore(graph, NULL), -EINVAL);
	expect_error(afar_graph_job_open(graph, NULL, NULL, &job), -EINVAL);
	for (unsigned i = 0; i < 6; i++) {
		bad = good;
		bad.size -= i == 0 ? 8 : 0;
		bad.name = i == 1 ? NULL : bad.name;
		bad.compute = i == 2 ? NULL : bad.compute;
		bad.message_bytes = i == 3 ? 8 : 0;
		bad.value_bytes = i == 4 ? AFAR_GRAPH_ITEM_MAX + 1 : 0;
		bad.direction = i == 5 ? 2 : 0;
		expect_error(afar_graph_job_open(graph, &bad, NULL, &job), -EINVAL);
	}
	expect_error(afar_graph_job_open(graph, &good, &options, &job),
		     -EINVAL); /* without a name */
	options.worker = 2;
	options.name = "misuse";
	expect_error(afar_graph_job_open(graph, &good, &options, &job), -EINVAL);
	options.worker = 1;
	options.patience_ms = 1;
	expect_error(afar_graph_job_open(graph, &good, &options, &job), -ETIMEDOUT);
	assert_int_equal(afar_graph_job_open(graph, &good, NULL, &job), 0);
	expect_error(afar_graph_job_open(graph, &good, NULL, &other), -EBUSY);
	expect_error(afar_graph_close(graph), -EBUSY);
	assert_int_equal(afar_graph_job_run(job), 0);
	expect_error(afar_graph_job_run(job), -EINVAL);
	assert_null(afar_graph_job_values(job));
	assert_null(afar_graph_job_results(job));
	assert_int_equal(afar_graph_job_close(job), 0);
	assert_int_equal(afar_graph_close(graph), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cursor),	 cmocka_unit_test(test_exploring),
		cmocka_unit_test(test_messages), cmocka_unit_test(test_failures),
		cmocka_unit_test(test_damaged),	 cmocka_unit_test(test_early_ends),
		cmocka_unit_test(test_misuse),
	};

	return cmocka_run_group_tests(tests, make_graphs, drop_graphs);
}
