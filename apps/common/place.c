/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions and files as inputs and outputs; see place.h. Called by job.c, generate.c and verify.c. */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/copy/failure.h"

#define TRIES_MAX 100U /* to have a name that others take, too */

bool place_is_region(const char *text)
{
	size_t before = strcspn(text, ":/");

	return text[before] == ':';
}

int place_namespace(const char *text, char out[AFAR_NAME_MAX + 1])
{
	size_t length = strcspn(text, ":");

	if (!length || length > AFAR_NAME_MAX || !text[length + 1])
		return app_fail(-EINVAL,
				"'%.64s' is not NAMESPACE:NAME; a file's name with a colon needs "
				"a slash before it",
				text);
	memcpy(out, text, length);
	out[length] = '\0';
	return 0;
}

/* ---- Regions */

static const char *region_part(const char *text)
{
	return strchr(text, ':') + 1;
}

static int fail_region(int error, const char *verb, const char *text)
{
	char what[600];

	snprintf(what, sizeof(what), "%s %s", verb, text);
	return app_fail_last(error, what);
}

static int open_namespace(struct afar_session *session, struct place *place)
{
	char name[AFAR_NAME_MAX + 1];
	int ret = place_namespace(place->end.text, name);

	if (ret)
		return ret;
	ret = afar_namespace_open(session, name, &place->ns);
	return ret ? fail_region(ret, "open", place->end.text) : 0;
}

/* Opens "NAME" or "@0xADDRESS". */
static int open_region(struct place *place)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};
	const char *name = region_part(place->end.text);
	unsigned long long address;
	int end = 0, ret;

	if (sscanf(name, "@0x%llx%n", &address, &end) == 1 && !name[end])
		ret = afar_region_open_at(place->ns, address, &place->end.region);
	else
		ret = afar_region_open(place->ns, name, &place->end.region);
	if (!ret)
		ret = afar_region_stat(place->end.region, &stat);
	place->length = stat.length;
	return ret ? fail_region(ret, "open", place->end.text) : 0;
}

/* Creates it, instead of the one of that name if it may. Others that do the same may come between the two; the last one has the
 * name. */
static int create_named(struct place *place, const char *name, uint64_t bytes, bool may_replace)
{
	int ret;

	for (unsigned i = 0; i < TRIES_MAX; i++) {
		ret = may_replace ? afar_region_delete(place->ns, name) : 0;
		if (ret == 0 || ret == -ENOENT || ret == -AFAR_EFREED)
			ret = afar_region_create(place->ns, name, bytes, AFAR_ALLOC_TEMPORARY,
						 &place->end.region);
		if (ret != -EEXIST || !may_replace)
			break;
	}
	return ret;
}

static int create_region(struct place *place, uint64_t bytes, bool may_replace)
{
	const char *name = region_part(place->end.text);
	int ret;

	if (name[0] == '@')
		return app_fail(-EINVAL, "write into %s: a new region needs a name, not an address",
				place->end.text);
	if (!bytes)
		return app_fail(-ENODATA,
				"write into %s: there is nothing to write, and a region has at "
				"least 1 byte",
				place->end.text);
	ret = create_named(place, name, bytes, may_replace);
	if (ret == -EEXIST && may_replace)
		return app_fail(ret,
				"write into %s: others replace it at the same time, again and "
				"again; try again later",
				place->end.text);
	if (ret == -EEXIST)
		return app_fail(ret,
				"write into %s: there is a region of that name; choose another "
				"name, or use --replace",
				place->end.text);
	return ret ? fail_region(ret, "make", place->end.text) : 0;
}

/* ---- Files */

static int fail_file(int error, const char *verb, const char *path)
{
	return app_fail(error, "%s %s: %s", verb, path, afar_strerror(error));
}

static int open_file(struct place *place)
{
	struct stat status;

	place->end.fd = open(place->end.text, O_RDONLY | O_CLOEXEC);
	if (place->end.fd < 0 || fstat(place->end.fd, &status))
		return fail_file(-errno, "open", place->end.text);
	if (!S_ISREG(status.st_mode))
		return app_fail(-EINVAL,
				"open %s: it is no ordinary file, and workers read it in several "
				"places at once",
				place->end.text);
	place->length = (uint64_t)status.st_size;
	return 0;
}

/* The file has another name until it is complete. */
static int name_part(struct place *place, const char *program)
{
	int length =
		snprintf(place->part, sizeof(place->part), "%s.%s.part", place->end.text, program);

	if (length < (int)sizeof(place->part))
		return 0;
	place->part[0] = '\0';
	return fail_file(-ENAMETOOLONG, "write", place->end.text);
}

