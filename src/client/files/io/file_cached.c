/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files read through a program's cache (client/cache/cache.h). Bytes of a file are good as long as the manager promises
 * to ask us before another session changes it: attr_cache_since(). And this session must not have opened it to write. While it
 * has it open to write, nothing of it is read from the cache.
 */
#include <errno.h>
#include <limits.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/cache/cache.h"
#include "client/files/file.h"
#include "client/files/inode/fs_quiet.h"

#define PROMISE_MS   50 /* how long the manager is asked for one */
#define ASK_AGAIN_NS ((uint64_t)1000 * 1000000U)

/* Returns whether this session may write the inode now. */
static bool is_written_here(struct file_inode *inode, uint64_t *nr_writings)
{
	struct afar_fs *fs = inode->fs;
	bool is;

	pthread_mutex_lock(&fs->lock);
	is = inode->nr_writers != 0;
	*nr_writings = fs->nr_writings[inode->ino % FS_BUCKETS];
	pthread_mutex_unlock(&fs->lock);
	return is;
}

/* Returns the promise's number. 0: there is none, and the manager was asked not long ago. */
static uint64_t promise(struct afar_file *file)
{
	uint64_t since = attr_cache_since(&file->fs->attr_cache, file->inode->ino);
	uint64_t asked_at = atomic_load(&file->promise_asked_at);
	const uint64_t now = since != 0 ? 0 : clock_coarse_ns();

	if (since != 0 || now < asked_at + ASK_AGAIN_NS)
		return since;
	if (!atomic_compare_exchange_strong(&file->promise_asked_at, &asked_at, now))
		return 0;
	/* The first answer after others' changes may tell of the delegation alone. */
	for (unsigned i = 0; i < 2 && since == 0; i++)
		since = fs_promise_quiet(file->fs, file->inode->ino, PROMISE_MS);
	if (since != 0)
		atomic_store(&file->promise_asked_at, 0);
	return since;
}

/* Less than was asked for: it has become shorter, and is read in the ordinary way. */
static int read_file(void *argument, void *data, size_t length, uint64_t offset)
{
	const struct afar_file_vector vector = {.offset = offset, .data = data, .length = length};
	ssize_t ret = file_read(argument, &vector, 1);

	if (ret < 0)
		return (int)ret;
	return (size_t)ret == length ? 0 : -EAGAIN;
}

/* Says what its bytes are called now, and how many it has. False: they may change. */
static bool is_quiet(struct afar_cache *cache, struct afar_file *file, struct cache_source *out)
{
	struct afar_fs *fs = file->fs;
	struct afar_file_stat stat = {.size = sizeof(stat)};
	struct cache_name name = {.fs = fs->instance, .ino = file->inode->ino};

	name.since = promise(file);
	if (name.since == 0 || is_written_here(file->inode, &name.nr_writings) ||
	    attr_cache_stat(fs, name.ino, &stat) != 0 ||
	    attr_cache_since(&fs->attr_cache, name.ino) != name.since)
		return false;
	*out = (struct cache_source){cache_range_of(cache, &name), stat.bytes, read_file, file};
	return stat.bytes / CACHE_BLOCK < UINT32_MAX;
}

static ssize_t read_through(struct afar_cache *cache, struct afar_file *file, void *data,
			    size_t length, uint64_t offset)
{
	struct cache_source source;
	int ret = file_check(file, R_OK, "read");

	if (ret)
		return ret;
	if (!data || length > SSIZE_MAX || !is_quiet(cache, file, &source))
		goto past;
	if (offset >= source.length)
		return 0;
	if (length > source.length - offset)
		length = source.length - offset;
	ret = cache_read(cache, &source, data, length, offset);
	if (ret != -EAGAIN)
		return ret ? ret : (ssize_t)length;
past:
	atomic_fetch_add(&cache->nr_past, length / CACHE_BLOCK + 1);
	return afar_file_pread(file, data, length, offset);
}

PUBLIC_CALL_OF_CALLS(ssize_t, afar_cache_read_file,
		     (struct afar_cache *cache, struct afar_file *file, void *data, size_t length,
		      uint64_t offset),
		     (cache, file, data, length, offset))
{
	ssize_t ret = cache_enter(cache);

	if (ret)
		return ret;
	ret = file_enter(file);
	if (ret)
		goto out;
	ret = file->fs->ns->session == cache->session
		      ? read_through(cache, file, data, length, offset)
		      : error_fail(-EINVAL,
				   "read a file through a cache: it is of another session");
	handle_unuse(&file->handle);
out:
	handle_unuse(&cache->handle);
	return ret;
}
