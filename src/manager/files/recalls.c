/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recalls. A session that makes a file shorter takes parts of the pool away. Other sessions that
 * have it open know those parts, and may be writing there. So they are asked first: each ends what
 * it has posted, forgets where the file's bytes are, and answers. Until the change is done, whoever
 * asks where they are waits.
 *
 * A session that runs and does not answer makes the change fail with -EBUSY when its time is over. One
 * that was stopped, or is cut off, ends when its lease is over. The change waits for that, and for the servers to be fenced from it. Nothing of a
 * recall is stored or taken back: a session that was asked in vain asks anew, no more.
 *
 * Drops are less. The kernels of mounts keep pages of an open file. They drop these before another session
 * opens it to write, and when that one has written and says so. A session that has it open to write tells of
 * what it has closed before another one opens it that would keep pages. A session that does not answer is
 * waited for a second, and after that no more until it has answered.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "manager/connections/callers.h"
#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/files/delegates.h"
#include "manager/files/holds.h"
#include "manager/files/names.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

static outgoing_answered answered, others_answered;

/* How long a session may take to end what it has posted. Others who want the file wait no longer for
 * that either, however patient whoever makes it shorter is. */
#define RECALL_MS 10000U

#define ANY_REQUEST 0U /* of the session that recalls: recall_keep() */

static Afar__Request *new_request(const struct file *file)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__FileRecall *recall = MESSAGE_NEW(afar__file_recall, Afar__FileRecall);

	if (!request || !recall) {
		free(request);
		free(recall);
		return NULL;
	}
	recall->fs = file->fs->number;
	recall->ino = file->ino;
	request->file_recall = recall;
	request->call_case = AFAR__REQUEST__CALL_FILE_RECALL;
	return request;
}

/* On this connection: on another one it is asked again. */
static void set_asked(struct file *file, uint64_t session, const void *peer)
{
	struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node) {
		if (hold->session != session)
			continue;
		hold->asked = file->recall;
		hold->asked_at = peer;
		hold->asked_since = core_now(fs_core(file->fs));
		hold->is_probed = false;
	}
}

static bool is_asked(const struct file *file, const struct hold *hold, const void *peer)
{
	return hold->asked == file->recall && hold->asked_at == peer;
}

static void ask(struct file *file, const struct hold *hold)
{
	struct core *core = fs_core(file->fs);
	const struct session *session = state_session(core->state, hold->session);
	const struct live_session *live = session ? session->live : NULL;
	struct outgoing *outgoing;
	Afar__Request *request;

	/* One that is away is asked when it is back, or its holds go. */
	if (!live || !live->peer || is_asked(file, hold, live->peer))
		return;
	outgoing = outgoing_new_to(answered, live->peer);
	request = new_request(file);
	if (!outgoing || !request) {
		if (outgoing)
			outgoing_free(outgoing);
		if (request)
			afar__request__free_unpacked(request, NULL);
		return;
	}
	outgoing->session = hold->session;
	outgoing->fs = file->fs->number;
	outgoing->ino = file->ino;
	outgoing->recall = file->recall;
	set_asked(file, hold->session, live->peer);
	core_call(core, live->peer, RECALL_MS, request, outgoing);
}

/* Asks those that have not been asked; true: somebody has not answered. */
static bool ask_all(struct file *file, uint64_t caller)
{
	struct hold *hold;
	bool is_any = false;

	cds_list_for_each_entry (hold, &file->holds, node) {
		if (hold->session == caller || hold->recalled == file->recall)
			continue;
		ask(file, hold);
		is_any = true;
	}
	return is_any;
}

static void set_recalled(struct file *file, uint64_t session)
{
	struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node)
		if (hold->session == session)
			hold->recalled = file->recall;
}

/* ---- Who answers nothing at all */

#define PROBE_AFTER_NS UINT64_C(1000000000)
#define PROBE_MS       3000U

/* A client that runs answers this at once, whatever its programs do. One that was stopped loses its connection, so that its lease begins: it ends, and
 * servers are fenced from it, unless it comes back. */
static int probed(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	const struct session *session = state_session(core->state, outgoing->session);
	const struct live_session *live = session ? session->live : NULL;

	if (is_done || event->status != -ETIMEDOUT || !live || live->peer != event->peer)
		return 0;
	log_info("session %llx of %s answers nothing: its connection is closed",
		 (unsigned long long)session->number, session->client);
	core->environment.close_peer(core->environment.context, live->peer);
	return 0;
}

