/* SPDX-License-Identifier: BSD-3-Clause */
/* Inodes that this process has open: finding them, and keeping what the manager tells of them. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "client/files/file.h"
#include "client/files/inode/fs_call.h"

#define NEAR_AFTER 4 /* reads and writes that went the long way */

/* ---- The table */

static struct cds_list_head *bucket_of(struct afar_fs *fs, uint64_t ino)
{
	return &fs->inodes[ino % FS_BUCKETS];
}

struct file_inode *inode_cached(struct afar_fs *fs, uint64_t ino)
{
	struct file_inode *inode;

	cds_list_for_each_entry (inode, bucket_of(fs, ino), node)
		if (inode->ino == ino)
			return inode;
	return NULL;
}

static struct file_inode *inode_new(struct afar_fs *fs, uint64_t ino)
{
	struct file_inode *inode = calloc(1, sizeof(*inode));
	pthread_condattr_t monotonic;

	if (!inode) {
		error_code(-ENOMEM);
		return NULL;
	}
	inode->fs = fs;
	inode->ino = ino;
	atomic_init(&inode->nr_references, 1);
	CDS_INIT_LIST_HEAD(&inode->locks);
	CDS_INIT_LIST_HEAD(&inode->kept_holds);
	CDS_INIT_LIST_HEAD(&inode->targets);
	streams_init(&inode->streams);
	pthread_mutex_init(&inode->appending, NULL);
	pthread_mutex_init(&inode->extending, NULL);
	pthread_mutex_init(&inode->lock, NULL);
	pthread_cond_init(&inode->told, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&inode->gate_changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	cds_list_add(&inode->node, bucket_of(fs, ino));
	writes_attach(inode);
	return inode;
}

static void inode_free(struct file_inode *inode)
{
	view_close(&inode->view);
	file_map_free(&inode->map);
	file_ahead_end(&inode->ahead);
	streams_free(&inode->streams);
	file_around_end(&inode->around);
	pthread_cond_destroy(&inode->told);
	pthread_mutex_destroy(&inode->lock);
	pthread_mutex_destroy(&inode->extending);
	pthread_mutex_destroy(&inode->appending);
	pthread_cond_destroy(&inode->gate_changed);
	free(inode);
}

void inode_ref(struct file_inode *inode)
{
	atomic_fetch_add(&inode->nr_references, 1);
}

void inode_unref(struct file_inode *inode)
{
	if (atomic_fetch_sub(&inode->nr_references, 1) == 1)
		inode_free(inode);
}

struct file_inode *inode_get(struct afar_fs *fs, uint64_t ino)
{
	struct file_inode *inode;

	pthread_mutex_lock(&fs->lock);
	while ((inode = inode_cached(fs, ino)) && inode->is_ending)
		pthread_cond_wait(&fs->changed, &fs->lock);
	if (!inode)
		inode = inode_new(fs, ino);
	if (inode)
		inode->nr_users++;
	pthread_mutex_unlock(&fs->lock);
	return inode;
}

struct file_inode *inode_find(struct afar_fs *fs, uint64_t ino)
{
	struct file_inode *inode;

