/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Giving a file up. Another session makes it shorter. The manager asks all that have it open to end what
 * they have posted, and to forget where its bytes are. The control thread must not wait for that. So a
 * thread of its own shuts the inode's gate, as a thread does that makes a file shorter here.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "client/files/fs.h"

struct recall {
	struct file_inode *inode; /* NULL: closings are to be told */
	struct afar_fs *fs;
	struct rpc_call *call;
	uint64_t nr_commits; /* so many end first, then writes of these are told */
	size_t nr_inos;
	uint64_t inos[];
};

static void end(struct afar_fs *fs)
{
	pthread_mutex_lock(&fs->lock);
	fs->nr_recalls--;
	pthread_cond_broadcast(&fs->changed);
	pthread_mutex_unlock(&fs->lock);
}

void fs_await_recalls(struct afar_fs *fs)
{
	pthread_mutex_lock(&fs->lock);
	while (fs->nr_recalls != 0)
		pthread_cond_wait(&fs->changed, &fs->lock);
	pthread_mutex_unlock(&fs->lock);
}

static void *give_up(void *argument)
{
	struct recall *recall = argument;
	struct file_inode *inode = recall->inode;
	struct afar_fs *fs = inode->fs;
	int ret = inode_shut(inode, CLOCK_NEVER);

	if (ret == 0)
		inode_forget(inode);
	rpc_reply_status(recall->call, 0, ret);
	if (ret == 0)
		inode_reopen(inode);
	inode_put(inode);
	end(fs);
	free(recall);
	return NULL;
}

static int start(struct recall *recall, void *(*run)(void *argument))
{
	pthread_attr_t attributes;
	sigset_t all, old;
	pthread_t thread;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	ret = pthread_create(&thread, &attributes, run, recall);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -ret;
}

/* Finds the inode, if a file of it is open. On success the fs waits for end(), and the inode is the
 * caller's to put. Else says whether writes to the file may still land. They may, if a closing that was held back
 * (fs_closing.h) was dropped. Its file system was closed and the close of the pool is deferred (deferred_close.c), or could not be closed. */
static struct file_inode *find(struct afar_session *session, const Afar__FileRecall *ask,
			       bool *is_in_doubt)
{
	struct file_inode *inode = NULL;
	struct afar_fs *fs;

	pthread_mutex_lock(&session->lock);
	*is_in_doubt = session->nr_lingering != 0;
	cds_list_for_each_entry (fs, &session->file_systems, node) {
		if (fs->ns->number != ask->fs)
			continue;
		/* First, because a file that is being opened now may have been told of before. */
		inode_set_outdated(fs, ask->ino);
		kept_let_go(fs, &ask->ino, 1);
		inode = inode_find(fs, ask->ino);
		*is_in_doubt = target_is_in_doubt(fs_pool(fs));
		break;
	}
	pthread_mutex_unlock(&session->lock);
	return inode;
}

void fs_recall(struct afar_session *session, const Afar__FileRecall *ask, struct rpc_call *call)
{
	bool is_in_doubt;
	struct file_inode *inode = find(session, ask, &is_in_doubt);
	struct recall *recall;
	struct afar_fs *fs;
	int ret;

	/* Nothing is posted to what is not open, or is being closed. */
	if (!inode) {
		ret = is_in_doubt ? inode_fail_in_doubt(ask->ino) : 0;
		rpc_reply_status(call, 0, ret);
		return;
	}
	recall = malloc(sizeof(*recall));
	if (recall)
		*recall = (struct recall){.inode = inode, .fs = inode->fs, .call = call};
	ret = recall ? start(recall, give_up) : error_code(-ENOMEM);
	if (ret == 0)
		return;
	free(recall);
	rpc_reply_status(call, 0, error_fail(ret, "give a file up: no thread can be made"));
	fs = inode->fs;
	inode_put(inode);
	end(fs);
}

/* ---- Closings */

static void *tell_closings(void *argument)
{
	struct recall *recall = argument;

	closings_flush(recall->fs);
	rpc_reply_status(recall->call, 0, 0);
	end(recall->fs);
	free(recall);
	return NULL;
}

void fs_tell_closings(struct afar_session *session, const Afar__FileRevoke *ask,
		      struct rpc_call *call)
{
	struct recall *recall = NULL;
	struct afar_fs *fs;
	int ret = 0;

