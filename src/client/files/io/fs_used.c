/* SPDX-License-Identifier: BSD-3-Clause */
/* See fs_used.h. The table is an array of a power of two. The place of an inode is the first, from that of its number's
 * hash on, which is its own or free. */

#include "client/files/io/fs_used.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/files/inode/fs_call.h"

#define TABLE_MIN      256U
#define FORGOTTEN_MAX  256U /* that the manager is told of at once */
#define AGAIN_MAX      10U /* calls that find no room are tried so often again, and so long later: */
#define AGAIN_PAUSE_NS 5000000L

struct used_inode {
	uint64_t ino; /* 0: the place is free */
	uint64_t nr_uses;
	bool is_held; /* by the manager, as we have said that it is used */
};

void used_init(struct fs_used *used, const struct afar_fs_options *options)
{
	used->is_on = options->flags & AFAR_FS_COUNT_USES;
	used->gone = options->gone;
	used->argument = options->argument;
	pthread_mutex_init(&used->lock, NULL);
}

static void free_asked(struct fs_used *used)
{
	if (used->asked)
		afar__files_gone__free_unpacked(used->asked, NULL);
	used->asked = NULL;
}

void used_free(struct fs_used *used)
{
	free(used->table);
	free_asked(used);
	free(used->forgotten);
	pthread_mutex_destroy(&used->lock);
}

/* ---- The table. The lock is held */

