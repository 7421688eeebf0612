/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inodes whose last name has gone, and that nobody has open. A mount's kernel may know one by its number: between finding a name
 * and opening it, or as somebody's working directory. So the sessions that say so (FileReclaim) are asked which of them they use
 * (FilesGone). A session holds those that it uses until it forgets them (FileForget); the others
 * end when all have answered.
 *
 * Looking a name up costs nothing for that: nobody notes who knows which inode. They are asked together, in rounds, one of a file
 * system at a time. A session that does not answer is waited for until its servers are fenced, as if it had them open.
 *
 * All of this is in memory alone. The inodes have a record (RECORD_UNLINKED): after a restart they are asked for again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/files/holds.h"
#include "manager/files/table.h"

static outgoing_answered answered;

#define GATHER_NS \
	UINT64_C( \
		10000000) /* so long others may come to a round; meanwhile most are forgotten by who removed them */
#define ROUND_MAX   4096U
#define END_AT_ONCE 256U		 /* in one commit */
#define WAIT_NS	    UINT64_C(1000000000) /* so long those wait who need the room */
#define OWN_WAIT_NS UINT64_C(50000000)	 /* and those who have still to answer */

/* A session that is asked. */
struct user {
	struct cds_list_head node; /* of the fs */
	uint64_t session;
	uint64_t answered; /* the last round */
	const void *
		asked_at; /* over which connection, for the round under way; NULL: it is to be asked */
};

static struct user *find_user(const struct fs *fs, uint64_t session)
{
	struct user *user;

	cds_list_for_each_entry (user, &fs->users, node)
		if (user->session == session)
			return user;
	return NULL;
}

int gone_join(struct fs *fs, const struct session *session)
{
	const struct region *pool = volume_region(fs_namespace(fs));
	struct user *user;

	/* One that has the pool open is heard of when it leaves. */
	if (!pool || !session_reference(session, pool->generation))
		return error_fail(
			-EINVAL,
			"tell which inodes are used: the session has not opened the file system");
	if (find_user(fs, session->number))
		return 0;
	user = calloc(1, sizeof(*user));
	if (!user)
		return error_code(-ENOMEM);
	user->session = session->number;
	/* It cannot have found what had no name before it came. */
	user->answered = fs->gone.round;
	cds_list_add_tail(&user->node, &fs->users);
	return 0;
}

int gone_leave(struct fs *fs, uint64_t session)
{
	struct undo *undo = fs_core(fs)->undo;
	struct user *user = find_user(fs, session);
	int ret = user ? undo_room(undo, 2) : 0;

	if (!user || ret < 0)
		return ret;
	undo_unlink(undo, &user->node);
	undo_gone(undo, user, free);
	return 0;
}

void gone_free(struct fs *fs)
{
	struct user *user, *next;

	cds_list_for_each_entry_safe (user, next, &fs->users, node)
		free(user);
	free(fs->gone.list);
}

/* ---- Which they are */

bool gone_must_ask(const struct file *file)
{
	return !file->is_asked && !cds_list_empty(&file->fs->users);
}

int gone_add(struct file *file)
{
	struct gone *gone = &file->fs->gone;

	if (file->is_gone)
		return 0;
	if (gone->nr == gone->max) {
		size_t max = 2 * gone->max + 64;
		struct gone_inode *more = reallocarray(gone->list, max, sizeof(*more));

		if (!more)
			return error_code(-ENOMEM);
		gone->list = more;
		gone->max = max;
	}
	gone->list[gone->nr++] = (struct gone_inode){file->ino, file->inode->nr_units};
	gone->nr_units += file->inode->nr_units;
	file->is_gone = true;
	if (gone->nr == 1)
		gone->due_at = core_now(fs_core(file->fs)) + GATHER_NS;
	return 0;
}

void gone_note_name(struct file *file, uint64_t dir, const char *name)
{
	if (cds_list_empty(&file->fs->users))
		return;
	free(file->gone_name);
	file->gone_name = strdup(name);
	file->gone_dir = dir;
}

/* ---- Asking */