static Afar__Request *new_probe(const struct file *file)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__FileRevoke *revoke = MESSAGE_NEW(afar__file_revoke, Afar__FileRevoke);

	if (!request || !revoke) {
		free(request);
		free(revoke);
		return NULL;
	}
	/* It names no inode. */
	revoke->fs = file->fs->number;
	request->file_revoke = revoke;
	request->call_case = AFAR__REQUEST__CALL_FILE_REVOKE;
	return request;
}

static void probe(struct file *file, struct hold *hold, void *peer)
{
	struct outgoing *outgoing = outgoing_new_to(probed, peer);
	Afar__Request *request = new_probe(file);

	if (!outgoing || !request) {
		if (outgoing)
			outgoing_free(outgoing);
		if (request)
			afar__request__free_unpacked(request, NULL);
		return;
	}
	hold->is_probed = true;
	outgoing->session = hold->session;
	core_call(fs_core(file->fs), peer, PROBE_MS, request, outgoing);
}

/* Looks after those that have not answered: until when at most that has to be done again. True in `awaits_end`: one of them is not connected, so that it
 * comes back or ends. */
static uint64_t probe_all(struct file *file, uint64_t caller, bool *awaits_end)
{
	struct core *core = fs_core(file->fs);
	uint64_t until = CORE_NEVER, due;
	struct hold *hold;

	*awaits_end = false;
	cds_list_for_each_entry (hold, &file->holds, node) {
		const struct session *session = state_session(core->state, hold->session);
		const struct live_session *live = session ? session->live : NULL;

		if (hold->session == caller || hold->recalled == file->recall)
			continue;
		if (!live || !live->peer) {
			*awaits_end = true;
			continue;
		}
		due = hold->asked_since + PROBE_AFTER_NS;
		if (hold->is_probed || !is_asked(file, hold, live->peer))
			continue;
		if (due <= core_now(core))
			probe(file, hold, live->peer);
		else
			until = due < until ? due : until;
	}
	return until;
}

static int answered(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct fs *fs = files_find(core, outgoing->fs);
	struct file *file = fs ? file_cached(fs, outgoing->ino) : NULL;

	(void)event;
	if (file && file->recall == outgoing->recall && is_done)
		set_recalled(file, outgoing->session);
	return 0;
}

bool file_is_kept(const struct file *file, const struct session *session)
{
	const struct hold *hold;

	/* A hold that was given up for another change, or for an earlier one, is not given up for
	 * this one. */
	cds_list_for_each_entry (hold, &file->holds, node)
		if (hold->session != session->number &&
		    (file->recaller != session->number || hold->recalled != file->recall))
			return true;
	return false;
}

void recall_end(struct file *file)
{
	file->recaller = 0;
	file->recall_until = 0;
}

void recall_keep(struct file *file, const struct session *session)
{
	struct core *core = fs_core(file->fs);

	/* Nobody else may have it open: who opens it now waits, too. */
	if (file->recaller != session->number)
		file->recall = ++core->files->last_recall;
	counter_add(&core->counts.nr_recalls, 1);
	file->recaller = session->number;
	file->recall_request = ANY_REQUEST;
	file->recall_until = core_now(core) + RECALL_MS * UINT64_C(1000000);
}

bool recall_is_kept(const struct file *file, const struct session *session)
{
	return file->recaller == session->number && file->recall_request == ANY_REQUEST &&
	       file->recall_until > core_now(fs_core(file->fs));
}

/* ---- Waiting */

/* The inode that an operation takes parts of the pool from; 0: it does not. */
static uint64_t ino_to_recall(const struct fs *fs, const Afar__FileChange *ask)
{
	const struct file *file;

	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_PUNCH:
		return ask->punch->ino;
	case AFAR__FILE_CHANGE__WHAT_SET:
		file = ask->set->mask & FILE_SET_SIZE ? file_cached(fs, ask->set->ino) : NULL;
		return file && file->inode && ask->set->size < file->inode->size ? file->ino : 0;
	default:
		return 0;
	}
}

/* The request is the one that others give the file up for. */
static bool is_recaller(const struct file *file, const struct event *event)
{
	if (file->recaller != event->session)
		return false;
	return file->recall_request == ANY_REQUEST
		       ? file->recall_until > core_now(fs_core(file->fs))
		       : file->recall_request == event->request_id;
}

static bool is_recalled(const struct file *file, const struct core *core, const struct event *event)
{
	return file->recaller != 0 && !is_recaller(file, event) &&
	       file->recall_until > core_now(core);
}

