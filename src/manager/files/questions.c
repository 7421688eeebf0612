/* SPDX-License-Identifier: BSD-3-Clause */
/* See delegates.h. The fs has a list of the questions that an event brings. They are sent at the end of the look at it. */
#include "manager/files/delegates.h"

#include <errno.h>

#include "manager/connections/live.h"
#include "manager/files/holds.h"

#define INOS_MAX 1024U /* of one message */

struct question {
	struct cds_list_head node; /* of the fs */
	uint64_t session, number;
	unsigned what; /* HOLD_…, ASK_REVOKES */
	void *peer;
	struct outgoing *outgoing;
	Afar__Request *request;
};

static Afar__Request *new_request(const struct fs *fs, unsigned what)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__FileRevoke *revoke = MESSAGE_NEW(afar__file_revoke, Afar__FileRevoke);

	if (!request || !revoke) {
		free(request);
		free(revoke);
		return NULL;
	}
	revoke->fs = fs->number;
	revoke->only_closes = what == HOLD_CLOSES;
	revoke->only_times = what == HOLD_TIMES;
	revoke->only_ends = what == HOLD_ENDS;
	request->file_revoke = revoke;
	request->call_case = AFAR__REQUEST__CALL_FILE_REVOKE;
	return request;
}

static void free_question(struct question *question)
{
	if (question->request)
		afar__request__free_unpacked(question->request, NULL);
	outgoing_free(question->outgoing);
	free(question);
}

static struct question *new_question(struct fs *fs, const struct session *session, unsigned what,
				     outgoing_answered *answered)
{
	struct question *question = calloc(1, sizeof(*question));

	if (!question)
		return NULL;
	question->session = session->number;
	question->number = ++fs->files->last_recall;
	question->what = what;
	question->peer = session->live->peer;
	question->outgoing = outgoing_new_to(answered, question->peer);
	question->request = new_request(fs, what);
	if (!question->outgoing || !question->request) {
		free_question(question);
		return NULL;
	}
	question->outgoing->session = session->number;
	question->outgoing->fs = fs->number;
	question->outgoing->recall = question->number;
	question->outgoing->what = what;
	cds_list_add_tail(&question->node, &fs->questions);
	return question;
}

/* One that is not sent yet, and can take another inode. */
static struct question *find_question(const struct delegate *delegate, unsigned what)
{
	struct question *question = delegate ? delegate->questions[what] : NULL;

	return question && question->outgoing->nr_inos < INOS_MAX ? question : NULL;
}

/* Grows by doubling from 1. */
static int add_number(uint64_t **list, size_t nr, uint64_t number)
{
	if ((nr & (nr - 1)) == 0) {
		uint64_t *more = reallocarray(*list, nr ? 2 * nr : 1, sizeof(*more));

		if (!more)
			return error_code(-ENOMEM);
		*list = more;
	}
	(*list)[nr] = number;
	return 0;
}

/* The message names them, and so does what is kept until it is answered. */
static int add_ino(struct question *question, uint64_t ino)
{
	struct outgoing *outgoing = question->outgoing;
	Afar__FileRevoke *revoke = question->request->file_revoke;

	if (add_number(&revoke->inos, outgoing->nr_inos, ino) != 0 ||
	    add_number(&outgoing->inos, outgoing->nr_inos, ino) != 0)
		return error_code(-ENOMEM);
	revoke->n_inos = ++outgoing->nr_inos;
	return 0;
}

uint64_t question_add(struct fs *fs, const struct session *session, struct delegate *delegate,
		      unsigned what, uint64_t ino, outgoing_answered *answered)
{
	struct question *question = find_question(delegate, what);

	if (!question)
		question = new_question(fs, session, what, answered);
	/* One of no inode asks whether the session answers at all: that does no harm. */
	if (!question || add_ino(question, ino) != 0)
		return 0;
	if (delegate) {
		silence_asked(fs, delegate, question->number);
		delegate->questions[what] = delegate->takes_many ? question : NULL;
	}
	return question->number;
}

void questions_send(struct fs *fs)
{
	struct question *question, *next;
	struct delegate *delegate;

	cds_list_for_each_entry_safe (question, next, &fs->questions, node) {
		Afar__FileRevoke *revoke = question->request->file_revoke;

		cds_list_del(&question->node);
		delegate = delegate_find(fs, question->session);
		if (delegate)
			delegate->questions[question->what] = NULL;
		/* Clients of before know no other question. */
		if (revoke->n_inos == 1) {
			revoke->ino = revoke->inos[0];
			revoke->n_inos = 0;
			free(revoke->inos);
			revoke->inos = NULL;
		}
		core_call(fs_core(fs), question->peer, DELEGATION_KEPT_MS, question->request,
			  question->outgoing);
		free(question);
	}
}

int question_take(struct core *core, const struct outgoing *outgoing, const struct event *event,
		  bool is_done, question_each *each)
{
	struct fs *fs = files_find(core, outgoing->fs);

	if (fs && event->answer)
		silence_answered(fs, outgoing->session, outgoing->recall);
	for (size_t i = 0; i < outgoing->nr_inos && fs; i++) {
		struct file *file = file_cached(fs, outgoing->inos[i]);

		if (file)
			each(file, outgoing, is_done);
	}
	return 0;
}
