/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends that sessions have for themselves. A session that alone has a file open may keep its end in the file's slot (rpc/end_slot.h), and tells of
 * none for half a second. Before another one is told anything of the file, or opens it, the session is asked for the end, and gives it up
 * (FileRevoke.only_ends, FileEnd.gives_end).
 *
 * If it dies, or answers nothing in time, the end is lost, and read from the slot. Until then nobody changes the file, and its room behind the end that
 * the manager knows stays. A call waits as long as its caller does, and then fails: nobody is told an end that may be old (end_check_known()). A
 * listing waits two seconds, and tells no attributes of such a file.
 *
 * A slot is a run behind all that a file can have. Only its session writes there. A write that comes late harms nobody, because no other session gets the
 * end as long as that one has the file open.
 *
 * Enders are in memory alone. After a restart, a file that has a slot has lost its end, unless a session tells that it has the slot. Lost ends are
 * never taken back: reading in vain costs a question.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <afar/afar.h>

#include "base/log.h"
#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/files/delegates.h"
#include "manager/files/holds.h"
#include "manager/files/names.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"
#include "rpc/end_slot.h"

/* So long nobody has the end of a file for himself that others have asked for. */
#define QUIET_NS UINT64_C(100000000)
/* A session that has told nothing for longer lives, as far as anybody knows, and has so long to answer. */
#define REST_NS UINT64_C(1000000000)
/* A listing waits so long. */
#define LIST_NS UINT64_C(2000000000)

/* Slots that are read at once of a file system, and how often one is that its server cannot read. */
#define ASKED_MAX  64U
#define FAILED_MAX 10U

static outgoing_answered answered;

/* ---- Reading slots */

static Afar__Request *new_request(const struct fs *fs, const struct layout_home *home,
				  const struct layout_piece *piece, const struct lost_end *lost)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__ExtentRead *read = MESSAGE_NEW(afar__extent_read, Afar__ExtentRead);

	if (!request || !read) {
		free(request);
		free(read);
		return NULL;
	}
	read->store = home->is_store ? home->life : 0;
	read->namespace_ = fs->number;
	read->extent = piece->copy->extent;
	read->offset = piece->copy->offset + piece->offset;
	read->length = lost->length;
	read->is_zeroed = lost->is_tail;
	request->extent_read = read;
	request->call_case = AFAR__REQUEST__CALL_EXTENT_READ;
	return request;
}

/* Returns whether the rest of the unit is still the file's: it may have been cut or removed. -ENOMEM, -EIO: not known now. */
static int has_tail(struct fs *fs, const struct lost_end *lost)
{
	struct file *file;
	int ret = file_get(fs, lost->ino, &file);

	if (ret < 0)
		return ret == -ESTALE ? 0 : ret;
	ret = file->inode->layout == lost->layout;
	file_put(file);
	return ret;
}

/* It is asked for when a second is over. */
static void put_off(struct fs *fs, struct lost_end *lost)
{
	lost->retry_at = core_now(fs_core(fs)) + CORE_RETRY_NS;
	cds_list_add_tail(&lost->node, &fs->lost_ends.later);
}

/* `pool`: of the server that has the bytes, which is up. */
static bool send(struct fs *fs, struct lost_end *lost, const struct pool *pool,
		 const struct layout_piece *piece, const struct layout_home *home)
{
	struct outgoing *outgoing = outgoing_new(answered, pool->server->live);
	Afar__Request *request = new_request(fs, home, piece, lost);

	if (!outgoing || !request) {
		outgoing_free(outgoing);
		if (request)
			afar__request__free_unpacked(request, NULL);
		return false;
	}
	/* It must not be zeroed later, when somebody writes there: the server drops orders of a connection that has ended. */
	outgoing->may_fail = !lost->is_tail;
	outgoing->fs = fs->number;
	outgoing->ino = lost->ino;
	outgoing->recall = lost->number;
	outgoing->extents.home = pool_home(pool);
	fs->lost_ends.nr_asked++;
	server_call(fs_core(fs), pool->server->live, server_timeout_ms(pool->server->live), request,
		    outgoing);
	return true;
}

