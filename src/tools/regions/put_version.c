/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions from files; see put_version.h. One pass compares the file with the newest version, unit by unit; a second one
 * writes the units that differ. A file that somebody changes between the two gives a version that is neither, as any copy of
 * such a file does. Until it is published nobody sees it, so whatever ends this leaves the region as it was.
 */
#include "put_version.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <afar/cow.h>

#include "base/clock.h"
#include "reserve.h"
#include "tools/cli/interrupts.h"
#include "tools/copy/ends.h"

#define PIECE_BYTES ((uint64_t)4 << 20)
#define WAIT_MS	    60000 /* for whoever is writing a version; --timeout is another time */
#define STEP_MS	    500

struct job {
	const struct region_name *target;
	const struct version_source *source;
	struct afar_namespace *ns;
	struct afar_region *region;
	bool is_new; /* we have made the region */
	uint64_t reserved;
	off_t start; /* of the source, in its file */
	uint64_t unit;
	uint8_t *mine, *theirs;	   /* PIECE_BYTES each: of the file, of the region */
	struct afar_range *ranges; /* units that differ, neighbours joined */
	unsigned nr_ranges;
	uint64_t nr_changed; /* units */
};

/* ---- Moving bytes */

/* Reads a piece of the file. Returns 0 or an exit status. */
static int read_file(const struct job *job, uint64_t offset, uint64_t length)
{
	const struct end file = {.kind = &end_local, .fd = job->source->fd};
	ssize_t n = end_local.read(&file, (char *)job->mine, length, (uint64_t)job->start + offset);

	if (is_interrupted())
		return CLI_INTERRUPTED;
	if (n < 0)
		return cli_fail("put %s: read it: %s", job->source->name, afar_strerror((int)n));
	if ((uint64_t)n < length)
		return cli_fail("put %s: it has become shorter; try again when nobody changes it",
				job->source->name);
	return 0;
}

static int fail_library(const struct job *job)
{
	return cli_fail("put %s into %s: %s", job->source->name, job->target->text,
			afar_last_error());
}

/* ---- Comparing */

static int compare_unit(const struct job *job, uint64_t offset, uint64_t end, bool *differs)
{
	*differs = false;
	while (offset < end && !*differs) {
		const uint64_t length = end - offset < PIECE_BYTES ? end - offset : PIECE_BYTES;
		int ret = read_file(job, offset, length);

		if (ret)
			return ret;
		if (afar_region_pread(job->region, job->theirs, length, offset) < 0)
			return fail_library(job);
		*differs = memcmp(job->mine, job->theirs, length) != 0;
		offset += length;
	}
	return 0;
}

static void add_unit(struct job *job, uint64_t offset, uint64_t end)
{
	struct afar_range *last = job->nr_ranges ? &job->ranges[job->nr_ranges - 1] : NULL;

	job->nr_changed++;
	if (last && last->offset + last->length == offset)
		last->length += end - offset;
	else
		job->ranges[job->nr_ranges++] = (struct afar_range){offset, end - offset};
}

static int compare(struct job *job)
{
	const uint64_t length = job->source->length;
	int ret = 0;

	for (uint64_t offset = 0; offset < length && !ret; offset += job->unit) {
		const uint64_t end = length - offset < job->unit ? length : offset + job->unit;
		bool differs;

		ret = compare_unit(job, offset, end, &differs);
		if (!ret && differs)
			add_unit(job, offset, end);
	}
	return ret;
}

/* ---- Writing */

static int write_range(const struct job *job, const struct afar_range *range)
{
	uint64_t done = 0;
	int ret = 0;

	while (done < range->length && !ret) {
		const uint64_t left = range->length - done;
		const uint64_t length = left < PIECE_BYTES ? left : PIECE_BYTES;

		ret = read_file(job, range->offset + done, length);
		if (!ret &&
		    afar_region_pwrite(job->region, job->mine, length, range->offset + done) < 0)
			ret = fail_library(job);
		done += length;
	}
	return ret;
}

/* Gets new memory for what differs, for which the namespace reserves more if it must. Returns 0 or an exit status. */
static int prepare(struct job *job)
{
	const uint64_t bytes = job->nr_changed * job->unit;
	int ret = afar_region_prepare(job->region, job->ranges, job->nr_ranges);

	if (ret == -ENOSPC) {
		ret = reserve_shown(job->ns, bytes);
		if (ret)
			return ret;
		job->reserved = reserve_rounded(bytes);
		ret = afar_region_prepare(job->region, job->ranges, job->nr_ranges);
	}
	return ret ? fail_library(job) : 0;
}

