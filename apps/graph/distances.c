/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Distances from a vertex, breadth first and by weight; see graph.h. A worker explores from those of its vertices that were
 * reached, as far as its own vertices go. Other vertices that it reaches belong to other workers, and go into their
 * mailboxes: one letter for each, with the least distance that was found. When no letters are written any more, all are
 * done.
 *
 * Breadth first: a superstep goes one edge further, so the first distance of a vertex is its own. By weight: the nearest
 * vertex is explored first (E. W. Dijkstra, "A note on two problems in connexion with graphs", 1959). Others are explored
 * beside it, because many reads are in flight, and again if a shorter way is found then. So is one that a letter makes
 * nearer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "explorer.h"
#include "heap.h"
#include "tools/copy/failure.h"

#define MANY_PARTS 2048U /* a front of more than such a part of the vertices is put in order */

/* Vertices, as they come. */
struct list {
	uint32_t *vertices;
	uint64_t nr, room;
};

struct search {
	struct graph_job *job;
	struct explorer explorer;
	uint64_t *distances; /* the caller's vertices; of others, the least that was told to them */
	struct heap heap;    /* by weight: what is to be explored */
	struct list front,
		reached; /* breadth first: what is explored, and the caller's vertices one edge further */
	uint64_t at, depth; /* of the front */
	uint64_t *is_told;  /* a bit for each vertex of others: a letter is for it */
	uint64_t nr_told;
	struct afar_buffer *letters;
	uint64_t letters_room;
	struct afar_buffer *counts; /* letters, from each to each */
};

static int fail_memory(const struct search *search)
{
	return app_fail(-ENOMEM, "%s: no memory for the vertices that are reached",
			search->job->what);
}

static int put(struct search *search, struct list *list, uint32_t vertex)
{
	if (list->nr == list->room) {
		uint64_t room = list->room ? 2 * list->room : 1024;
		uint32_t *larger = reallocarray(list->vertices, room, sizeof(*larger));

		if (!larger)
			return fail_memory(search);
		list->vertices = larger;
		list->room = room;
	}
	list->vertices[list->nr++] = vertex;
	return 0;
}

static bool is_by_weight(const struct search *search)
{
	return search->job->options.kind == GRAPH_SHORTEST;
}

static bool is_own(const struct search *search, uint32_t vertex)
{
	return vertex >= search->job->first && vertex < search->job->end;
}

/* ---- Reaching */

/* Notes that a letter is for a vertex, once. */
static void tell(struct search *search, uint32_t vertex)
{
	const uint64_t bit = UINT64_C(1) << vertex % 64;

	if (search->is_told[vertex / 64] & bit)
		return;
	search->is_told[vertex / 64] |= bit;
	search->nr_told++;
}

static int reach(struct search *search, uint32_t vertex, uint64_t distance)
{
	if (distance >= search->distances[vertex])
		return 0;
	search->distances[vertex] = distance;
	if (!is_own(search, vertex)) {
		tell(search, vertex);
		return 0;
	}
	if (!is_by_weight(search))
		return put(search, &search->reached, vertex);
	return heap_put(&search->heap, distance, vertex) ? fail_memory(search) : 0;
}

static int take_edges(void *context, uint32_t vertex, const uint32_t *words, uint64_t nr)
{
	struct search *search = context;
	const unsigned step = graph_words(&search->job->graph->header, GRAPH_OUT);
	const bool has_weights = is_by_weight(search) && step == 2;
	const uint64_t distance = search->distances[vertex];
	int ret = 0;

	for (uint64_t i = 0; i < nr && !ret; i++) {
		if (words[i * step] >= search->job->nr_vertices)
			return graph_fail_edge(search->job->graph);
		ret = reach(search, words[i * step],
			    distance + (has_weights ? words[i * step + 1] : 1));
	}
	return ret;
}

/* ---- What is explored next */

static bool next_nearest(void *context, uint32_t *vertex)
{
	struct search *search = context;
	uint64_t distance;

	while (heap_take(&search->heap, &distance, vertex))
		if (distance == search->distances[*vertex])
			return true;
	return false;
}

