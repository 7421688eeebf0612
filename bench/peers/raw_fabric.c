/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw libfabric: FI_EP_MSG, one connection. The target, a child process, registers memory and then only
 * progresses the provider, as tcp wants it. It spins for as long as one of Afar's servers does. Then it
 * sleeps on the CQ's descriptor, so that it takes no core from what is measured in between. On verbs it
 * has nothing to do and sleeps. The initiator posts, and spins on the CQ.
 */
#include "raw_fabric.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "harness/harness.h"
#include "harness/process.h"

#define TARGET_SPIN_NS	   50000U /* the default of afard */
#define TARGET_KEY	   1U
#define CONNECT_TIMEOUT_MS 5000
#define HUGE_PAGE	   ((size_t)2 << 20)

/* The objects that both sides open. */
struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	void *memory;
	size_t bytes;
};

/* The target's message to the initiator: where it listens, and what it registered. */
struct invitation {
	struct sockaddr_in address;
	uint64_t key;
	uint64_t base;
};

struct raw_fabric {
	struct child target;
	struct side side;
	struct invitation remote;
	void *descriptor;
	bool is_tcp;
	struct fi_context2 contexts[RAW_DEPTH_MAX];
};

/* Provider and address are those that cluster_start() has for Afar. */
static const char *provider(void)
{
	const char *named = getenv("AFAR_TEST_TRANSPORT");

	return named ? named : "tcp";
}

static struct sockaddr_in any_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	const char *named = getenv("AFAR_TEST_HOST");

	if (!named || inet_pton(AF_INET, named, &address.sin_addr) != 1)
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

void raw_fabric_describe(char *out, size_t size)
{
	uint32_t version = fi_version();

	snprintf(out, size, "libfabric %u.%u, provider %s", FI_MAJOR(version), FI_MINOR(version),
		 provider());
}