static size_t home_of(const struct fs_used *used, uint64_t ino)
{
	return (ino * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (used->max - 1);
}

/* Finds its place, or the one that it would have; there is one. */
static struct used_inode *place_of(const struct fs_used *used, uint64_t ino)
{
	size_t at = home_of(used, ino);

	while (used->table[at].ino != 0 && used->table[at].ino != ino)
		at = (at + 1) & (used->max - 1);
	return &used->table[at];
}

static struct used_inode *find(const struct fs_used *used, uint64_t ino)
{
	struct used_inode *place = used->max != 0 ? place_of(used, ino) : NULL;

	return place && place->ino != 0 ? place : NULL;
}

/* Makes room for one more. False: no memory. */
static bool make_room(struct fs_used *used)
{
	struct fs_used larger = {.max = used->max ? 2 * used->max : TABLE_MIN};

	if (used->nr < used->max / 2)
		return true;
	larger.table = calloc(larger.max, sizeof(*larger.table));
	if (!larger.table)
		return used->nr + 1 < used->max;
	for (size_t i = 0; i < used->max; i++)
		if (used->table[i].ino != 0)
			*place_of(&larger, used->table[i].ino) = used->table[i];
	free(used->table);
	used->table = larger.table;
	used->max = larger.max;
	return true;
}

static void count(struct fs_used *used, uint64_t ino)
{
	struct used_inode *place;

	if (!make_room(used)) {
		used->is_unsure = true;
		return;
	}
	place = place_of(used, ino);
	used->nr += place->ino == 0;
	place->ino = ino;
	place->nr_uses++;
}

/* Those behind it move up, if they may be where it was. */
static void take_out(struct fs_used *used, struct used_inode *place)
{
	size_t gap = (size_t)(place - used->table), at = gap, mask = used->max - 1;

	for (;;) {
		at = (at + 1) & mask;
		if (used->table[at].ino == 0)
			break;
		if (((at - home_of(used, used->table[at].ino)) & mask) < ((at - gap) & mask))
			continue;
		used->table[gap] = used->table[at];
		gap = at;
	}
	used->table[gap] = (struct used_inode){0};
	used->nr--;
}

/* ---- Answering the manager */

static void say_gone(const struct fs_used *used, const Afar__FileGone *gone)
{
	if (used->gone && gone->dir != 0)
		used->gone(used->argument, gone->dir, gone->name, gone->ino);
}

/* The lock is held until the answer is on its way: what is forgotten after it must be told after it. */
static void answer(struct fs_used *used)
{
	Afar__FilesUsed message = AFAR__FILES_USED__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;
	uint64_t *inos = calloc(used->asked->n_files + 1, sizeof(*inos));

	for (size_t i = 0; i < used->asked->n_files && inos; i++) {
		const Afar__FileGone *gone = used->asked->files[i];
		struct used_inode *found = find(used, gone->ino);

		if (found)
			found->is_held = true;
		if (found || used->is_unsure)
			inos[message.n_inos++] = gone->ino;
		if (found)
			say_gone(used, gone);
	}
	message.inos = inos;
	reply.files_used = &message;
	reply.result_case = AFAR__REPLY__RESULT_FILES_USED;
	if (inos)
		rpc_reply(used->call, 0, &reply);
	else
		rpc_reply_status(used->call, 0, error_code(-ENOMEM));
	free(inos);
	used->call = NULL;
	free_asked(used);
}

static void answer_when_known(struct fs_used *used)
{
	if (!used->call || used->nr_finding[!used->kind] != 0)
		return;
	if (used->is_again)
		used->kind = !used->kind;
	used->is_again = false;
	if (used->nr_finding[!used->kind] == 0)
		answer(used);
}

/* Takes a question, and the message over. The lock is held. */
static void take(struct fs_used *used, Afar__FilesGone *ask, struct rpc_call *call)
{
	if (used->call) {
		/* The manager has lost the connection, and asks again, maybe of more. */
		rpc_reply_status(used->call, 0, error_code(-ECANCELED));
		used->is_again = true;
	} else {
		used->kind = !used->kind;
	}
	free_asked(used);
	used->asked = ask;
	used->call = call;
}

static struct afar_fs *find_fs(const struct afar_session *session, uint64_t number)
{
	struct afar_fs *fs;

	cds_list_for_each_entry (fs, &session->file_systems, node)
		if (fs->ns->number == number && fs->used.is_on)
			return fs;
	return NULL;
}

void used_ask(struct afar_session *session, Afar__Request *request, struct rpc_call *call)
{
	Afar__FilesGone *ask = request->files_gone;
	struct afar_fs *fs;

	request->files_gone = NULL;
	request->call_case = AFAR__REQUEST__CALL__NOT_SET;
	pthread_mutex_lock(&session->lock);
	fs = find_fs(session, ask->fs);
	if (fs) {
		pthread_mutex_lock(&fs->used.lock);
		take(&fs->used, ask, call);
		answer_when_known(&fs->used);
		pthread_mutex_unlock(&fs->used.lock);
	}
	pthread_mutex_unlock(&session->lock);
	if (fs)
		return;
	/* Nothing of a closed file system is used. */
	afar__files_gone__free_unpacked(ask, NULL);
	rpc_reply_status(call, 0, 0);
}

/* ---- Counting */

unsigned used_begin(struct afar_fs *fs)
{
	struct fs_used *used = &fs->used;
	unsigned kind;

	if (!used->is_on)
		return 0;
	pthread_mutex_lock(&used->lock);
	kind = used->kind;
	used->nr_finding[kind]++;
	pthread_mutex_unlock(&used->lock);
	return kind;
}

void used_end(struct afar_fs *fs, unsigned kind, uint64_t ino)
{
	struct fs_used *used = &fs->used;

	if (!used->is_on)
		return;
	pthread_mutex_lock(&used->lock);
	if (ino != 0)
		count(used, ino);
	used->nr_finding[kind]--;
	answer_when_known(used);
	pthread_mutex_unlock(&used->lock);
}

/* Without memory the manager keeps it until the session ends. */
static void add_forgotten(struct fs_used *used, uint64_t ino)
{
	if (used->nr_forgotten == used->max_forgotten) {
		size_t max = 2 * used->max_forgotten + 64;
		uint64_t *more = reallocarray(used->forgotten, max, sizeof(*more));

		if (!more)
			return;
		used->forgotten = more;
		used->max_forgotten = max;
	}
	used->forgotten[used->nr_forgotten++] = ino;
}

void used_forget(struct afar_fs *fs, uint64_t ino, uint64_t nr)
{
	struct fs_used *used = &fs->used;
	struct used_inode *found;
	bool is_to_be_told = false;

	pthread_mutex_lock(&used->lock);
	found = find(used, ino);
	if (found && nr < found->nr_uses) {
		found->nr_uses -= nr;
	} else if (found) {
		is_to_be_told = found->is_held;
		take_out(used, found);
	}
	if (is_to_be_told)
		add_forgotten(used, ino);
	pthread_mutex_unlock(&used->lock);
	if (is_to_be_told)
		closings_wake(fs);
}

void used_tell(struct afar_fs *fs)
{
	Afar__FileForget message = AFAR__FILE_FORGET__INIT;
	struct fs_used *used = &fs->used;
	uint64_t some[FORGOTTEN_MAX];
	bool is_left;
	int ret = 0;

	pthread_mutex_lock(&used->lock);
	message.n_inos = used->nr_forgotten < FORGOTTEN_MAX ? used->nr_forgotten : FORGOTTEN_MAX;
	used->nr_forgotten -= message.n_inos;
	if (message.n_inos != 0)
		memcpy(some, used->forgotten + used->nr_forgotten, message.n_inos * sizeof(*some));
	pthread_mutex_unlock(&used->lock);
	message.inos = some;
	if (message.n_inos != 0)
		ret = fs_hold_one(fs, NULL, FILE_HOLD(FORGET, forget, &message), NULL);
	/* A session that has ended holds nothing. */
	if (ret != 0 && (session_has_ended(fs->ns->session) || ret == -AFAR_ESESSION ||
			 ret == -AFAR_EFORKED || ret == -EOPNOTSUPP))
		return;
	pthread_mutex_lock(&used->lock);
	for (size_t i = 0; i < message.n_inos && ret != 0; i++)
		add_forgotten(used, message.inos[i]);
	is_left = used->nr_forgotten != 0;
	pthread_mutex_unlock(&used->lock);
	if (is_left)
		closings_wake(fs);
}

bool used_again(struct afar_fs *fs, int status, unsigned *nr)
{
	const struct timespec pause = {.tv_nsec = AGAIN_PAUSE_NS};

	if (!fs->used.is_on || (status != -EDQUOT && status != -ENOSPC) || ++*nr > AGAIN_MAX)
		return false;
	used_tell(fs);
	nanosleep(&pause, NULL);
	return true;
}

/* ---- The program's */

PUBLIC_CALL(int, afar_fs_use, (struct afar_fs *fs, uint64_t ino), (fs, ino))
{
	int ret = fs_enter(fs);

	if (ret)
		return ret;
	used_end(fs, used_begin(fs), ino);
	handle_unuse(&fs->handle);
	return 0;
}

PUBLIC_CALL(int, afar_fs_forget, (struct afar_fs *fs, uint64_t ino, uint64_t nr), (fs, ino, nr))
{
	int ret = fs_enter(fs);

	if (ret)
		return ret;
	used_forget(fs, ino, nr);
	handle_unuse(&fs->handle);
	return 0;
}
