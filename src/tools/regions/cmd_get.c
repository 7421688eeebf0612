/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar region get`: a region into a file or standard output, read one-sided with several buffers
 * in flight. The file gets its name only when it is complete; an older file stays until then.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "region.h"
#include "tools/cli/interrupts.h"
#include "tools/copy/copy.h"
#include "tools/copy/failure.h"

/* ---- Where the bytes go */

struct sink {
	const char *name; /* for messages */
	int fd;
	char path[PATH_MAX];  /* the file's final name; empty: written in place */
	char aside[PATH_MAX]; /* the name until it is complete */
};

/* Makes a file with a new name in `path`'s folder. */
static int open_aside(struct sink *sink)
{
	const char *slash = strrchr(sink->path, '/');
	int length = slash ? (int)(slash - sink->path) + 1 : 0;

	if ((size_t)snprintf(sink->aside, sizeof(sink->aside), "%.*s.afar-XXXXXX", length,
			     sink->path) >= sizeof(sink->aside))
		return -ENAMETOOLONG;
	sink->fd = mkostemp(sink->aside, O_CLOEXEC);
	return sink->fd < 0 ? -errno : 0;
}

/* Opens the file. A new one gets the mode that cp would give it, an existing one keeps its own. */
static int prepare_file(struct sink *sink, const struct stat *existing)
{
	mode_t mode = umask(0);
	int ret;

	umask(mode);
	mode = existing ? existing->st_mode & 07777 : 0666 & ~mode;
	ret = open_aside(sink);
	if (!ret && fchmod(sink->fd, mode))
		ret = -errno;
	return ret;
}

/* Resolves a symbolic link, so that the link stays and its target is replaced. */
static int resolve(const char *file, struct sink *sink, bool exists)
{
	if (exists)
		return realpath(file, sink->path) ? 0 : -errno;
	if (strlen(file) >= sizeof(sink->path))
		return -ENAMETOOLONG;
	strcpy(sink->path, file);
	return 0;
}

/* Returns 0 or a negative errno. */
static int open_file(const char *file, struct sink *sink)
{
	struct stat status;
	bool exists = stat(file, &status) == 0;
	int ret;

	if (exists && S_ISDIR(status.st_mode))
		return -EISDIR;
	if (exists && !S_ISREG(status.st_mode)) {
		sink->fd = open(file, O_WRONLY | O_CLOEXEC);
		return sink->fd < 0 ? -errno : 0;
	}
	if (exists && access(file, W_OK))
		return -errno;
	ret = resolve(file, sink, exists);
	return ret ? ret : prepare_file(sink, exists ? &status : NULL);
}

static void sink_abandon(struct sink *sink)
{
	if (sink->fd > STDERR_FILENO)
		close(sink->fd);
	if (sink->aside[0])
		unlink(sink->aside);
}

static int fail_sink(const struct sink *sink, int rc)
{
	if (rc == -EISDIR)
		return cli_fail("get into %s: it is a folder; name a file in it", sink->name);
	if (rc == -EPIPE)
		return CLI_NO_READER;
	return cli_fail("get into %s: %s", sink->name, afar_strerror(-rc));
}

/* Returns 0, or an exit status with nothing left behind. */
static int sink_open(const char *file, struct sink *sink)
{
	int ret;

	*sink = (struct sink){.name = file, .fd = STDOUT_FILENO};
	if (!strcmp(file, "-")) {
		sink->name = "standard output";
		return 0;
	}
	ret = open_file(file, sink);
	if (!ret)
		return 0;
	sink_abandon(sink);
	return is_interrupted() ? CLI_INTERRUPTED : fail_sink(sink, ret);
}

/* Gives the file its name, if it has been written aside. */
static int sink_finish(struct sink *sink)
{
	int ret = 0;

	if (sink->fd > STDERR_FILENO && close(sink->fd))
		ret = -errno;
	sink->fd = STDOUT_FILENO;
	if (!ret && sink->aside[0] && rename(sink->aside, sink->path))
		ret = -errno;
	if (ret)
		return fail_sink(sink, ret);
	sink->aside[0] = 0;
	return 0;
}

/* ---- Copying */

static int copy(struct cli *cli, struct afar_region *region, uint64_t length,
		const struct region_name *source, uint32_t op_flags, struct sink *sink)
{
	struct copy copy;
	char summary[128];
	int ret, status = 0;

	if (copy_open_region(cli->session, region, source->text, length, op_flags, &copy))
		return cli_fail("get %s", app_failure());
	ret = copy_out(&copy, sink->fd);
	if (ret == -EINTR)
		status = CLI_INTERRUPTED;
	else if (ret && copy.is_far_error)
		status = cli_fail("get %s", app_failure());
	else
		status = ret ? fail_sink(sink, ret) : sink_finish(sink);
	copy_summary(&copy, summary, sizeof(summary));
	copy_close(&copy);
	if (!status && strcmp(sink->name, "standard output") != 0) {
		cli_print(source->text);
		printf(": %s\n", summary);
	}
	return status;
}

/* Looks at the region before the file is touched. Returns 0 or an exit status. */
static int measure(struct afar_region *region, const struct region_name *source,
		   bool may_be_partial, uint64_t *length)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};
	int ret = afar_region_stat(region, &stat);

	if (ret)
		return cli_fail_last(ret);
	*length = stat.length;
	if (!stat.is_unfinished || may_be_partial)
		return 0;
	return cli_fail(
		"get %s: it is unfinished, its put was killed or still runs; put it again, or "
		"take what is there with --partial",
		source->text);
}

static int get(struct cli *cli, const struct region_name *source, const char *file,
	       bool may_be_partial, uint32_t op_flags)
{
	struct afar_namespace *ns;
	struct afar_region *region;
	struct sink sink;
	uint64_t length = 0;
	int ret, status;

	status = region_open_namespace(cli, source, &ns);
	if (status)
		return status;
	ret = region_open_named(ns, source, &region);
	if (ret) {
		status = cli_fail_last(ret);
		goto out_namespace;
	}
	status = measure(region, source, may_be_partial, &length);
	if (!status)
		status = sink_open(file, &sink);
	if (!status) {
		status = copy(cli, region, length, source, op_flags, &sink);
		if (status)
			sink_abandon(&sink);
	}
	afar_region_close(region);
out_namespace:
	afar_namespace_close(ns);
	return status;
}

int region_get(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *partial = NULL, *checked = NULL;
	const struct cli_flag flags[] = {
		{"partial", NULL, "what is there of it, if it is unfinished", &partial},
		{"checked", NULL, "sums come with its bytes, from the device to here, on flash",
		 &checked},
		{0},
	};
	struct region_name source;
	int ret;

	if (cli_arguments(cli, command, flags, argc, argv, 2, 2, arguments, &ret) < 0)
		return ret;
	ret = region_name_parse(command, arguments[0], &source);
	if (ret)
		return ret;
	catch_interrupts();
	ret = cli_open(cli);
	return ret ? ret
		   : cli_close(cli, get(cli, &source, arguments[1], partial,
					checked ? AFAR_OP_CHECKED : 0));
}