static bool next_of_front(void *context, uint32_t *vertex)
{
	struct search *search = context;

	if (search->at == search->front.nr)
		return false;
	*vertex = search->front.vertices[search->at++];
	return true;
}

/* Puts the vertices of a large front in order, so that their edges are read together. */
static void put_in_order(struct search *search)
{
	const struct graph_job *job = search->job;
	uint64_t nr = 0;

	if (search->front.nr <= (job->end - job->first) / MANY_PARTS)
		return;
	for (uint64_t i = job->first; i < job->end && nr < search->front.nr; i++)
		if (search->distances[i] == search->depth)
			search->front.vertices[nr++] = (uint32_t)i;
}

/* Makes a front of what was reached, and explores it. */
static int go_further(struct search *search)
{
	struct list front = search->front;

	search->front = search->reached;
	search->reached = front;
	search->reached.nr = 0;
	search->at = 0;
	put_in_order(search);
	search->depth++;
	return explorer_run(&search->explorer);
}

static int explore(struct search *search)
{
	int ret;

	if (is_by_weight(search))
		return explorer_run(&search->explorer);
	do {
		ret = go_further(search);
	} while (!ret && job_is_alone(search->job) && search->reached.nr);
	return ret;
}

/* ---- Letters */

static struct letter *letters_of(const struct search *search)
{
	return afar_buffer_data(search->letters);
}

static int make_room(struct search *search, uint64_t nr)
{
	int ret;

	if (nr <= search->letters_room)
		return 0;
	if (search->letters)
		afar_buffer_unregister(search->letters);
	search->letters = NULL;
	search->letters_room = 0;
	ret = job_alloc(search->job, nr * sizeof(struct letter), &search->letters);
	if (!ret)
		search->letters_room = nr;
	return ret;
}

/* Where the letters from one worker to the vertices of another are. */
static uint64_t letters_at(const struct graph_job *job, uint64_t side, unsigned from, unsigned to)
{
	return job->mail.letters + side +
	       sizeof(struct letter) * (job->nr_vertices * from + job->bounds[to]);
}

/* Writes them in the order of their vertices. */
static int write_letters(struct search *search)
{
	const uint64_t nr_words = search->job->nr_vertices / 64 + 1;
	struct letter *letter;
	int ret = make_room(search, search->nr_told);

	if (ret || !search->nr_told)
		return ret;
	letter = letters_of(search);
	for (uint64_t word = 0; word < nr_words; word++) {
		for (; search->is_told[word]; search->is_told[word] &= search->is_told[word] - 1) {
			uint32_t vertex = (uint32_t)(64 * word) +
					  (uint32_t)__builtin_ctzll(search->is_told[word]);

			*letter++ = (struct letter){search->distances[vertex], vertex, 0};
		}
	}
	return 0;
}

/* Sends those for one worker, of which `first` is the first. Gives how many there are. */
static int send_to(struct search *search, unsigned worker, uint64_t first, uint64_t side,
		   uint64_t *nr)
{
	struct graph_job *job = search->job;
	uint64_t end = first;

	while (end < search->nr_told && letters_of(search)[end].vertex < job->bounds[worker + 1])
		end++;
	*nr = end - first;
	return *nr ? job_put(job, letters_at(job, side, job->options.worker, worker),
			     search->letters, letters_of(search) + first,
			     *nr * sizeof(struct letter))
		   : 0;
}

/* Sends all letters, and how many they are. To itself a worker tells how many of its own vertices it has still to explore. */
static int send(struct search *search, uint64_t side)
{
	struct graph_job *job = search->job;
	const unsigned nr = job->options.nr_workers, own = job->options.worker;
	uint64_t *counts = (uint64_t *)afar_buffer_data(search->counts) + (uint64_t)nr * own;
	uint64_t first = 0;
	int ret = write_letters(search);

	for (unsigned i = 0; i < nr && !ret; i++) {
		if (i == own)
			continue;
		ret = send_to(search, i, first, side, &counts[i]);
		first += counts[i];
	}
	counts[own] = search->reached.nr;
	search->nr_told = 0;
	if (!ret)
		ret = job_put(job, job->mail.words + side + 8ULL * nr * own, search->counts, counts,
			      8ULL * nr);
	return ret ? ret : job_flush(job);
}

