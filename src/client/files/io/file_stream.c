/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading ahead; see file_stream.h. Called by blocking reads and writes of files, and by the threads that it starts.
 *
 * A thread fills a block as a read would, from inside the inode's gate. It needs the manager's promise that nobody else
 * writes (afar_fs_quiet_since()), and asks for it if need be, for a moment.
 * When that fails, the window is closed, and the program's reads go the ordinary way, which says what is wrong.
 */
#include "client/files/io/file_stream.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/epoch.h"
#include "base/error.h"
#include "client/base/call.h"
#include "client/files/file.h"
#include "client/files/inode/fs_quiet.h"
#include "client/files/inode/stream.h"

#define BUDGET_BYTES ((int64_t)64 << 20)
#define PROMISE_MS   100
#define WAIT_MS	     1000 /* for a block that is coming */
#define FILLS_MAX    2U /* of one stream at a time: others need threads, too, if its server is away */

struct file_stream {
	struct stream stream;
	struct cds_list_head waiting_node; /* guarded by the fs_streams's lock, as the next three */
	bool is_waiting;
	bool is_left; /* its file is closed */
	unsigned nr_filling;
	struct file_inode *inode;
	file_read_ahead *read;
};

/*
 * How much is read ahead at most, and for requests up to which size, by tier. Transports make no difference. Windows of 8 MiB
 * gain little, those of 1 MiB lose half. Longer requests keep a store busy by themselves.
 */
static const struct {
	size_t window, request;
} limits[] = {
	[false] = {(size_t)4 << 20, (size_t)64 << 10},
	[true] = {(size_t)4 << 20, (size_t)128 << 10}, /* on flash */
};

/* ---- Filling */

static ssize_t fill(const struct file_stream *stream, const struct stream_fill *fill,
		    uint64_t *since)
{
	struct file_inode *inode = stream->inode;

	*since = fs_promise_quiet(inode->fs, inode->ino, PROMISE_MS);
	return *since ? stream->read(inode, fill->data, fill->length, fill->offset) : 0;
}

/* Has threads look whether a block of it is wanted. The lock is held. */
static void wait_for_thread(struct fs_streams *streams, struct file_stream *stream)
{
	if (!stream->is_waiting)
		cds_list_add_tail(&stream->waiting_node, &streams->waiting);
	stream->is_waiting = true;
}

/* Takes a stream that has a wanted block, and may have it filled. The lock is held. */
static struct file_stream *take(struct fs_streams *streams, struct stream_fill *out)
{
	while (!cds_list_empty(&streams->waiting)) {
		struct file_stream *stream =
			cds_list_first_entry(&streams->waiting, struct file_stream, waiting_node);

		cds_list_del(&stream->waiting_node);
		if (stream->nr_filling < FILLS_MAX && stream_begin_fill(&stream->stream, out)) {
			/* The others come first now. */
			cds_list_add_tail(&stream->waiting_node, &streams->waiting);
			stream->nr_filling++;
			return stream;
		}
		stream->is_waiting = false;
	}
	return NULL;
}

static void free_stream(struct file_stream *stream)
{
	stream_free(&stream->stream);
	free(stream);
}

/* Frees a stream that its file has left. The lock is held, but not meanwhile. */
static void free_left(struct fs_streams *streams, struct file_stream *stream)
{
	pthread_mutex_unlock(&streams->lock);
	inode_unref(stream->inode);
	free_stream(stream);
	pthread_mutex_lock(&streams->lock);
	if (--streams->nr_left == 0)
		pthread_cond_broadcast(&streams->done);
}

/* A thread has filled a block. The lock is held. */
static void end_filling(struct fs_streams *streams, struct file_stream *stream)
{
	stream->nr_filling--;
	if (!stream->is_left)
		wait_for_thread(streams, stream);
	else if (stream->nr_filling == 0)
		free_left(streams, stream);
}

static void *work_on(void *argument)
{
	struct fs_streams *streams = argument;
	struct stream_fill wanted;
	struct file_stream *stream;
	uint64_t since;
	ssize_t ret;

	pthread_mutex_lock(&streams->lock);
	while (!streams->is_ending) {
		stream = take(streams, &wanted);
		if (!stream) {
			streams->nr_idle++;
			pthread_cond_wait(&streams->more, &streams->lock);
			streams->nr_idle--;
			continue;
		}
		pthread_mutex_unlock(&streams->lock);
		ret = fill(stream, &wanted, &since);
		stream_end_fill(&stream->stream, &wanted, ret, since);
		pthread_mutex_lock(&streams->lock);
		end_filling(streams, stream);
	}
	pthread_mutex_unlock(&streams->lock);
	return NULL;
}

/* Starts one more, if there may be more. The lock is held. */
static void start_thread(struct fs_streams *streams)
{
	sigset_t all, old;

	if (streams->nr_threads == STREAM_THREADS_MAX)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&streams->threads[streams->nr_threads], NULL, work_on, streams) == 0)
		streams->nr_threads++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void fs_streams_init(struct fs_streams *streams)
{
	pthread_mutex_init(&streams->lock, NULL);
	pthread_cond_init(&streams->more, NULL);
	pthread_cond_init(&streams->done, NULL);
	CDS_INIT_LIST_HEAD(&streams->waiting);
	atomic_init(&streams->budget, BUDGET_BYTES);
}

void fs_streams_await(struct fs_streams *streams)
{
	pthread_mutex_lock(&streams->lock);
	while (streams->nr_left != 0)
		pthread_cond_wait(&streams->done, &streams->lock);
	pthread_mutex_unlock(&streams->lock);
}