/* It is in no list. */
static void ask(struct fs *fs, struct lost_end *lost)
{
	int ret = lost->is_tail ? has_tail(fs, lost) : 1;
	const struct layout *layout = volume_region(fs_namespace(fs))->layout;
	struct layout_piece piece = {0};
	const struct layout_home *home;
	const struct pool *pool;

	if (ret < 0) {
		put_off(fs, lost);
		return;
	}
	if (ret != 0)
		piece = layout_piece_at(layout, lost->offset, lost->length);
	/* The bytes have gone. */
	if (!piece.copy || !state_extent_of(fs_core(fs)->state, layout, piece.copy)) {
		cds_list_add_tail(&lost->node, &fs->lost_ends.over);
		return;
	}
	home = layout_home_of(layout, piece.copy);
	pool = state_pool(fs_core(fs)->state, home);
	if (!pool || !pool_is_up(pool) || (lost->is_tail && pool->server->live->retry_at != 0) ||
	    !send(fs, lost, pool, &piece, home))
		put_off(fs, lost);
}

/* Those whose time has come are asked for again. */
static void take_due(struct lost_ends *ends, uint64_t now)
{
	struct lost_end *lost, *next;

	cds_list_for_each_entry_safe (lost, next, &ends->later, node) {
		if (lost->retry_at > now)
			return;
		cds_list_move(&lost->node, &ends->fresh);
	}
}

static bool ask_ender(void *argument, void *row)
{
	struct file *file = row;

	(void)argument;
	if (file->ender != 0)
		end_ask(file);
	return true;
}

/* A server has gone, perhaps with slots. Sessions tell what only those knew, so that no end hangs by one thread. */
static void ask_after_loss(struct fs *fs)
{
	const uint64_t nr_down = fs_core(fs)->nr_down;

	if (fs->lost_ends.nr_down == nr_down)
		return;
	fs->lost_ends.nr_down = nr_down;
	if (fs->nr_enders == 0)
		return;
	tree_walk(fs->files_by_ino, ask_ender, NULL);
	questions_send(fs);
}

void ends_drive(struct fs *fs)
{
	struct lost_ends *ends = &fs->lost_ends;
	struct lost_end *lost, *next;

	ask_after_loss(fs);
	if (!ends->by_ino)
		return;
	lost_ends_sort(fs);
	if (!fs_namespace(fs))
		return;
	take_due(ends, core_now(fs_core(fs)));
	cds_list_for_each_entry_safe (lost, next, &ends->fresh, node) {
		if (ends->nr_asked == ASKED_MAX)
			return;
		cds_list_del(&lost->node);
		ask(fs, lost);
	}
}

static bool is_empty(const struct cds_list_head *list)
{
	return list->next == list;
}

uint64_t ends_next(const struct fs *fs)
{
	const struct lost_ends *ends = &fs->lost_ends;

	if (!ends->by_ino || !fs_namespace(fs))
		return CORE_NEVER;
	if (!is_empty(&ends->over) || !is_empty(&ends->told) ||
	    (!is_empty(&ends->fresh) && ends->nr_asked < ASKED_MAX))
		return 0;
	return is_empty(&ends->later)
		       ? CORE_NEVER
		       : cds_list_first_entry(&ends->later, struct lost_end, node)->retry_at;
}

/* ---- What a slot said */

/* Returns where the last run of a file's own ends, in bytes. */
static uint64_t end_of_room(const struct file *file)
{
	const struct runs *runs = file->runs;
	size_t nr = runs->nr - (end_slot_of(file) != NULL);

	return nr != 0 ? (runs->run[nr - 1].unit + runs->run[nr - 1].nr) * FILE_UNIT : 0;
}

/* A faulty session may have written anything: no end is behind the room that the file has. */
static int take_end(struct file *file, const uint8_t *bytes, size_t length)
{
	struct inode *inode = file->inode;
	uint64_t end;
	int ret = file_load_runs(file);

	if (ret < 0 || !end_slot_read(bytes, length, file->ino, inode->layout, &end) ||
	    end <= inode->size || end > end_of_room(file))
		return ret;
	inode = file_edit(file);
	if (!inode)
		return error_code(-ENOMEM);
	inode->size = end;
	inode_touch(inode);
	/* The slot will be written over by its next owner. */
	file_put(file);
	return 0;
}

/* Its session may go on with what it has begun. So nobody else appends until it has said that it does not. */
static int keep_others_out(struct file *file, uint64_t session)
{
	const struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node)
		if (hold->session == session && (hold->access & W_OK))
			return hold_set_silent(file, session);
	return 0;
}