	pthread_mutex_lock(&session->lock);
	cds_list_for_each_entry (fs, &session->file_systems, node) {
		if (fs->ns->number != ask->fs || !closings_are_pending(fs))
			continue;
		recall = malloc(sizeof(*recall));
		if (!recall) {
			ret = error_code(-ENOMEM);
			break;
		}
		*recall = (struct recall){.fs = fs, .call = call};
		pthread_mutex_lock(&fs->lock);
		fs->nr_recalls++;
		pthread_mutex_unlock(&fs->lock);
		break;
	}
	pthread_mutex_unlock(&session->lock);
	if (recall) {
		ret = start(recall, tell_closings);
		if (ret == 0)
			return;
		end(recall->fs);
		error_fail(ret, "tell of closings: no thread can be made");
	}
	free(recall);
	/* The manager waits, and asks again. */
	rpc_reply_status(call, 0, ret);
}

/* ---- Times */

struct telling {
	struct afar_session *session;
	uint64_t fs, ino, number;
};

/* -ESTALE: it was made shorter after that write, which has moved the time, too. */
static bool is_answered(const Afar__Reply *reply)
{
	return reply && reply->status == 0 &&
	       reply->result_case == AFAR__REPLY__RESULT_FILE_RESULTS &&
	       reply->file_results->n_results == 1 &&
	       (reply->file_results->results[0]->status == 0 ||
		reply->file_results->results[0]->status == -ESTALE);
}

/* The file system may have been closed meanwhile. */
static void end_telling(void *argument, const Afar__Frame *frame, int status)
{
	struct telling *telling = argument;
	struct afar_session *session = telling->session;
	bool is_told = status == 0 && frame && is_answered(frame->reply);
	struct afar_fs *fs;

	pthread_mutex_lock(&session->lock);
	cds_list_for_each_entry (fs, &session->file_systems, node)
		if (fs->ns->number == telling->fs)
			inode_end_telling(fs, telling->ino, telling->number, is_told);
	pthread_mutex_unlock(&session->lock);
	free(telling);
}

/* Nobody waits for the answer: what follows on the connection comes behind it. Without one, the write is told again. `gives_end`: the end of the
 * file is not ours any more. */
static void tell_written(struct afar_fs *fs, uint64_t ino, bool gives_end)
{
	struct telling *telling;
	int64_t written_at;
	bool is_written;
	int ret;
	Afar__FileEnd message = AFAR__FILE_END__INIT;
	Afar__FileHold operation = AFAR__FILE_HOLD__INIT, *operations = &operation;
	Afar__FilesHold hold = AFAR__FILES_HOLD__INIT;

	telling = malloc(sizeof(*telling));
	message.gives_end = gives_end;
	is_written = telling && inode_begin_telling(fs, ino, &message, &written_at);
	if (!telling || (!is_written && !(gives_end && inode_give_end(fs, ino, &message)))) {
		free(telling);
		return;
	}
	*telling = (struct telling){fs->ns->session, fs->ns->number, ino, message.number};
	operation.what_case = AFAR__FILE_HOLD__WHAT_END;
	operation.end = &message;
	hold.fs = fs->ns->number;
	hold.operations = &operations;
	hold.n_operations = 1;
	ret = session_tell_then(fs->ns->session, RPC_REQUEST(FILES_HOLD, files_hold, &hold),
				end_telling, telling);
	if (gives_end)
		inode_end_giving(fs, ino);
	if (ret) {
		inode_end_telling(fs, ino, message.number, false);
		free(telling);
		return;
	}
	if (is_written)
		attr_cache_wrote(&fs->attr_cache, ino, written_at);
}

static void tell_all_written(struct afar_fs *fs, const uint64_t *inos, size_t nr, bool gives_end)
{
	for (size_t i = 0; i < nr; i++)
		tell_written(fs, inos[i], gives_end);
}

/* One of the commits may fail, and then has told nothing. */
static void *tell_committed(void *argument)
{
	struct recall *recall = argument;

	for (size_t i = 0; i < recall->nr_inos; i++)
		inode_await_commits(recall->fs, recall->inos[i], recall->nr_commits);
	tell_all_written(recall->fs, recall->inos, recall->nr_inos, false);
	rpc_reply_status(recall->call, 0, 0);
	end(recall->fs);
	free(recall);
	return NULL;
}

