/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions for all requests; see mount.h. Owns nothing but the table of errors. */
#include "mount.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "pages.h"
#include "say.h"

#define SECTOR_BYTES 512
#define IO_BYTES     (128U << 10) /* that programs should read and write at once */

/* ---- Who asks */

const struct afar_who superuser = {.size = sizeof(superuser)};

/* The kernel does not tell the further groups, so libfuse reads them from /proc. uid 0 needs none. */
const struct afar_who *find_asker(fuse_req_t req, struct asker *asker)
{
	const struct fuse_ctx *context = fuse_req_ctx(req);
	int nr = 0;

	if (context->uid != 0)
		nr = fuse_req_getgroups(req, (int)GROUPS_MAX, asker->groups);
	if (nr > (int)GROUPS_MAX)
		nr = (int)GROUPS_MAX;
	asker->who = (struct afar_who){
		.size = sizeof(asker->who),
		.uid = context->uid,
		.gid = context->gid,
		.groups = nr > 0 ? asker->groups : NULL,
		.nr_groups = nr > 0 ? (uint32_t)nr : 0,
	};
	return &asker->who;
}

/* ---- Errors */

/* Programs know errno alone. Errors that are not here are errno's own. */
static const struct {
	int error, as;
} errnos[] = {
	{AFAR_ELOST, EIO},	   {AFAR_EAUTH, EACCES},
	{AFAR_EVERSION, EPROTO},   {AFAR_EFORKED, EIO},
	{AFAR_ESERVER, EIO},	   {AFAR_EMANAGER, EIO},
	{AFAR_ERESERVE, ENOSPC},   {AFAR_ENOSERVER, EIO},
	{AFAR_ESESSION, EIO},	   {AFAR_EFREED, ESTALE},
	{AFAR_EMALFORMED, EPROTO}, {AFAR_EUNSYNCED, EIO},
	{ETIMEDOUT, EIO},	   {EBADMSG, EIO},
	{ECANCELED, EIO},
};

int errno_of(int error)
{
	error = error < 0 ? -error : error;
	for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++) {
		if (errnos[i].error == error)
			return errnos[i].as;
	}
	return error < 1000 ? error : EIO;
}

/* Says why, because EIO tells a program nothing; once a second, because thousands may fail. */
static void say_why(int error)
{
	static atomic_llong said_at; /* seconds */
	struct timespec now;
	long long last = said_at;
	const char *line = afar_last_error();

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (last != now.tv_sec && atomic_compare_exchange_strong(&said_at, &last, now.tv_sec))
		say_failed("%s", *line ? line : afar_strerror(error));
}

/* ---- Answers */

static void answer_error(fuse_req_t req, int64_t ret)
{
	const int error = (int)ret;
	int as = errno_of(error);

	if (as != -error || as == EIO)
		say_why(error);
	fuse_reply_err(req, as);
}

void answer(fuse_req_t req, int64_t ret)
{
	if (ret < 0)
		answer_error(req, ret);
	else
		fuse_reply_err(req, 0);
}

static struct timespec time_of(int64_t ns)
{
	struct timespec time = {ns / SECOND_NS, ns % SECOND_NS};

	if (time.tv_nsec < 0) {
		time.tv_sec--;
		time.tv_nsec += SECOND_NS;
	}
	return time;
}

void fill_stat(const struct afar_file_stat *stat, struct stat *out)
{
	*out = (struct stat){
		.st_ino = stat->ino,
		.st_mode = stat->mode,
		.st_nlink = stat->nlink,
		.st_uid = stat->uid,
		.st_gid = stat->gid,
		.st_rdev = stat->rdev,
		.st_size = (off_t)stat->bytes,
		.st_blksize = IO_BYTES,
		.st_blocks = (blkcnt_t)(stat->allocated / SECTOR_BYTES),
		.st_atim = time_of(stat->atime),
		.st_mtim = time_of(stat->mtime),
		.st_ctim = time_of(stat->ctime),
	};
}

void fill_entry(const struct mount *mount, const struct afar_file_stat *stat,
		struct fuse_entry_param *out)
{
	*out = (struct fuse_entry_param){
		.ino = node_of(mount, stat->ino),
		/* So that a file handle of another file system is none of this one. The kernel gives the root 0. */
		.generation = stat->ino == mount->root ? 0 : (uint32_t)mount->identity,
		.attr_timeout = mount->options->age_s,
		.entry_timeout = mount->options->age_s,
	};
	fill_stat(stat, &out->attr);
	pages_note_attributes(stat);
}

void answer_attributes_for(fuse_req_t req, const struct afar_file_stat *stat, double seconds)
{
	struct stat attributes;

	fill_stat(stat, &attributes);
	pages_note_attributes(stat);
	fuse_reply_attr(req, &attributes, seconds);
}

void answer_attributes(fuse_req_t req, int64_t ret, const struct afar_file_stat *stat)
{
	if (ret)
		answer_error(req, ret);
	else
		answer_attributes_for(req, stat, mount_of(req)->options->age_s);
}
