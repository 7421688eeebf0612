/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes that a program is told are durable, or in the file, are so. Another thread may sync, another session may cut the file, or
 * the manager may restart meanwhile. Each case happens at its worst moment here, because the seam below waits for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/forks.h"
#include "client/base/call.h"
#include "client/files/file.h"
#include "client/files/inode/fs_call.h"
#include "client/files/io/file_plan.h"
#include "client/files/io/fs_extend.h"
#include "client/namespace/region.h"
#include "rpc/manager_features.h"
#include "unit/client/meanwhile.h"
#include "unit/group.h"

#define LAYOUT	5U
#define NR_LATE 2U /* threads that sync while another one's sync runs */

static struct afar_session session = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct afar_namespace ns = {.session = &session};
static struct afar_region pool;
static struct afar_fs fs;
static struct file_inode inode;

/* ---- The seams. NULL: calls go where they went. */

int (*answer_hold)(const Afar__FileHold *operation, struct fs_answer *out);
static int (*meanwhile_sync)(void);
static int (*meanwhile_hold)(const Afar__FileHold *operation);
static int (*meanwhile_change)(Afar__FileChange **operations, unsigned nr, struct fs_answer *out);
static int (*meanwhile_look)(struct fs_answer *out);
static int (*meanwhile_transfer)(void);
static const int *tell_status; /* of the answer */
static sem_t *waits;	       /* threads that are about to wait */

int __real_target_sync(struct afar_target *target);
int __wrap_target_sync(struct afar_target *target);
int __real_pthread_cond_wait(pthread_cond_t *changed, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *changed, pthread_mutex_t *lock);
int __real_fs_hold_one(struct afar_fs *of, const struct fs_who *who, Afar__FileHold *operation,
		       struct fs_answer *out);
int __wrap_fs_hold_one(struct afar_fs *of, const struct fs_who *who, Afar__FileHold *operation,
		       struct fs_answer *out);

int __real_session_tell_then(struct afar_session *to, Afar__Request *request, rpc_done *done,
			     void *argument);
int __wrap_session_tell_then(struct afar_session *to, Afar__Request *request, rpc_done *done,
			     void *argument);

int __wrap_session_tell_then(struct afar_session *to, Afar__Request *request, rpc_done *done,
			     void *argument)
{
	Afar__FileResult result = AFAR__FILE_RESULT__INIT, *list = &result;
	Afar__FileResults results = AFAR__FILE_RESULTS__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;
	Afar__Frame frame = AFAR__FRAME__INIT;

	if (!tell_status)
		return __real_session_tell_then(to, request, done, argument);
	result.status = *tell_status;
	results.results = &list;
	results.n_results = 1;
	reply.result_case = AFAR__REPLY__RESULT_FILE_RESULTS;
	reply.file_results = &results;
	frame.reply = &reply;
	done(argument, &frame, 0);
	return 0;
}

int __wrap_target_sync(struct afar_target *target)
{
	return meanwhile_sync ? meanwhile_sync() : __real_target_sync(target);
}

/* The lock is held until the thread waits, so whoever takes it next finds the thread waiting. */
int __wrap_pthread_cond_wait(pthread_cond_t *changed, pthread_mutex_t *lock)
{
	if (waits && changed == &fs.changed)
		sem_post(waits);
	return __real_pthread_cond_wait(changed, lock);
}

int __wrap_fs_hold_one(struct afar_fs *of, const struct fs_who *who, Afar__FileHold *operation,
		       struct fs_answer *out)
{
	if (answer_hold)
		return answer_hold(operation, out);
	return meanwhile_hold ? meanwhile_hold(operation)
			      : __real_fs_hold_one(of, who, operation, out);
}

int __real_fs_change(struct afar_fs *of, const struct fs_who *who, Afar__FileChange **operations,
		     unsigned nr, struct fs_answer *out);
int __wrap_fs_change(struct afar_fs *of, const struct fs_who *who, Afar__FileChange **operations,
		     unsigned nr, struct fs_answer *out);
int __real_fs_change_one(struct afar_fs *of, const struct fs_who *who, Afar__FileChange *operation,
			 struct fs_answer *out);
