/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums up what queues and paths count, and tells the manager. See counts.h. */
#include "client/session/counts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "client/session.h"

#define PATHS_MAX 64U /* the manager takes no more */

#define CACHE_LINE 64

void session_counts_init(struct session_counts *counts)
{
	CDS_INIT_LIST_HEAD(&counts->queues);
	CDS_INIT_LIST_HEAD(&counts->paths);
	CDS_INIT_LIST_HEAD(&counts->ended_paths);
	CDS_INIT_LIST_HEAD(&counts->same_hosts);
}

void session_counts_free(struct session_counts *counts)
{
	struct path_count *count, *next;

	cds_list_for_each_entry_safe (count, next, &counts->ended_paths, node)
		free(count);
}

/* ---- Queues */

void counts_open(struct afar_session *session, struct counts *counts)
{
	counts->gap = counts->until_sample = 1;
	counts->random = (uint32_t)clock_ns();
	pthread_mutex_lock(&session->lock);
	cds_list_add_tail(&counts->node, &session->counts.queues);
	pthread_mutex_unlock(&session->lock);
}

/* The next sample is a random number of operations ahead, so that it does not fall into step with
 * them. */
uint32_t counts_draw(struct counts *counts)
{
	uint32_t stands_for = counts->gap;

	counts->random = counts->random * 1664525U + 1013904223U;
	counts->gap = counts->is_slow ? 1 : 1 + (counts->random >> 16 & COUNT_GAP_MASK);
	counts->until_sample = counts->gap;
	return stands_for;
}

void counts_sample(struct counts *counts, uint16_t opcode, uint64_t began, uint32_t stands_for)
{
	uint64_t now = clock_ns(), span = now > began ? now - began : 0;

	counts->is_slow = span > COUNT_SLOW_NS;
	histogram_add(&counts->spans[opcode % COUNT_OPCODES], span, stands_for);
}

static void add_count(struct count *into, const struct count *count)
{
	counter_add(&into->nr, counter_get(&count->nr));
	counter_add(&into->bytes, counter_get(&count->bytes));
	counter_add(&into->nr_failed, counter_get(&count->nr_failed));
}

static void add_spans(struct histogram *into, const struct histogram *spans)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		counter_add(&into->counts[i], counter_get(&spans->counts[i]));
}

/* Adds counts. The session's lock guards `into`, or no other thread has it. */
static void add_counts(struct counts *into, const struct counts *counts)
{
	for (unsigned opcode = 0; opcode < COUNT_OPCODES; opcode++) {
		if (counter_get(&counts->of[opcode].nr) == 0)
			continue;
		add_count(&into->of[opcode], &counts->of[opcode]);
		add_spans(&into->spans[opcode], &counts->spans[opcode]);
	}
}

void counts_close(struct afar_session *session, struct counts *counts)
{
	if (!counts->node.next)
		return;
	pthread_mutex_lock(&session->lock);
	add_counts(&session->counts.ended, counts);
	cds_list_del(&counts->node);
	pthread_mutex_unlock(&session->lock);
}

/* ---- Paths */

static void add_path_count(struct path_count *into, const struct path_count *count)
{
	for (unsigned i = 0; i < 2; i++)
		counter_add(&into->bytes[i], counter_get(&count->bytes[i]));
}

static struct path_count *find_like(struct cds_list_head *list, const struct path_count *like)
{
	struct path_count *count;

	cds_list_for_each_entry (count, list, node) {
		if (count->server == like->server && strcmp(count->transport, like->transport) == 0)
			return count;
	}
	return NULL;
}

/* Keeps the counts of a path that is gone. Without memory they are lost. */
static void keep(struct session_counts *counts, const struct path_count *count)
{
	struct path_count *kept = find_like(&counts->ended_paths, count);

	if (!kept) {
		kept = calloc(1, sizeof(*kept));
		if (!kept)
			return;
		kept->server = count->server;
		memcpy(kept->transport, count->transport, sizeof(kept->transport));
		cds_list_add_tail(&kept->node, &counts->ended_paths);
	}
	add_path_count(kept, count);
}

void path_count_close(struct afar_session *session, struct path_count *count)
{
	if (!count->node.next)
		return;
	pthread_mutex_lock(&session->lock);
	keep(&session->counts, count);
	cds_list_del(&count->node);
	pthread_mutex_unlock(&session->lock);
	memset(count, 0, sizeof(*count));
}

static void name(struct path_count *count, uint64_t server, const char *transport)
{
	count->server = server;
	snprintf(count->transport, sizeof(count->transport), "%s", transport);
}

void path_count_open(struct afar_session *session, struct path_count *count, uint64_t server,
		     const char *transport)
{
	path_count_close(session, count);
	name(count, server, transport);
	pthread_mutex_lock(&session->lock);
	cds_list_add_tail(&count->node, &session->counts.paths);
	pthread_mutex_unlock(&session->lock);
}

