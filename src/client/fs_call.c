/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls about files: building them, and checking what comes back. */
#include "client/fs_call.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "client/abi.h"

#define WHO_OLDEST  sizeof(struct afar_who)
#define STAT_OLDEST sizeof(struct afar_file_stat)

/* ---- Who asks */

static int take_process(struct fs_who *out)
{
	gid_t groups[NGROUPS_MAX];
	int nr = getgroups(NGROUPS_MAX, groups);

	out->message.uid = geteuid();
	out->message.gid = getegid();
	for (int i = 0; i < nr && i < (int)FS_WHO_GROUPS_MAX; i++)
		out->groups[out->message.n_groups++] = groups[i];
	return 0;
}

int fs_who_take(const struct afar_who *given, struct fs_who *out)
{
	struct afar_who who;
	int ret;

	afar__file_who__init(&out->message);
	out->message.groups = out->groups;
	if (!given)
		return take_process(out);
	ret = abi_take(&who, sizeof(who), WHO_OLDEST, given, "afar_who");
	if (ret)
		return ret;
	if (who.reserved || (who.nr_groups != 0 && !who.groups))
		return error_fail(-EINVAL, "use files: who asks has groups that are null, or what "
					   "is reserved is not 0");
	out->message.uid = who.uid;
	out->message.gid = who.gid;
	out->message.n_groups =
		who.nr_groups < FS_WHO_GROUPS_MAX ? who.nr_groups : FS_WHO_GROUPS_MAX;
	if (out->message.n_groups != 0)
		memcpy(out->groups, who.groups, out->message.n_groups * sizeof(*who.groups));
	return 0;
}

void fs_who_copy(struct fs_who *to, const struct fs_who *from)
{
	*to = *from;
	to->message.groups = to->groups;
}

/* ---- Calls */

void fs_answer_free(struct fs_answer *answer)
{
	if (answer->frame)
		rpc_frame_free(answer->frame);
	*answer = (struct fs_answer){0};
}

static int fail_malformed(const char *what)
{
	return error_fail(-AFAR_EMALFORMED, "use files: the manager answered %s", what);
}

static int check_results(const Afar__FileResults *results, unsigned nr)
{
	if (results->n_results != nr)
		return fail_malformed("another number of operations");
	for (unsigned i = 0; i < nr; i++)
		if (results->results[i]->status > 0)
			return fail_malformed("a status that is none");
	return 0;
}

static int call_until(struct afar_fs *fs, uint64_t deadline, Afar__Request *request, unsigned nr,
		      struct fs_answer *out)
{
	int ret = session_call_until(fs->ns->session, deadline, request, &out->frame);

	if (ret)
		return ret;
	if (out->frame->reply->result_case != AFAR__REPLY__RESULT_FILE_RESULTS)
		ret = fail_malformed("something else");
	else
		ret = check_results(out->frame->reply->file_results, nr);
	if (ret) {
		fs_answer_free(out);
		return ret;
	}
	out->results = out->frame->reply->file_results->results;
	return 0;
}

static int call(struct afar_fs *fs, Afar__Request *request, unsigned nr, struct fs_answer *out)
{
	return call_until(fs, fs_deadline(fs), request, nr, out);
}

static const Afar__FileResults *results_of(const struct fs_answer *answer)
{
	return answer->frame->reply->file_results;
}

int fs_look_until(struct afar_fs *fs, uint64_t deadline, const struct fs_who *who,
		  Afar__FileLook **operations, unsigned nr, struct fs_answer *out)
{
	Afar__FilesLook message = AFAR__FILES_LOOK__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	struct known_mark mark;
	int ret;

	message.fs = fs->ns->number;
	message.who = who ? (Afar__FileWho *)&who->message : NULL;
	message.operations = operations;
	message.n_operations = nr;
	request.call_case = AFAR__REQUEST__CALL_FILES_LOOK;
	request.files_look = &message;
	message.wants_delegation = true;
	message.dropped = known_take_dropped(&fs->known);
	mark = known_mark(&fs->known);
	ret = call_until(fs, deadline, &request, nr, out);
	if (ret == 0)
		known_looked(fs, &mark, who, operations, results_of(out));
	return ret;
}

int fs_look(struct afar_fs *fs, const struct fs_who *who, Afar__FileLook **operations, unsigned nr,
	    struct fs_answer *out)
{
	return fs_look_until(fs, fs_deadline(fs), who, operations, nr, out);
}

/* Carries out operations of ours behind those of closings, whose results are taken off again. */
static int call_holds(struct afar_fs *fs, const struct fs_who *who, Afar__FileHold **operations,
		      unsigned nr, struct fs_answer *out)
{
	Afar__FilesHold message = AFAR__FILES_HOLD__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	const struct known_mark mark = known_mark(&fs->known);
	int ret;

	message.fs = fs->ns->number;
	message.who = who ? (Afar__FileWho *)&who->message : NULL;
	message.operations = operations;
	message.n_operations = nr;
	request.call_case = AFAR__REQUEST__CALL_FILES_HOLD;
	request.files_hold = &message;
	known_begin_hold(fs, operations, nr);
	ret = call(fs, &request, nr, out);
	known_end_hold(fs, &mark, operations, nr, ret == 0 ? results_of(out) : NULL);
	return ret;
}

