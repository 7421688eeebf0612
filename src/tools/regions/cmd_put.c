/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar region put`: a file, or standard input, into a new region. Makes room in the namespace if
 * it lacks it, creates the region, and writes with several buffers in flight while it reads on. If
 * anything fails, it leaves no half-written region and no reservation of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "put_version.h"
#include "region.h"
#include "reserve.h"
#include "tools/cli/interrupts.h"
#include "tools/copy/copy.h"
#include "tools/copy/failure.h"

#define SPOOL_BYTES ((size_t)1 << 20)
#define SUMMARY_MAX 128
#define TRIES_MAX   100U /* to have a name that others take, too */

/* ---- Where the bytes come from */

struct source {
	const char *name; /* for messages */
	int fd;
	uint64_t length;
	bool is_stream; /* its length is unknown */
};

/* Copies a stream to `to`. Returns 0 or a negative errno. */
static int copy_stream(int from, int to, uint64_t *length)
{
	const struct end source = {.kind = &end_stream, .fd = from};
	const struct end target = {.kind = &end_stream, .fd = to};
	char *data = malloc(SPOOL_BYTES);
	ssize_t n;
	int ret = data ? 0 : -ENOMEM;

	*length = 0;
	while (!ret) {
		n = end_stream.read(&source, data, SPOOL_BYTES, 0);
		if (n <= 0) {
			ret = (int)n;
			break;
		}
		ret = end_stream.write(&target, data, (size_t)n, 0);
		*length += (uint64_t)n;
	}
	free(data);
	return ret;
}

/* Copies a stream to a file without a name first, because a region's length is given when it is
 * made. */
static int spool(struct source *source)
{
	const char *folder = getenv("TMPDIR");
	int fd, ret;

	if (!folder || !*folder)
		folder = "/var/tmp";
	fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return cli_fail("put %s: keep it in %s first: %s; set TMPDIR, or give its --size",
				source->name, folder, afar_strerror(errno));
	ret = copy_stream(source->fd, fd, &source->length);
	if (!ret && lseek(fd, 0, SEEK_SET) < 0)
		ret = -errno;
	if (ret) {
		close(fd);
		if (is_interrupted())
			return CLI_INTERRUPTED;
		return cli_fail("put %s: keep it in %s first: %s; set TMPDIR, or give its --size",
				source->name, folder, afar_strerror(-ret));
	}
	close(source->fd);
	source->fd = fd;
	source->is_stream = false;
	return 0;
}

/* Finds the length from the descriptor's position on, or that it has none. */
static int measure(struct source *source)
{
	struct stat status;
	off_t at, end;

	if (fstat(source->fd, &status))
		return cli_fail("put %s: %s", source->name, afar_strerror(errno));
	if (S_ISDIR(status.st_mode))
		return cli_fail("put %s: it is a folder; name a file, or put a tar of it",
				source->name);
	at = lseek(source->fd, 0, SEEK_CUR);
	end = at < 0 || S_ISCHR(status.st_mode) ? -1 : lseek(source->fd, 0, SEEK_END);
	source->is_stream = end < 0;
	if (source->is_stream)
		return 0;
	if (lseek(source->fd, at, SEEK_SET) < 0)
		return cli_fail("put %s: %s", source->name, afar_strerror(errno));
	source->length = end > at ? (uint64_t)(end - at) : 0;
	return 0;
}

/* Opens the source. `wanted`: what --size says, or 0. Returns 0, or an exit status with nothing
 * left open. */
static int source_open(const char *file, uint64_t wanted, struct source *source)
{
	const bool is_stdin = !strcmp(file, "-");
	int ret;

	*source = (struct source){.name = is_stdin ? "standard input" : file, .fd = STDIN_FILENO};
	if (!is_stdin) {
		source->fd = open(file, O_RDONLY | O_CLOEXEC);
		if (source->fd < 0)
			return is_interrupted()
				       ? CLI_INTERRUPTED
				       : cli_fail("put %s: %s", file, afar_strerror(errno));
	}
	ret = measure(source);
	if (!ret && source->is_stream && wanted)
		source->length = wanted;
	else if (!ret && source->is_stream)
		ret = spool(source);
	if (!ret && wanted && wanted != source->length)
		ret = cli_fail(
			"put %s: it has %llu bytes, not the %llu of --size; leave --size out",
			source->name, (unsigned long long)source->length,
			(unsigned long long)wanted);
	if (!ret && !source->length)
		ret = cli_fail("put %s: it is empty, and a region has at least 1 byte",
			       source->name);
	if (ret)
		close(source->fd);
	return ret;
}

/* ---- Room for the region */

struct room {
	struct afar_namespace *ns;
	unsigned flags;	   /* of the region: AFAR_ALLOC_… */
	uint64_t reserved; /* by us, to give back on failure */
};

/* Reserves, and notes what it got. Returns 0 or an exit status. */
static int reserve(struct room *room, uint64_t bytes)
{
	int ret = reserve_shown(room->ns, bytes);

	if (ret)
		return ret;
	if (__builtin_add_overflow(room->reserved, reserve_rounded(bytes), &room->reserved))
		room->reserved = UINT64_MAX;
	return is_interrupted() ? CLI_INTERRUPTED : 0;
}

static int reserve_missing(struct room *room, uint64_t bytes)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	uint64_t free_bytes;
	int ret;

	ret = afar_namespace_stat(room->ns, &stat);
	if (ret)
		return cli_fail_last(ret);
	free_bytes = stat.reserved_bytes > stat.allocated_bytes
			     ? stat.reserved_bytes - stat.allocated_bytes
			     : 0;
	return free_bytes < bytes ? reserve(room, bytes - free_bytes) : 0;
}

/* Returns whether a region of this name exists, also one whose server is gone. Asked before any
 * slow reservation. */
static bool is_taken(struct afar_namespace *ns, const char *name, bool *is_unfinished)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};
	struct afar_region *region;
	int ret = afar_region_open(ns, name, &region);

	*is_unfinished = false;
	if (!ret) {
		*is_unfinished = !afar_region_stat(region, &stat) && stat.is_unfinished;
		afar_region_close(region);
	}
	return !ret || ret == -AFAR_ELOST || ret == -AFAR_ESERVER;
}

static int fail_taken(const struct region_name *target, bool is_unfinished)
{
	if (is_unfinished)
		return cli_fail(
			"put into %s: there is an unfinished region of that name, whose put "
			"was killed or still runs; use --replace, or choose another name",
			target->text);
	return cli_fail("put into %s: there is a region of that name; choose another name, or use "
			"--replace",
			target->text);
}

static int delete_region(struct room *room, const struct region_name *target)
{
	int ret = afar_region_delete(room->ns, target->name);

	/* It may be freed by another put just now. */
	return ret == -ENOENT || ret == -AFAR_EFREED ? 0 : ret;
}

/* Creates the region, instead of the one of that name if it may. Another put that does the same may come between the two; whoever
 * is the last to create it has the name. */
static int create(struct room *room, const struct region_name *target, uint64_t bytes,
		  bool may_replace, struct afar_region **out)
{
	int ret;

	for (unsigned i = 0; i < TRIES_MAX; i++) {
		ret = may_replace ? delete_region(room, target) : 0;
		if (ret == 0)
			ret = afar_region_create(room->ns, target->name, bytes, room->flags, out);
		if (ret != -EEXIST || !may_replace)
			break;
	}
	return ret;
}

/* The free memory may lie in pieces too small, or on the wrong servers; then it
 * once reserves room for all of the region. */
static int create_region(struct room *room, const struct region_name *target, uint64_t bytes,
			 bool may_replace, struct afar_region **out)
{
	int status, ret = create(room, target, bytes, may_replace, out);

	if (ret == -AFAR_ERESERVE) {
		status = reserve(room, bytes);
		if (status)
			return status;
		ret = create(room, target, bytes, may_replace, out);
	}
	if (ret == -EEXIST && may_replace)
		return cli_fail("put into %s: others put it at the same time, again and again; try "
				"again later",
				target->text);
	if (ret == -EEXIST)
		return fail_taken(target, false);
	return ret ? cli_fail_last(ret) : 0;
}

/* Removes a region that is to be replaced only when there is room for the new one. Sessions that
 * have the old one open keep reading its bytes. */
static int make_region(struct room *room, const struct region_name *target, uint64_t bytes,
		       bool may_replace, struct afar_region **out)
{
	bool is_unfinished;
	int status;

	*out = NULL;
	if (!may_replace && is_taken(room->ns, target->name, &is_unfinished))
		return fail_taken(target, is_unfinished);
	status = reserve_missing(room, bytes);
	if (status)
		return status;
	return create_region(room, target, bytes, may_replace, out);
}

/* ---- Copying */

static int fail_short(const struct source *source)
{
	return cli_fail("put %s: it ended before its %llu bytes were read; try again when nobody "
			"changes it",
			source->name, (unsigned long long)source->length);
}

/* Checks that a stream with --size has no further bytes. */
static int check_end(const struct source *source)
{
	const struct end stream = {.kind = &end_stream, .fd = source->fd};
	char byte;

	if (!source->is_stream || end_stream.read(&stream, &byte, 1, 0) == 0)
		return 0;
	if (is_interrupted())
		return CLI_INTERRUPTED;
	return cli_fail("put %s: it has more than the %llu bytes of --size; give the right one",
			source->name, (unsigned long long)source->length);
}

static int copy(struct cli *cli, const struct source *source, const struct region_name *target,
		struct afar_region *region, uint32_t op_flags, char summary[SUMMARY_MAX])
{
	struct copy copy;
	int ret, status;

	if (copy_open_region(cli->session, region, target->text, source->length, op_flags, &copy))
		return cli_fail("put %s into %s", source->name, app_failure());
	ret = copy_in(&copy, source->fd);
	if (ret && is_interrupted())
		status = CLI_INTERRUPTED;
	else if (ret && copy.is_far_error)
		status = cli_fail("put %s into %s", source->name, app_failure());
	else if (ret == -ENODATA)
		status = fail_short(source);
	else if (ret)
		status = cli_fail("put %s: read it: %s", source->name, afar_strerror(-ret));
	else
		status = check_end(source);
	copy_summary(&copy, summary, SUMMARY_MAX);
	copy_close(&copy);
	return status;
}

/* Seals the region, if asked to, makes it durable on flash, and marks it as complete. Until then it
 * stays unfinished, also if we are killed. */
static int finish(const struct region_name *target, struct afar_region *region, bool does_seal)
{
	int ret = does_seal ? afar_region_seal(region) : 0;

	if (!ret)
		ret = afar_region_sync(region);
	if (!ret)
		ret = afar_region_finish(region);
	if (ret == -AFAR_EFREED)
		return cli_fail("put into %s: another put with --replace, or 'afar region rm', has "
				"freed the region meanwhile; put it again if this is to be its "
				"content",
				target->text);
	return ret ? cli_fail_last(ret) : 0;
}

static void note_width(struct afar_namespace *ns, const struct region_name *target,
		       struct afar_region *region)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};

	if (afar_region_stat(region, &stat) == 0)
		region_note_width(ns, target, &stat);
}

struct put_options {
	bool may_replace;
	bool does_seal;
	bool is_checked;
	unsigned flags;	   /* AFAR_ALLOC_… */
	uint32_t op_flags; /* AFAR_OP_… */
	uint64_t started_ns;
};

/* Refuses --seal and --checked where they would fail, before anything is transferred. */
static int check_tier(struct afar_namespace *ns, const struct region_name *target,
		      const struct put_options *options)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	int ret = afar_namespace_stat(ns, &stat);

	if (ret)
		return cli_fail_last(ret);
	if (stat.tier == AFAR_TIER_FLASH && options->does_seal)
		return cli_fail(
			"put %s with --seal: its namespace is on flash, and only regions in "
			"memory can be sealed; leave --seal out",
			target->text);
	if (stat.tier != AFAR_TIER_FLASH && options->is_checked)
		return cli_fail("put %s with --checked: its namespace is in memory, and sums are "
				"kept on flash only; leave --checked out, or --seal it",
				target->text);
	return 0;
}

static int put(struct cli *cli, const struct source *source, const struct region_name *target,
	       const struct put_options *options)
{
	struct room room = {.flags = options->flags};
	char summary[SUMMARY_MAX] = "";
	struct afar_region *region;
	int ret;

	ret = region_open_namespace(cli, target, &room.ns);
	if (ret)
		return ret;
	ret = options->does_seal || options->is_checked ? check_tier(room.ns, target, options) : 0;
	if (ret) {
		afar_namespace_close(room.ns);
		return ret;
	}
	ret = make_region(&room, target, source->length, options->may_replace, &region);
	if (!ret) {
		note_width(room.ns, target, region);
		ret = copy(cli, source, target, region, options->op_flags, summary);
		if (!ret)
			ret = finish(target, region, options->does_seal);
		if (ret)
			afar_region_destroy(region);
		afar_region_close(region);
	}
	if (ret)
		reserve_undo(room.ns, room.reserved);
	afar_namespace_close(room.ns);
	if (!ret) {
		cli_print(target->text);
		printf(": %s; %.3f s in all\n", summary,
		       (double)(clock_ns() - options->started_ns) / 1e9);
	}
	return ret;
}

int region_put(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *replace = NULL, *size = NULL, *nic_atomics = NULL, *sealed = NULL;
	const char *checked = NULL, *cow = NULL, *brief = NULL, *cold = NULL;
	const struct cli_flag flags[] = {
		{"replace", NULL, "free the region of that name first, if there is one", &replace},
		{"size", "SIZE", "how long a stream is: it need not be kept aside first", &size},
		{"nic-atomics", NULL, "the servers' network cards do its atomics, over verbs alone",
		 &nic_atomics},
		{"seal", NULL, "make it immutable when it is there", &sealed},
		{"checked", NULL, "sums go with its bytes, from here to the device, on flash",
		 &checked},
		{"brief", NULL, "its bytes will soon be written again, or freed; for flash",
		 &brief},
		{"cold", NULL, "its bytes will stay as they are for long; for flash", &cold},
		{"cow", NULL,
		 "as the next version of a copy-on-write region, made if there is none", &cow},
		{0},
	};
	struct put_options options;
	struct region_name target;
	struct source source;
	uint64_t wanted = 0;
	int ret;

	if (cli_arguments(cli, command, flags, argc, argv, 2, 2, arguments, &ret) < 0)
		return ret;
	ret = region_name_parse(command, arguments[1], &target);
	if (!ret && !target.name)
		ret = cli_misuse(command, "put needs a name, not an address");
	/* Otherwise we would find out that a transport has no atomics only after the old region is
	 * gone. */
	if (!ret && nic_atomics && replace)
		ret = cli_misuse(command, "--nic-atomics makes a new region: leave --replace out");
	if (!ret && brief && cold)
		ret = cli_misuse(command, "--brief and --cold exclude each other");
	if (!ret && cow && (replace || size || nic_atomics || sealed || checked || brief || cold))
		ret = cli_misuse(command, "--cow publishes a version: leave other flags out");
	if (!ret && size)
		ret = cli_size(command, "--size", size, &wanted);
	if (ret)
		return ret;
	options = (struct put_options){
		.may_replace = replace,
		.does_seal = sealed,
		.is_checked = checked,
		.op_flags = (checked ? AFAR_OP_CHECKED : 0) | (brief ? AFAR_OP_BRIEF : 0) |
			    (cold ? AFAR_OP_COLD : 0),
		.flags = AFAR_ALLOC_UNFINISHED | (nic_atomics ? AFAR_ALLOC_NIC_ATOMICS : 0),
		.started_ns = clock_ns(),
	};
	catch_interrupts();
	ret = source_open(arguments[0], wanted, &source);
	if (ret)
		return ret;
	ret = cli_open(cli);
	if (!ret && cow)
		ret = cli_close(cli, put_version(cli, &target,
						 &(struct version_source){source.name, source.fd,
									  source.length}));
	else if (!ret)
		ret = cli_close(cli, put(cli, &source, &target, &options));
	close(source.fd);
	return ret;
}