static void begin_recall(struct core *core, const struct event *event, struct file *file)
{
	uint64_t until = core_now(core) + RECALL_MS * UINT64_C(1000000);

	file->recaller = event->session;
	file->recall_request = event->request_id;
	file->recall = ++core->files->last_recall;
	file->recall_until = until < event->answer_by ? until : event->answer_by;
}

/* Returns until when it waits for those that were asked. Writes of a session that is not connected may land until servers are
 * fenced from it. So it is waited for as long as the caller waits. */
static uint64_t wait_for_all(struct core *core, const struct event *event, struct file *file,
			     uint64_t session)
{
	bool awaits_end;
	uint64_t until = probe_all(file, session, &awaits_end);
	uint64_t longer = core_now(core) + PROBE_AFTER_NS;

	longer = longer < event->answer_by ? longer : event->answer_by;
	if (awaits_end && file->recall_until < longer)
		file->recall_until = longer;
	return until < file->recall_until ? until : file->recall_until;
}

/* Until when the event waits for sessions to give an inode up. `may_begin`: they may be asked to. */
static uint64_t recall_one(struct core *core, const struct event *event, struct file *file,
			   uint64_t session, bool may_begin)
{
	if (is_recalled(file, core, event)) {
		/* It asks for a change of its own, so it has nothing posted: that is as good as an
		 * answer to what it is asked. */
		set_recalled(file, session);
		return file->recall_until;
	}
	if (!is_recaller(file, event) && !may_begin)
		return 0;
	if (!is_recaller(file, event))
		begin_recall(core, event, file);
	return ask_all(file, session) ? wait_for_all(core, event, file, session) : 0;
}

uint64_t recalls_wait(struct core *core, const struct event *event, const struct fs *fs,
		      bool may_begin)
{
	const Afar__FilesChange *ask = event->request->files_change;
	struct session *session;
	uint64_t until = 0;

	if (core_session(core, event, &session) < 0)
		return 0;
	for (size_t i = 0; i < ask->n_operations; i++) {
		uint64_t ino = ino_to_recall(fs, ask->operations[i]);
		struct file *file = ino != 0 ? file_cached(fs, ino) : NULL;
		uint64_t wait = file && file_is_shared(file, session)
					? recall_one(core, event, file, session->number, may_begin)
					: 0;

		until = wait > until ? wait : until;
	}
	return until;
}

/* True: the session goes on with what it knows until it gives the file up, so it may ask for more. If it
 * had to wait here, and what it has posted waited for that, it would never give up. */
static bool goes_on(const struct file *file, uint64_t session)
{
	const struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node)
		if (hold->session == session)
			return hold->recalled != file->recall;
	return false;
}

uint64_t recall_wait_for(struct core *core, const struct event *event, const struct fs *fs,
			 uint64_t ino)
{
	const struct file *file = file_cached(fs, ino);

	if (!file || !is_recalled(file, core, event) || goes_on(file, event->session))
		return 0;
	return file->recall_until < event->answer_by ? file->recall_until : event->answer_by;
}

/* ---- Dropping pages */

#define ASK_NS ((uint64_t)DELEGATION_KEPT_MS * 1000000U)
/* A kernel tells its mount that a program has closed a file a moment after the program goes on. */
#define CLOSE_NS UINT64_C(10000000)

/* Returns whether others are asked about a hold. */
static bool is_for(const struct hold *hold, unsigned what, uint64_t but)
{
	if (hold->session == but)
		return false;
	if (what == HOLD_DROPS)
		return hold->access & FILE_KEEPS_PAGES;
	if (what == HOLD_KEPT)
		return !(hold->access & W_OK) && !(hold->handle & FILE_USED);
	return hold->access & W_OK;
}

bool file_has_kept_pages(const struct file *file, uint64_t session)
{
	const struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node)
		if (is_for(hold, HOLD_DROPS, session))
			return true;
	return false;
}

/* Notes for all holds of a session what one of them is asked. */
static void note_ask(struct file *file, uint64_t session, unsigned what, uint64_t number,
		     const void *peer)
{
	const uint64_t now = core_now(fs_core(file->fs));
	struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node) {
		struct hold_ask *ask = &hold->asks[what];

		if (hold->session != session)
			continue;
		if (ask->asked <= ask->answered)
			ask->since = now;
		ask->asked = number;
		ask->asked_at = peer;
	}
}