int __wrap_fs_change_one(struct afar_fs *of, const struct fs_who *who, Afar__FileChange *operation,
			 struct fs_answer *out);
int __real_fs_look_one(struct afar_fs *of, const struct fs_who *who, Afar__FileLook *operation,
		       struct fs_answer *out);
int __wrap_fs_look_one(struct afar_fs *of, const struct fs_who *who, Afar__FileLook *operation,
		       struct fs_answer *out);
int __real_fs_transfer(struct afar_fs *of, uint16_t opcode, uint32_t flags,
		       struct target_piece *pieces, unsigned nr);
int __wrap_fs_transfer(struct afar_fs *of, uint16_t opcode, uint32_t flags,
		       struct target_piece *pieces, unsigned nr);

int __wrap_fs_change(struct afar_fs *of, const struct fs_who *who, Afar__FileChange **operations,
		     unsigned nr, struct fs_answer *out)
{
	return meanwhile_change ? meanwhile_change(operations, nr, out)
				: __real_fs_change(of, who, operations, nr, out);
}

int __wrap_fs_change_one(struct afar_fs *of, const struct fs_who *who, Afar__FileChange *operation,
			 struct fs_answer *out)
{
	return meanwhile_change ? meanwhile_change(&operation, 1, out)
				: __real_fs_change_one(of, who, operation, out);
}

int __wrap_fs_look_one(struct afar_fs *of, const struct fs_who *who, Afar__FileLook *operation,
		       struct fs_answer *out)
{
	return meanwhile_look ? meanwhile_look(out) : __real_fs_look_one(of, who, operation, out);
}

int __wrap_fs_transfer(struct afar_fs *of, uint16_t opcode, uint32_t flags,
		       struct target_piece *pieces, unsigned nr)
{
	return meanwhile_transfer ? meanwhile_transfer()
				  : __real_fs_transfer(of, opcode, flags, pieces, nr);
}

