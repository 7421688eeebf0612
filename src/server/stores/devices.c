/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that come and go while the server runs. Owns nothing: stores.c has the stores.
 *
 * A device that comes is opened as at the start, and lent as in a join, alone. Until the manager has
 * accepted it nobody uses it, and it is closed again if the manager does not. The manager refuses a
 * device that is another cluster's or an older image. So such a one never gets into a join, which
 * would be refused as a whole.
 *
 * The membership's thread does both, and composes the joins. So a join that follows a lost connection
 * names exactly the stores that have been accepted and are open.
 */
#include "server/stores/devices.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"

static int open_device(const struct devices *devices, const char *path, uint64_t *number)
{
	char sentence[ERROR_LINE_BYTES];
	struct store *store;
	int ret = stores_add(devices->stores, path, &store);

	if (ret != 0)
		return ret;
	*number = store_number(store);
	ret = devices->lend(devices->context, store);
	if (ret == 0) {
		log_info("store %016llx on %s is lent", (unsigned long long)*number, path);
		return 0;
	}
	/* Its sentence, whatever the closing has to say. */
	snprintf(sentence, sizeof(sentence), "%s", error_last_line());
	stores_remove(devices->stores, store);
	return error_fail(ret, "%s", sentence);
}

static int close_device(const struct devices *devices, uint64_t number)
{
	struct store *store = stores_find(devices->stores, number);

	if (!store)
		return error_fail(-ENOENT, "close store %016llx: this server has not opened it",
				  (unsigned long long)number);
	log_info("store %016llx on %s is closed, and not lent any more", (unsigned long long)number,
		 store_path(store));
	stores_remove(devices->stores, store);
	return 0;
}

static void answer(const struct devices *devices, struct rpc_call *call, uint64_t number,
		   int status)
{
	Afar__StoreOpened opened = AFAR__STORE_OPENED__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;

	if (status != 0) {
		rpc_reply_status(call, devices->incarnation, status);
		return;
	}
	opened.store = number;
	reply.result_case = AFAR__REPLY__RESULT_STORE_OPENED;
	reply.store_opened = &opened;
	rpc_reply(call, devices->incarnation, &reply);
}

void devices_open(const struct devices *devices, const char *path, struct rpc_call *call)
{
	uint64_t number = 0;
	int ret = open_device(devices, path, &number);

	answer(devices, call, number, ret);
}

void devices_close(const struct devices *devices, uint64_t number, struct rpc_call *call)
{
	int ret = close_device(devices, number);

	answer(devices, call, number, ret);
}