static int end_file(struct file *file)
{
	int ret;

	if (file_is_held(file))
		return 0;
	file_put(file);
	ret = file_trim_closed(file);
	return ret == 0 ? file_settle(file) : ret;
}

static int forget(struct fs *fs, struct lost_end *lost)
{
	int ret = undo_room(fs_undo(fs), 1);

	if (ret == 0)
		undo_set(fs_undo(fs), lost->is_settled, true);
	return ret;
}

static int end_lost(struct fs *fs, struct lost_end *lost, struct file *file)
{
	size_t mark;
	int ret = forget(fs, lost);

	mark = undo_mark(fs_undo(fs));
	return ret == 0 ? fs_may_fail(fs, file->ino, mark, end_file(file)) : ret;
}

/* Returns whether the rest of the last unit is to be zeroed, when the batch is committed; -ENOMEM. The session that had the end waits for that, too. */
static int begin_tail(struct lost_end *lost, const struct file *file)
{
	struct undo *undo = fs_undo(file->fs);
	uint64_t offset, length = end_tail_of(file, &offset);
	int ret = length != 0 ? undo_room(undo, 7) : 0;

	if (length == 0 || ret < 0)
		return ret;
	undo_set(undo, lost->offset, offset);
	undo_set(undo, lost->length, length);
	undo_set(undo, lost->is_tail, true);
	undo_set(undo, lost->session, 0);
	undo_set(undo, lost->is_told, false);
	undo_set(undo, lost->layout, file->inode->layout);
	undo_set(undo, lost->retry_at, 0);
	return 1;
}

/* `bytes`: of the slot. NULL: they are lost. */
static int take_slot(struct fs *fs, struct lost_end *lost, struct file *file, const uint8_t *bytes,
		     size_t length)
{
	size_t mark = undo_mark(fs_undo(fs));
	uint64_t session = lost->session;
	int ret = bytes ? take_end(file, bytes, length) : 0;

	/* Else it has told the end since. */
	if (ret == 0 && session != 0 && file->ender == session)
		ret = keep_others_out(file, session);
	if (ret == 0 && session != 0 && file->ender == session)
		ret = end_set(file, 0, 0);
	ret = fs_may_fail(fs, lost->ino, mark, ret);
	if (ret < 0)
		return ret;
	ret = bytes && file->runs ? begin_tail(lost, file) : 0;
	if (ret != 0)
		return ret < 0 ? ret : 0;
	return end_lost(fs, lost, file);
}

static int settle(struct fs *fs, struct lost_end *lost, const uint8_t *bytes, size_t length)
{
	struct file *file;
	int ret = file_get(fs, lost->ino, &file);

	if (ret < 0)
		return ret == -ESTALE ? forget(fs, lost) : ret;
	return lost->is_tail ? end_lost(fs, lost, file) : take_slot(fs, lost, file, bytes, length);
}

/* It counts when the batch is committed. */
static int settle_told(struct fs *fs, struct lost_end *lost, const uint8_t *bytes, size_t length)
{
	lost->retry_at = core_now(fs_core(fs)) + CORE_RETRY_NS;
	cds_list_add_tail(&lost->node, &fs->lost_ends.told);
	return settle(fs, lost, bytes, length);
}

int ends_work(struct fs *fs)
{
	struct lost_end *lost, *next;
	int ret = 0;

	if (!fs_namespace(fs))
		return 0;
	cds_list_for_each_entry_safe (lost, next, &fs->lost_ends.over, node) {
		if (!lost->is_tail)
			log_warn_some(
				"file system '%s': what a session wrote last to inode %llu may be "
				"lost, with the server that knew where the file ends",
				fs_namespace(fs)->name, (unsigned long long)lost->ino);
		cds_list_del(&lost->node);
		ret = settle_told(fs, lost, NULL, 0);
		if (ret < 0)
			break;
	}
	return ret;
}

/* Returns whether the bytes are lost. A device may read again what it could not: it has some seconds for that. */
static bool is_over(struct lost_end *lost, int status)
{
	if (status == -EIO)
		return ++lost->nr_failed >= FAILED_MAX;
	return status == -AFAR_ELOST || status == -ERANGE || status == -EBADMSG;
}

