/* SPDX-License-Identifier: BSD-3-Clause */
/* File systems: the calls that make, find, open and end them. */
#include "client/files/inode/fs_call.h"
#include "client/namespace/region.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/target/apart.h"

/* The pool's modes, as the protocol numbers them (VolumeInfo). */
#define MODE_SHARED    2U
#define MODE_READ_ONLY 3U

/* ---- Limits and losses */

PUBLIC_CALL_OF_CALLS(int, afar_fs_set_limits,
		     (struct afar_session *session, const char *name,
		      const struct afar_fs_limits *limits),
		     (session, name, limits))
{
	Afar__FilesLimit ask = AFAR__FILES_LIMIT__INIT;
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	struct afar_fs_limits wanted = {0};
	struct afar_namespace *ns;
	int ret = fs_check_name(session, name);

	if (ret == 0)
		ret = limits ? ABI_TAKE(&wanted, limits, afar_fs_limits, max_inodes)
			     : error_fail(-EINVAL, "limit file system '%s': limits is null", name);
	if (ret == 0)
		ret = afar_fs_stat_by_name(session, name, &stat);
	if (ret == 0)
		ret = namespace_open(session, NAMESPACE_FILES, name, &ns);
	if (ret)
		return ret;
	ask.fs = ns->number;
	ask.max_bytes = wanted.max_bytes;
	ask.max_inodes = wanted.max_inodes;
	ret = session_call(session, RPC_REQUEST(FILES_LIMIT, files_limit, &ask), NULL);
	afar_namespace_close(ns);
	return ret;
}

/* Fails if writes are known to be lost that this has not been said of. */
static int tell_losses(struct afar_fs *fs)
{
	bool is_lost;

	pthread_mutex_lock(&fs->lock);
	is_lost = fs->syncs.nr_told != fs->syncs.nr_losses;
	fs->syncs.nr_told = fs->syncs.nr_losses;
	pthread_mutex_unlock(&fs->lock);
	return is_lost ? error_fail(-AFAR_EUNSYNCED,
				    "sync file system '%s': a server, or its device, failed before "
				    "what was written was durable; write it again",
				    fs->ns->name)
		       : 0;
}

PUBLIC_CALL_OF_CALLS(int, afar_fs_shrink,
		     (struct afar_session *session, const char *name, uint64_t *released),
		     (session, name, released))
{
	struct afar_namespace *ns;
	int ret = fs_check_name(session, name);

	if (ret == 0)
		ret = namespace_open(session, NAMESPACE_FILES, name, &ns);
	if (ret)
		return ret;
	ret = afar_namespace_release(ns, UINT64_MAX, released);
	afar_namespace_close(ns);
	return ret;
}

PUBLIC_CALL(int, afar_fs_sync, (struct afar_fs *fs), (fs))
{
	int ret = fs_enter(fs);

	if (ret)
		return ret;
	ret = fs_sync_pool(fs);
	if (ret == 0)
		ret = tell_losses(fs);
	handle_unuse(&fs->handle);
	return ret;
}

PUBLIC_CALL(int, afar_fs_sync_others, (struct afar_fs *fs), (fs))
{
	int ret = fs_enter(fs);

	if (ret)
		return ret;
	fs->has_other_writers = true;
	handle_unuse(&fs->handle);
	return 0;
}

/* Tells the lines, each ended by 0. */
static int say_lines(const ProtobufCBinaryData *lines, afar_fs_say say, void *argument)
{
	const char *at = (const char *)lines->data, *end = at + lines->len;
	int nr = 0;

	if (lines->len && end[-1])
		return error_fail(-AFAR_EMALFORMED,
				  "check a file system: the manager's last line has no end");
	for (; at < end; at += strlen(at) + 1) {
		say(argument, at);
		nr++;
	}
	return nr;
}