/* Returns whether the part's name is still that of the open file. */
static bool has_name(const struct place *place, int fd)
{
	struct stat open_file, named;

	return !fstat(fd, &open_file) && !stat(place->part, &named) &&
	       open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

/*
 * Removes a part that was left behind. A process that makes one has it locked. So nobody makes this one any more, if
 * the lock can be had.
 */
static int remove_old_part(const struct place *place)
{
	int fd = open(place->part, O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return errno == ENOENT ? 0 : fail_file(-errno, "open", place->part);
	if (flock(fd, LOCK_EX | LOCK_NB))
		ret = app_fail(-EBUSY,
			       "write %s: another program makes %s, or was killed; wait for it, or "
			       "remove that file",
			       place->end.text, place->part);
	else if (has_name(place, fd) && unlink(place->part))
		ret = fail_file(-errno, "remove", place->part);
	close(fd);
	return ret;
}

/* Makes the part, and locks it where the file system has locks. */
static int create_part(struct place *place)
{
	bool is_ours;
	int ret;

	for (;;) {
		place->end.fd = open(place->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (place->end.fd < 0 && errno != EEXIST)
			return fail_file(-errno, "make", place->part);
		if (place->end.fd >= 0) {
			is_ours = !flock(place->end.fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK;
			if (is_ours && has_name(place, place->end.fd))
				return 0;
			close(place->end.fd); /* somebody thought that it was left behind */
			place->end.fd = -1;
		}
		ret = remove_old_part(place);
		if (ret)
			return ret;
	}
}

static int create_file(struct place *place, uint64_t bytes, const char *program)
{
	int ret = name_part(place, program);

	if (ret)
		return ret;
	ret = create_part(place);
	if (ret) {
		place->part[0] = '\0'; /* it is not ours to remove */
		return ret;
	}
	/* Finds out now whether it fits. A file system that cannot tell is asked by the writes. */
	if (bytes && fallocate(place->end.fd, 0, 0, (off_t)bytes) && errno != EOPNOTSUPP)
		return fail_file(-errno, "get room for", place->end.text);
	return ftruncate(place->end.fd, (off_t)bytes) ? fail_file(-errno, "make", place->end.text)
						      : 0;
}

static int join_file(struct place *place, const char *program)
{
	int ret = name_part(place, program);

	if (ret)
		return ret;
	place->end.fd = open(place->part, O_WRONLY | O_CLOEXEC);
	if (place->end.fd >= 0)
		return 0;
	ret = fail_file(-errno, "open", place->part);
	place->part[0] = '\0';
	return ret;
}

/* ---- Both */

/* Closes what was opened if `ret` is an error, and passes that on. */
static int opened(struct place *place, int ret)
{
	if (ret) {
		place_discard(place);
		place_close(place);
	}
	return ret;
}

int place_open(struct afar_session *session, const char *text, struct place *out)
{
	int ret;

	*out = (struct place){.end = {.text = text, .fd = -1}};
	if (!place_is_region(text)) {
		ret = open_file(out);
	} else {
		ret = open_namespace(session, out);
		if (!ret)
			ret = open_region(out);
	}
	if (ret)
		place_close(out);
	return ret;
}

int place_create(struct afar_session *session, const char *text, uint64_t bytes,
		 const char *program, bool may_replace, struct place *out)
{
	int ret;

	*out = (struct place){.end = {.text = text, .fd = -1}, .length = bytes};
	if (!place_is_region(text))
		return opened(out, create_file(out, bytes, program));
	ret = open_namespace(session, out);
	if (!ret)
		ret = create_region(out, bytes, may_replace);
	return opened(out, ret);
}

int place_join(struct afar_session *session, const char *text, const char *program,
	       struct place *out)
{
	int ret;

	*out = (struct place){.end = {.text = text, .fd = -1}};
	if (!place_is_region(text))
		return opened(out, join_file(out, program));
	ret = open_namespace(session, out);
	if (!ret)
		ret = open_region(out);
	if (ret)
		place_close(out); /* what is there may be somebody else's */
	return ret;
}

int place_finish(struct place *place)
{
	int ret;

	if (place->end.region) {
		ret = afar_region_sync(place->end.region);
		if (!ret)
			ret = afar_region_finish(place->end.region);
		return ret ? fail_region(ret, "complete", place->end.text) : 0;
	}
	if (rename(place->part, place->end.text))
		return fail_file(-errno, "write", place->end.text);
	place->part[0] = '\0';
	return 0;
}

void place_discard(struct place *place)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};

	if (place->end.region && !afar_region_stat(place->end.region, &stat) && stat.is_unfinished)
		afar_region_destroy(place->end.region);
	if (place->part[0] && has_name(place, place->end.fd))
		unlink(place->part);
}

void place_close(struct place *place)
{
	if (place->end.region)
		afar_region_close(place->end.region);
	if (place->ns)
		afar_namespace_close(place->ns);
	if (place->end.fd >= 0)
		close(place->end.fd);
	*place = (struct place){.end = {.text = place->end.text, .fd = -1}};
}
