/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manager's requests that are about stores: to reserve and release their extents, to open and to
 * close devices; and to trim, memory too. Called by orders.c, which owns the jobs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/control/orders_private.h"

#define NR_RANGES_MAX 4096U /* of one trim */
#define READ_MAX      4096U /* bytes: a block of a store */

static unsigned long long printable(uint64_t number)
{
	return (unsigned long long)number;
}

/* ---- Work. On the membership's thread. */

static void send_status(void *argument, int status)
{
	struct pending_reply *reply = argument;

	rpc_reply_status(reply->call, reply->incarnation, status);
	free(reply);
}

static int fail_no_store(uint64_t number)
{
	return error_fail(-ENOENT, "find store %016llx: this server has not opened it",
			  printable(number));
}

/* On the store's thread. Without memory for the answer the next join tells the manager of the extent. */
static void send_reserved(void *argument, int status, const struct store_extent_info *made)
{
	struct pending_reply *reply = argument;
	Afar__Extent extent = AFAR__EXTENT__INIT, *extents[] = {&extent};
	Afar__Extents result = AFAR__EXTENTS__INIT;
	Afar__Reply message = AFAR__REPLY__INIT;

	if (status != 0) {
		send_status(reply, status);
		return;
	}
	extent.extent = made->extent;
	extent.namespace_ = made->namespace;
	extent.length = made->length;
	extent.class_ = CLASS_FLASH;
	result.n_extents = 1;
	result.extents = extents;
	message.result_case = AFAR__REPLY__RESULT_EXTENTS;
	message.extents = &result;
	rpc_reply(reply->call, reply->incarnation, &message);
	free(reply);
}

void orders_reserve_flash(struct orders *orders, const struct job *job)
{
	struct store *store = stores_find(orders->options.stores, job->store);
	struct pending_reply *reply = store ? orders_pending_reply(orders, job->call) : NULL;
	int ret = store ? error_code(-ENOMEM) : fail_no_store(job->store);

	if (reply)
		ret = store_reserve(store, job->namespace, job->bytes, job->deadline, send_reserved,
				    reply);
	if (ret == 0)
		return;
	free(reply);
	orders_reply(orders, job->call, ret);
}

void orders_release_flash(struct orders *orders, const struct job *job)
{
	struct store *store = stores_find(orders->options.stores, job->store);
	struct pending_reply *reply = store ? orders_pending_reply(orders, job->call) : NULL;
	int ret;

	if (!reply)
		ret = store ? error_code(-ENOMEM) : fail_no_store(job->store);
	else
		ret = fence_store_extents(orders->options.fence, store, job->names, job->nr_extents,
					  send_status, reply);
	if (ret != 0) {
		free(reply);
		orders_reply(orders, job->call, ret);
	}
}

static void trim_flash(struct orders *orders, const struct job *job)
{
	struct store *store = stores_find(orders->options.stores, job->store);
	struct pending_reply *reply = NULL;
	int ret = store ? 0 : fail_no_store(job->store);

	if (ret == 0) {
		reply = orders_pending_reply(orders, job->call);
		ret = reply ? store_trim(store, job->namespace, job->ranges, job->nr_ranges,
					 send_status, reply)
			    : error_code(-ENOMEM);
	}
	if (ret != 0) {
		free(reply);
		orders_reply(orders, job->call, ret);
	}
}

/*
 * Does a step of a trim of memory. Returns as trim_step() does.
 *
 * Other jobs have their turns between the steps, but not other trims of memory. So a trim is over
 * when a later one is done, as the manager may conclude.
 */
static int trim_memory(struct orders *orders, struct job *job)
{
	struct extent_pool *pool = orders->options.pool;
	int ret;

	if (orders->trimming && orders->trimming != job)
		return 1;
	if (!orders->trimming) {
		ret = trim_check(pool, job->namespace, job->ranges, job->nr_ranges);
		if (ret != 0)
			return ret;
		orders->trimming = job;
	}
	return trim_step(pool, job->namespace, job->ranges, job->nr_ranges, &job->place);
}