PUBLIC_CALL(int, afar_fs_check, (struct afar_fs *fs, afar_fs_say say, void *argument),
	    (fs, say, argument))
{
	Afar__FileSystemCheck check = AFAR__FILE_SYSTEM_CHECK__INIT;
	struct fs_answer answer;
	int ret = fs_enter(fs);

	if (ret)
		return ret;
	ret = say ? fs_look_one(fs, NULL, FILE_LOOK(CHECK, check, &check), &answer)
		  : error_fail(-EINVAL, "check a file system: there is nobody to tell");
	if (ret == 0) {
		ret = say_lines(&answer.results[0]->data, say, argument);
		fs_answer_free(&answer);
	}
	handle_unuse(&fs->handle);
	return ret;
}

/* ---- Making and ending */

/* Deletes what could not be finished, and keeps the error. */
static int undo_create(struct afar_session *session, const char *name, int status)
{
	char why[ERROR_LINE_BYTES];

	strncpy(why, error_last_line(), sizeof(why) - 1);
	why[sizeof(why) - 1] = '\0';
	namespace_end(session, name, AFAR_DELETE_REGIONS, NAMESPACE_FILES);
	return error_fail(status, "%s", why);
}

PUBLIC_CALL_OF_CALLS(int, afar_fs_create,
		     (struct afar_session *session, const char *name,
		      const struct afar_fs_policy *given, struct afar_fs **out),
		     (session, name, given, out))
{
	struct afar_fs_policy policy = {0};
	struct namespace_wish wish = {.name = name, .kind = NAMESPACE_FILES};
	struct afar_namespace *ns;
	int ret = fs_check_name(session, name);

	if (ret == 0 && given)
		ret = ABI_TAKE(&policy, given, afar_fs_policy, max_inodes);
	if (ret)
		return ret;
	if (policy.reserved || policy.mode > 07777U)
		return error_fail(-EINVAL,
				  "create file system '%s': the root's mode is 0%o, or what is "
				  "reserved is not 0",
				  name, policy.mode);
	wish.policy = policy.pool;
	wish.root_uid = policy.uid;
	wish.root_gid = policy.gid;
	wish.root_mode = policy.mode != 0 ? policy.mode : 0755U;
	wish.max_inodes = policy.max_inodes;
	ret = namespace_make(session, &wish, &ns);
	if (ret)
		return ret;
	ret = fs_make_pool(ns);
	afar_namespace_close(ns);
	if (ret)
		return undo_create(session, name, ret);
	/* It is there, and may be others' already: it stays also if it cannot be opened. */
	return out ? afar_fs_open(session, name, NULL, out) : 0;
}

PUBLIC_CALL(int, afar_fs_delete, (struct afar_session *session, const char *name), (session, name))
{
	int ret = fs_check_name(session, name);

	return ret ? ret : namespace_end(session, name, AFAR_DELETE_REGIONS, NAMESPACE_FILES);
}

/* ---- Opening and closing */

static struct afar_fs *fs_new(struct afar_namespace *ns, const struct afar_fs_options *options)
{
	static _Atomic uint64_t nr_instances;
	struct afar_fs *fs = handle_new(HANDLE_FS, sizeof(*fs));

	if (!fs)
		return NULL;
	fs->instance = atomic_fetch_add(&nr_instances, 1) + 1;
	fs->ns = ns;
	fs->is_read_only = options->flags & AFAR_FS_READ_ONLY;
	fs->retry_ns = (uint64_t)options->retry_ms * 1000000U;
	pthread_mutex_init(&fs->growing, NULL);
	pthread_mutex_init(&fs->lock, NULL);
	pthread_cond_init(&fs->changed, NULL);
	CDS_INIT_LIST_HEAD(&fs->holds);
	kept_init(&fs->kept);
	CDS_INIT_LIST_HEAD(&fs->lock_waits);
	for (unsigned i = 0; i < FS_BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&fs->inodes[i]);
	writes_init(&fs->writes);
	attr_cache_init(&fs->attr_cache);
	used_init(&fs->used, options);
	closings_init(&fs->closings);
	drops_init(&fs->drops, options);
	fs_work_init(&fs->work);
	fs_streams_init(&fs->streams);
	return fs;
}

static void fs_destroy(struct afar_fs *fs)
{
	fs_work_end(fs);
	fs_streams_end(&fs->streams);
	closings_free(&fs->closings);
	attr_cache_free(&fs->attr_cache);
	kept_free(&fs->kept);
	used_free(&fs->used);
	writes_free(&fs->writes);
	pthread_cond_destroy(&fs->changed);
	pthread_mutex_destroy(&fs->lock);
	pthread_mutex_destroy(&fs->growing);
}