/* Has a thread answer, and end(), if there are commits to wait for. Returns 1 then, and 0 if there are none. */
static int tell_later(struct afar_fs *fs, const uint64_t *inos, size_t nr, struct rpc_call *call)
{
	uint64_t nr_commits = 0;
	struct recall *recall;
	size_t i = 0;
	int ret;

	while (i < nr && !inode_is_committing(fs, inos[i], &nr_commits))
		i++;
	if (i == nr)
		return 0;
	recall = malloc(sizeof(*recall) + (nr - i) * sizeof(*inos));
	if (!recall)
		return error_code(-ENOMEM);
	*recall = (struct recall){
		.fs = fs, .call = call, .nr_commits = nr_commits, .nr_inos = nr - i};
	memcpy(recall->inos, inos + i, (nr - i) * sizeof(*inos));
	ret = start(recall, tell_committed);
	if (ret == 0)
		return 1;
	free(recall);
	return error_fail(ret, "tell of a write: no thread can be made");
}

/* Finds a file system, which waits for end(). NULL: it is not open. */
static struct afar_fs *find_fs(struct afar_session *session, uint64_t number)
{
	struct afar_fs *fs = NULL, *other;

	pthread_mutex_lock(&session->lock);
	cds_list_for_each_entry (other, &session->file_systems, node) {
		if (other->ns->number != number)
			continue;
		fs = other;
		pthread_mutex_lock(&fs->lock);
		fs->nr_recalls++;
		pthread_mutex_unlock(&fs->lock);
		break;
	}
	pthread_mutex_unlock(&session->lock);
	return fs;
}

void fs_tell_times(struct afar_session *session, const Afar__FileRevoke *ask, struct rpc_call *call)
{
	const uint64_t *inos = ask->n_inos != 0 ? ask->inos : &ask->ino;
	const size_t nr = ask->n_inos != 0 ? ask->n_inos : 1;
	struct afar_fs *fs = find_fs(session, ask->fs);
	int ret = 0;

	/* This is no user of the inode: whoever closes it last meanwhile gives its spare room back. */
	if (fs) {
		tell_all_written(fs, inos, nr, false);
		/* A commit that was begun before that may not be on its way yet. */
		ret = tell_later(fs, inos, nr, call);
		if (ret > 0)
			return;
		end(fs);
	}
	/* If it fails, the manager asks again. */
	rpc_reply_status(call, 0, ret);
}

/* ---- Ends */

/* Others append behind what we are appending. */
static void *tell_appended(void *argument)
{
	struct recall *recall = argument;

	for (size_t i = 0; i < recall->nr_inos; i++)
		inode_await_append(recall->fs, recall->inos[i]);
	tell_all_written(recall->fs, recall->inos, recall->nr_inos, true);
	rpc_reply_status(recall->call, 0, 0);
	end(recall->fs);
	free(recall);
	return NULL;
}

void fs_tell_ends(struct afar_session *session, const Afar__FileRevoke *ask, struct rpc_call *call)
{
	const uint64_t *inos = ask->n_inos != 0 ? ask->inos : &ask->ino;
	const size_t nr = ask->n_inos != 0 ? ask->n_inos : 1;
	struct afar_fs *fs = find_fs(session, ask->fs);
	bool is_appending = false;
	struct recall *recall;
	int ret = 0;

	/* Here, because the answers that come behind this may leave ends to us. */
	for (size_t i = 0; i < nr && fs; i++)
		is_appending |= inode_stop_end(fs, inos[i]);
	if (fs && !is_appending) {
		tell_all_written(fs, inos, nr, true);
	} else if (fs) {
		recall = malloc(sizeof(*recall) + nr * sizeof(*inos));
		ret = recall ? 0 : error_code(-ENOMEM);
		if (recall) {
			*recall = (struct recall){.fs = fs, .call = call, .nr_inos = nr};
			memcpy(recall->inos, inos, nr * sizeof(*inos));
			ret = start(recall, tell_appended);
		}
		if (ret == 0)
			return;
		free(recall);
		error_fail(ret, "tell where a file ends: no thread can be made");
	}
	if (fs)
		end(fs);
	/* If it fails, the manager waits until the end is not ours any more. */
	rpc_reply_status(call, 0, ret);
}