/* The caller has begun a version, which is the newest one as it was. */
static int make_version(struct job *job)
{
	int ret = compare(job);

	if (!ret)
		ret = prepare(job);
	for (unsigned i = 0; i < job->nr_ranges && !ret; i++)
		ret = write_range(job, &job->ranges[i]);
	if (!ret && is_interrupted())
		ret = CLI_INTERRUPTED;
	if (!ret && afar_region_publish(job->region))
		ret = fail_library(job);
	return ret;
}

/* ---- The region */

static int check_region(struct job *job)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};

	if (afar_region_stat(job->region, &stat))
		return fail_library(job);
	if (!stat.version)
		return cli_fail("put into %s with --cow: that region is not copy-on-write; choose "
				"another name, or remove it ('afar region rm') first",
				job->target->text);
	if (stat.length != job->source->length)
		return cli_fail(
			"put %s into %s: it has %" PRIu64 " bytes, and the region has %" PRIu64
			", which all of its versions have; choose another name, or remove it "
			"('afar region rm') first",
			job->source->name, job->target->text, job->source->length, stat.length);
	job->unit = stat.stripe_bytes;
	return 0;
}

static int open_region(struct job *job)
{
	const char *name = job->target->name;
	int ret = afar_region_open(job->ns, name, &job->region);

	if (ret == -ENOENT) {
		ret = afar_region_create(job->ns, name, job->source->length, AFAR_ALLOC_COW,
					 &job->region);
		if (ret == -AFAR_ERESERVE) {
			ret = reserve_shown(job->ns, job->source->length);
			if (ret)
				return ret;
			job->reserved = reserve_rounded(job->source->length);
			ret = afar_region_create(job->ns, name, job->source->length, AFAR_ALLOC_COW,
						 &job->region);
		}
		job->is_new = !ret;
	}
	return ret ? fail_library(job) : 0;
}

/* Begins a version, and waits while somebody else is writing one. Returns 0 or an exit status. */
static int begin(const struct job *job, const struct cli *cli)
{
	const uint64_t until =
		clock_deadline_ms(cli->timeout_ms ? (int64_t)cli->timeout_ms : WAIT_MS);
	int ret = afar_region_begin(job->region, NULL, 0);

	if (ret == -EBUSY)
		cli_note("it waits: %s", afar_last_error());
	while (ret == -EBUSY && clock_ns() < until && !is_interrupted())
		ret = afar_region_begin_within(job->region, NULL, 0, STEP_MS);
	if (ret == -EBUSY && is_interrupted())
		return CLI_INTERRUPTED;
	return ret ? fail_library(job) : 0;
}

static int fill(struct job *job, const struct cli *cli)
{
	int ret = check_region(job);

	if (ret)
		return ret;
	job->mine = malloc(PIECE_BYTES);
	job->theirs = malloc(PIECE_BYTES);
	job->ranges = calloc((size_t)(job->source->length / job->unit) + 2, sizeof(*job->ranges));
	if (!job->mine || !job->theirs || !job->ranges)
		return cli_fail("put %s: %s", job->source->name, afar_strerror(ENOMEM));
	ret = begin(job, cli);
	if (!ret)
		ret = make_version(job);
	return ret; /* a close gives up what is not published */
}

static void say_done(const struct job *job, uint64_t started_ns)
{
	const uint64_t nr = (job->source->length - 1) / job->unit + 1;

	cli_print(job->target->text);
	printf(": version %" PRIu64 ", %" PRIu64 " of %" PRIu64 " unit%s %s new; %.3f s in all\n",
	       afar_region_version(job->region), job->nr_changed, nr, cli_plural((int64_t)nr),
	       nr == 1 ? "is" : "are", (double)(clock_ns() - started_ns) / 1e9);
}

int put_version(struct cli *cli, const struct region_name *target,
		const struct version_source *source)
{
	struct job job = {.target = target, .source = source};
	const uint64_t started_ns = clock_ns();
	int ret = region_open_namespace(cli, target, &job.ns);

	if (ret)
		return ret;
	job.start = lseek(source->fd, 0, SEEK_CUR);
	ret = open_region(&job);
	if (!ret) {
		ret = fill(&job, cli);
		if (!ret)
			say_done(&job, started_ns);
		if (ret && job.is_new)
			afar_region_destroy(job.region);
		afar_region_close(job.region);
	}
	if (ret && job.reserved)
		reserve_undo(job.ns, job.reserved);
	afar_namespace_close(job.ns);
	free(job.mine);
	free(job.theirs);
	free(job.ranges);
	return ret;
}