	pthread_mutex_lock(&fs->lock);
	inode = inode_cached(fs, ino);
	if (inode && inode->is_ending)
		inode = NULL;
	if (inode) {
		inode->nr_users++;
		fs->nr_recalls++;
	}
	pthread_mutex_unlock(&fs->lock);
	return inode;
}

/* ---- Gates */

void inode_enter(struct file_inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	while (inode->is_shut)
		pthread_cond_wait(&inode->gate_changed, &inode->lock);
	inode->nr_inside++;
	pthread_mutex_unlock(&inode->lock);
}

bool inode_try_enter(struct file_inode *inode)
{
	bool is_inside;

	pthread_mutex_lock(&inode->lock);
	is_inside = !inode->is_shut;
	inode->nr_inside += is_inside;
	pthread_mutex_unlock(&inode->lock);
	return is_inside;
}

void inode_leave(struct file_inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	if (--inode->nr_inside == 0 && inode->is_shut)
		pthread_cond_broadcast(&inode->gate_changed);
	pthread_mutex_unlock(&inode->lock);
}

uint64_t inode_shut_deadline(const struct file_inode *inode)
{
	return session_deadline(inode->fs->ns->session);
}

/* Returns how many operations on queues may have something posted. The lock is held. */
static unsigned nr_posted(struct file_inode *inode)
{
	struct afar_file *file;
	unsigned nr = 0;

	cds_list_for_each_entry (file, &inode->targets, target_node)
		nr += file_nr_posted(file);
	return nr;
}

/* Has operations on queues begin nothing from now on: they see the bit, because it is in the word that they are counted
 * in. The lock is held. */
static void hold_up_queues(struct file_inode *inode)
{
	struct afar_file *file;

	if (inode->nr_holding_up++ != 0)
		return;
	cds_list_for_each_entry (file, &inode->targets, target_node)
		atomic_fetch_or(&file->target.handle.nr_users, HANDLE_GATE);
}

static void let_queues_go_on(struct file_inode *inode)
{
	struct afar_file *file;

	if (--inode->nr_holding_up != 0)
		return;
	cds_list_for_each_entry (file, &inode->targets, target_node)
		atomic_fetch_and(&file->target.handle.nr_users, ~HANDLE_GATE);
}

/* Waits until the gate has changed. False: the time is over. The lock is held. */
static bool wait_gate(struct file_inode *inode, uint64_t deadline)
{
	const struct timespec until = {
		.tv_sec = (time_t)(deadline / 1000000000U),
		.tv_nsec = (long)(deadline % 1000000000U),
	};

	if (deadline == CLOCK_NEVER)
		return pthread_cond_wait(&inode->gate_changed, &inode->lock) == 0;
	return pthread_cond_timedwait(&inode->gate_changed, &inode->lock, &until) == 0;
}

void inode_wake(struct file_inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	pthread_cond_broadcast(&inode->gate_changed);
	pthread_mutex_unlock(&inode->lock);
}

int inode_fail_in_doubt(uint64_t ino)
{
	return error_fail(-EBUSY,
			  "change inode %llu: a server that does not answer may still carry out a "
			  "write whose connection has ended; see 'afar status'",
			  (unsigned long long)ino);
}

/* Has servers close connections that ended under writes, so that none of these can land any more. */
static int settle(struct file_inode *inode)
{
	struct afar_target *pool = fs_pool(inode->fs);

	if (!target_is_in_doubt(pool))
		return 0;
	target_settle_all(pool, session_deadline(pool->session));
	return target_is_in_doubt(pool) ? inode_fail_in_doubt(inode->ino) : 0;
}

/* Waits until operations on queues have nothing posted. Meanwhile blocking calls go on, because a thread that makes one may be
 * the one that has to reap. -EBUSY: it has not, until the deadline. The lock is held. */
static int drain_queues(struct file_inode *inode, uint64_t deadline)
{
	bool is_in_time = true;

	hold_up_queues(inode);
	while (nr_posted(inode) != 0 && is_in_time)
		is_in_time = wait_gate(inode, deadline);
	if (nr_posted(inode) == 0)
		return 0;
	let_queues_go_on(inode);
	return error_fail(
		-EBUSY,
		"change inode %llu of '%s': operations on it are in flight on queues of this "
		"process, and nobody reaps them; reap them first",
		(unsigned long long)inode->ino, inode->fs->ns->name);
}

int inode_shut(struct file_inode *inode, uint64_t deadline)
{
	int ret;

	pthread_mutex_lock(&inode->lock);
	ret = drain_queues(inode, deadline);
	if (ret) {
		pthread_mutex_unlock(&inode->lock);
		return ret;
	}
	while (inode->is_shut)
		pthread_cond_wait(&inode->gate_changed, &inode->lock);
	inode->is_shut = true;
	inode->has_been_shut = true;
	while (inode->nr_inside != 0)
		pthread_cond_wait(&inode->gate_changed, &inode->lock);
	pthread_mutex_unlock(&inode->lock);
	ret = settle(inode) ?: inode_know_end(inode);
	if (ret) {
		inode_reopen(inode);
		return ret;
	}
	view_close(&inode->view);
	streams_drop(&inode->streams, 0, UINT64_MAX);
	return 0;
}

void inode_reopen(struct file_inode *inode)
{
	/* Comes first, because each thread that enters has to see it. */
	inode_set_outdated(inode->fs, inode->ino);
	pthread_mutex_lock(&inode->lock);
	inode->is_shut = false;
	let_queues_go_on(inode);
	pthread_cond_broadcast(&inode->gate_changed);
	pthread_mutex_unlock(&inode->lock);
}

/* ---- What is forgotten and remembered */

static void show(struct file_inode *inode)
{
	view_refresh(&inode->view, &inode->lock, &inode->map, &inode->size);
}

void inode_show_near(struct file_inode *inode)
{
	/* An inode that is used a few times and closed would wait for epoch sections, for nothing. */
	if (atomic_load_explicit(&fs_pool(inode->fs)->same_host, memory_order_relaxed) &&
	    atomic_fetch_add_explicit(&inode->nr_long_ways, 1, memory_order_relaxed) >= NEAR_AFTER)
		show(inode);
}

void inode_show(struct file_inode *inode)
{
	if (!inode_try_enter(inode))
		return;
	show(inode);
	inode_leave(inode);
}

void inode_forget(struct file_inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	file_map_free(&inode->map);
	file_ahead_end(&inode->ahead);
	file_around_end(&inode->around);
	ends_forget(&inode->ends);
	pthread_mutex_unlock(&inode->lock);
}

bool inode_leave_users(struct file_inode *inode)
{
	struct afar_fs *fs = inode->fs;
	bool is_last;

	pthread_mutex_lock(&fs->lock);
	is_last = --inode->nr_users == 0;
	if (is_last) {
		cds_list_del(&inode->node);
		writes_detach(inode);
		if (atomic_load(&inode->has_grown) || inode->has_been_shut)
			fs->outdated[inode->ino % FS_BUCKETS] = ++fs->nr_outdated;
		pthread_cond_broadcast(&fs->changed);
	}
	pthread_mutex_unlock(&fs->lock);
	return is_last;
}

void inode_put(struct file_inode *inode)
{
	if (inode_leave_users(inode))
		inode_unref(inode);
}

bool inode_end(struct file_inode *inode)
{
	bool is_last;

	pthread_mutex_lock(&inode->fs->lock);
	is_last = inode->nr_users == 1;
	inode->is_ending = is_last;
	pthread_mutex_unlock(&inode->fs->lock);
	return is_last;
}

void inode_go_on(struct file_inode *inode)
{
	pthread_mutex_lock(&inode->fs->lock);
	inode->is_ending = false;
	pthread_cond_broadcast(&inode->fs->changed);
	pthread_mutex_unlock(&inode->fs->lock);
}

bool inode_is_alone(struct file_inode *inode)
{
	bool is_alone;

	pthread_mutex_lock(&inode->fs->lock);
	is_alone = inode->nr_users == 1;
	pthread_mutex_unlock(&inode->fs->lock);
	return is_alone;
}

bool inode_is_only_writer(struct file_inode *inode)
{
	bool is_only;

	pthread_mutex_lock(&inode->fs->lock);
	is_only = inode->nr_writers == 1 && inode->nr_users != 1;
	pthread_mutex_unlock(&inode->fs->lock);
	return is_only;
}

bool inode_has_spare(struct file_inode *inode)
{
	bool has_spare;

	if (!atomic_load(&inode->has_grown))
		return false;
	pthread_mutex_lock(&inode->lock);
	/* Runs that it has forgotten may be behind the end. */
	has_spare = inode->has_been_shut || file_around_gives(&inode->around) ||
		    file_map_find(&inode->map, file_units_up(inode->size)) != NULL;
	pthread_mutex_unlock(&inode->lock);
	return has_spare;
}

bool inode_is_written(struct file_inode *inode)
{
	return atomic_load(&inode->has_grown) || atomic_load(&inode->touched) != INODE_UNTOUCHED;
}

void inode_set_outdated(struct afar_fs *fs, uint64_t ino)
{
	pthread_mutex_lock(&fs->lock);
	fs->outdated[ino % FS_BUCKETS] = ++fs->nr_outdated;
	pthread_mutex_unlock(&fs->lock);
}

uint64_t inode_count_outdated(struct afar_fs *fs)
{
	uint64_t nr;

	pthread_mutex_lock(&fs->lock);
	nr = fs->nr_outdated;
	pthread_mutex_unlock(&fs->lock);
	return nr;
}

/* ---- Writes that the manager has not been told of */

void inode_touch(struct file_inode *inode)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	atomic_store_explicit(&inode->written_at, now.tv_sec * 1000000000LL + now.tv_nsec,
			      memory_order_relaxed);
	atomic_store_explicit(&inode->touched, INODE_UNTOLD, memory_order_release);
	if (atomic_load_explicit(&inode->kept, memory_order_relaxed) == INODE_KEPT)
		atomic_store(&inode->kept, INODE_KEPT_OLD);
}