/* One question at a time, so that who does not answer has one in its queue. */
static void ask_other(struct file *file, const struct hold *hold, unsigned what)
{
	struct fs *fs = file->fs;
	const struct session *session = state_session(fs_core(fs)->state, hold->session);
	const void *peer = session && session->live ? session->live->peer : NULL;
	const struct hold_ask *last = &hold->asks[what];
	struct delegate *delegate;
	uint64_t number;

	if (last->asked > last->answered && (!peer || last->asked_at == peer))
		return;
	note_ask(file, hold->session, what, ++fs->files->last_recall, NULL);
	delegate = session ? delegate_get(fs, session) : NULL;
	if (!peer && delegate)
		silence_is_away(fs, delegate);
	number = peer ? question_add(fs, session, delegate, what, file->ino, others_answered) : 0;
	if (number != 0)
		note_ask(file, hold->session, what, number, peer);
}

void end_ask(struct file *file)
{
	const uint64_t session = file->ender != 0 ? file->ender : file->appender;
	const struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node)
		if (hold->session == session && (hold->access & W_OK))
			ask_other(file, hold, HOLD_ENDS);
}

static void take_answer(struct file *file, const struct outgoing *outgoing, bool is_done)
{
	struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node) {
		struct hold_ask *ask = &hold->asks[outgoing->what];

		if (hold->session != outgoing->session || ask->asked != outgoing->recall)
			continue;
		if (is_done)
			ask->answered = outgoing->recall;
		else
			ask->asked_at = NULL;
	}
}

static int others_answered(struct core *core, struct outgoing *outgoing, struct event *event,
			   bool is_done)
{
	return question_take(core, outgoing, event, is_done, take_answer);
}

/* Asks about a hold of the session's that was passed over. */
static bool ask_missed(void *argument, void *row)
{
	const uint64_t session = *(const uint64_t *)argument;
	struct hold *hold = row;

	if (hold->session != session || !hold->has_missed_drop)
		return hold->session <= session;
	hold->has_missed_drop = false;
	ask_other(hold->file, hold, HOLD_DROPS);
	return true;
}

/* It gets another number, too, because it may know what has changed meanwhile. */
void drops_drive(struct fs *fs)
{
	struct delegate *delegate, *next;

	cds_list_for_each_entry_safe (delegate, next, &fs->returned, returned) {
		silence_end(fs, delegate);
		tree_walk(fs->holds_by_handle, ask_missed, &delegate->session);
		questions_send(fs);
	}
}

/* Returns whether it is passed over, because its session answers nothing. */
static bool is_missed(struct hold *hold, unsigned what)
{
	if (!session_misses(hold->file->fs, hold->session))
		return false;
	if (what == HOLD_DROPS || what == HOLD_KEPT)
		hold->has_missed_drop = true;
	return true;
}

/* How long an event waits for a hold's answer. Closing what is kept comes behind dropping pages, and has a second of its own. A session that has
 * not dropped its pages had its second. */
static uint64_t *limit_of(struct event *event, const struct hold *hold, unsigned what)
{
	bool was_asked = event->drop_until != 0 && is_for(hold, HOLD_DROPS, event->session);

	return what == HOLD_KEPT && !was_asked ? &event->kept_until : &event->drop_until;
}

/* Returns until when an event waits for others that have an inode open. After a second without an answer, a session is not
 * waited for until it has answered. An answer that came in that second counts, however long the manager was busy. */
static uint64_t ask_others(struct core *core, struct event *event, const struct fs *fs,
			   uint64_t ino, unsigned what)
{
	struct file *file = file_cached(fs, ino);
	const uint64_t now = core_now(core);
	uint64_t until = 0, due, *limit;
	struct hold *hold;

	if (!file)
		return 0;
	cds_list_for_each_entry (hold, &file->holds, node) {
		if (!is_for(hold, what, event->session))
			continue;
		/* It has dropped the file for this, and let go of what it kept. */
		if (what == HOLD_KEPT && event->drop != 0 &&
		    hold->asks[HOLD_DROPS].answered > event->drop)
			continue;
		limit = limit_of(event, hold, what);
		if (event->drop == 0)
			event->drop = ++core->files->last_recall;
		if (*limit == 0)
			*limit = now + ASK_NS;
		if (hold->asks[what].answered > event->drop) {
			due = what == HOLD_CLOSES ? *limit - ASK_NS + CLOSE_NS : 0;
			until = due > until ? due : until;
			continue;
		}
		if (is_missed(hold, what))
			continue;
		ask_other(file, hold, what);
		due = hold->asks[what].since + ASK_NS;
		due = due < *limit ? due : *limit;
		until = due > until ? due : until;
	}
	if (until <= core->heard_at)
		return 0;
	return until > now ? until : now + 1;
}