static int add_file(const struct fs *fs, uint64_t ino, Afar__FilesGone *message)
{
	Afar__FileGone *gone = MESSAGE_NEW(afar__file_gone, Afar__FileGone);
	const struct file *file = file_cached(fs, ino);

	if (!gone)
		return -ENOMEM;
	message->files[message->n_files++] = gone;
	gone->ino = ino;
	if (!file || !file->gone_name)
		return 0;
	gone->dir = file->gone_dir;
	gone->name = strdup(file->gone_name);
	return gone->name ? 0 : -ENOMEM;
}

static Afar__Request *new_request(const struct fs *fs)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__FilesGone *message = MESSAGE_NEW(afar__files_gone, Afar__FilesGone);
	int ret = request && message ? 0 : -ENOMEM;

	if (ret < 0)
		goto out_free;
	request->files_gone = message;
	request->call_case = AFAR__REQUEST__CALL_FILES_GONE;
	message->fs = fs->number;
	message->files = calloc(fs->gone.nr_asked, sizeof(*message->files));
	ret = message->files ? 0 : -ENOMEM;
	for (size_t i = 0; i < fs->gone.nr_asked && ret == 0; i++)
		ret = add_file(fs, fs->gone.list[i].ino, message);
	if (ret == 0)
		return request;
	afar__request__free_unpacked(request, NULL);
	return NULL;

out_free:
	free(request);
	free(message);
	return NULL;
}

static void ask_later(struct fs *fs, struct user *user)
{
	user->asked_at = NULL;
	fs->gone.due_at = core_now(fs_core(fs)) + CORE_RETRY_NS;
}

/* One that is away is asked when it is back, or it leaves. */
static void ask(struct fs *fs, struct user *user)
{
	struct core *core = fs_core(fs);
	const struct session *session = state_session(core->state, user->session);
	const struct live_session *live = session ? session->live : NULL;
	struct outgoing *outgoing;
	Afar__Request *request;

	if (!live || !live->peer || user->asked_at == live->peer)
		return;
	outgoing = outgoing_new_to(answered, live->peer);
	request = new_request(fs);
	if (!outgoing || !request) {
		if (outgoing)
			outgoing_free(outgoing);
		if (request)
			afar__request__free_unpacked(request, NULL);
		ask_later(fs, user);
		return;
	}
	outgoing->session = user->session;
	outgoing->fs = fs->number;
	outgoing->recall = fs->gone.round;
	user->asked_at = live->peer;
	core_call(core, live->peer, CORE_NO_TIMEOUT, request, outgoing);
}

static bool have_all_answered(const struct fs *fs)
{
	const struct user *user;

	cds_list_for_each_entry (user, &fs->users, node)
		if (user->answered != fs->gone.round)
			return false;
	return true;
}

/* The oldest go first. */
static void begin_round(struct fs *fs)
{
	struct gone *gone = &fs->gone;
	struct user *user;

	gone->round++;
	gone->begun_at = core_now(fs_core(fs));
	gone->nr_asked = gone->nr_left = gone->nr < ROUND_MAX ? gone->nr : ROUND_MAX;
	cds_list_for_each_entry (user, &fs->users, node)
		user->asked_at = NULL;
}

/* All of the round have ended, or are held. */
static void end_round(struct fs *fs)
{
	struct gone *gone = &fs->gone;

	gone->nr -= gone->nr_asked;
	memmove(gone->list, gone->list + gone->nr_asked, gone->nr * sizeof(*gone->list));
	gone->nr_asked = 0;
	gone->due_at = core_now(fs_core(fs)) + GATHER_NS;
}

void gone_drive(struct fs *fs)
{
	struct gone *gone = &fs->gone;
	struct user *user;

	if (gone->nr_asked != 0 && gone->nr_left == 0)
		end_round(fs);
	if (gone->nr == 0 || gone->due_at > core_now(fs_core(fs)) || fs_is_suspect(fs))
		return;
	if (gone->nr_asked == 0)
		begin_round(fs);
	cds_list_for_each_entry (user, &fs->users, node)
		if (user->answered != gone->round)
			ask(fs, user);
}