void *bench_memory_map(size_t bytes)
{
	size_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	char *addr = mmap(NULL, whole + HUGE_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t lead;

	if (addr == MAP_FAILED)
		return NULL;
	lead = (HUGE_PAGE - (uintptr_t)addr % HUGE_PAGE) % HUGE_PAGE;
	if (lead)
		munmap(addr, lead);
	munmap(addr + lead + whole, HUGE_PAGE - lead);
	madvise(addr + lead, whole, MADV_HUGEPAGE);
	memset(addr + lead, 0, whole);
	return addr + lead;
}

void bench_memory_unmap(void *addr, size_t bytes)
{
	if (addr)
		munmap(addr, (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
}

/* Never 0, whatever libfabric said. */
static int fail(const char *what, ssize_t status)
{
	bench_fail((int)status, "raw libfabric: %s: %s", what, fi_strerror((int)-status));
	return status < 0 ? (int)status : -EIO;
}

/* ---- Both sides */

static struct fi_info *ask_for_provider(const struct sockaddr_in *address, uint64_t flags)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_info *info = NULL;
	char host[INET_ADDRSTRLEN];
	char port[16];

	if (!hints)
		return NULL;
	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->fabric_attr->prov_name = strdup(provider());
	inet_ntop(AF_INET, &address->sin_addr, host, sizeof(host));
	snprintf(port, sizeof(port), "%u", ntohs(address->sin_port));
	if (fi_getinfo(FI_VERSION(1, 17), host, port, flags, hints, &info))
		info = NULL;
	fi_freeinfo(hints);
	return info;
}

static int open_fabric(struct side *side, const struct sockaddr_in *address, uint64_t flags)
{
	struct fi_eq_attr eq_attributes = {.wait_obj = FI_WAIT_UNSPEC};
	int ret;

	side->info = ask_for_provider(address, flags);
	if (!side->info)
		return fail("no such provider", -FI_ENODATA);
	ret = fi_fabric(side->info->fabric_attr, &side->fabric, NULL);
	if (ret)
		return fail("fi_fabric", ret);
	ret = fi_eq_open(side->fabric, &eq_attributes, &side->eq, NULL);
	return ret ? fail("fi_eq_open", ret) : 0;
}

static int open_domain(struct side *side, struct fi_info *info, enum fi_wait_obj wait,
		       uint64_t access)
{
	struct fi_cq_attr cq_attributes = {
		.size = RAW_DEPTH_MAX * 2,
		.format = FI_CQ_FORMAT_CONTEXT,
		.wait_obj = wait,
	};
	int ret = fi_domain(side->fabric, info, &side->domain, NULL);

	if (ret)
		return fail("fi_domain", ret);
	ret = fi_cq_open(side->domain, &cq_attributes, &side->cq, NULL);
	if (ret)
		return fail("fi_cq_open", ret);
	side->memory = bench_memory_map(side->bytes);
	if (!side->memory)
		return fail("memory", -FI_ENOMEM);
	ret = fi_mr_reg(side->domain, side->memory, side->bytes, access, 0, TARGET_KEY, 0,
			&side->mr, NULL);
	return ret ? fail("fi_mr_reg", ret) : 0;
}

static int open_endpoint(struct side *side, struct fi_info *info)
{
	int ret = fi_endpoint(side->domain, info, &side->ep, NULL);

	if (ret)
		return fail("fi_endpoint", ret);
	ret = fi_ep_bind(side->ep, &side->eq->fid, 0);
	if (!ret)
		ret = fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_enable(side->ep);
	return ret ? fail("fi_enable", ret) : 0;
}

/* Waits for one connection event, which must be `wanted`. */
static int await_event(struct side *side, uint32_t wanted, struct fi_eq_cm_entry *entry)
{
	uint32_t event = 0;
	ssize_t length =
		fi_eq_sread(side->eq, &event, entry, sizeof(*entry), CONNECT_TIMEOUT_MS, 0);

	if (length < 0)
		return fail("fi_eq_sread", length);
	return event == wanted ? 0 : fail("connecting", -FI_ECONNREFUSED);
}

static void close_side(struct side *side)
{
	if (side->ep)
		fi_close(&side->ep->fid);
	if (side->mr)
		fi_close(&side->mr->fid);
	if (side->cq)
		fi_close(&side->cq->fid);
	if (side->domain)
		fi_close(&side->domain->fid);
	if (side->eq)
		fi_close(&side->eq->fid);
	if (side->fabric)
		fi_close(&side->fabric->fid);
	if (side->info)
		fi_freeinfo(side->info);
	bench_memory_unmap(side->memory, side->bytes);
}

/* ---- The target: a process of its own, which ends by being killed */

static uint64_t base_of(const struct side *side)
{
	bool is_virtual = side->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;

	return is_virtual ? (uint64_t)(uintptr_t)side->memory : 0;
}

static int invite(struct side *side, struct fid_pep *listener, int channel)
{
	struct invitation invitation = {.key = fi_mr_key(side->mr), .base = base_of(side)};
	size_t length = sizeof(invitation.address);
	int ret = fi_listen(listener);

	if (!ret)
		ret = fi_getname(&listener->fid, &invitation.address, &length);
	if (ret)
		return fail("fi_listen", ret);
	return child_send(&(struct child){.channel = channel}, &invitation, sizeof(invitation));
}

static int accept_one(struct side *side)
{
	struct fi_eq_cm_entry entry;
	int ret = await_event(side, FI_CONNREQ, &entry);

	if (ret)
		return ret;
	ret = open_endpoint(side, entry.info);
	if (!ret)
		ret = fi_accept(side->ep, NULL, 0);
	fi_freeinfo(entry.info);
	return ret ? ret : await_event(side, FI_CONNECTED, &entry);
}

static void read_for(struct side *side, uint64_t span_ns)
{
	struct fi_cq_entry entry;
	uint64_t end = clock_ns() + span_ns;

	while (clock_ns() < end) {
		for (unsigned i = 0; i < 16; i++)
			(void)fi_cq_read(side->cq, &entry, 1);
	}
}

/* Watches the descriptors without a read in between: whatever comes is seen, and soon. */
static bool watch_for(struct pollfd *descriptors, nfds_t nr, uint64_t span_ns)
{
	uint64_t end = clock_ns() + span_ns;

	while (clock_ns() < end) {
		if (poll(descriptors, nr, 0) > 0)
			return true;
	}
	return false;
}

/*
 * Spins until nothing has come for TARGET_SPIN_NS, then sleeps. A target gets no completions to know by, and
 * asking the descriptor before each read would cost as much as the read. So it reads blindly for one half of
 * the time and only watches in the other. Ends when the other side of `channel` does.
 */
static int progress(struct side *side, int channel)
{
	struct fid *waited[] = {&side->cq->fid};
	struct pollfd descriptors[] = {{.fd = -1, .events = POLLIN},
				       {.fd = channel, .events = POLLIN}};
	int ret = fi_control(&side->cq->fid, FI_GETWAIT, &descriptors[0].fd);

	if (ret)
		return fail("FI_GETWAIT", ret);
	while (!descriptors[1].revents) {
		read_for(side, TARGET_SPIN_NS / 2);
		if (fi_trywait(side->fabric, waited, 1) == FI_SUCCESS &&
		    !watch_for(descriptors, 2, TARGET_SPIN_NS / 2))
			poll(descriptors, 2, -1);
	}
	return 0;
}

static int target_main(int channel, void *argument)
{
	const struct sockaddr_in address = any_port();
	struct side side = {.bytes = *(const size_t *)argument};
	struct fid_pep *listener = NULL;
	int ret = open_fabric(&side, &address, FI_SOURCE);

	if (!ret)
		ret = open_domain(&side, side.info, FI_WAIT_FD, FI_REMOTE_READ | FI_REMOTE_WRITE);
	if (!ret)
		ret = fi_passive_ep(side.fabric, side.info, &listener, NULL);
	if (!ret)
		ret = fi_pep_bind(listener, &side.eq->fid, 0);
	if (!ret)
		ret = invite(&side, listener, channel);
	if (!ret)
		ret = accept_one(&side);
	if (!ret)
		ret = progress(&side, channel);
	return ret ? 1 : 0;
}

/* ---- The initiator */

static int connect_to(struct raw_fabric *raw)
{
	struct side *side = &raw->side;
	struct fi_eq_cm_entry entry;
	int ret = open_fabric(side, &raw->remote.address, 0);

	if (!ret)
		ret = open_domain(side, side->info, FI_WAIT_NONE, FI_READ | FI_WRITE);
	if (!ret)
		ret = open_endpoint(side, side->info);
	if (ret)
		return ret;
	if (side->info->domain_attr->mr_mode & FI_MR_LOCAL)
		raw->descriptor = fi_mr_desc(side->mr);
	ret = fi_connect(side->ep, &raw->remote.address, NULL, 0);
	return ret ? fail("fi_connect", ret) : await_event(side, FI_CONNECTED, &entry);
}

static ssize_t post(struct raw_fabric *raw, const struct transfer *transfer, unsigned slot,
		    uint64_t sequence)
{
	uint64_t offset = sequence * transfer->size % transfer->window_bytes;
	size_t local_offset = transfer->depth == 1 ? offset : slot * transfer->size;
	struct iovec local = {(char *)raw->side.memory + local_offset, transfer->size};
	struct fi_rma_iov remote = {raw->remote.base + offset, transfer->size, raw->remote.key};
	struct fi_msg_rma message = {
		.msg_iov = &local,
		.desc = &raw->descriptor,
		.iov_count = 1,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = &raw->contexts[slot],
	};

	if (!transfer->is_write)
		return fi_read(raw->side.ep, local.iov_base, local.iov_len, raw->descriptor, 0,
			       remote.addr, remote.key, &raw->contexts[slot]);
	/* On verbs an acknowledgement says what there is to say. */
	if (!raw->is_tcp)
		return fi_write(raw->side.ep, local.iov_base, local.iov_len, raw->descriptor, 0,
				remote.addr, remote.key, &raw->contexts[slot]);
	return fi_writemsg(raw->side.ep, &message, FI_DELIVERY_COMPLETE);
}

static int report_cq_error(struct raw_fabric *raw)
{
	struct fi_cq_err_entry error = {0};

	if (fi_cq_readerr(raw->side.cq, &error, 0) != 1)
		return fail("fi_cq_read", -FI_EIO);
	return fail("a transfer", -error.err);
}

/* Posts again to each slot that completes, until `nr` are posted; returns how many completed. */
static int reap(struct raw_fabric *raw, const struct transfer *transfer, uint64_t *nr_posted)
{
	struct fi_cq_entry done[RAW_DEPTH_MAX];
	ssize_t nr = fi_cq_read(raw->side.cq, done, transfer->depth);

	if (nr == -FI_EAGAIN)
		return 0;
	if (nr < 0)
		return report_cq_error(raw);
	for (ssize_t i = 0; i < nr && *nr_posted < transfer->nr; i++) {
		struct fi_context2 *context = done[i].op_context;
		ssize_t status =
			post(raw, transfer, (unsigned)(context - raw->contexts), (*nr_posted)++);

		if (status)
			return fail("posting", status);
	}
	return (int)nr;
}

int raw_fabric_run(struct raw_fabric *raw, const struct transfer *transfer, uint64_t *elapsed_ns)
{
	uint64_t begin = clock_ns();
	uint64_t nr_posted = 0;
	uint64_t nr_done = 0;

	for (unsigned slot = 0; slot < transfer->depth && nr_posted < transfer->nr; slot++) {
		ssize_t status = post(raw, transfer, slot, nr_posted++);

		if (status)
			return fail("posting", status);
	}
	while (nr_done < transfer->nr) {
		int nr = reap(raw, transfer, &nr_posted);

		if (nr < 0)
			return nr;
		nr_done += (unsigned)nr;
	}
	*elapsed_ns = clock_ns() - begin;
	return 0;
}

/* A reference that moves nothing would be a fast one. */
static int check_bytes(struct raw_fabric *raw)
{
	struct transfer write = {
		.is_write = true, .size = 4096, .depth = 1, .window_bytes = 4096, .nr = 1};
	struct transfer read = write;
	unsigned char *memory = raw->side.memory;
	uint64_t elapsed;
	int ret;

	read.is_write = false;
	memset(memory, 0xA5, write.size);
	ret = raw_fabric_run(raw, &write, &elapsed);
	if (ret)
		return ret;
	memset(memory, 0, write.size);
	ret = raw_fabric_run(raw, &read, &elapsed);
	if (ret)
		return ret;
	for (size_t i = 0; i < read.size; i++) {
		if (memory[i] != 0xA5)
			return fail("the bytes read are not those written", -FI_EIO);
	}
	return 0;
}

int raw_fabric_open(size_t bytes, struct raw_fabric **out)
{
	struct raw_fabric *raw = calloc(1, sizeof(*raw));
	int ret;

	if (!raw)
		return bench_fail(-ENOMEM, "no memory for the reference");
	raw->side.bytes = bytes;
	raw->is_tcp = strcmp(provider(), "tcp") == 0;
	ret = child_start(&raw->target, target_main, &bytes);
	if (!ret)
		ret = child_receive(&raw->target, &raw->remote, sizeof(raw->remote));
	if (ret == -EPIPE)
		bench_fail(ret, "the target of raw libfabric ended early");
	if (!ret)
		ret = connect_to(raw);
	if (!ret)
		ret = check_bytes(raw);
	if (ret) {
		raw_fabric_close(raw);
		return ret;
	}
	*out = raw;
	return 0;
}

void raw_fabric_close(struct raw_fabric *raw)
{
	if (!raw)
		return;
	close_side(&raw->side);
	child_stop(&raw->target);
	free(raw);
}

uint64_t raw_fabric_target_cpu_ns(const struct raw_fabric *raw)
{
	return process_cpu_ns(raw->target.pid);
}