/* Opening a file to write has others drop its pages. A session that would keep pages is let in beside a writer only if that
 * one has not closed it by now. */
static uint64_t ask_to_open(struct core *core, struct event *event, const struct fs *fs,
			    uint64_t ino, uint32_t access)
{
	uint64_t until = 0, wait = 0;

	if (access & FILE_KEEPS_PAGES)
		until = ask_others(core, event, fs, ino, HOLD_CLOSES);
	if (access & W_OK)
		wait = ask_others(core, event, fs, ino, HOLD_DROPS);
	return wait > until ? wait : until;
}

uint64_t kept_wait_for(struct core *core, struct event *event, const struct fs *fs, uint64_t ino)
{
	return ask_others(core, event, fs, ino, HOLD_KEPT);
}

uint64_t drops_wait_to_look(struct core *core, struct event *event, const struct fs *fs)
{
	const Afar__FilesLook *ask = event->request->files_look;
	uint64_t until = 0, wait;

	for (size_t i = 0; i < ask->n_operations; i++) {
		if (ask->operations[i]->what_case != AFAR__FILE_LOOK__WHAT_STAT ||
		    !ask->operations[i]->stat->asks_writers)
			continue;
		wait = ask_others(core, event, fs, ask->operations[i]->stat->ino, HOLD_TIMES);
		until = wait > until ? wait : until;
	}
	return until;
}

uint64_t drops_wait_to_hold(struct core *core, struct event *event, const struct fs *fs)
{
	const Afar__FilesHold *ask = event->request->files_hold;
	uint64_t until = 0, wait;

	for (size_t i = 0; i < ask->n_operations; i++) {
		const Afar__FileOpen *open = ask->operations[i]->open;

		if (ask->operations[i]->what_case != AFAR__FILE_HOLD__WHAT_OPEN ||
		    open_is_refused(fs, ask->who, open->ino, open->access))
			continue;
		wait = ask_to_open(core, event, fs, open->ino, open->access);
		until = wait > until ? wait : until;
	}
	return until;
}

/* Others drop pages before they give the file up. Then what they read waits, and their kernels drop no page that is
 * being read. */
static uint64_t ask_to_shorten(struct core *core, struct event *event, const struct fs *fs,
			       uint64_t ino)
{
	const struct file *file = file_cached(fs, ino);

	return file && is_recaller(file, event) ? 0 : ask_others(core, event, fs, ino, HOLD_DROPS);
}

/* Writes from before a time is set must not be told after that. */
static uint64_t ask_to_set(struct core *core, struct event *event, struct fs *fs,
			   const Afar__FileSet *ask)
{
	uint64_t until = 0, wait = 0;

	if (ask->mask & FILE_SET_SIZE)
		until = ask_to_shorten(core, event, fs, ask->ino);
	if (ask->mask & FILE_SET_MTIME)
		wait = ask_others(core, event, fs, ask->ino, HOLD_TIMES);
	return wait > until ? wait : until;
}

static uint64_t ask_to_change(struct core *core, struct event *event, struct fs *fs,
			      const Afar__FileChange *ask)
{
	uint32_t type;
	uint64_t ino;

	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_SYNC:
		return ask->sync->drops_pages
			       ? ask_others(core, event, fs, ask->sync->ino, HOLD_DROPS)
			       : 0;
	case AFAR__FILE_CHANGE__WHAT_SET:
		return ask_to_set(core, event, fs, ask->set);
	case AFAR__FILE_CHANGE__WHAT_PUNCH:
		return ask_to_shorten(core, event, fs, ask->punch->ino);
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		/* It may open what is there. */
		if (ask->make->handle == 0 || ask->make->is_nameless ||
		    check_name(ask->make->name) < 0 ||
		    record_get_name(fs, ask->make->dir, ask->make->name, &ino, &type) < 0)
			return 0;
		return ask_to_open(core, event, fs, ino, ask->make->access);
	default:
		return 0;
	}
}

uint64_t drops_wait_to_change(struct core *core, struct event *event, struct fs *fs)
{
	const Afar__FilesChange *ask = event->request->files_change;
	uint64_t until = 0, wait;

	for (size_t i = 0; i < ask->n_operations; i++) {
		wait = ask_to_change(core, event, fs, ask->operations[i]);
		until = wait > until ? wait : until;
	}
	return until;
}