static void answer_trim(struct orders *orders, const struct job *job, int status)
{
	if (orders->trimming == job)
		orders->trimming = NULL;
	orders_reply(orders, job->call, status);
}

/*
 * Stops if the connection has ended: the manager may have given the chunks to somebody else since,
 * and asks again for what it still wants. The thread that does the steps sends the next join, too,
 * so it does no step of an earlier connection's after that.
 */
bool orders_trim(struct orders *orders, struct job *job)
{
	int ret;

	if (!orders_is_current(orders, job->epoch)) {
		answer_trim(orders, job, error_code(-ECANCELED));
		return true;
	}
	if (job->store != 0) {
		trim_flash(orders, job);
		return true;
	}
	ret = trim_memory(orders, job);
	if (ret > 0 && orders_queue_again(orders, job))
		return false;
	if (ret > 0)
		ret = error_fail(-ECANCELED, "the server is stopping");
	answer_trim(orders, job, ret);
	return true;
}

static void reply_bytes(struct rpc_call *call, uint64_t incarnation, const char *bytes,
			size_t length)
{
	Afar__ExtentBytes result = AFAR__EXTENT_BYTES__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;

	result.data.data = (uint8_t *)bytes;
	result.data.len = length;
	reply.result_case = AFAR__REPLY__RESULT_EXTENT_BYTES;
	reply.extent_bytes = &result;
	rpc_reply(call, incarnation, &reply);
}

/* On the store's thread. */
static void send_read(void *argument, int status, const char *bytes, size_t length)
{
	struct pending_reply *reply = argument;

	if (status != 0) {
		send_status(reply, status);
		return;
	}
	reply_bytes(reply->call, reply->incarnation, bytes, length);
	free(reply);
}

static int read_store(struct orders *orders, const struct job *job)
{
	struct store *store = stores_find(orders->options.stores, job->store);
	struct pending_reply *reply = store ? orders_pending_reply(orders, job->call) : NULL;
	int ret;

	if (!reply)
		return store ? error_code(-ENOMEM) : fail_no_store(job->store);
	ret = (job->is_zeroed ? store_clear : store_read)(store, job->namespace, &job->ranges[0],
							  send_read, reply);
	if (ret != 0)
		free(reply);
	return ret;
}

static int read_memory(const struct orders *orders, const struct job *job, char *out)
{
	const struct extent_range *range = &job->ranges[0];
	char *bytes;
	int ret = extent_pool_span(orders->options.pool, range->extent, job->namespace, CLASS_DRAM,
				   range->offset, range->length, &bytes);

	if (ret == 0 && job->is_zeroed)
		memset(bytes, 0, range->length);
	if (ret == 0)
		memcpy(out, bytes, range->length);
	return ret ? error_fail(ret,
				"read extent %llu: namespace %llu has no such bytes on this server",
				printable(range->extent), printable(job->namespace))
		   : 0;
}

/* It is not done for an earlier connection, as a trim is not: somebody may write there since. */
void orders_read(struct orders *orders, const struct job *job)
{
	char bytes[READ_MAX];
	int ret;

	if (!orders_is_current(orders, job->epoch))
		ret = error_code(-ECANCELED);
	else
		ret = job->store != 0 ? read_store(orders, job) : read_memory(orders, job, bytes);
	if (ret != 0)
		orders_reply(orders, job->call, ret);
	else if (job->store == 0)
		reply_bytes(job->call, orders->options.incarnation, bytes, job->ranges[0].length);
}

/* Opens or closes a device, unless the connection has ended. Then the manager has told the operator
 * that it failed, and by the next join it knows what is open. */
