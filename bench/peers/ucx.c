/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX over POSIX shared memory: a target in a child that lends memory which UCX allocates, and an initiator here.
 * The target sleeps while there is nothing for it to do, which is always once they are connected. Gets, puts and
 * atomics are the initiator's own copies and instructions.
 */
#include "ucx.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "base/clock.h"
#include "harness/harness.h"
#include "harness/process.h"

#define TRANSPORT   "posix"
#define ADDRESS_MAX 1024U
#define KEY_MAX	    512U

/* ---- The library */

#define FUNCTIONS(X)                \
	X(ucp_config_read)          \
	X(ucp_config_modify)        \
	X(ucp_config_release)       \
	X(ucp_init_version)         \
	X(ucp_cleanup)              \
	X(ucp_worker_create)        \
	X(ucp_worker_destroy)       \
	X(ucp_worker_progress)      \
	X(ucp_worker_wait)          \
	X(ucp_worker_get_address)   \
	X(ucp_mem_map)              \
	X(ucp_mem_query)            \
	X(ucp_rkey_pack)            \
	X(ucp_ep_create)            \
	X(ucp_ep_rkey_unpack)       \
	X(ucp_rkey_destroy)         \
	X(ucp_ep_flush_nbx)         \
	X(ucp_ep_close_nbx)         \
	X(ucp_get_nbx)              \
	X(ucp_put_nbx)              \
	X(ucp_atomic_op_nbx)        \
	X(ucp_request_check_status) \
	X(ucp_request_free)         \
	X(ucs_status_string)

#define MEMBER(name) __typeof__(name) *name;
static struct {
	FUNCTIONS(MEMBER)
} library;

static bool load(void)
{
	void *handle = dlopen("libucp.so.0", RTLD_NOW);
	bool is_whole = handle;

#define FIND(name)                                              \
	if (is_whole) {                                         \
		*(void **)&library.name = dlsym(handle, #name); \
		is_whole = library.name;                        \
	}
	FUNCTIONS(FIND)
	return is_whole;
}

static int fail(const char *what, ucs_status_t status)
{
	return bench_fail(-EIO, "UCX: %s: %s", what, library.ucs_status_string(status));
}

/* ---- Both sides */

struct side {
	ucp_context_h context;
	ucp_worker_h worker;
};

static int open_context(struct side *side)
{
	const ucp_params_t parameters = {
		.field_mask = UCP_PARAM_FIELD_FEATURES,
		.features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | UCP_FEATURE_WAKEUP,
	};
	ucp_config_t *config;
	ucs_status_t status = library.ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return fail("read its configuration", status);
	status = library.ucp_config_modify(config, "TLS", TRANSPORT);
	if (status == UCS_OK)
		status = library.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config,
						  &side->context);
	library.ucp_config_release(config);
	return status == UCS_OK ? 0 : fail("open a context", status);
}

static int open_side(struct side *side)
{
	const ucp_worker_params_t parameters = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	int ret = open_context(side);
	ucs_status_t result;

	if (ret)
		return ret;
	result = library.ucp_worker_create(side->context, &parameters, &side->worker);
	return result == UCS_OK ? 0 : fail("make a worker", result);
}

static void close_side(struct side *side)
{
	if (side->worker)
		library.ucp_worker_destroy(side->worker);
	if (side->context)
		library.ucp_cleanup(side->context);
}

/* ---- The target: a process of its own, which ends by being killed */

/* The target's message to the initiator: all that it must know. */
struct invitation {
	uint64_t memory;
	size_t address_length;
	size_t key_length;
	char address[ADDRESS_MAX];
	char key[KEY_MAX];
};