void path_count_congestion(struct afar_session *session, struct path_count *count,
			   const char *congestion)
{
	pthread_mutex_lock(&session->lock);
	snprintf(count->congestion, sizeof(count->congestion), "%s", congestion);
	pthread_mutex_unlock(&session->lock);
}

/* ---- Windows */

void same_host_counts_sample(struct same_host_counts *counts, uint16_t opcode, uint64_t began)
{
	uint64_t now = clock_ns(), span = now > began ? now - began : 0;
	struct histogram *spans = &counts->spans[opcode % COUNT_OPCODES];

	counter_add_shared(&spans->counts[histogram_bucket(span)], 1U << COUNT_SAME_HOST_LOG);
}

static uint64_t sum_row(const struct same_host_counts *same_host, uint32_t index)
{
	uint64_t sum = 0;

	for (unsigned number = 0; number < EPOCH_NUMBERS; number++)
		sum += counter_get(&same_host_column(same_host, number)[index]);
	return sum;
}

/* Adds the paths' bytes to `into`, and sets them in the windows' own paths. */
static void gather_paths(struct counts *into, struct same_host_counts *same_host)
{
	static const uint16_t movers[] = {AFAR_OP_READ, AFAR_OP_WRITE};

	for (uint32_t i = 0; i < same_host->nr_paths; i++) {
		for (unsigned is_write = 0; is_write < 2; is_write++) {
			uint64_t bytes = sum_row(same_host, COUNT_OPCODES + 2 * i + is_write);

			counter_add(&into->of[movers[is_write]].bytes, bytes);
			same_host->paths[i].bytes[is_write] = (struct counter){bytes};
		}
	}
}

/* Adds the counts of windows. The caller holds the session's lock. */
static void gather_same_host(struct counts *into, struct same_host_counts *same_host)
{
	for (unsigned opcode = 0; opcode < COUNT_OPCODES; opcode++) {
		uint64_t nr = sum_row(same_host, opcode);

		if (nr == 0)
			continue;
		counter_add(&into->of[opcode].nr, nr);
		add_spans(&into->spans[opcode], &same_host->spans[opcode]);
		if (opcode == AFAR_OP_FETCH_ADD || opcode == AFAR_OP_COMPARE_SWAP)
			counter_add(&into->of[opcode].bytes, nr * sizeof(uint64_t));
	}
	gather_paths(into, same_host);
}

bool same_host_counts_open(struct afar_session *session, struct same_host_counts *counts,
			   uint32_t nr_paths)
{
	const uint32_t per_line = CACHE_LINE / sizeof(struct counter);
	uint32_t height = (COUNT_OPCODES + 2 * nr_paths + per_line - 1) / per_line * per_line;
	size_t bytes = (size_t)EPOCH_NUMBERS * height * sizeof(struct counter);

	counts->paths = calloc((size_t)nr_paths + 1, sizeof(*counts->paths));
	counts->columns = aligned_alloc(CACHE_LINE, bytes);
	if (!counts->paths || !counts->columns) {
		free(counts->paths);
		free(counts->columns);
		return false;
	}
	memset(counts->columns, 0, bytes);
	counts->height = height;
	counts->nr_paths = nr_paths;
	pthread_mutex_lock(&session->lock);
	cds_list_add_tail(&counts->node, &session->counts.same_hosts);
	pthread_mutex_unlock(&session->lock);
	return true;
}

void same_host_counts_path(struct afar_session *session, struct same_host_counts *counts,
			   uint32_t path, uint64_t server, const char *transport)
{
	pthread_mutex_lock(&session->lock);
	name(&counts->paths[path], server, transport);
	pthread_mutex_unlock(&session->lock);
}

void same_host_counts_close(struct afar_session *session, struct same_host_counts *counts)
{
	pthread_mutex_lock(&session->lock);
	gather_same_host(&session->counts.ended, counts);
	for (uint32_t i = 0; i < counts->nr_paths; i++) {
		if (counts->paths[i].transport[0])
			keep(&session->counts, &counts->paths[i]);
	}
	cds_list_del(&counts->node);
	pthread_mutex_unlock(&session->lock);
	free(counts->paths);
	free(counts->columns);
}

/* ---- The answer */

