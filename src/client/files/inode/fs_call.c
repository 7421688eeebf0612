/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls about files: building them, and checking what comes back. */
#include "client/files/inode/fs_call.h"

#include <errno.h>

#include "base/error.h"

void fs_answer_free(struct fs_answer *answer)
{
	if (answer->frame)
		rpc_frame_free(answer->frame);
	*answer = (struct fs_answer){0};
}

static int check_results(const Afar__FileResults *results, unsigned nr)
{
	if (results->n_results != nr)
		return fs_fail_malformed("another number of operations");
	for (unsigned i = 0; i < nr; i++)
		if (results->results[i]->status > 0)
			return fs_fail_malformed("a status that is none");
	return 0;
}

static int call_until(struct afar_fs *fs, uint64_t deadline, Afar__Request *request, unsigned nr,
		      struct fs_answer *out)
{
	int ret = session_call_until(fs->ns->session, deadline, request, &out->frame);

	if (ret)
		return ret;
	if (out->frame->reply->result_case != AFAR__REPLY__RESULT_FILE_RESULTS)
		ret = fs_fail_malformed("something else");
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
	struct attr_cache_mark mark;
	int ret;

	message.fs = fs->ns->number;
	message.who = who ? (Afar__FileWho *)&who->message : NULL;
	message.operations = operations;
	message.n_operations = nr;
	message.wants_delegation = true;
	message.takes_many = true;
	message.dropped = attr_cache_take_dropped(&fs->attr_cache);
	mark = attr_cache_mark(&fs->attr_cache);
	ret = call_until(fs, deadline, RPC_REQUEST(FILES_LOOK, files_look, &message), nr, out);
	if (ret == 0)
		attr_cache_looked(fs, &mark, who, operations, results_of(out));
	else
		attr_cache_put_dropped(&fs->attr_cache, message.dropped);
	return ret;
}

int fs_look(struct afar_fs *fs, const struct fs_who *who, Afar__FileLook **operations, unsigned nr,
	    struct fs_answer *out)
{
	return fs_look_until(fs, fs_deadline(fs), who, operations, nr, out);
}

/* Returns whether any would have what it opens delegated. */
static bool want_delegation(Afar__FileHold *const *operations, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		if (operations[i]->what_case == AFAR__FILE_HOLD__WHAT_OPEN &&
		    operations[i]->open->wants_delegation)
			return true;
	return false;
}

/* Carries out operations of ours behind those of closings, whose results are taken off again. */
static int call_holds(struct afar_fs *fs, const struct fs_who *who, Afar__FileHold **operations,
		      unsigned nr, struct fs_answer *out)
{
	Afar__FilesHold message = AFAR__FILES_HOLD__INIT;
	const struct attr_cache_mark mark = attr_cache_mark(&fs->attr_cache);
	const bool is_wanted = want_delegation(operations, nr);
	int ret;

	message.fs = fs->ns->number;
	message.who = who ? (Afar__FileWho *)&who->message : NULL;
	message.operations = operations;
	message.n_operations = nr;
	message.takes_many = is_wanted;
	attr_cache_begin_hold(fs, operations, nr);
	if (is_wanted)
		message.dropped = attr_cache_take_dropped(&fs->attr_cache);
	ret = call(fs, RPC_REQUEST(FILES_HOLD, files_hold, &message), nr, out);
	attr_cache_end_hold(fs, &mark, operations, nr, ret == 0 ? results_of(out) : NULL);
	if (is_wanted && ret == 0)
		attr_cache_opened(fs, &mark, who, operations, results_of(out));
	else if (is_wanted)
		attr_cache_put_dropped(&fs->attr_cache, message.dropped);
	return ret;
}

/* Keeps no file that is removed, or replaced, because others may need its room. */
static void drop_removed(struct afar_fs *fs, const Afar__FileChange *ask)
{
	uint64_t ino = 0;

	if (ask->what_case == AFAR__FILE_CHANGE__WHAT_REMOVE)
		ino = attr_cache_ino(&fs->attr_cache, ask->remove->dir, ask->remove->name);
	else if (ask->what_case == AFAR__FILE_CHANGE__WHAT_RENAME)
		ino = attr_cache_ino(&fs->attr_cache, ask->rename->new_dir, ask->rename->new_name);
	if (ino != 0)
		kept_drop(fs, ino);
}

/* Likewise what we did not know by its name, afterwards. `results`: NULL: it is unknown what was done. */
static void drop_gone(struct afar_fs *fs, Afar__FileChange *const *operations, unsigned nr,
		      const Afar__FileResults *results)
{
	for (unsigned i = 0; i < nr; i++) {
		const Afar__FileResult *result = results ? results->results[i] : NULL;

		if (operations[i]->what_case != AFAR__FILE_CHANGE__WHAT_REMOVE &&
		    operations[i]->what_case != AFAR__FILE_CHANGE__WHAT_RENAME)
			continue;
		if (!result || result->is_more_changed)
			kept_drop(fs, 0);
		for (size_t c = 0; result && c < result->n_changed; c++)
			if (result->changed[c]->nlink == 0)
				kept_drop(fs, result->changed[c]->ino);
	}
}

static int call_changes(struct afar_fs *fs, const struct fs_who *who, Afar__FileChange **operations,
			unsigned nr, struct fs_answer *out)
{
	Afar__FilesChange message = AFAR__FILES_CHANGE__INIT;
	const struct attr_cache_mark mark = attr_cache_mark(&fs->attr_cache);
	int ret;

	message.fs = fs->ns->number;
	message.who = who ? (Afar__FileWho *)&who->message : NULL;
	message.operations = operations;
	message.n_operations = nr;
	for (unsigned i = 0; i < nr; i++)
		drop_removed(fs, operations[i]);
	attr_cache_begin_change(fs, operations, nr);
	ret = call(fs, RPC_REQUEST(FILES_CHANGE, files_change, &message), nr, out);
	attr_cache_end_change(fs, &mark, operations, nr, ret == 0 ? results_of(out) : NULL);
	drop_gone(fs, operations, nr, ret == 0 ? results_of(out) : NULL);
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
				    ? fs->closings.calls->take(fs, false, taken, FS_CALL_MAX - nr)
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
	fs->closings.calls->end(fs, taken, nr_taken, ret, out->results);
	if (ret == 0)
		out->results += nr_taken;
	return ret;
}

int fs_change(struct afar_fs *fs, const struct fs_who *who, Afar__FileChange **operations,
	      unsigned nr, struct fs_answer *out)
{
	struct late_close *taken[FS_CALL_MAX];
	Afar__FileChange *all[FS_CALL_MAX];
	unsigned nr_taken = fs->closings.calls->take(fs, true, taken, FS_CALL_MAX - nr);
	int ret;

	*out = (struct fs_answer){0};
	if (nr_taken == 0)
		return nr != 0 ? call_changes(fs, who, operations, nr, out) : 0;
	for (unsigned i = 0; i < nr_taken; i++)
		all[i] = &taken[i]->change;
	for (unsigned i = 0; i < nr; i++)
		all[nr_taken + i] = operations[i];
	ret = call_changes(fs, who, all, nr_taken + nr, out);
	fs->closings.calls->end(fs, taken, nr_taken, ret, out->results);
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