/* Finds the root. */
static int look_at_root(struct afar_fs *fs)
{
	Afar__Frame *reply;
	int ret = namespace_look(fs->ns->session, NAMESPACE_FILES, fs->ns->name, &reply);

	if (ret)
		return ret;
	fs->root = reply->reply->namespace_info->files->root;
	rpc_frame_free(reply);
	return fs->root != 0 ? 0
			     : error_fail(-AFAR_EMALFORMED,
					  "open file system '%s': the manager says it has no root",
					  fs->ns->name);
}

static int open_in(struct afar_namespace *ns, const struct afar_fs_options *options,
		   struct afar_fs **out)
{
	struct afar_fs *fs = fs_new(ns, options);
	int ret;

	if (!fs)
		return error_code(-ENOMEM);
	ret = look_at_root(fs);
	if (ret == 0)
		ret = fs_join_session(fs);
	if (ret)
		goto out_destroy;
	ret = region_open_volume(ns, fs->is_read_only ? MODE_READ_ONLY : MODE_SHARED, 0,
				 &fs->region);
	if (ret)
		goto out_leave;
	if (options->flags & AFAR_FS_SYNC_ALL)
		apart_owe_syncs(fs_pool(fs));
	ret = fs->used.is_on ? fs_reclaim_uses(fs) : 0;
	if (ret)
		goto out_region;
	*out = fs;
	return 0;

out_region:
	afar_region_close(fs->region);
out_leave:
	fs_leave_session(fs);
	fs_await_recalls(fs);
	drops_end(&fs->drops);
out_destroy:
	fs_destroy(fs);
	handle_discard(fs);
	return ret;
}

PUBLIC_CALL_OF_CALLS(int, afar_fs_open,
		     (struct afar_session *session, const char *name,
		      const struct afar_fs_options *given, struct afar_fs **out),
		     (session, name, given, out))
{
	struct afar_fs_options options = {0};
	struct afar_namespace *ns;
	int ret = fs_check_name(session, name);

	if (ret == 0 && given)
		ret = ABI_TAKE(&options, given, afar_fs_options, retry_ms);
	if (ret)
		return ret;
	if (!out || (options.flags & ~(AFAR_FS_READ_ONLY | AFAR_FS_COUNT_USES | AFAR_FS_SYNC_ALL |
				       AFAR_FS_KEEP_PAGES)))
		return error_fail(-EINVAL,
				  "open file system '%s': out is null, or flags are unknown", name);
	if (!(options.flags & AFAR_FS_KEEP_PAGES) != !options.drop)
		return error_fail(-EINVAL,
				  "open file system '%s': AFAR_FS_KEEP_PAGES and drop go together",
				  name);
	ret = namespace_open(session, NAMESPACE_FILES, name, &ns);
	if (ret)
		return ret;
	ret = open_in(ns, &options, out);
	if (ret)
		afar_namespace_close(ns);
	return ret;
}

PUBLIC_CALL_OF_CALLS(int, afar_fs_close, (struct afar_fs *fs), (fs))
{
	int ret = fs_check_handle(fs);

	if (ret)
		return ret;
	closings_flush_last(fs);
	ret = handle_close(fs, HANDLE_FS);
	if (ret == -EBUSY)
		return error_fail(ret,
				  "close file system '%s': files of it are open, or calls "
				  "are under way",
				  fs->ns->name);
	if (ret)
		return error_fail(ret, "close a file system: it is closed already");
	fs_streams_await(&fs->streams);
	closings_stop(fs);
	kept_drop(fs, 0);
	ret = afar_region_close(fs->region);
	if (ret) {
		handle_reopen(fs, HANDLE_FS);
		return ret;
	}
	fs_leave_session(fs);
	fs_await_recalls(fs);
	drops_end(&fs->drops);
	afar_namespace_close(fs->ns);
	fs_destroy(fs);
	handle_retire(fs);
	return 0;
}