static int read_counts(struct search *search, uint64_t side, bool *is_over)
{
	struct graph_job *job = search->job;
	const uint64_t nr = job->options.nr_workers;
	const uint64_t *counts = afar_buffer_data(search->counts);
	int ret = job_get(job, job->mail.words + side, search->counts,
			  afar_buffer_data(search->counts), 8 * nr * nr);

	*is_over = true;
	for (uint64_t i = 0; i < nr * nr; i++)
		if (counts[i])
			*is_over = false;
	return ret;
}

static int read_letters(struct search *search, unsigned from, uint64_t side)
{
	struct graph_job *job = search->job;
	const uint64_t *counts = afar_buffer_data(search->counts);
	uint64_t nr = counts[(uint64_t)job->options.nr_workers * from + job->options.worker];
	int ret;

	if (nr > job->end - job->first)
		return app_fail(-EBADMSG,
				"%s: worker %u has sent letters that cannot be; is it "
				"another version?",
				job->what, from);
	if (!nr)
		return 0;
	ret = make_room(search, nr);
	if (!ret)
		ret = job_get(job, letters_at(job, side, from, job->options.worker),
			      search->letters, letters_of(search), nr * sizeof(struct letter));
	for (uint64_t i = 0; i < nr && !ret; i++) {
		const struct letter letter = letters_of(search)[i];

		if (!is_own(search, letter.vertex))
			return app_fail(-EBADMSG,
					"%s: worker %u has sent a letter that is not for "
					"worker %u",
					job->what, from, job->options.worker);
		ret = reach(search, letter.vertex, letter.distance);
	}
	return ret;
}

/* Exchanges what was reached in that step. `*is_over`: nobody has anything more to explore. */
static int exchange(struct search *search, unsigned step, bool *is_over)
{
	struct graph_job *job = search->job;
	const uint64_t side = step % 2 * job->mail.odd;
	int ret;

	*is_over = job_is_alone(job);
	if (*is_over)
		return 0;
	ret = send(search, side);
	if (!ret)
		ret = job_sync(job);
	if (!ret)
		ret = read_counts(search, side, is_over);
	for (unsigned i = 0; i < job->options.nr_workers && !ret; i++)
		if (i != job->options.worker)
			ret = read_letters(search, i, side);
	return ret;
}

/* ---- All of it */

static int open_search(struct search *search)
{
	struct graph_job *job = search->job;
	const uint64_t nr = job->options.nr_workers;
	int ret;

	search->explorer = (struct explorer){
		.job = job,
		.next = is_by_weight(search) ? next_nearest : next_of_front,
		.take = take_edges,
		.context = search,
		.does_merge = !is_by_weight(search),
	};
	ret = explorer_open(&search->explorer);
	if (!ret)
		ret = job_alloc(job, 8 * job->nr_vertices, &job->values);
	if (!ret)
		ret = job_alloc(job, 8 * nr * nr, &search->counts);
	if (ret)
		return ret;
	search->distances = afar_buffer_data(job->values);
	memset(search->distances, 0xff, 8 * job->nr_vertices); /* GRAPH_UNREACHED */
	search->is_told = calloc(job->nr_vertices / 64 + 1, sizeof(*search->is_told));
	return search->is_told ? 0 : fail_memory(search);
}

static int run(struct search *search)
{
	const uint32_t from = search->job->options.from;
	bool is_over = false;
	int ret = is_own(search, from) ? reach(search, from, 0) : 0;

	for (unsigned step = 0; !ret && !is_over; step++) {
		ret = explore(search);
		if (!ret)
			ret = exchange(search, step, &is_over);
	}
	return ret ? ret : job_collect(search->job, search->job->values);
}

int job_distances(struct graph_job *job)
{
	struct search search = {.job = job};
	int ret = open_search(&search);

	if (!ret)
		ret = run(&search);
	io_drain(&job->io);
	explorer_close(&search.explorer);
	if (search.letters)
		afar_buffer_unregister(search.letters);
	if (search.counts)
		afar_buffer_unregister(search.counts);
	heap_free(&search.heap);
	free(search.front.vertices);
	free(search.reached.vertices);
	free(search.is_told);
	return ret;
}