uint64_t gone_next(const struct fs *fs)
{
	const struct gone *gone = &fs->gone;

	if (gone->nr == 0 || fs_is_suspect(fs))
		return CORE_NEVER;
	if (gone->nr_asked != 0 && have_all_answered(fs))
		return 0;
	/* Answers come as events. */
	return gone->nr_asked == 0 || gone->due_at > core_now(fs_core(fs)) ? gone->due_at
									   : CORE_NEVER;
}

/* ---- Answers */

static int hold_used(struct fs *fs, const struct session *session, uint64_t ino)
{
	struct file *file = file_cached(fs, ino);

	if (!file || !file->is_gone || !file->inode)
		return 0;
	return hold_add(file, session, FILE_USED | ino, 0);
}

static int answered(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	const Afar__Reply *answer = is_done ? event->answer : NULL;
	const struct session *session = state_session(core->state, outgoing->session);
	struct fs *fs = files_find(core, outgoing->fs);
	struct user *user = fs ? find_user(fs, outgoing->session) : NULL;
	int ret = 0;

	if (!user || !session || outgoing->recall != fs->gone.round)
		return 0;
	if (!answer || answer->result_case != AFAR__REPLY__RESULT_FILES_USED) {
		ask_later(fs, user);
		return 0;
	}
	for (size_t i = 0; i < answer->files_used->n_inos && ret == 0; i++)
		ret = hold_used(fs, session, answer->files_used->inos[i]);
	if (ret == 0)
		ret = undo_room(core->undo, 1);
	/* It is asked again also if the batch fails. */
	ask_later(fs, user);
	if (ret == 0)
		undo_set(core->undo, user->answered, fs->gone.round);
	return ret;
}

/* Ends one that nobody uses. */
static int end_one(struct fs *fs, uint64_t ino)
{
	struct file *file;
	int ret = file_get(fs, ino, &file);

	if (ret < 0)
		return ret == -ESTALE ? 0 : ret;
	/* The sessions that use it hold it now, and nobody can find it any more. */
	file->is_gone = false;
	file->is_asked =
		file->inode &&
		file->inode->nlink == 0; /* a commit that failed may have given it its name back */
	return file_settle(file);
}

int gone_work(struct fs *fs)
{
	struct undo *undo = fs_core(fs)->undo;
	struct gone *gone = &fs->gone;

	if (gone->nr_asked == 0 || fs->nr_unreclaimed != 0 || !have_all_answered(fs) ||
	    fs_is_suspect(fs))
		return 0;
	for (unsigned i = 0; i < END_AT_ONCE && gone->nr_left != 0; i++) {
		const struct gone_inode last = gone->list[gone->nr_left - 1];
		size_t mark = undo_mark(undo);
		int ret = fs_may_fail(fs, last.ino, mark, end_one(fs, last.ino));

		if (ret == 0)
			ret = undo_room(undo, 2);
		if (ret < 0)
			return ret;
		undo_set(undo, gone->nr_units, gone->nr_units - last.nr_units);
		undo_set(undo, gone->nr_left, gone->nr_left - 1);
	}
	return 0;
}

/* ---- Who needs the room */

uint64_t gone_wait(struct fs *fs, uint64_t session)
{
	const struct user *user = find_user(fs, session);
	struct gone *gone = &fs->gone;
	uint64_t now = core_now(fs_core(fs)), begun_at;

	if (gone->nr == 0)
		return 0;
	/* Those that are being asked about come first. */
	if (gone->nr_asked == 0)
		gone->due_at = now;
	if (gone->nr_asked != 0 && have_all_answered(fs))
		return now + WAIT_NS; /* they are ending */
	begun_at = gone->nr_asked != 0 ? gone->begun_at : now;
	/* Its answer may wait for the call that waits here: it tries again. */
	if (user && (gone->nr_asked == 0 || user->answered != gone->round))
		return begun_at + OWN_WAIT_NS;
	return begun_at + WAIT_NS;
}
