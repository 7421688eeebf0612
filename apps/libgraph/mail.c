/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers exchange values and messages here; see mail.h. In an even step they write into the even mailboxes. So those of the
 * odd step before can be read meanwhile, and one barrier a step is enough. No server program takes part. Called by run.c.
 */
#include "mail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/copy/failure.h"

#define PIECE_BYTES   ((uint64_t)1 << 20)
#define PIECES	      8U
#define ALIGNMENT     64U
#define LETTERS_BYTES ((uint64_t)1 << 20) /* that are in memory at a time */
#define LETTER_HEAD   8U		  /* bytes: the vertex, before the message */
#define SAID_BYTES    232U
#define ERROR_MAX     1000000 /* no code is larger */

/* A worker says it of its step. */
struct mail_line {
	double added;
	uint64_t nr_active;
	int64_t error; /* 0, or its step has failed so */
	char said[SAID_BYTES];
};

_Static_assert(sizeof(struct mail_line) == MAIL_LINE_BYTES,
	       "lines of two workers do not share one of a cache");

static uint64_t round_up(uint64_t value)
{
	return (value + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t letter_bytes(const struct afar_graph_job *job)
{
	return LETTER_HEAD + (job->program.message_bytes + 7ULL) / 8 * 8;
}

void mail_lay_out(struct afar_graph_job *job)
{
	const struct afar_graph_program *program = &job->program;
	const uint64_t nr = job->nr_workers, nr_vertices = job_nr_vertices(job);
	struct mail *mail = &job->mail;
	uint64_t at = nr * sizeof(struct mail_line);

	mail->lines = 0;
	mail->counts = at;
	at += program->message_bytes ? round_up(8 * nr * nr) : 0;
	mail->values = at;
	at += round_up(program->value_bytes * nr_vertices);
	mail->letters = at;
	at += program->message_bytes ? round_up(nr * nr_vertices * letter_bytes(job)) : 0;
	mail->odd = at;
	mail->results = 2 * at;
	mail->bytes =
		mail->results + (program->merge ? nr : 1) * program->result_bytes * nr_vertices;
}

/* ---- Moving bytes */

/* Moves them in pieces, of which several are in flight. */
static int move(struct afar_graph_job *job, bool is_write, uint64_t offset,
		struct afar_buffer *buffer, char *data, uint64_t bytes)
{
	struct io *io = &job->graph->io;
	struct io_request requests[PIECES] = {0};
	uint64_t done = 0;
	int ret = 0;

	for (unsigned i = 0; done < bytes && !ret; i = (i + 1) % PIECES) {
		uint64_t length = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;

		ret = io_wait(io, &requests[i]);
		if (!ret && is_write)
			ret = io_write(io, &requests[i], &job->team.exchange.end, offset + done,
				       buffer, data + done, length);
		else if (!ret)
			ret = io_read(io, &requests[i], &job->team.exchange.end, offset + done,
				      buffer, data + done, length);
		done += length;
		if (!ret)
			ret = graph_live(job->graph);
	}
	for (unsigned i = 0; i < PIECES && !ret; i++)
		ret = io_wait(io, &requests[i]);
	if (ret)
		io_drain(io); /* the requests are on this stack */
	return ret;
}

static int put(struct afar_graph_job *job, uint64_t offset, struct afar_buffer *buffer, void *data,
	       uint64_t bytes)
{
	return move(job, true, offset, buffer, data, bytes);
}

static int get(struct afar_graph_job *job, uint64_t offset, struct afar_buffer *buffer, void *data,
	       uint64_t bytes)
{
	return move(job, false, offset, buffer, data, bytes);
}

/* Shows all what the caller has put, and waits for them. */
static int meet(struct afar_graph_job *job)
{
	int ret = io_flush(&job->graph->io, &job->team.exchange.end);

	return ret ? ret : team_sync(&job->team);
}

/* ---- Lines */

static int put_line(struct afar_graph_job *job, uint64_t side, int failed,
		    const struct mail_sums *sums)
{
	struct mail_line *line = (struct mail_line *)afar_buffer_data(job->lines) + job->worker;

	*line = (struct mail_line){
		.added = sums->added, .nr_active = sums->nr_active, .error = failed};
	if (failed)
		snprintf(line->said, sizeof(line->said), "%s", app_failure());
	return put(job, job->mail.lines + side + job->worker * sizeof(*line), job->lines, line,
		   sizeof(*line));
}

/* Fails as that worker has. */
static int fail_as(const struct afar_graph_job *job, unsigned worker, const struct mail_line *line)
{
	if (line->error >= 0 || line->error < -ERROR_MAX)
		return app_fail(-EBADMSG,
				"%s: worker %u has said what cannot be; is it another version?",
				job->what, worker);
	return app_fail((int)line->error, "%s: worker %u of %u has failed: %.*s", job->what, worker,
			job->nr_workers, (int)sizeof(line->said) - 1, line->said);
}

static int get_lines(struct afar_graph_job *job, uint64_t side, struct mail_sums *sums)
{
	const struct mail_line *lines = afar_buffer_data(job->lines);
	int ret = get(job, job->mail.lines + side, job->lines, afar_buffer_data(job->lines),
		      job->nr_workers * sizeof(*lines));

	*sums = (struct mail_sums){0};
	for (unsigned i = 0; i < job->nr_workers && !ret; i++) {
		if (lines[i].error)
			ret = fail_as(job, i, &lines[i]);
		sums->added += lines[i].added;
		sums->nr_active += lines[i].nr_active;
	}
	return ret;
}

/* ---- Values */

static int put_values(struct afar_graph_job *job, unsigned side)
{
	const uint64_t bytes = job->program.value_bytes, first = bytes * job->first;
	struct afar_buffer *buffer = job->values[side];

	if (!bytes)
		return 0;
	return put(job, job->mail.values + side * job->mail.odd + first, buffer,
		   (char *)afar_buffer_data(buffer) + first, bytes * (job->end - job->first));
}

/* Gets those of all the others. */
static int get_values(struct afar_graph_job *job, unsigned side)
{
	const uint64_t bytes = job->program.value_bytes,
		       at = job->mail.values + side * job->mail.odd;
	struct afar_buffer *buffer = job->values[side];
	char *values;
	int ret;

	if (!bytes)
		return 0;
	values = afar_buffer_data(buffer);
	ret = get(job, at, buffer, values, bytes * job->first);
	return ret ? ret
		   : get(job, at + bytes * job->end, buffer, values + bytes * job->end,
			 bytes * (job_nr_vertices(job) - job->end));
}

/* ---- Letters: messages to other workers' vertices */

/* Where the letters from one worker to another begin. */
static uint64_t letters_at(const struct afar_graph_job *job, uint64_t side, unsigned from,
			   unsigned to)
{
	return job->mail.letters + side +
	       letter_bytes(job) * (job_nr_vertices(job) * from + job->bounds[to]);
}

/* Writes letters from vertex `*at` on, as many as fit. Returns how many. */
static uint64_t write_letters(const struct afar_graph_job *job, uint64_t *at, uint64_t end,
			      char *out)
{
	const struct messages *messages = &job->messages;
	const uint64_t bytes = letter_bytes(job);
	uint64_t nr = 0;

	for (; nr < LETTERS_BYTES / bytes && messages_find(&messages->out, at, end); ++*at, nr++) {
		memset(out + nr * bytes, 0, bytes);
		memcpy(out + nr * bytes, at, sizeof(*at));
		memcpy(out + nr * bytes + LETTER_HEAD, messages_at(messages, &messages->out, *at),
		       messages->bytes);
	}
	return nr;
}

/* Sends those for one worker. Gives how many they are. */
static int send_to(struct afar_graph_job *job, unsigned worker, uint64_t side,
		   struct afar_buffer *buffer, uint64_t *sent)
{
	uint64_t at = job->bounds[worker], nr;
	int ret = 0;

	for (*sent = 0; !ret; *sent += nr) {
		nr = write_letters(job, &at, job->bounds[worker + 1], afar_buffer_data(buffer));
		if (!nr)
			break;
		ret = put(job,
			  letters_at(job, side, job->worker, worker) + *sent * letter_bytes(job),
			  buffer, afar_buffer_data(buffer), nr * letter_bytes(job));
	}
	return ret;
}

static int put_letters(struct afar_graph_job *job, uint64_t side)
{
	const unsigned nr = job->nr_workers;
	struct afar_buffer *buffer;
	uint64_t *counts;
	int ret;

	if (!job->program.message_bytes)
		return 0;
	ret = graph_alloc(job->graph, LETTERS_BYTES + 8ULL * nr, &buffer);
	if (ret)
		return ret;
	counts = (uint64_t *)(void *)((char *)afar_buffer_data(buffer) + LETTERS_BYTES);
	for (unsigned i = 0; i < nr && !ret; i++) {
		counts[i] = 0;
		if (i != job->worker)
			ret = send_to(job, i, side, buffer, &counts[i]);
	}
	if (!ret)
		ret = put(job, job->mail.counts + side + 8ULL * nr * job->worker, buffer, counts,
			  8ULL * nr);
	afar_buffer_unregister(buffer);
	return ret;
}

static int take_letters(struct afar_graph_job *job, unsigned from, const char *letters, uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++) {
		const char *letter = letters + i * letter_bytes(job);
		uint64_t vertex;

		memcpy(&vertex, letter, sizeof(vertex));
		if (vertex < job->first || vertex >= job->end)
			return app_fail(-EBADMSG,
					"%s: worker %u has sent a letter that is not for worker %u",
					job->what, from, job->worker);
		messages_add(&job->messages, (uint32_t)vertex, letter + LETTER_HEAD);
	}
	return 0;
}

static int get_letters_of(struct afar_graph_job *job, unsigned from, uint64_t side, uint64_t nr,
			  struct afar_buffer *buffer)
{
	const uint64_t bytes = letter_bytes(job), at = letters_at(job, side, from, job->worker);
	int ret = 0;

	if (nr > job->end - job->first)
		return app_fail(
			-EBADMSG,
			"%s: worker %u has sent letters that cannot be; is it another version?",
			job->what, from);
	for (uint64_t done = 0, part; done < nr && !ret; done += part) {
		part = nr - done < LETTERS_BYTES / bytes ? nr - done : LETTERS_BYTES / bytes;
		ret = get(job, at + done * bytes, buffer, afar_buffer_data(buffer), part * bytes);
		if (!ret)
			ret = take_letters(job, from, afar_buffer_data(buffer), part);
	}
	return ret;
}

static int get_letters(struct afar_graph_job *job, uint64_t side)
{
	const uint64_t nr = job->nr_workers;
	struct afar_buffer *buffer;
	uint64_t *counts;
	int ret;

	if (!job->program.message_bytes)
		return 0;
	ret = graph_alloc(job->graph, LETTERS_BYTES + 8 * nr * nr, &buffer);
	if (ret)
		return ret;
	counts = (uint64_t *)(void *)((char *)afar_buffer_data(buffer) + LETTERS_BYTES);
	ret = get(job, job->mail.counts + side, buffer, counts, 8 * nr * nr);
	for (unsigned i = 0; i < nr && !ret; i++)
		if (i != job->worker)
			ret = get_letters_of(job, i, side, counts[nr * i + job->worker], buffer);
	afar_buffer_unregister(buffer);
	return ret;
}

/* ---- Results */

/* Where the results of a worker are. */
static uint64_t results_at(const struct afar_graph_job *job, unsigned worker)
{
	return job->mail.results + (job->program.merge ? (uint64_t)job->program.result_bytes *
								 job_nr_vertices(job) * worker
						       : 0);
}

static int merge(struct afar_graph_job *job, unsigned worker, struct afar_buffer *buffer)
{
	const uint64_t bytes = job->program.result_bytes, nr_vertices = job_nr_vertices(job),
		       most = PIECES * PIECE_BYTES / bytes;
	int ret = 0;

	for (uint64_t first = 0, nr; first < nr_vertices && !ret; first += nr) {
		nr = nr_vertices - first < most ? nr_vertices - first : most;
		ret = get(job, results_at(job, worker) + bytes * first, buffer,
			  afar_buffer_data(buffer), bytes * nr);
		if (!ret)
			ret = job->program.merge(job->program.context, first, nr,
						 afar_buffer_data(buffer));
	}
	return ret;
}

static int merge_all(struct afar_graph_job *job)
{
	struct afar_buffer *buffer;
	int ret = graph_alloc(job->graph, PIECES * PIECE_BYTES, &buffer);

	if (ret)
		return ret;
	for (unsigned i = 1; i < job->nr_workers && !ret; i++)
		ret = merge(job, i, buffer);
	afar_buffer_unregister(buffer);
	return ret;
}

/* Puts them where worker 0 finds them. */
static int put_results(struct afar_graph_job *job)
{
	const uint64_t bytes = job->program.result_bytes;
	const uint64_t first = job->program.merge ? 0 : job->first,
		       end = job->program.merge ? job_nr_vertices(job) : job->end;

	if (!bytes || !job->worker)
		return 0;
	return put(job, results_at(job, job->worker) + bytes * first, job->results,
		   (char *)afar_buffer_data(job->results) + bytes * first, bytes * (end - first));
}

/* Gets them at worker 0, whose vertices are the first. */
static int get_results(struct afar_graph_job *job)
{
	const uint64_t bytes = job->program.result_bytes, end = bytes * job->end;

	if (job->program.merge)
		return merge_all(job);
	return get(job, results_at(job, 0) + end, job->results,
		   (char *)afar_buffer_data(job->results) + end,
		   bytes * job_nr_vertices(job) - end);
}

int mail_collect(struct afar_graph_job *job)
{
	int ret = 0;

	if (!job->program.result_bytes || job_is_alone(job))
		return 0;
	if (!job->is_last) { /* else they went with the step */
		ret = put_results(job);
		if (!ret)
			ret = meet(job);
	}
	return ret || job->worker ? ret : get_results(job);
}

/* ---- All of it */

/* Tells the others why the caller cannot go on, as far as it can. */
static int say_failure(struct afar_graph_job *job, unsigned side, int failed,
		       struct mail_sums *sums)
{
	char line[512];
	int ret;

	snprintf(line, sizeof(line), "%s", app_failure());
	ret = put_line(job, side * job->mail.odd, failed, sums);
	if (!ret)
		ret = meet(job);
	if (!ret)
		ret = get_lines(job, side * job->mail.odd, sums);
	/* The first that has failed is the same at all workers; its own line is the better one there. */
	return ret && ret != failed ? ret : app_fail(failed, "%s", line);
}

int mail_exchange(struct afar_graph_job *job, unsigned side, int failed, struct mail_sums *sums)
{
	const uint64_t at = side * job->mail.odd;
	int ret;

	if (failed)
		return say_failure(job, side, failed, sums);
	ret = put_values(job, side);
	if (!ret)
		ret = put_letters(job, at);
	if (!ret && job->is_last)
		ret = put_results(job);
	if (!ret)
		ret = put_line(job, at, 0, sums);
	if (!ret)
		ret = meet(job);
	if (!ret)
		ret = get_lines(job, at, sums);
	if (!ret)
		ret = get_values(job, side);
	messages_turn(&job->messages, job->first);
	return ret ? ret : get_letters(job, at);
}
