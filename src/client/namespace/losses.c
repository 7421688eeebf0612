/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks the manager for losses with a server or a store: by namespace, and then the files of each file system, some at a
 * time. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/namespace/namespace.h"

struct losses {
	struct afar_session *session;
	uint64_t server, store; /* one of them */
	uint64_t max_files;
	afar_loss_say say;
	void *argument;
	uint64_t after; /* the last namespace that was told of */
};

/* Counts some files more. Returns 1 if there are more. */
static int count_some(const struct losses *losses, Afar__LossCount *ask, struct afar_loss *loss)
{
	const Afar__LossCounted *counted;
	Afar__Frame *reply;
	int ret;

	ret = session_call_for(losses->session, RPC_REQUEST(LOSS_COUNT, loss_count, ask),
			       AFAR__REPLY__RESULT_LOSS_COUNTED, &reply);
	if (ret)
		return ret;
	counted = reply->reply->loss_counted;
	loss->nr += counted->nr_files;
	loss->bytes += counted->bytes;
	if (counted->ino && counted->ino == ask->ino && counted->unit == ask->unit)
		ret = error_fail(-AFAR_EMALFORMED,
				 "count files: the manager does not say how far it has come");
	else
		ret = counted->ino != 0;
	ask->ino = counted->ino;
	ask->unit = counted->unit;
	ask->counted = counted->counted;
	rpc_frame_free(reply);
	return ret;
}

static int count_files(const struct losses *losses, uint64_t fs, struct afar_loss *loss)
{
	Afar__LossCount ask = AFAR__LOSS_COUNT__INIT;
	int ret;

	ask.server = losses->server;
	ask.store = losses->store;
	ask.fs = fs;
	loss->nr = loss->bytes = 0;
	do {
		ret = count_some(losses, &ask, loss);
	} while (ret > 0 && (!losses->max_files || loss->nr < losses->max_files));
	loss->is_cut = ret > 0;
	return ret < 0 ? ret : 0;
}

static int tell(const struct losses *losses, const Afar__Loss *entry)
{
	struct afar_loss loss = {
		.size = sizeof(loss), .nr = entry->nr_regions, .bytes = entry->bytes};
	int ret = 0;

	loss.kind = entry->is_files    ? AFAR_LOSS_FILES
		    : entry->is_volume ? AFAR_LOSS_VOLUME
				       : AFAR_LOSS_REGIONS;
	name_copy(loss.ns, entry->name);
	if (entry->is_files)
		ret = count_files(losses, entry->namespace_, &loss);
	if (!ret)
		losses->say(losses->argument, &loss);
	return ret;
}

/* Tells of some namespaces more. Returns 1 if there may be more. */
static int tell_some(struct losses *losses)
{
	Afar__LossList list = AFAR__LOSS_LIST__INIT;
	const Afar__LossInfos *infos;
	Afar__Frame *reply;
	int ret;

	list.server = losses->server;
	list.store = losses->store;
	list.after = losses->after;
	ret = session_call_for(losses->session, RPC_REQUEST(LOSS_LIST, loss_list, &list),
			       AFAR__REPLY__RESULT_LOSS_INFOS, &reply);
	if (ret)
		return ret;
	infos = reply->reply->loss_infos;
	for (size_t i = 0; i < infos->n_entries && !ret; i++) {
		if (infos->entries[i]->namespace_ <= losses->after)
			ret = error_fail(-AFAR_EMALFORMED,
					 "tell what is lost: the manager does not say how far it "
					 "has come");
		else
			ret = tell(losses, infos->entries[i]);
		losses->after = infos->entries[i]->namespace_;
	}
	if (!ret)
		ret = infos->n_entries != 0;
	rpc_frame_free(reply);
	return ret;
}

static int tell_all(struct losses *losses)
{
	int ret = session_check(losses->session);

	if (!ret && !losses->say)
		ret = error_fail(-EINVAL, "tell what is lost: there is nobody to tell");
	if (ret)
		return ret;
	do {
		ret = tell_some(losses);
	} while (ret > 0);
	return ret;
}

PUBLIC_CALL(int, afar_server_losses,
	    (struct afar_session *session, uint64_t server, uint64_t max_files, afar_loss_say say,
	     void *argument),
	    (session, server, max_files, say, argument))
{
	struct losses losses = {.session = session,
				.server = server,
				.max_files = max_files,
				.say = say,
				.argument = argument};

	return tell_all(&losses);
}

PUBLIC_CALL(int, afar_store_losses,
	    (struct afar_session *session, uint64_t store, uint64_t max_files, afar_loss_say say,
	     void *argument),
	    (session, store, max_files, say, argument))
{
	struct losses losses = {.session = session,
				.store = store,
				.max_files = max_files,
				.say = say,
				.argument = argument};

	/* 0 would mean a server. */
	if (!store)
		return error_fail(-ENOENT,
				  "tell what is lost with store 0: there is none; see 'afar store "
				  "ls'");
	return tell_all(&losses);
}