void orders_device(struct orders *orders, const struct job *job)
{
	if (!orders_is_current(orders, job->epoch))
		orders_reply(orders, job->call, error_code(-ECANCELED));
	else if (job->path)
		devices_open(&orders->options.devices, job->path, job->call);
	else
		devices_close(&orders->options.devices, job->store, job->call);
}

/* ---- Requests. On the loop's thread. */

/* Makes the job's names of what is asked for. */
static int name_extents(struct job *job, const Afar__ExtentsRelease *request)
{
	if (request->n_namespaces != request->n_extents)
		return error_fail(-EINVAL,
				  "release %zu extents of a store: %zu namespaces are named",
				  request->n_extents, request->n_namespaces);
	job->names = calloc(request->n_extents + 1, sizeof(*job->names));
	if (!job->names)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < request->n_extents; i++)
		job->names[i] =
			(struct store_name){request->extents[i], request->namespaces[i], false};
	job->nr_extents = request->n_extents;
	return 0;
}

void orders_on_release_flash(struct orders *orders, const Afar__ExtentsRelease *request,
			     struct rpc_call *call)
{
	struct job *job = calloc(1, sizeof(*job));
	int ret = job ? name_extents(job, request) : error_code(-ENOMEM);

	if (ret != 0) {
		free(job);
		orders_reply(orders, call, ret);
		return;
	}
	job->call = call;
	job->store = request->store;
	orders_queue(orders, job);
}

void orders_on_trim(struct orders *orders, const Afar__ExtentsTrim *request, struct rpc_call *call)
{
	struct extent_range *ranges;
	struct job *job;

	if (request->n_ranges > NR_RANGES_MAX) {
		orders_reply(orders, call,
			     error_fail(-EINVAL,
					"trim %zu ranges: at most %u may be trimmed at once",
					request->n_ranges, NR_RANGES_MAX));
		return;
	}
	job = calloc(1, sizeof(*job));
	ranges = calloc(request->n_ranges + 1, sizeof(*ranges));
	if (!job || !ranges) {
		free(job);
		free(ranges);
		orders_reply(orders, call, error_code(-ENOMEM));
		return;
	}
	for (size_t i = 0; i < request->n_ranges; i++)
		ranges[i] = (struct extent_range){request->ranges[i]->extent,
						  request->ranges[i]->offset,
						  request->ranges[i]->length};
	job->call = call;
	job->store = request->store;
	job->namespace = request->namespace_;
	job->ranges = ranges;
	job->nr_ranges = request->n_ranges;
	orders_queue(orders, job);
}

void orders_on_read(struct orders *orders, const Afar__ExtentRead *request, struct rpc_call *call)
{
	const struct extent_range range = {request->extent, request->offset, request->length};
	struct job *job;

	if (range.length == 0 || range.length > READ_MAX ||
	    range.length > READ_MAX - range.offset % READ_MAX) {
		orders_reply(
			orders, call,
			error_fail(
				-EINVAL,
				"read %llu bytes at %llu of an extent: they are not in one block",
				printable(range.length), printable(range.offset)));
		return;
	}
	job = calloc(1, sizeof(*job));
	if (job)
		job->ranges = malloc(sizeof(range));
	if (!job || !job->ranges) {
		free(job);
		orders_reply(orders, call, error_code(-ENOMEM));
		return;
	}
	job->ranges[0] = range;
	job->nr_ranges = 1;
	job->call = call;
	job->store = request->store;
	job->namespace = request->namespace_;
	job->is_read = true;
	job->is_zeroed = request->is_zeroed;
	orders_queue(orders, job);
}

void orders_on_device(struct orders *orders, const char *path, uint64_t store,
		      struct rpc_call *call)
{
	struct job *job = calloc(1, sizeof(*job));

	if (job && path)
		job->path = strdup(path);
	if (!job || (path && !job->path)) {
		free(job);
		orders_reply(orders, call, error_code(-ENOMEM));
		return;
	}
	job->call = call;
	job->store = store;
	job->is_closing = !path;
	orders_queue(orders, job);
}