/* Changes what the manager knows of writes, if the inode is open and that is `from`. */
static bool change_touched(struct afar_fs *fs, uint64_t ino, enum inode_touched from,
			   enum inode_touched to)
{
	struct file_inode *inode;
	bool is_changed;

	pthread_mutex_lock(&fs->lock);
	inode = inode_cached(fs, ino);
	is_changed = inode && atomic_compare_exchange_strong(&inode->touched, &from, to);
	pthread_mutex_unlock(&fs->lock);
	return is_changed;
}

bool inode_untouch(struct afar_fs *fs, uint64_t ino)
{
	return change_touched(fs, ino, INODE_UNTOLD, INODE_TOLD) ||
	       change_touched(fs, ino, INODE_TELLING, INODE_TOLD);
}

void inode_touch_again(struct afar_fs *fs, uint64_t ino)
{
	change_touched(fs, ino, INODE_TOLD, INODE_UNTOLD);
}

bool inode_begin_telling(struct afar_fs *fs, uint64_t ino, Afar__FileEnd *message,
			 int64_t *written_at)
{
	enum inode_touched untold = INODE_UNTOLD;
	struct file_inode *inode;
	bool is_begun;

	pthread_mutex_lock(&fs->lock);
	inode = inode_cached(fs, ino);
	/* First, because a commit that finds the inode being told takes this number. */
	if (inode && atomic_load(&inode->touched) == INODE_UNTOLD) {
		message->number = atomic_fetch_add(&fs->ns->session->nr_tellings, 1) + 1;
		atomic_store(&inode->telling, message->number);
	}
	is_begun = inode && message->number != 0 &&
		   atomic_compare_exchange_strong(&inode->touched, &untold, INODE_TELLING);
	if (is_begun) {
		*written_at = atomic_load(&inode->written_at);
		message->ino = ino;
		pthread_mutex_lock(&inode->lock);
		message->end = inode->end;
		message->layout = inode->layout;
		message->voids_slot = inode->ends.has_failed;
		if (message->gives_end)
			ends_begin_giving(&inode->ends);
		pthread_mutex_unlock(&inode->lock);
	}
	pthread_mutex_unlock(&fs->lock);
	return is_begun;
}