/* The manager counts some opcodes as one kind. */
static const struct {
	uint16_t opcodes[3]; /* AFAR_OP_WILL_NEED is none of them: nobody waits for it */
	unsigned nr_opcodes;
} kinds[] = {
	{{AFAR_OP_READ}, 1},
	{{AFAR_OP_WRITE, AFAR_OP_ZERO, AFAR_OP_TRIM}, 3},
	{{AFAR_OP_FETCH_ADD, AFAR_OP_COMPARE_SWAP}, 2},
	{{AFAR_OP_FLUSH, AFAR_OP_SYNC}, 2},
};
#define NR_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* A report, with all that it points to. */
struct use {
	Afar__SessionUse message;
	Afar__OperationUse operations[NR_KINDS];
	Afar__OperationUse *operation_pointers[NR_KINDS];
	struct counts sums;
	uint32_t buckets[NR_KINDS][HISTOGRAM_BUCKETS];
	uint64_t counts[NR_KINDS][HISTOGRAM_BUCKETS];
	Afar__PathUse paths[PATHS_MAX];
	Afar__PathUse *path_pointers[PATHS_MAX];
	struct path_count path_sums[PATHS_MAX];
	struct cds_list_head path_list; /* of path_sums */
	unsigned nr_paths;
};

static void sum_path(struct use *use, const struct path_count *count)
{
	struct path_count *sum = find_like(&use->path_list, count);

	if (!sum && use->nr_paths == PATHS_MAX)
		return;
	if (!sum) {
		sum = &use->path_sums[use->nr_paths++];
		sum->server = count->server;
		memcpy(sum->transport, count->transport, sizeof(sum->transport));
		cds_list_add_tail(&sum->node, &use->path_list);
	}
	add_path_count(sum, count);
	text_merge(sum->congestion, sizeof(sum->congestion), count->congestion);
}

static void sum_up(struct afar_session *session, struct use *use)
{
	const struct session_counts *counts = &session->counts;
	const struct counts *queue;
	const struct path_count *path;
	struct same_host_counts *same_host;

	pthread_mutex_lock(&session->lock);
	add_counts(&use->sums, &counts->ended);
	cds_list_for_each_entry (same_host, &counts->same_hosts, node) {
		gather_same_host(&use->sums, same_host);
		for (uint32_t i = 0; i < same_host->nr_paths; i++) {
			if (same_host->paths[i].transport[0])
				sum_path(use, &same_host->paths[i]);
		}
	}
	cds_list_for_each_entry (queue, &counts->queues, node)
		add_counts(&use->sums, queue);
	cds_list_for_each_entry (path, &counts->paths, node)
		sum_path(use, path);
	cds_list_for_each_entry (path, &counts->ended_paths, node)
		sum_path(use, path);
	pthread_mutex_unlock(&session->lock);
}

static void fill_operations(struct use *use, unsigned kind)
{
	Afar__OperationUse *out = &use->operations[kind];

	afar__operation_use__init(out);
	for (unsigned i = 0; i < kinds[kind].nr_opcodes; i++) {
		const struct count *sum = &use->sums.of[kinds[kind].opcodes[i]];

		out->nr += counter_get(&sum->nr);
		out->bytes += counter_get(&sum->bytes);
		out->nr_failed += counter_get(&sum->nr_failed);
	}
	out->buckets = use->buckets[kind];
	out->counts = use->counts[kind];
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t nr = 0;

		for (unsigned j = 0; j < kinds[kind].nr_opcodes; j++)
			nr += counter_get(&use->sums.spans[kinds[kind].opcodes[j]].counts[i]);
		if (nr == 0)
			continue;
		out->buckets[out->n_buckets++] = i;
		out->counts[out->n_counts++] = nr;
	}
	use->operation_pointers[kind] = out;
}

static void fill(struct use *use)
{
	afar__session_use__init(&use->message);
	use->message.operations = use->operation_pointers;
	use->message.n_operations = NR_KINDS;
	for (unsigned kind = 0; kind < NR_KINDS; kind++)
		fill_operations(use, kind);
	use->message.paths = use->path_pointers;
	use->message.n_paths = use->nr_paths;
	for (unsigned i = 0; i < use->nr_paths; i++) {
		struct path_count *sum = &use->path_sums[i];

		afar__path_use__init(&use->paths[i]);
		use->paths[i].server = sum->server;
		use->paths[i].transport = sum->transport;
		use->paths[i].congestion = sum->congestion;
		use->paths[i].bytes_read = counter_get(&sum->bytes[0]);
		use->paths[i].bytes_written = counter_get(&sum->bytes[1]);
		use->path_pointers[i] = &use->paths[i];
	}
}

void counts_answer(struct afar_session *session, struct rpc_call *call)
{
	Afar__Reply reply = AFAR__REPLY__INIT;
	struct use *use = calloc(1, sizeof(*use));

	if (!use) {
		rpc_reply_status(call, 0, error_code(-ENOMEM));
		return;
	}
	CDS_INIT_LIST_HEAD(&use->path_list);
	sum_up(session, use);
	fill(use);
	reply.result_case = AFAR__REPLY__RESULT_SESSION_USE;
	reply.session_use = &use->message;
	rpc_reply(call, 0, &reply);
	free(use);
}