/* Allocated by UCX, which knows best what it can lend. */
static int lend(const struct side *side, size_t bytes, struct invitation *out)
{
	const ucp_mem_map_params_t parameters = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
		.length = bytes,
		.flags = UCP_MEM_MAP_ALLOCATE,
	};
	ucp_mem_attr_t attributes = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
	ucp_mem_h memory;
	ucs_status_t status = library.ucp_mem_map(side->context, &parameters, &memory);
	void *key;

	if (status == UCS_OK)
		status = library.ucp_mem_query(memory, &attributes);
	if (status == UCS_OK)
		status = library.ucp_rkey_pack(side->context, memory, &key, &out->key_length);
	if (status == UCS_OK && out->key_length > KEY_MAX)
		status = UCS_ERR_BUFFER_TOO_SMALL;
	if (status != UCS_OK)
		return fail("lend memory", status);
	memset(attributes.address, 0, bytes);
	out->memory = (uintptr_t)attributes.address;
	memcpy(out->key, key, out->key_length);
	return 0;
}

static int tell_address(const struct side *side, struct invitation *out)
{
	ucp_address_t *address;
	ucs_status_t status =
		library.ucp_worker_get_address(side->worker, &address, &out->address_length);

	if (status == UCS_OK && out->address_length > ADDRESS_MAX)
		status = UCS_ERR_BUFFER_TOO_SMALL;
	if (status != UCS_OK)
		return fail("get an address", status);
	memcpy(out->address, address, out->address_length);
	return 0;
}

static int target_main(int channel, void *argument)
{
	struct invitation invitation = {0};
	struct side side = {0};
	int ret = open_side(&side);

	if (!ret)
		ret = lend(&side, *(const size_t *)argument, &invitation);
	if (!ret)
		ret = tell_address(&side, &invitation);
	if (!ret)
		ret = child_send(&(struct child){.channel = channel}, &invitation,
				 sizeof(invitation));
	while (!ret) {
		while (library.ucp_worker_progress(side.worker))
			;
		ret = library.ucp_worker_wait(side.worker) != UCS_OK;
	}
	return 1;
}

/* ---- The initiator */

struct ucx {
	struct child target;
	struct side side;
	ucp_ep_h endpoint;
	ucp_rkey_h key;
	uint64_t remote; /* address of the target's memory, there */
	char *memory;	 /* ours, as much                         */
	size_t bytes;
};

/* Waits for an operation: NULL is one that is done already. */
static ucs_status_t finish(const struct ucx *ucx, ucs_status_ptr_t request)
{
	ucs_status_t status;

	if (!UCS_PTR_IS_PTR(request))
		return UCS_PTR_RAW_STATUS(request);
	do {
		library.ucp_worker_progress(ucx->side.worker);
		status = library.ucp_request_check_status(request);
	} while (status == UCS_INPROGRESS);
	library.ucp_request_free(request);
	return status;
}

static int connect_to(struct ucx *ucx, const struct invitation *invitation)
{
	const ucp_request_param_t plain = {0};
	const ucp_ep_params_t parameters = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
		.address = (const ucp_address_t *)invitation->address,
	};
	ucs_status_t status = library.ucp_ep_create(ucx->side.worker, &parameters, &ucx->endpoint);

	if (status == UCS_OK)
		status = finish(ucx, library.ucp_ep_flush_nbx(ucx->endpoint, &plain));
	if (status == UCS_OK)
		status = library.ucp_ep_rkey_unpack(ucx->endpoint, invitation->key, &ucx->key);
	ucx->remote = invitation->memory;
	return status == UCS_OK ? 0 : fail("connect over " TRANSPORT, status);
}

int ucx_run(struct ucx *ucx, const struct transfer *transfer, uint64_t *elapsed_ns)
{
	const ucp_request_param_t plain = {0};
	uint64_t begin = clock_ns();

	for (uint64_t i = 0; i < transfer->nr; i++) {
		uint64_t offset = i * transfer->size % transfer->window_bytes;
		ucs_status_ptr_t request =
			transfer->is_write
				? library.ucp_put_nbx(ucx->endpoint, ucx->memory + offset,
						      transfer->size, ucx->remote + offset,
						      ucx->key, &plain)
				: library.ucp_get_nbx(ucx->endpoint, ucx->memory + offset,
						      transfer->size, ucx->remote + offset,
						      ucx->key, &plain);
		ucs_status_t status = finish(ucx, request);

		if (status != UCS_OK)
			return fail("a transfer", status);
	}
	*elapsed_ns = clock_ns() - begin;
	return 0;
}