void inode_end_telling(struct afar_fs *fs, uint64_t ino, uint64_t number, bool is_told)
{
	enum inode_touched telling = INODE_TELLING;
	struct file_inode *inode;

	pthread_mutex_lock(&fs->lock);
	inode = inode_cached(fs, ino);
	/* Else it was written again, and that is being told. */
	if (inode && atomic_load(&inode->telling) == number)
		atomic_compare_exchange_strong(&inode->touched, &telling,
					       is_told ? INODE_TOLD : INODE_UNTOLD);
	pthread_mutex_unlock(&fs->lock);
}

/* Returns whether it was written, and the manager may not know when. The fs's lock is held. */
static bool is_untold(struct file_inode *inode)
{
	return atomic_load(&inode->touched) >= INODE_TELLING || inode->commits;
}

bool inode_is_changing(struct afar_fs *fs, uint64_t ino)
{
	struct file_inode *inode;
	bool is_changing;

	pthread_mutex_lock(&fs->lock);
	inode = inode_cached(fs, ino);
	is_changing = inode && (is_untold(inode) || atomic_load(&inode->touched) == INODE_TOLD ||
				(inode->nr_writers != 0 && inode_has_spare(inode)));
	pthread_mutex_unlock(&fs->lock);
	return is_changing;
}