static int answered(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	const Afar__Reply *answer = event->answer;
	struct fs *fs = files_find(core, outgoing->fs);
	struct lost_end *lost;

	if (!fs)
		return 0;
	fs->lost_ends.nr_asked--;
	lost = end_find_asked(fs, outgoing->ino, outgoing->recall);
	if (!lost)
		return 0;
	if (is_done && answer->result_case == AFAR__REPLY__RESULT_EXTENT_BYTES)
		return settle_told(fs, lost, answer->extent_bytes->data.data,
				   answer->extent_bytes->data.len);
	if (is_done || (answer && is_over(lost, answer->status)))
		cds_list_add_tail(&lost->node, &fs->lost_ends.over);
	else
		put_off(fs, lost);
	return 0;
}

/* ---- Who waits */

/* A call that is looked at before it is carried out. */
struct looking {
	struct core *core;
	struct event *event;
	struct fs *fs;
	uint64_t until;
	uint64_t longest; /* it waits until then */
};

static void wait_until(struct looking *looking, uint64_t until)
{
	if (until > looking->longest)
		until = looking->longest;
	if (until > looking->until)
		looking->until = until;
}

/* Returns whether the session has to tell where a file ends first, and may have begun to. */
static bool await_ender(struct looking *looking, struct file *file)
{
	const uint64_t now = core_now(looking->core);

	if (file->ender == 0 || file->ender == looking->event->session)
		return false;
	file->end_quiet_until = now + QUIET_NS;
	if (file->ender_until <= now && !file->is_ender_asked)
		file->ender_until = now + REST_NS;
	if (file->ender_until <= now) {
		/* Without memory it is tried again. */
		if (end_add_lost(file, file->ender) < 0)
			wait_until(looking, now + QUIET_NS);
		return false;
	}
	file->is_ender_asked = true;
	end_ask(file);
	wait_until(looking, file->ender_until);
	return true;
}

/* The file that a call is about, if others may know where it ends. NULL: there is none. */
static struct file *find(const struct looking *looking, uint64_t ino)
{
	struct file *file = NULL;

	/* After a restart, or when its end is lost, it may be in no memory. */
	if (looking->fs->nr_left == 0 && !end_find_lost(looking->fs, ino))
		return file_cached(looking->fs, ino);
	return ino != 0 && file_get(looking->fs, ino, &file) == 0 ? file : NULL;
}

static void wait_for(struct looking *looking, uint64_t ino, bool is_change)
{
	struct file *file = find(looking, ino);
	const struct lost_end *lost;

	/* Else it is gone, or has been closed by all. */
	if (!file || await_ender(looking, file))
		return;
	lost = end_find_lost(looking->fs, ino);
	if (lost ? !lost->is_told && lost->session != looking->event->session &&
			    (is_change || !lost->is_tail)
		 : end_is_left(file))
		wait_until(looking, looking->longest);
}

/* A session that has the end without having asked for it may be idle. It is asked once more. */
static void wait_to_append(struct looking *looking, uint64_t ino)
{
	struct file *file = file_cached(looking->fs, ino);

	if (file && file->is_appender_forced && file->appender != looking->event->session)
		end_ask(file);
	wait_for(looking, ino, true);
}

static void wait_for_name(struct looking *looking, uint64_t dir, const char *name, bool is_change)
{
	uint32_t type;
	uint64_t ino;

	if (check_name(name) == 0 && record_get_name(looking->fs, dir, name, &ino, &type) == 0)
		wait_for(looking, ino, is_change);
}

static void wait_for_path(struct looking *looking, const Afar__FileWho *asker,
			  const Afar__FileWalk *ask)
{
	const struct who who = who_from(asker);
	struct file *file;

	if (name_walk(looking->fs, &who, ask, &file) == 0)
		wait_for(looking, file->ino, false);
}

/* Inodes of a listing. The store allows no other reading while it is ranged over. */
struct inodes {
	uint64_t *list;
	size_t nr;
};

static int add_entry(void *argument, const char *name, uint64_t ino, uint32_t type)
{
	struct inodes *inodes = argument;

	(void)name;
	(void)type;
	inodes->list[inodes->nr++] = ino;
	return 0;
}

static void wait_for_list(struct looking *looking, const Afar__FileList *ask)
{
	const size_t max = list_max(ask);
	struct inodes inodes = {.list = calloc(max, sizeof(*inodes.list))};

	/* Without memory the listing fails, too. */
	if (inodes.list &&
	    record_range_names(looking->fs, ask->dir, ask->after, max, add_entry, &inodes) == 0)
		for (size_t i = 0; i < inodes.nr; i++)
			wait_for(looking, inodes.list[i], false);
	free(inodes.list);
}