static int call_changes(struct afar_fs *fs, const struct fs_who *who, Afar__FileChange **operations,
			unsigned nr, struct fs_answer *out)
{
	Afar__FilesChange message = AFAR__FILES_CHANGE__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	const struct known_mark mark = known_mark(&fs->known);
	int ret;

	message.fs = fs->ns->number;
	message.who = who ? (Afar__FileWho *)&who->message : NULL;
	message.operations = operations;
	message.n_operations = nr;
	request.call_case = AFAR__REQUEST__CALL_FILES_CHANGE;
	request.files_change = &message;
	known_begin_change(fs, operations, nr);
	ret = call(fs, &request, nr, out);
	known_end_change(fs, &mark, operations, nr, ret == 0 ? results_of(out) : NULL);
	return ret;
}

/* Calls that wait for others, or tell anew what is open, take nothing along. */
static bool takes_closings(Afar__FileHold *const *operations, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		if (operations[i]->what_case != AFAR__FILE_HOLD__WHAT_OPEN &&
		    operations[i]->what_case != AFAR__FILE_HOLD__WHAT_END)
			return false;
	return true;
}

int fs_hold(struct afar_fs *fs, const struct fs_who *who, Afar__FileHold **operations, unsigned nr,
	    struct fs_answer *out)
{
	struct late_close *taken[FS_CALL_MAX];
	Afar__FileHold *all[FS_CALL_MAX];
	unsigned nr_taken = takes_closings(operations, nr)
				    ? closings_take(fs, false, taken, FS_CALL_MAX - nr)
				    : 0;
	int ret;

	*out = (struct fs_answer){0};
	if (nr_taken == 0)
		return nr != 0 ? call_holds(fs, who, operations, nr, out) : 0;
	for (unsigned i = 0; i < nr_taken; i++)
		all[i] = &taken[i]->hold;
	for (unsigned i = 0; i < nr; i++)
		all[nr_taken + i] = operations[i];
	ret = call_holds(fs, who, all, nr_taken + nr, out);
	closings_end(fs, taken, nr_taken, ret, out->results);
	if (ret == 0)
		out->results += nr_taken;
	return ret;
}

int fs_change(struct afar_fs *fs, const struct fs_who *who, Afar__FileChange **operations,
	      unsigned nr, struct fs_answer *out)
{
	struct late_close *taken[FS_CALL_MAX];
	Afar__FileChange *all[FS_CALL_MAX];
	unsigned nr_taken = closings_take(fs, true, taken, FS_CALL_MAX - nr);
	int ret;

	*out = (struct fs_answer){0};
	if (nr_taken == 0)
		return nr != 0 ? call_changes(fs, who, operations, nr, out) : 0;
	for (unsigned i = 0; i < nr_taken; i++)
		all[i] = &taken[i]->change;
	for (unsigned i = 0; i < nr; i++)
		all[nr_taken + i] = operations[i];
	ret = call_changes(fs, who, all, nr_taken + nr, out);
	closings_end(fs, taken, nr_taken, ret, out->results);
	if (ret == 0)
		out->results += nr_taken;
	return ret;
}

int fs_result_fail(const Afar__FileResult *result)
{
	if (result->status == 0)
		return 0;
	return result->message[0] ? error_fail(result->status, "%s", result->message)
				  : error_code(result->status);
}

/* Takes the answer to one operation. */
static int take_one(int ret, struct fs_answer *answer, struct fs_answer *out)
{
	if (ret == 0)
		ret = fs_result_fail(answer->results[0]);
	if (ret || !out)
		fs_answer_free(answer);
	else
		*out = *answer;
	return ret;
}

int fs_look_one(struct afar_fs *fs, const struct fs_who *who, Afar__FileLook *operation,
		struct fs_answer *out)
{
	struct fs_answer answer = {0};

	return take_one(fs_look(fs, who, &operation, 1, &answer), &answer, out);
}

int fs_hold_one(struct afar_fs *fs, const struct fs_who *who, Afar__FileHold *operation,
		struct fs_answer *out)
{
	struct fs_answer answer = {0};

	return take_one(fs_hold(fs, who, &operation, 1, &answer), &answer, out);
}

int fs_change_one(struct afar_fs *fs, const struct fs_who *who, Afar__FileChange *operation,
		  struct fs_answer *out)
{
	struct fs_answer answer = {0};

	return take_one(fs_change(fs, who, &operation, 1, &answer), &answer, out);
}

/* ---- Attributes */

int fs_check_attributes(const Afar__FileAttributes *attributes)
{
	if (!attributes || attributes->ino == 0 || attributes->size > FILE_BYTES_MAX ||
	    attributes->allocated > INT64_MAX)
		return fail_malformed("attributes that no inode has");
	return 0;
}

int fs_check_stat(const struct afar_file_stat *out, bool may_be_null)
{
	if (out)
		return abi_check_out(out, STAT_OLDEST, "afar_file_stat");
	return may_be_null ? 0 : error_fail(-EINVAL, "look at a file: out is null");
}

void fs_give_attributes(const Afar__FileAttributes *attributes, struct afar_file_stat *out)
{
	const struct afar_file_stat stat = {
		.ino = attributes->ino,
		.rdev = attributes->rdev,
		.bytes = attributes->size,
		.allocated = attributes->allocated,
		.atime = attributes->atime,
		.mtime = attributes->mtime,
		.ctime = attributes->ctime,
		.change = attributes->change,
		.mode = attributes->mode,
		.nlink = attributes->nlink,
		.uid = attributes->uid,
		.gid = attributes->gid,
	};

	abi_give(out, out->size, &stat, sizeof(stat));
}

int fs_give(const Afar__FileResult *result, struct afar_file_stat *out)
{
	int ret = fs_check_attributes(result->attributes);

	if (ret == 0 && out)
		fs_give_attributes(result->attributes, out);
	return ret;
}