void inode_add_writes(struct afar_fs *fs, struct afar_file_stat *stat)
{
	struct file_inode *inode;
	int64_t written_at = INT64_MIN;

	pthread_mutex_lock(&fs->lock);
	inode = inode_cached(fs, stat->ino);
	if (inode && is_untold(inode))
		written_at = atomic_load(&inode->written_at);
	if (inode)
		inode_add_end(inode, stat);
	pthread_mutex_unlock(&fs->lock);
	if (stat->mtime < written_at)
		stat->mtime = written_at;
	if (stat->ctime < written_at)
		stat->ctime = written_at;
}

/* ---- What the manager tells */

static int check_runs(struct afar_fs *fs, const Afar__FileResult *result)
{
	struct afar_target *pool = fs_pool(fs);
	int ret = file_map_check(result->runs, result->n_runs, pool->length);

	/* Another session may have made the pool larger. */
	if (ret == -ERANGE) {
		ret = target_look(pool);
		if (ret == 0)
			ret = file_map_check(result->runs, result->n_runs, pool->length);
	}
	return ret == -ERANGE ? error_fail(-AFAR_EMALFORMED, "%s", error_last_line()) : ret;
}

static int check(struct file_inode *inode, const Afar__FileResult *result)
{
	int ret = fs_check_attributes(result->attributes);

	if (ret == 0 && result->attributes->ino != inode->ino)
		ret = error_fail(-AFAR_EMALFORMED,
				 "use inode %llu: the manager answered about another",
				 (unsigned long long)inode->ino);
	return ret == 0 ? check_runs(inode->fs, result) : ret;
}

/* Takes another layout's number and size, and forgets the runs. The inode's lock is held. */
static void change_layout(struct file_inode *inode, const Afar__FileAttributes *attributes)
{
	file_map_free(&inode->map);
	file_ahead_end(&inode->ahead);
	file_around_end(&inode->around);
	ends_forget(&inode->ends);
	inode->layout = attributes->layout;
	inode->size = attributes->size;
	if (inode->end > inode->size)
		inode->end = inode->size;
	if (inode->wanted > inode->size)
		inode->wanted = inode->size;
}

static int take(struct file_inode *inode, const Afar__FileResult *result)
{
	const Afar__FileAttributes *attributes = result->attributes;
	int ret = 0;

	pthread_mutex_lock(&inode->lock);
	if (attributes->layout > inode->layout)
		change_layout(inode, attributes);
	/* A result of an older layout was overtaken. */
	if (attributes->layout == inode->layout) {
		ret = file_map_add(&inode->map, result->runs, result->n_runs);
		inode_take_size(inode, attributes->size);
	}
	pthread_mutex_unlock(&inode->lock);
	return ret;
}