void fs_streams_end(struct fs_streams *streams)
{
	pthread_mutex_lock(&streams->lock);
	streams->is_ending = true;
	pthread_cond_broadcast(&streams->more);
	pthread_mutex_unlock(&streams->lock);
	for (unsigned i = 0; i < streams->nr_threads; i++)
		pthread_join(streams->threads[i], NULL);
	pthread_cond_destroy(&streams->done);
	pthread_cond_destroy(&streams->more);
	pthread_mutex_destroy(&streams->lock);
}

/* Has threads fill what is wanted. */
static void ask_for_more(struct file_stream *stream)
{
	struct file_inode *inode = stream->inode;
	struct fs_streams *streams = &inode->fs->streams;
	bool has_threads;
	uint64_t size;
	unsigned nr;

	pthread_mutex_lock(&inode->lock);
	size = inode->size;
	pthread_mutex_unlock(&inode->lock);
	nr = stream_want(&stream->stream, size);
	if (nr == 0)
		return;
	pthread_mutex_lock(&streams->lock);
	wait_for_thread(streams, stream);
	for (nr = nr < FILLS_MAX ? nr : FILLS_MAX; nr != 0; nr--) {
		if (streams->nr_idle < nr)
			start_thread(streams);
		pthread_cond_signal(&streams->more);
	}
	has_threads = streams->nr_threads != 0;
	pthread_mutex_unlock(&streams->lock);
	if (!has_threads)
		stream_close(&stream->stream);
}

/* ---- Reading */

/* Makes the file's stream, unless another thread has. NULL: no memory. */
static struct file_stream *make_stream(struct afar_file *file, file_read_ahead *read)
{
	struct file_inode *inode = file->inode;
	struct file_stream *stream = calloc(1, sizeof(*stream)), *there = NULL;

	if (!stream)
		return NULL;
	stream->inode = inode;
	stream->read = read;
	stream_init(&stream->stream, limits[fs_pool(file->fs)->is_flash].window,
		    &file->fs->streams.budget);
	streams_add(&inode->streams, &stream->stream);
	/* Writes of near bytes that have begun before say nothing when they end. */
	if (atomic_load(&fs_pool(file->fs)->same_host))
		epoch_wait();
	if (atomic_compare_exchange_strong(&file->reading.stream, &there, stream))
		return stream;
	streams_remove(&inode->streams, &stream->stream);
	free_stream(stream);
	return there;
}

/* Notes where the program reads, and begins to read ahead of it if that is behind its last read. */
static void follow(struct afar_file *file, struct file_stream *stream, size_t length,
		   uint64_t offset, file_read_ahead *read)
{
	const uint64_t next = atomic_load_explicit(&file->reading.next, memory_order_relaxed);

	atomic_store_explicit(&file->reading.next, offset + length, memory_order_relaxed);
	if (next == 0 || !stream_is_next(next, offset, length))
		return;
	if (!stream)
		stream = make_stream(file, read);
	if (!stream)
		return;
	stream_open(&stream->stream, offset + length, length);
	ask_for_more(stream);
}

static enum stream_found look(struct afar_file *file, struct file_stream *stream, void *data,
			      size_t length, uint64_t offset)
{
	const uint64_t deadline = clock_deadline_ms(WAIT_MS);
	enum stream_found found;

	do
		found = stream_read(&stream->stream, data, length, offset,
				    attr_cache_since(&file->fs->attr_cache, file->inode->ino));
	while (found == STREAM_COMING && stream_wait(&stream->stream, offset, length, deadline));
	return found;
}

bool file_stream_read(struct afar_file *file, void *data, size_t length, uint64_t offset,
		      file_read_ahead *read)
{
	struct file_stream *stream = atomic_load(&file->reading.stream);
	enum stream_found found = STREAM_MISS;

	if (!data || length == 0 || length > limits[fs_pool(file->fs)->is_flash].request ||
	    offset > FILE_BYTES_MAX)
		return false;
	if (stream)
		found = look(file, stream, data, length, offset);
	follow(file, stream, length, offset, read);
	return found == STREAM_HIT;
}

void file_stream_end(struct afar_file *file)
{
	struct file_stream *stream = atomic_exchange(&file->reading.stream, NULL);
	struct fs_streams *streams = &file->fs->streams;
	bool is_left;

	if (!stream)
		return;
	/* Nothing is wanted any more. */
	stream_close(&stream->stream);
	streams_remove(&file->inode->streams, &stream->stream);
	pthread_mutex_lock(&streams->lock);
	if (stream->is_waiting)
		cds_list_del(&stream->waiting_node);
	is_left = stream->is_left = stream->nr_filling != 0;
	if (is_left) {
		inode_ref(stream->inode);
		streams->nr_left++;
	}
	pthread_mutex_unlock(&streams->lock);
	if (!is_left)
		free_stream(stream);
}

/* ---- What the program says */

PUBLIC_CALL(int, afar_file_advise, (struct afar_file *file, unsigned advice), (file, advice))
{
	int ret = file_enter(file);

	if (ret)
		return ret;
	if (advice > AFAR_ADVICE_SEQUENTIAL)
		ret = error_fail(-EINVAL, "advise on inode %llu: %u is no advice",
				 (unsigned long long)file->inode->ino, advice);
	if (ret == 0)
		ret = file_check(file, R_OK, "advise on");
	if (ret == 0) {
		struct file_stream *stream = atomic_load(&file->reading.stream);

		atomic_store(&file->reading.is_sequential, advice == AFAR_ADVICE_SEQUENTIAL);
		if (stream && advice != AFAR_ADVICE_SEQUENTIAL)
			stream_close(&stream->stream);
	}
	handle_unuse(&file->handle);
	return ret;
}