static int setup(void **state)
{
	(void)state;
	pool.target.is_flash = true;
	pool.target.session = &session;
	fs = (struct afar_fs){.ns = &ns, .region = &pool};
	writes_init(&fs.writes);
	pthread_mutex_init(&fs.lock, NULL);
	pthread_cond_init(&fs.changed, NULL);
	inode = (struct file_inode){.ino = 7, .fs = &fs, .layout = LAYOUT};
	pthread_mutex_init(&inode.lock, NULL);
	pthread_cond_init(&inode.told, NULL);
	pthread_cond_init(&inode.gate_changed, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	meanwhile_sync = NULL;
	meanwhile_hold = NULL;
	meanwhile_change = NULL;
	meanwhile_look = NULL;
	meanwhile_transfer = NULL;
	pthread_cond_destroy(&inode.gate_changed);
	pthread_cond_destroy(&inode.told);
	pthread_mutex_destroy(&inode.lock);
	pthread_cond_destroy(&fs.changed);
	pthread_mutex_destroy(&fs.lock);
	writes_free(&fs.writes);
	return 0;
}

#define MEANWHILE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- Syncs. The first one has made durable what was written before it, and then others begin. */

static struct {
	unsigned nr_syncs; /* of the pool */
	unsigned nr_at_end[NR_LATE];
	int status; /* of the second sync */
	int ended[NR_LATE];
	pthread_t threads[NR_LATE];
	sem_t waiting;
} late;

static void *sync_late(void *number)
{
	const uintptr_t i = (uintptr_t)number;

	late.ended[i] = fs_sync_pool(&fs);
	late.nr_at_end[i] = late.nr_syncs;
	return NULL;
}

static int begin_others(void)
{
	if (++late.nr_syncs > 1)
		return late.status;
	for (uintptr_t i = 0; i < NR_LATE; i++)
		assert_int_equal(pthread_create(&late.threads[i], NULL, sync_late, (void *)i), 0);
	for (unsigned i = 0; i < NR_LATE; i++)
		sem_wait(&late.waiting);
	return 0;
}

static void sync_with_others(int status)
{
	late.nr_syncs = 0;
	late.status = status;
	sem_init(&late.waiting, 0, 0);
	waits = &late.waiting;
	meanwhile_sync = begin_others;
	assert_int_equal(fs_sync_pool(&fs), 0);
	for (unsigned i = 0; i < NR_LATE; i++)
		pthread_join(late.threads[i], NULL);
	waits = NULL;
	sem_destroy(&late.waiting);
	/* They have synced anew, once for both. */
	assert_int_equal(late.nr_syncs, 2);
	for (unsigned i = 0; i < NR_LATE; i++) {
		assert_int_equal(late.nr_at_end[i], 2);
		assert_int_equal(late.ended[i], status);
	}
}

static void joins_no_sync_that_has_begun(void **state)
{
	(void)state;
	sync_with_others(0);
	/* So the end of the second is theirs, and not that of the first. */
	sync_with_others(-ENOMEM);
}

/* ---- Ends. The manager is told of one, and its answer comes when the file is another. */

static uint64_t told_end;
static unsigned nr_told;
static bool is_cut;

static int tell(const Afar__FileHold *operation)
{
	told_end = operation->end->end;
	nr_told++;
	if (is_cut)
		inode.layout++;
	return 0;
}

static void writes_again_what_was_cut_meanwhile(void **state)
{
	(void)state;
	nr_told = 0;
	meanwhile_hold = tell;
	is_cut = false;
	assert_int_equal(inode_tell_end(&inode, 100, LAYOUT), 0);
	assert_int_equal(told_end, 100);
	assert_int_equal(inode.size, 100);
	is_cut = true;
	assert_int_equal(inode_tell_end(&inode, 200, LAYOUT), -ESTALE);
	assert_int_equal(inode.size, 100);
	/* It was cut before the manager was told: that one is not. */
	assert_int_equal(inode_tell_end(&inode, 300, LAYOUT), -ESTALE);
	assert_int_equal(nr_told, 2);
	is_cut = false;
	assert_int_equal(inode_tell_end(&inode, 300, LAYOUT + 1), 0);
	assert_int_equal(inode.size, 300);
}

/* ---- Making. The manager restarts before its answer comes, and the next one answers what the first would have. Nobody has
 * told it yet that the file is open, so it may have given back the room that the answer tells of. */

#define INO 9U

static uint64_t old_runs[] = {0, 40, 1};
static Afar__FileAttributes attributes;
static Afar__FileResult results[FS_CALL_MAX], *result_list[FS_CALL_MAX];
static unsigned nr_claimed, nr_closed, nr_removed, nr_moved;
static bool is_gone;

static int claim_or_close(const Afar__FileHold *operation)
{
	nr_claimed += operation->what_case == AFAR__FILE_HOLD__WHAT_RECLAIM;
	nr_closed += operation->what_case == AFAR__FILE_HOLD__WHAT_CLOSE;
	return 0;
}

static void answer_with(struct fs_answer *out, unsigned nr, uint64_t layout, size_t nr_runs)
{
	afar__file_attributes__init(&attributes);
	attributes.ino = INO;
	attributes.mode = S_IFREG | 0600;
	attributes.nlink = 1;
	attributes.layout = layout;
	for (unsigned i = 0; i < nr; i++) {
		afar__file_result__init(&results[i]);
		results[i].attributes = &attributes;
		results[i].runs = old_runs;
		results[i].n_runs = 3 * nr_runs;
		result_list[i] = &results[i];
	}
	*out = (struct fs_answer){.results = result_list};
}

static int make_with_a_restart(Afar__FileChange **operations, unsigned nr, struct fs_answer *out)
{
	for (unsigned i = 0; i < nr; i++)
		nr_removed += operations[i]->what_case == AFAR__FILE_CHANGE__WHAT_REMOVE;
	if (operations[0]->what_case == AFAR__FILE_CHANGE__WHAT_MAKE)
		fs.nr_reclaims++;
	answer_with(out, nr, 0, 1);
	return 0;
}

static int look_afterwards(struct fs_answer *out)
{
	assert_int_equal(nr_claimed, 1); /* before: somebody else might close it */
	if (is_gone)
		return error_fail(-ESTALE, "it is gone");
	answer_with(out, 1, 1, 0);
	return 0;
}

static int move_nothing(void)
{
	nr_moved++;
	return 0;
}

static void begin_making(bool goes)
{
	fs.handle.kind = HANDLE_FS;
	session.handle.kind = HANDLE_SESSION;
	session.fork_generation = forks_generation();
	pool.target.length = 64 * FILE_UNIT;
	CDS_INIT_LIST_HEAD(&fs.holds);
	for (unsigned i = 0; i < FS_BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&fs.inodes[i]);
	meanwhile_hold = claim_or_close;
	meanwhile_change = make_with_a_restart;
	meanwhile_look = look_afterwards;
	meanwhile_transfer = move_nothing;
	nr_claimed = nr_closed = nr_removed = nr_moved = 0;
	is_gone = goes;
}

static void makes_none_whose_room_went_meanwhile(void **state)
{
	struct afar_file *file;

	(void)state;
	begin_making(true);
	assert_int_equal(
		afar_file_create(&fs, NULL, 1, NULL, 0600, O_TMPFILE | O_RDWR, &file, NULL),
		-ESTALE);
	assert_int_equal(nr_closed, 1);
	assert_true(cds_list_empty(&fs.holds));
	/* It is there, and another one that had it open has closed it. */
	begin_making(false);
	assert_int_equal(afar_file_create(&fs, NULL, 1, "f", 0600, O_RDWR, &file, NULL), 0);
	assert_null(file_map_find(&file->inode->map, 0));
	assert_int_equal(file->inode->layout, 1);
	file_drop(file);
}

static void writes_no_small_one_whose_room_went_meanwhile(void **state)
{
	struct afar_small_file small = {.size = sizeof(struct afar_small_file),
					.dir = 1,
					.name = "f",
					.data = (char[]){'x'},
					.length = 1};

	(void)state;
	begin_making(true);
	assert_int_equal(afar_fs_write_files(&fs, NULL, &small, 1), -ESTALE);
	assert_int_equal(small.status, -ESTALE);
	assert_int_equal(nr_moved, 0);
	assert_int_equal(nr_removed, 1);
	assert_true(cds_list_empty(&fs.holds));
}

/* ---- Pages that others keep. One thread syncs while another one's bytes are on their way, so they drop too early. */

static struct afar_file shared = {.fs = &fs, .inode = &inode, .access = W_OK};
static unsigned nr_drops, nr_written;

static int count_drops(Afar__FileChange **operations, unsigned nr, struct fs_answer *out)
{
	nr_drops += operations[0]->sync->drops_pages ? 1 : 0;
	nr_written += operations[0]->sync->is_written ? 1 : 0;
	answer_with(out, nr, LAYOUT, 0);
	return 0;
}

static int sync_meanwhile(void)
{
	return file_commit(&shared);
}

static void has_pages_dropped_again_that_were_dropped_meanwhile(void **state)
{
	const struct afar_file_vector vector = {.data = (char[]){'x'}, .length = 1};

	(void)state;
	pool.target.length = 64 * FILE_UNIT;
	inode.ino = INO;
	inode.size = FILE_UNIT;
	inode.kept = INODE_KEPT;
	assert_int_equal(file_map_add(&inode.map, old_runs, 3), 0);
	meanwhile_transfer = sync_meanwhile;
	meanwhile_change = count_drops;
	nr_drops = nr_written = 0;
	assert_int_equal(file_write(&shared, &vector, 1, false), 1);
	assert_int_equal(nr_drops, 1);
	assert_int_equal(nr_written, 1);
	assert_true(file_has_to_commit(&shared));
	assert_int_equal(file_commit(&shared), 0);
	assert_int_equal(nr_drops, 2);
	assert_int_equal(nr_written, 2);
	assert_false(file_has_to_commit(&shared));
	file_map_free(&inode.map);
}

/* ---- Times. The manager is being told of a write, and a commit comes first, or the connection ends. */

static uint64_t unless_told;

static int count_written(Afar__FileChange **operations, unsigned nr, struct fs_answer *out)
{
	unless_told = operations[0]->sync->unless_told;
	nr_written += operations[0]->sync->is_written ? 1 : 0;
	answer_with(out, nr, LAYOUT, 0);
	return 0;
}

static void commits_times_that_the_manager_may_not_know(void **state)
{
	Afar__FileEnd message = AFAR__FILE_END__INIT;
	uint64_t first;
	int64_t at = 0;

	(void)state;
	begin_making(false);
	meanwhile_change = count_written;
	nr_written = 0;
	inode.ino = INO;
	cds_list_add(&inode.node, &fs.inodes[INO % FS_BUCKETS]);
	inode_touch(&inode);
	assert_true(inode_begin_telling(&fs, INO, &message, &at));
	assert_int_equal(file_commit(&shared), 0);
	assert_int_equal(nr_written, 1);
	/* It does not count twice. */
	first = message.number;
	assert_true(first != 0);
	assert_int_equal(unless_told, first);
	inode_touch(&inode);
	assert_true(inode_begin_telling(&fs, INO, &message, &at));
	inode_end_telling(&fs, INO, message.number, false);
	assert_int_equal(file_commit(&shared), 0);
	assert_int_equal(nr_written, 2);
	assert_true(message.number > first);
	assert_int_equal(unless_told, 0);
	inode_touch(&inode);
	assert_true(inode_begin_telling(&fs, INO, &message, &at));
	inode_end_telling(&fs, INO, message.number, true);
	assert_int_equal(file_commit(&shared), 0);
	assert_int_equal(nr_written, 2);
	/* The answer comes late, and says nothing of a write after that. */
	inode_touch(&inode);
	assert_true(inode_begin_telling(&fs, INO, &message, &at));
	first = message.number;
	inode_touch(&inode);
	assert_true(inode_begin_telling(&fs, INO, &message, &at));
	inode_end_telling(&fs, INO, first, true);
	inode_end_telling(&fs, INO, message.number, false);
	assert_int_equal(file_commit(&shared), 0);
	assert_int_equal(nr_written, 3);
}

/* The manager does not know yet when it was written, so a program that asks is told by us. */
static int ask_meanwhile(Afar__FileChange **operations, unsigned nr, struct fs_answer *out)
{
	struct afar_file_stat stat = {.size = sizeof(stat), .ino = INO};

	inode_add_writes(&fs, &stat);
	assert_true(stat.mtime != 0 && stat.mtime == inode.written_at);
	assert_true(inode_is_changing(&fs, INO));
	return count_written(operations, nr, out);
}

static void tells_times_that_are_being_committed(void **state)
{
	struct afar_file_stat stat = {.size = sizeof(stat), .ino = INO};

	(void)state;
	begin_making(false);
	meanwhile_change = ask_meanwhile;
	nr_written = 0;
	inode.ino = INO;
	cds_list_add(&inode.node, &fs.inodes[INO % FS_BUCKETS]);
	assert_false(inode_is_changing(&fs, INO));
	inode_touch(&inode);
	assert_int_equal(file_commit(&shared), 0);
	assert_int_equal(nr_written, 1);
	assert_false(inode_is_changing(&fs, INO));
	inode_add_writes(&fs, &stat);
	assert_int_equal(stat.mtime, 0);
}

/* The manager asks for times while we tell of a write, because somebody is about to set them. So it is answered when it knows. */

extern unsigned nr_session_replies; /* test_attr_cache.c's seam */
static int commit_status;

static void begin_asking(void)
{
	begin_making(false);
	CDS_INIT_LIST_HEAD(&session.file_systems);
	cds_list_add(&fs.node, &session.file_systems);
	inode.ino = INO;
	cds_list_add(&inode.node, &fs.inodes[INO % FS_BUCKETS]);
	nr_session_replies = 0;
	commit_status = 0;
}

static void end_asking(unsigned nr_replies)
{
	fs_await_recalls(&fs);
	assert_int_equal(nr_session_replies, nr_replies);
}

static void ask_times(void)
{
	Afar__FileRevoke ask = AFAR__FILE_REVOKE__INIT;

	ask.ino = INO;
	ask.only_times = true;
	fs_tell_times(&session, &ask, NULL);
}

static int change_asked_meanwhile(Afar__FileChange **operations, unsigned nr, struct fs_answer *out)
{
	ask_times();
	assert_int_equal(nr_session_replies, 0);
	assert_int_equal(count_written(operations, nr, out), 0);
	return commit_status;
}

static int end_asked_meanwhile(const Afar__FileHold *operation)
{
	(void)operation;
	ask_times();
	assert_int_equal(nr_session_replies, 0);
	return 0;
}

static void answers_when_commits_have_ended(void **state)
{
	uint64_t nr;

	(void)state;
	begin_asking();
	ask_times();
	end_asking(1);
	begin_asking();
	meanwhile_change = change_asked_meanwhile;
	inode_touch(&inode);
	assert_int_equal(file_commit(&shared), 0);
	end_asking(1);
	/* It has told nothing, so the manager is told otherwise. */
	begin_asking();
	meanwhile_change = change_asked_meanwhile;
	commit_status = -EIO;
	inode_touch(&inode);
	nr = session.nr_tellings;
	assert_int_equal(file_commit(&shared), -EIO);
	end_asking(1);
	assert_int_equal(session.nr_tellings, nr + 1);
	inode.touched = INODE_UNTOUCHED;
	begin_asking();
	meanwhile_hold = end_asked_meanwhile;
	assert_int_equal(inode_tell_end(&inode, 100, LAYOUT), 0);
	end_asking(1);
}

/* Another session has made it shorter, and sets a time. That stays. */
static void counts_no_write_before_a_cut(void **state)
{
	const int stale = -ESTALE;

	(void)state;
	begin_asking();
	meanwhile_change = count_written;
	nr_written = 0;
	inode_touch(&inode);
	tell_status = &stale;
	ask_times();
	tell_status = NULL;
	assert_int_equal(file_commit(&shared), 0);
	assert_int_equal(nr_written, 0);
	end_asking(1);
}

/* There may always be one under way. */
static void awaits_no_commits_that_begin_later(void **state)
{
	Afar__FileRevoke ask = AFAR__FILE_REVOKE__INIT;
	uint64_t inos[] = {INO + 1, INO};
	struct inode_commit first, second;

	(void)state;
	begin_asking();
	inode_begin_commit(&inode, &first);
	ask.inos = inos;
	ask.n_inos = 2;
	fs_tell_times(&session, &ask, NULL);
	inode_begin_commit(&inode, &second);
	assert_int_equal(nr_session_replies, 0);
	inode_end_commit(&inode, &first);
	end_asking(1);
	inode_end_commit(&inode, &second);
}

/* ---- Cutting. The answer of a call that takes room away is lost. It may have been done, so the room may be another file's by now. */

#define NR_UNITS 8U

static struct fs_hold held = {.inode = &inode, .handle = 1, .access = R_OK | W_OK};

static int lose_answer(Afar__FileChange **operations, unsigned nr, struct fs_answer *out)
{
	(void)operations;
	(void)nr;
	(void)out;
	return error_fail(-ETIMEDOUT, "no answer");
}

static int look_at_it(struct fs_answer *out)
{
	answer_with(out, 1, LAYOUT, 1);
	attributes.size = NR_UNITS * FILE_UNIT;
	return 0;
}

/* It has its first unit, and got another one that it has not written. */
static void begin_cutting(void)
{
	begin_making(false);
	meanwhile_change = lose_answer;
	meanwhile_look = look_at_it;
	inode.ino = INO;
	inode.nr_users = inode.nr_writers = 1;
	inode.size = NR_UNITS * FILE_UNIT;
	inode.has_grown = true;
	CDS_INIT_LIST_HEAD(&inode.targets);
	assert_int_equal(file_map_add(&inode.map, old_runs, 3), 0);
	file_around_told(&inode.around, 0, 1);
	file_around_add(&inode.around, 4, 5);
	shared.hold = &held;
	shared.handle.kind = HANDLE_FILE;
}

static void expect_forgotten(void)
{
	assert_null(file_map_find(&inode.map, 0));
	assert_false(file_around_gives(&inode.around));
	file_map_free(&inode.map);
	file_around_end(&inode.around);
}

static void forgets_what_may_have_been_truncated(void **state)
{
	(void)state;
	begin_cutting();
	assert_int_equal(afar_file_truncate(&shared, 0), -ETIMEDOUT);
	expect_forgotten();
}

static void forgets_what_may_have_been_punched(void **state)
{
	(void)state;
	begin_cutting();
	assert_int_equal(afar_file_allocate(&shared, AFAR_ALLOCATE_PUNCH | AFAR_ALLOCATE_KEEP_SIZE,
					    0, FILE_UNIT),
			 -ETIMEDOUT);
	expect_forgotten();
	begin_cutting();
	inode.is_prepared = true;
	file_unprepare(&shared);
	expect_forgotten();
}

static void forgets_what_may_have_been_given_back(void **state)
{
	(void)state;
	begin_cutting();
	assert_false(file_give_back(&shared));
	expect_forgotten();
}

/* The closing goes along with a call that fails, and is open until it is sent once more. */
static void forgets_what_may_have_been_closed(void **state)
{
	struct late_close closing = {.file = &shared, .is_change = true};

	(void)state;
	begin_cutting();
	file_begin_close(&closing);
	assert_true(closing.is_trimmed && closing.sync.n_unwritten == 2);
	file_undo_close(&closing);
	assert_false(inode.is_ending);
	expect_forgotten();
}

/* ---- Closing. Room that nobody has written goes back with the last one that may write. */

static size_t nr_given;

static int count_given(Afar__FileChange **operations, unsigned nr, struct fs_answer *out)
{
	for (unsigned i = 0; i < nr; i++)
		nr_given += operations[i]->sync->n_unwritten / 2;
	answer_with(out, nr, LAYOUT + 1, 0);
	attributes.size = NR_UNITS * FILE_UNIT;
	return 0;
}

static struct afar_file *open_it(uint32_t access)
{
	struct afar_file *file = handle_new(HANDLE_FILE, sizeof(*file));

	assert_non_null(file);
	handle_use(&fs.handle);
	file->fs = &fs;
	file->access = access;
	file->inode = inode_get(&fs, INO);
	file->hold = fs_hold_new(file->inode, fs_new_handle(&fs), access);
	return file;
}

/* It got a unit that it has not written. */
static void get_room(struct file_inode *of)
{
	of->layout = LAYOUT;
	of->size = NR_UNITS * FILE_UNIT;
	of->has_grown = true;
	file_around_told(&of->around, 0, 1);
	file_around_add(&of->around, 4, 5);
	nr_given = 0;
}

static void gives_back_though_others_read(void **state)
{
	struct afar_file *reader, *files[2];

	(void)state;
	begin_making(false);
	meanwhile_change = count_given;
	reader = open_it(R_OK);
	for (unsigned i = 0; i < 2; i++)
		files[i] = open_it(R_OK | W_OK);
	get_room(reader->inode);
	assert_int_equal(file_close(files[0]), 0);
	assert_int_equal(nr_given, 0);
	assert_int_equal(file_close(files[1]), 0);
	assert_int_equal(nr_given, 1);
	assert_int_equal(reader->inode->layout, LAYOUT + 1);
	assert_int_equal(file_close(reader), 0);
}

/* Both would go along with one call. Then neither would be the last one. */
static void gives_back_with_the_second_of_two(void **state)
{
	struct afar_file *files[2];
	struct late_close *taken[2];

	(void)state;
	begin_making(false);
	closings_init(&fs.closings);
	fs.closings.has_thread = true; /* this one */
	for (unsigned i = 0; i < 2; i++)
		files[i] = open_it(R_OK | W_OK);
	get_room(files[0]->inode);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(late_close_add(files[i]), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct fs_answer answer;

		assert_int_equal(fs.closings.calls->take(&fs, true, taken, 2), 1);
		assert_int_equal(taken[0]->is_trimmed, i == 1);
		assert_int_equal(taken[0]->sync.n_unwritten, 2 * i);
		answer_with(&answer, 1, LAYOUT, 0);
		fs.closings.calls->end(&fs, taken, 1, 0, answer.results);
	}
	assert_false(closings_are_pending(&fs));
	closings_free(&fs.closings);
}

/* ---- Room. A list of ranges asks once for all that it lacks, if the manager takes that. */

#define NR_HOLES 5000U

static struct {
	unsigned nr_calls, nr_operations;
	size_t nr_ranges;
	uint64_t numbers[6]; /* of the last list */
} room;

static int make_room(Afar__FileChange **operations, unsigned nr, struct fs_answer *out)
{
	room.nr_calls++;
	room.nr_operations += nr;
	for (unsigned i = 0; i < nr; i++) {
		const Afar__FileExtend *extend = operations[i]->extend;

		room.nr_ranges += extend->n_ranges / 2;
		for (size_t n = 0; n < extend->n_ranges && n < 6; n++)
			room.numbers[n] = extend->ranges[n];
	}
	answer_with(out, nr, LAYOUT, 0);
	return 0;
}

static void extend_list(uint64_t features, const struct afar_file_vector *vectors, unsigned nr)
{
	const struct file_wish wish = {.vectors = vectors, .nr = nr};

	session.features = features;
	memset(&room, 0, sizeof(room));
	assert_int_equal(inode_extend(&inode, &wish), 0);
	session.features = 0;
}

static void asks_once_for_all_holes(void **state)
{
	static const uint64_t lacks[] = {3, 2, 9, 1, 12, 2};
	static struct afar_file_vector many[NR_HOLES];
	const struct afar_file_vector vectors[] = {
		{.offset = 9 * FILE_UNIT, .length = 1},
		{.offset = 4 * FILE_UNIT, .length = FILE_UNIT},
		{.offset = 20 * FILE_UNIT, .length = 0},
		{.offset = 0, .length = FILE_UNIT}, /* is there */
		{.offset = 3 * FILE_UNIT, .length = FILE_UNIT},
		{.offset = 12 * FILE_UNIT + 1, .length = FILE_UNIT},
		{.offset = 12 * FILE_UNIT + 5, .length = 1},
	};

	(void)state;
	begin_making(false);
	pthread_mutex_init(&session.lock, NULL);
	meanwhile_change = make_room;
	inode.ino = INO;
	assert_int_equal(file_map_add(&inode.map, old_runs, 3), 0);
	extend_list(RPC_FEATURE_RANGES, vectors, 7);
	assert_int_equal(room.nr_calls, 1);
	assert_int_equal(room.nr_operations, 1);
	assert_int_equal(room.nr_ranges, 3);
	assert_memory_equal(room.numbers, lacks, sizeof(lacks));
	/* An older manager is asked for each. */
	extend_list(0, vectors, 7);
	assert_int_equal(room.nr_calls, 1);
	assert_int_equal(room.nr_operations, 5);
	assert_int_equal(room.nr_ranges, 0);
	for (unsigned i = 0; i < NR_HOLES; i++)
		many[i] = (struct afar_file_vector){.offset = (2 * NR_HOLES - 2 * i) * FILE_UNIT,
						    .length = 1};
	extend_list(RPC_FEATURE_RANGES, many, NR_HOLES);
	assert_int_equal(room.nr_calls, 2);
	assert_int_equal(room.nr_ranges, NR_HOLES);
	extend_list(RPC_FEATURE_RANGES, many, 1);
	assert_int_equal(room.nr_operations, 1);
	assert_int_equal(room.nr_ranges, 0);
	file_map_free(&inode.map);
	pthread_mutex_destroy(&session.lock);
}

TEST_GROUP(files_meanwhile)
{
	const struct CMUnitTest tests[] = {
		MEANWHILE_TEST(joins_no_sync_that_has_begun),
		MEANWHILE_TEST(writes_again_what_was_cut_meanwhile),
		MEANWHILE_TEST(makes_none_whose_room_went_meanwhile),
		MEANWHILE_TEST(writes_no_small_one_whose_room_went_meanwhile),
		MEANWHILE_TEST(has_pages_dropped_again_that_were_dropped_meanwhile),
		MEANWHILE_TEST(commits_times_that_the_manager_may_not_know),
		MEANWHILE_TEST(tells_times_that_are_being_committed),
		MEANWHILE_TEST(answers_when_commits_have_ended),
		MEANWHILE_TEST(counts_no_write_before_a_cut),
		MEANWHILE_TEST(awaits_no_commits_that_begin_later),
		MEANWHILE_TEST(forgets_what_may_have_been_truncated),
		MEANWHILE_TEST(forgets_what_may_have_been_punched),
		MEANWHILE_TEST(forgets_what_may_have_been_given_back),
		MEANWHILE_TEST(forgets_what_may_have_been_closed),
		MEANWHILE_TEST(gives_back_though_others_read),
		MEANWHILE_TEST(gives_back_with_the_second_of_two),
		MEANWHILE_TEST(asks_once_for_all_holes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