int inode_take(struct file_inode *inode, const Afar__FileResult *result)
{
	int ret = check(inode, result);

	return ret ? ret : take(inode, result);
}

bool inode_is_outdated(struct file_inode *inode, uint64_t before)
{
	struct afar_fs *fs = inode->fs;
	bool is_outdated;

	pthread_mutex_lock(&fs->lock);
	is_outdated = fs->outdated[inode->ino % FS_BUCKETS] > before;
	pthread_mutex_unlock(&fs->lock);
	return is_outdated;
}

int inode_adopt(struct file_inode *inode, const Afar__FileResult *result, uint64_t before)
{
	struct afar_fs *fs = inode->fs;
	bool is_outdated;
	int ret = check(inode, result);

	if (ret)
		return ret;
	pthread_mutex_lock(&fs->lock);
	is_outdated = fs->outdated[inode->ino % FS_BUCKETS] > before;
	if (!is_outdated)
		ret = take(inode, result);
	pthread_mutex_unlock(&fs->lock);
	if (ret || (!is_outdated && !result->is_more))
		return ret;
	inode_enter(inode);
	ret = inode_fetch(inode, 0, UINT64_MAX);
	inode_leave(inode);
	return ret;
}

int inode_retake(struct file_inode *inode, const Afar__FileResult *result)
{
	int ret = check(inode, result);

	if (ret)
		return ret;
	pthread_mutex_lock(&inode->lock);
	/* Others may have made it shorter just before, so what is left of the runs is not known. */
	if (result->attributes->layout != inode->layout)
		change_layout(inode, result->attributes);
	inode->size = result->attributes->size;
	ret = file_map_add(&inode->map, result->runs, result->n_runs);
	pthread_mutex_unlock(&inode->lock);
	return ret;
}

/* Returns where the runs of a result end, in bytes of the file. */
static uint64_t end_of_runs(const Afar__FileResult *result)
{
	const uint64_t *last = result->n_runs != 0 ? &result->runs[result->n_runs - 3] : NULL;

	return last ? (last[0] + last[2]) * FILE_UNIT : 0;
}

/* Asks for some of a range. Gives where the rest begins; the range's end: there is none. */
static int fetch_some(struct file_inode *inode, uint64_t *offset, uint64_t end)
{
	Afar__FileMap map = AFAR__FILE_MAP__INIT;
	struct fs_answer answer;
	int ret;

	map.ino = inode->ino;
	map.offset = *offset;
	map.length = end - *offset;
	ret = fs_look_one(inode->fs, NULL, FILE_LOOK(MAP, map, &map), &answer);
	if (ret)
		return ret;
	ret = inode_take(inode, answer.results[0]);
	if (ret == 0 && answer.results[0]->is_more && end_of_runs(answer.results[0]) <= *offset)
		ret = error_fail(-AFAR_EMALFORMED,
				 "read where a file is: the manager says nothing new");
	if (ret == 0)
		*offset = answer.results[0]->is_more ? end_of_runs(answer.results[0]) : end;
	fs_answer_free(&answer);
	return ret;
}

int inode_fetch(struct file_inode *inode, uint64_t offset, uint64_t length)
{
	uint64_t end = length < UINT64_MAX - offset ? offset + length : UINT64_MAX;
	int ret;

	do
		ret = fetch_some(inode, &offset, end);
	while (ret == 0 && offset < end);
	return ret;
}

int inode_look(struct file_inode *inode)
{
	Afar__FileStat stat = AFAR__FILE_STAT__INIT;
	struct fs_answer answer;
	int ret;

	stat.ino = inode->ino;
	ret = fs_look_one(inode->fs, NULL, FILE_LOOK(STAT, stat, &stat), &answer);
	if (ret)
		return ret;
	ret = inode_take(inode, answer.results[0]);
	fs_answer_free(&answer);
	return ret;
}