static void wait_for_look(struct looking *looking, const Afar__FileWho *who,
			  const Afar__FileLook *ask)
{
	switch (ask->what_case) {
	case AFAR__FILE_LOOK__WHAT_LOOKUP:
		wait_for_name(looking, ask->lookup->dir, ask->lookup->name, false);
		break;
	case AFAR__FILE_LOOK__WHAT_WALK:
		wait_for_path(looking, who, ask->walk);
		break;
	case AFAR__FILE_LOOK__WHAT_STAT:
		wait_for(looking, ask->stat->ino, false);
		break;
	case AFAR__FILE_LOOK__WHAT_LIST:
		if (ask->list->with_attributes)
			wait_for_list(looking, ask->list);
		break;
	case AFAR__FILE_LOOK__WHAT_MAP:
		wait_for(looking, ask->map->ino, false);
		break;
	default:
		break;
	}
}

static void wait_for_hold(struct looking *looking, const Afar__FileHold *ask)
{
	if (ask->what_case == AFAR__FILE_HOLD__WHAT_OPEN)
		wait_for(looking, ask->open->ino, ask->open->access & W_OK);
	else if (ask->what_case == AFAR__FILE_HOLD__WHAT_APPEND)
		wait_to_append(looking, ask->append->ino);
}

static void wait_for_change(struct looking *looking, const Afar__FileChange *ask)
{
	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		if (!ask->make->is_nameless)
			wait_for_name(looking, ask->make->dir, ask->make->name,
				      ask->make->access & W_OK);
		break;
	case AFAR__FILE_CHANGE__WHAT_LINK:
		wait_for(looking, ask->link->ino, false);
		break;
	case AFAR__FILE_CHANGE__WHAT_SET:
		wait_for(looking, ask->set->ino, ask->set->mask & FILE_SET_SIZE);
		break;
	case AFAR__FILE_CHANGE__WHAT_EXTEND:
		wait_for(looking, ask->extend->ino, true);
		break;
	case AFAR__FILE_CHANGE__WHAT_PUNCH:
		wait_for(looking, ask->punch->ino, true);
		break;
	case AFAR__FILE_CHANGE__WHAT_SYNC:
		wait_for(looking, ask->sync->ino, false);
		break;
	default:
		break;
	}
}

/* Returns whether there is nothing to wait for: the usual case. */
static bool is_idle(const struct fs *fs)
{
	return fs->nr_enders == 0 && !fs->lost_ends.by_ino && fs->nr_left == 0;
}

static bool is_listing(const Afar__FilesLook *ask)
{
	return ask->n_operations == 1 &&
	       ask->operations[0]->what_case == AFAR__FILE_LOOK__WHAT_LIST;
}

/* Until when a call waits at most. */
static uint64_t longest_of(struct core *core, struct event *event)
{
	const Afar__Request *request = event->request;

	if (request->call_case != AFAR__REQUEST__CALL_FILES_LOOK ||
	    !is_listing(request->files_look))
		return event->answer_by;
	if (event->end_until == 0)
		event->end_until = core_now(core) + LIST_NS;
	return event->end_until < event->answer_by ? event->end_until : event->answer_by;
}

uint64_t ends_wait(struct core *core, struct event *event, struct fs *fs)
{
	struct looking looking = {.core = core, .event = event, .fs = fs};
	const Afar__Request *request = event->request;

	if (request->call_case != AFAR__REQUEST__CALL_FILES_HOLD && is_idle(fs))
		return 0;
	looking.longest = longest_of(core, event);
	switch (request->call_case) {
	case AFAR__REQUEST__CALL_FILES_LOOK:
		for (size_t i = 0; i < request->files_look->n_operations; i++)
			wait_for_look(&looking, request->files_look->who,
				      request->files_look->operations[i]);
		break;
	case AFAR__REQUEST__CALL_FILES_HOLD:
		for (size_t i = 0; i < request->files_hold->n_operations; i++)
			wait_for_hold(&looking, request->files_hold->operations[i]);
		break;
	default:
		for (size_t i = 0; i < request->files_change->n_operations; i++)
			wait_for_change(&looking, request->files_change->operations[i]);
		break;
	}
	return looking.until;
}
