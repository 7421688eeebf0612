/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs that keep what they have read of files, as a mount's kernel does: whether they may, and how long that is good. */
#include "client/files/inode/fs_quiet.h"

#include <errno.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/files/file.h"
#include "client/files/inode/fs_call.h"

#define LASTS_MS 250U

uint64_t afar_fs_quiet_since(struct afar_fs *fs, uint64_t ino)
{
	uint64_t since;

	if (fs_enter(fs))
		return 0;
	since = attr_cache_since(&fs->attr_cache, ino);
	handle_unuse(&fs->handle);
	return since;
}

PUBLIC_CALL(int, afar_file_may_keep, (const struct afar_file *file), (file))
{
	return handle_is(file, HANDLE_FILE) && file->hold->access & FS_KEEPS_PAGES;
}

/* Asks for an inode's attributes; with that comes the promise. */
static int ask(struct afar_fs *fs, uint64_t ino, uint64_t deadline, struct afar_file_stat *out)
{
	Afar__FileStat stat = AFAR__FILE_STAT__INIT;
	Afar__FileLook operation = AFAR__FILE_LOOK__INIT, *list = &operation;
	struct fs_answer answer = {0};
	int ret;

	stat.ino = ino;
	operation.what_case = AFAR__FILE_LOOK__WHAT_STAT;
	operation.stat = &stat;
	ret = fs_look_until(fs, deadline, NULL, &list, 1, &answer);
	if (ret == 0)
		ret = fs_result_fail(answer.results[0]);
	if (ret == 0 && out)
		ret = fs_give(answer.results[0], out);
	fs_answer_free(&answer);
	return ret;
}

/* Returns whether the promise is there, and stays for a while. */
static bool is_promised(struct afar_fs *fs, uint64_t ino)
{
	return attr_cache_since(&fs->attr_cache, ino) &&
	       attr_cache_lasts(&fs->attr_cache, LASTS_MS);
}

uint64_t fs_promise_quiet(struct afar_fs *fs, uint64_t ino, int timeout_ms)
{
	if (!is_promised(fs, ino))
		ask(fs, ino, clock_deadline_ms(timeout_ms), NULL);
	return attr_cache_since(&fs->attr_cache, ino);
}

PUBLIC_CALL(int, afar_fs_keep_quiet, (struct afar_fs *fs, uint64_t ino), (fs, ino))
{
	int ret = fs_enter(fs);

	if (ret)
		return ret;
	if (!is_promised(fs, ino))
		ret = ask(fs, ino, fs_deadline(fs), NULL);
	handle_unuse(&fs->handle);
	return ret;
}

PUBLIC_CALL(int, afar_fs_keep_attributes,
	    (struct afar_fs *fs, uint64_t ino, struct afar_file_stat *out), (fs, ino, out))
{
	int left_ms = 0;

	if (fs_enter(fs))
		return 0;
	/* Without `drop` nobody could end it. Our own writes change the times later, unseen. */
	if (fs->drops.tell && fs_check_stat(out, false) == 0 && !inode_is_changing(fs, ino))
		left_ms = attr_cache_keep(&fs->attr_cache, ino, out);
	handle_unuse(&fs->handle);
	return left_ms;
}

PUBLIC_CALL(int, afar_file_stat_within,
	    (struct afar_file *file, int timeout_ms, struct afar_file_stat *out),
	    (file, timeout_ms, out))
{
	int ret = file_enter(file);

	if (ret)
		return ret;
	ret = fs_check_stat(out, false);
	if (ret == 0 && attr_cache_stat(file->fs, file->inode->ino, out))
		ret = timeout_ms == 0
			      ? error_code(-ETIMEDOUT)
			      : ask(file->fs, file->inode->ino, clock_deadline_ms(timeout_ms), out);
	if (ret == 0)
		inode_add_writes(file->fs, out);
	handle_unuse(&file->handle);
	return ret;
}
