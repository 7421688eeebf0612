/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions that answer nothing at all, because their process was stopped. Others wait for such a session once. Later questions are not
 * put to it, and nobody waits, because it answers from memory no more. Nothing is delegated to it, until it answers again. Then it is
 * asked first what it has missed.
 *
 * A question may take long at a client that runs: pages of a server that is away are dropped late. So a session that owes an answer is
 * probed. A client that runs answers that at once, whatever its programs do.
 */
#include "base/log.h"
#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/files/delegates.h"
#include "manager/files/holds.h"

#define PROBE_NS              \
	(DELEGATION_KEPT_NS / \
	 2) /* after a question; and who has not answered after another one is silent */

static outgoing_answered probed;

static void *peer_of(const struct fs *fs, const struct delegate *delegate)
{
	const struct session *session = state_session(fs_core(fs)->state, delegate->session);

	return session && session->live ? session->live->peer : NULL;
}

/* Begins the time anew in which it is to answer something, if there is anything. */
static void begin_owing(struct fs *fs, struct delegate *delegate)
{
	delegate_forget_debt(delegate);
	if (delegate->answered >= delegate->asked || delegate->probed_at != 0)
		return;
	delegate->owes_since = core_now(fs_core(fs));
	cds_list_add_tail(&delegate->owing, &fs->owing);
}

void silence_asked(struct fs *fs, struct delegate *delegate, uint64_t number)
{
	bool is_first = delegate->answered >= delegate->asked;

	/* Questions of several kinds grow side by side. */
	if (number > delegate->asked)
		delegate->asked = number;
	if (is_first)
		begin_owing(fs, delegate);
}

void silence_is_away(struct fs *fs, struct delegate *delegate)
{
	if (delegate->probed_at != 0)
		return;
	delegate_forget_debt(delegate);
	delegate->probed_at = core_now(fs_core(fs));
	delegate->probed_peer = NULL;
}

/* It answers again. Until it is asked what it has missed, it is as silent as before. */
static void come_back(struct fs *fs, struct delegate *delegate)
{
	delegate->probed_at = 0;
	begin_owing(fs, delegate);
	if (delegate->has_missed && cds_list_empty(&delegate->returned))
		cds_list_add_tail(&delegate->returned, &fs->returned);
}

void silence_end(struct fs *fs, struct delegate *delegate)
{
	cds_list_del(&delegate->returned);
	CDS_INIT_LIST_HEAD(&delegate->returned);
	delegate->has_missed = false;
	log_info("session %llx answers again", (unsigned long long)delegate->session);
	delegate_clear(fs, delegate);
}

void silence_answered(struct fs *fs, uint64_t session, uint64_t number)
{
	struct delegate *delegate = delegate_find(fs, session);

	if (!delegate)
		return;
	if (number > delegate->answered)
		delegate->answered = number;
	if (delegate->probed_at != 0)
		come_back(fs, delegate);
	else
		begin_owing(fs, delegate);
}

bool delegate_is_silent(struct fs *fs, struct delegate *delegate)
{
	const void *peer = peer_of(fs, delegate);

	if (delegate->probed_at == 0)
		return delegate->has_missed;
	if (peer && peer != delegate->probed_peer) {
		come_back(fs, delegate);
		return delegate->has_missed;
	}
	return delegate->probed_at + PROBE_NS <= fs_core(fs)->heard_at &&
	       delegate_has_run_out(fs, delegate);
}

bool session_misses(struct fs *fs, uint64_t session)
{
	struct delegate *delegate = delegate_find(fs, session);

	if (!delegate || !delegate_is_silent(fs, delegate))
		return false;
	if (!delegate->has_missed)
		log_info("session %llx answers nothing: until it does, nobody waits for it to drop "
			 "what it keeps of files",
			 (unsigned long long)session);
	delegate->has_missed = true;
	return true;
}

/* ---- Probing */

static Afar__Request *new_probe(const struct fs *fs)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__FileRevoke *revoke = MESSAGE_NEW(afar__file_revoke, Afar__FileRevoke);

	if (!request || !revoke) {
		free(request);
		free(revoke);
		return NULL;
	}
	/* It names no inode. */
	revoke->fs = fs->number;
	request->file_revoke = revoke;
	request->call_case = AFAR__REQUEST__CALL_FILE_REVOKE;
	return request;
}

/* The answer may take as long as the client is stopped. If its connection has ended, the next question finds that out. */
static int probed(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct fs *fs = files_find(core, outgoing->fs);
	struct delegate *delegate = fs ? delegate_find(fs, outgoing->session) : NULL;

	(void)is_done;
	if (!delegate || delegate->probed_peer != event->peer)
		return 0;
	if (event->answer)
		silence_answered(fs, outgoing->session, outgoing->recall);
	else
		delegate->probed_peer = NULL;
	return 0;
}

static void probe(struct fs *fs, struct delegate *delegate)
{
	struct core *core = fs_core(fs);
	void *peer = peer_of(fs, delegate);
	struct outgoing *outgoing = peer ? outgoing_new_to(probed, peer) : NULL;
	Afar__Request *request = peer ? new_probe(fs) : NULL;

	if (peer && (!outgoing || !request)) {
		outgoing_free(outgoing);
		if (request)
			afar__request__free_unpacked(request, NULL);
		begin_owing(fs, delegate);
		return;
	}
	silence_is_away(fs, delegate);
	if (!peer)
		return;
	delegate->probed_peer = peer;
	outgoing->session = delegate->session;
	outgoing->fs = fs->number;
	outgoing->recall = ++core->files->last_recall;
	core_call(core, peer, CORE_NO_TIMEOUT, request, outgoing);
}

static uint64_t next_probe(const struct fs *fs)
{
	if (fs->owing.next == &fs->owing)
		return CORE_NEVER;
	return cds_list_first_entry(&fs->owing, struct delegate, owing)->owes_since + PROBE_NS;
}

uint64_t silence_next(const struct fs *fs)
{
	return fs->returned.next != &fs->returned ? 0 : next_probe(fs);
}

void silence_drive(struct fs *fs)
{
	while (next_probe(fs) <= core_now(fs_core(fs)))
		probe(fs, cds_list_first_entry(&fs->owing, struct delegate, owing));
}