int ucx_run_fetch_add(struct ucx *ucx, uint64_t nr, uint64_t *elapsed_ns)
{
	uint64_t before = 0;
	const uint64_t one = 1;
	const ucp_request_param_t with_reply = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER,
		.datatype = ucp_dt_make_contig(sizeof(before)),
		.reply_buffer = &before,
	};
	uint64_t begin = clock_ns();
	uint64_t first = 0;

	for (uint64_t i = 0; i < nr; i++) {
		ucs_status_t status = finish(
			ucx, library.ucp_atomic_op_nbx(ucx->endpoint, UCP_ATOMIC_OP_ADD, &one, 1,
						       ucx->remote, ucx->key, &with_reply));

		if (status != UCS_OK)
			return fail("an atomic", status);
		if (i == 0)
			first = before;
		if (before != first + i)
			return bench_fail(-EIO, "UCX: the word is not what was added");
	}
	*elapsed_ns = clock_ns() - begin;
	return 0;
}

/* A reference that moves nothing would be a fast one. */
static int check_bytes(struct ucx *ucx)
{
	const struct transfer write = {.is_write = true,
				       .size = 4096,
				       .window_bytes = ucx->bytes,
				       .nr = ucx->bytes / 4096};
	struct transfer read = write;
	uint64_t elapsed;
	int ret;

	read.is_write = false;
	memset(ucx->memory, 0xA5, ucx->bytes);
	ret = ucx_run(ucx, &write, &elapsed);
	memset(ucx->memory, 0, ucx->bytes);
	if (!ret)
		ret = ucx_run(ucx, &read, &elapsed);
	for (size_t i = 0; i < ucx->bytes && !ret; i++) {
		if ((unsigned char)ucx->memory[i] != 0xA5)
			ret = bench_fail(-EIO, "UCX: the bytes read are not those written");
	}
	return ret;
}

static int open_initiator(struct ucx *ucx)
{
	struct invitation invitation;
	int ret = child_receive(&ucx->target, &invitation, sizeof(invitation));

	if (ret)
		return bench_fail(ret, "the target of UCX ended early");
	ucx->memory = bench_memory_map(ucx->bytes);
	if (!ucx->memory)
		return bench_fail(-ENOMEM, "no memory for the reference");
	ret = open_side(&ucx->side);
	if (!ret)
		ret = connect_to(ucx, &invitation);
	return ret ? ret : check_bytes(ucx);
}

int ucx_open(size_t bytes, struct ucx **out)
{
	struct ucx *ucx;
	int ret;

	if (!load())
		return -ENOENT;
	ucx = calloc(1, sizeof(*ucx));
	if (!ucx)
		return bench_fail(-ENOMEM, "no memory for the reference");
	ucx->bytes = bytes;
	ret = child_start(&ucx->target, target_main, &bytes);
	if (!ret)
		ret = open_initiator(ucx);
	if (ret) {
		ucx_close(ucx);
		return ret;
	}
	*out = ucx;
	return 0;
}

void ucx_close(struct ucx *ucx)
{
	const ucp_request_param_t plain = {0};

	if (!ucx)
		return;
	if (ucx->key)
		library.ucp_rkey_destroy(ucx->key);
	if (ucx->endpoint)
		finish(ucx, library.ucp_ep_close_nbx(ucx->endpoint, &plain));
	close_side(&ucx->side);
	child_stop(&ucx->target);
	bench_memory_unmap(ucx->memory, ucx->bytes);
	free(ucx);
}
