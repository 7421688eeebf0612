/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces out of files. Each line is a block's number, or a line of fio's log ("[TIME] FILE write
 * OFFSET LENGTH", bytes). All is kept in memory: first the addresses in order, then, numbered anew
 * from 0, the blocks.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "simulator/traces_private.h"

#define BLOCK_BYTES  4096U
#define NR_WORDS_MAX 5
#define WRITES_MAX   (UINT64_C(1) << 28) /* 6 GiB of memory, while it is read */

struct log {
	uint64_t *blocks;
	uint64_t nr;
	uint64_t capacity;
	const char *path;
	uint64_t line;
};

static int refuse_length(const struct log *log)
{
	return error_fail(-EFBIG,
			  "read the trace %s: line %" PRIu64 " is beyond %" PRIu64
			  " blocks written; take a part of it",
			  log->path, log->line, WRITES_MAX);
}

static int append(struct log *log, uint64_t block)
{
	uint64_t capacity = log->capacity ? 2 * log->capacity : 4096;
	uint64_t *blocks;

	if (log->nr == WRITES_MAX)
		return refuse_length(log);
	if (log->nr == log->capacity) {
		blocks = realloc(log->blocks, capacity * sizeof(*blocks));
		if (!blocks)
			return error_fail(-ENOMEM, "read the trace %s: out of memory", log->path);
		log->blocks = blocks;
		log->capacity = capacity;
	}
	log->blocks[log->nr++] = block;
	return 0;
}

static int refuse_line(const struct log *log)
{
	return error_fail(-EINVAL,
			  "read the trace %s: line %" PRIu64
			  " is neither a block's number nor a line of fio's log",
			  log->path, log->line);
}

static bool parse_number(const char *text, uint64_t *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && !*end;
}

static int append_range(struct log *log, const char *offset_text, const char *length_text)
{
	uint64_t offset, length, end;
	int ret = 0;

	if (!parse_number(offset_text, &offset) || !parse_number(length_text, &length) ||
	    __builtin_add_overflow(offset, length, &end))
		return refuse_line(log);
	if (length / BLOCK_BYTES > WRITES_MAX)
		return refuse_length(log);
	for (uint64_t at = offset / BLOCK_BYTES; at * BLOCK_BYTES < end && length && !ret; at++)
		ret = append(log, at);
	return ret;
}

/* Returns whether the log's line is of something that is not a write. */
static bool is_no_write(const char *word)
{
	static const char *const words[] = {"add",  "open", "close",	"read",
					    "trim", "sync", "datasync", "wait"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcmp(word, words[i]))
			return true;
	}
	return false;
}

static int take_line(struct log *log, char *text)
{
	char *words[NR_WORDS_MAX + 1] = {0}, *rest = NULL;
	uint64_t block;
	int nr = 0;

	for (char *word = strtok_r(text, " \t\r\n", &rest); word && nr <= NR_WORDS_MAX;
	     word = strtok_r(NULL, " \t\r\n", &rest))
		words[nr++] = word;
	if (!nr || words[0][0] == '#' || !strcmp(words[0], "fio"))
		return 0;
	if (nr == 1)
		return parse_number(words[0], &block) ? append(log, block) : refuse_line(log);
	if ((nr == 4 || nr == 5) && !strcmp(words[nr - 3], "write"))
		return append_range(log, words[nr - 2], words[nr - 1]);
	for (int i = 1; i < nr; i++) {
		if (is_no_write(words[i]))
			return 0;
	}
	return refuse_line(log);
}

static int read_lines(struct log *log, FILE *file)
{
	size_t size = 0;
	char *text = NULL;
	int ret = 0;

	while (!ret && getline(&text, &size, file) >= 0) {
		log->line++;
		ret = take_line(log, text);
	}
	if (!ret && ferror(file))
		ret = error_fail(-errno, "read the trace %s: %s", log->path, strerror(errno));
	free(text);
	return ret;
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static uint32_t next_of_file(struct trace *trace)
{
	uint32_t block = trace->blocks[trace->position++];

	if (trace->position == trace->nr_writes)
		trace->position = 0;
	return block;
}

/* Sorted and without repetitions in `sorted`: their number. */
static uint64_t sort_unique(const struct log *log, uint64_t *sorted)
{
	uint64_t nr = 0;

	memcpy(sorted, log->blocks, log->nr * sizeof(*sorted));
	qsort(sorted, log->nr, sizeof(*sorted), compare);
	for (uint64_t i = 0; i < log->nr; i++) {
		if (!nr || sorted[nr - 1] != sorted[i])
			sorted[nr++] = sorted[i];
	}
	return nr;
}

static void number_anew(struct trace *trace, const struct log *log, const uint64_t *sorted)
{
	const uint64_t *found;

	for (uint64_t i = 0; i < log->nr; i++) {
		found = bsearch(&log->blocks[i], sorted, trace->nr_blocks, sizeof(*sorted),
				compare);
		trace->blocks[i] = (uint32_t)(found - sorted);
		trace->rates[trace->blocks[i]] += (float)trace->nr_blocks / (float)log->nr;
	}
}

static int make_trace(const struct log *log, struct trace **out)
{
	uint64_t *sorted = malloc(log->nr * sizeof(*sorted));
	struct trace *trace = calloc(1, sizeof(*trace));

	if (!sorted || !trace)
		goto out_no_memory;
	trace->next = next_of_file;
	trace->nr_writes = log->nr;
	trace->nr_blocks = (uint32_t)sort_unique(log, sorted);
	trace->blocks = malloc(log->nr * sizeof(*trace->blocks));
	trace->rates = calloc(trace->nr_blocks, sizeof(*trace->rates));
	if (!trace->blocks || !trace->rates)
		goto out_no_memory;
	number_anew(trace, log, sorted);
	free(sorted);
	*out = trace;
	return 0;

out_no_memory:
	free(sorted);
	trace_close(trace);
	return error_fail(-ENOMEM, "read the trace %s: out of memory", log->path);
}

int trace_read(const char *path, struct trace **out)
{
	struct log log = {.path = path};
	FILE *file = fopen(path, "re");
	int ret;

	if (!file)
		return error_fail(-errno, "read the trace %s: %s", path, strerror(errno));
	ret = read_lines(&log, file);
	fclose(file);
	if (!ret && !log.nr)
		ret = error_fail(-EINVAL, "read the trace %s: it writes nothing", path);
	if (!ret)
		ret = make_trace(&log, out);
	free(log.blocks);
	return ret;
}
