/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers: opening, closing, and the phases. The coordinator's state line says which phase has
 * begun; each member's state line says which one it has reported. Each side waits by reading the
 * other's line.
 */
#include "client/barrier/barrier.h"
#include "client/namespace/region.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/queue/failures.h"
#include "client/target/same_host.h"

#define DEFAULT_SPIN_US	     1000 /* longer than a phase in which members take turns */
#define DEFAULT_PAUSE_US_MAX 10000
#define NAMED_MAX	     8 /* members that a sentence names */

/* ---- Waiting */

struct barrier_wait barrier_wait_begin(struct afar_barrier *barrier, int timeout_ms)
{
	uint64_t now = clock_ns();

	spin_begin(&barrier->spin, now);
	return (struct barrier_wait){now, clock_deadline_ms(timeout_ms)};
}

static void sleep_ns(uint64_t span_ns)
{
	struct timespec span = {(time_t)(span_ns / 1000000000U), (long)(span_ns % 1000000000U)};

	nanosleep(&span, NULL); /* if a signal cuts it short, we only look once more */
}

int barrier_wait_pause(struct afar_barrier *barrier, const struct barrier_wait *wait)
{
	uint64_t now = clock_ns();
	uint64_t pause = (now - wait->begun) / 4;

	if (now >= wait->deadline)
		return -ETIMEDOUT;
	if (now - wait->begun < barrier->spin_ns) {
		spin_pause(&barrier->spin, now);
		return 0;
	}
	if (pause > barrier->pause_ns_max)
		pause = barrier->pause_ns_max;
	if (pause > wait->deadline - now)
		pause = wait->deadline - now;
	sleep_ns(pause);
	return 0;
}

void barrier_name(const struct afar_barrier *barrier,
		  bool (*is_named)(const struct afar_barrier *barrier, uint32_t i),
		  char names[BARRIER_NAMES_MAX])
{
	unsigned count = 0;
	size_t length = 0;

	names[0] = '\0';
	for (uint32_t i = 1; i < barrier->nr_members; i++) {
		if (!is_named(barrier, i))
			continue;
		if (count++ < NAMED_MAX)
			length += (size_t)snprintf(names + length, BARRIER_NAMES_MAX - length,
						   "%s%u", length ? ", " : "", i);
	}
	if (count > NAMED_MAX)
		snprintf(names + length, BARRIER_NAMES_MAX - length, " and %u more",
			 count - NAMED_MAX);
}

/* ---- The slots */

static size_t place(const struct afar_barrier *barrier, const void *part)
{
	return (size_t)((const char *)part - (const char *)barrier->slots);
}

static int submit_and_wait(struct afar_queue *queue, const struct afar_op *ops, unsigned n)
{
	struct afar_completion done[2];
	int count = afar_queue_submit(queue, ops, n);
	const struct afar_completion *failed = NULL;
	int ret;

	if (count < 0)
		return count;
	count = afar_queue_wait(queue, done, (unsigned)count, (unsigned)count, -1);
	for (int i = 0; i < count; i++) {
		/* Prefers the write's failure: the flush only waited for the write. */
		if (done[i].result < 0 && (!failed || done[i].user_data == ops[0].user_data))
			failed = &done[i];
	}
	if (count < 0 || !failed)
		return count < 0 ? count : 0;
	ret = failure_say(queue, failed, "try again");
	return error_fail(ret, "%s a barrier: %s",
			  ops[0].opcode == AFAR_OP_READ ? "read" : "write to", error_last_line());
}

/* Submits and waits. Servers close connections to take memory away; then this connects and tries
 * again, as blocking calls do. */
static int run(struct afar_barrier *barrier, const struct afar_op *ops, unsigned n)
{
	uint64_t deadline = session_deadline(barrier->region->target.session);
	int ret = submit_and_wait(barrier->queue, ops, n);

	while ((ret == -AFAR_ESERVER || ret == -ENOTCONN) && clock_ns() < deadline) {
		ret = afar_queue_connect(barrier->queue, afar_region_target(barrier->region));
		if (ret)
			return ret;
		ret = submit_and_wait(barrier->queue, ops, n);
	}
	return ret;
}

/*
 * Reads same-host memory by a blocking call, which checks that it stays on this host. Otherwise reads over the
 * queue, like writes, because servers look for requests first on the connections that are in use.
 */
int barrier_read(struct afar_barrier *barrier, const void *part, size_t length)
{
	struct afar_target *target = afar_region_target(barrier->region);
	const struct afar_iov iov = {
		.buffer = afar_mapping_buffer(barrier->mapping),
		.addr = (void *)(uintptr_t)part,
		.length = length,
	};
	const struct afar_op op = {
		.opcode = AFAR_OP_READ,
		.target = target,
		.offset = barrier->offset + place(barrier, part),
		.iov = &iov,
		.nr_iov = 1,
	};
	int ret;

	if (!target->same_host)
		return run(barrier, &op, 1);
	ret = afar_mapping_read(barrier->mapping, place(barrier, part), length);
	atomic_thread_fence(memory_order_acquire);
	return ret;
}

/* Writes, and waits until the write is visible on all paths. Near writes are visible at once. */
static int write_through(struct afar_barrier *barrier, uint64_t offset, struct afar_buffer *buffer,
			 const void *data, size_t length)
{
	struct afar_target *target = afar_region_target(barrier->region);
	const struct afar_iov iov = {
		.buffer = buffer, .addr = (void *)(uintptr_t)data, .length = length};
	const struct afar_op ops[2] = {
		{.opcode = AFAR_OP_WRITE,
		 .target = target,
		 .offset = barrier->offset + offset,
		 .iov = &iov,
		 .nr_iov = 1,
		 .user_data = 1},
		{.opcode = AFAR_OP_FLUSH, .target = target, .user_data = 2},
	};

	atomic_thread_fence(memory_order_release);
	if (same_host_transfer(target, AFAR_OP_WRITE, &iov, 1, ops[0].offset, length))
		return 0;
	return run(barrier, ops, 2);
}

int barrier_write(struct afar_barrier *barrier, const void *part, size_t length)
{
	return write_through(barrier, place(barrier, part), afar_mapping_buffer(barrier->mapping),
			     part, length);
}

/* Writes our state with the instance. A member that was given up may report late, for an earlier
 * instance; the coordinator must not take that for a report to this one. */
int barrier_tell(struct afar_barrier *barrier, enum barrier_status status, uint64_t phase)
{
	struct barrier_state *state = &barrier->slots[barrier->member].state;

	state->instance = barrier->instance;
	state->status = (uint8_t)(status << 5 | (phase & PHASE_MASK));
	return barrier_write(barrier, state, offsetof(struct barrier_state, reserved));
}

static enum barrier_status status_of(const struct barrier_state *state)
{
	return (enum barrier_status)(state->status >> 5);
}

static bool is_phase(const struct barrier_state *state, uint64_t phase)
{
	return (state->status & PHASE_MASK) == (phase & PHASE_MASK);
}

/* ---- Opening and closing */

static int check_barrier(const struct afar_barrier *barrier)
{
	if (!handle_is(barrier, HANDLE_BARRIER))
		return error_fail(-EINVAL, "use a barrier: the handle is null or closed");
	return region_check(barrier->region);
}

static int check_coordinator(const struct afar_barrier *barrier, const char *call)
{
	int ret = check_barrier(barrier);

	if (!ret && barrier->member != 0)
		ret = error_fail(-EINVAL, "%s: it is for member 0, this is member %u", call,
				 barrier->member);
	return ret;
}

static int check_member(const struct afar_barrier *barrier, const char *call)
{
	int ret = check_barrier(barrier);

	if (!ret && barrier->member == 0)
		ret = error_fail(-EINVAL, "%s: this is member 0, which coordinates", call);
	return ret;
}

static int check_options(const struct afar_region *region,
			 const struct afar_barrier_options *options)
{
	uint64_t bytes;

	if (options->nr_members == 0 || options->nr_members > AFAR_BARRIER_MEMBERS_MAX ||
	    options->member >= options->nr_members)
		return error_fail(
			-EINVAL,
			"open a barrier as member %u of %u: there can be 1 to %u members, "
			"numbered from 0",
			options->member, options->nr_members, AFAR_BARRIER_MEMBERS_MAX);
	if (options->offset % AFAR_BARRIER_ALIGNMENT)
		return error_fail(-EINVAL,
				  "open a barrier at offset %llu: it must be a multiple of %u",
				  (unsigned long long)options->offset, AFAR_BARRIER_ALIGNMENT);
	if (__builtin_add_overflow(options->work_bytes, sizeof(struct barrier_slot), &bytes) ||
	    __builtin_mul_overflow(bytes, options->nr_members, &bytes) ||
	    !range_is_inside(options->offset, bytes, region->target.length))
		return error_fail(
			-ERANGE,
			"open a barrier of %u members with %llu bytes of work at offset %llu: "
			"the region has %llu bytes; AFAR_BARRIER_BYTES() says how many it takes",
			options->nr_members, (unsigned long long)options->work_bytes,
			(unsigned long long)options->offset,
			(unsigned long long)region->target.length);
	return 0;
}

static int get_resources(struct afar_barrier *barrier)
{
	uint64_t work_bytes = barrier->nr_members * barrier->work_bytes;
	int ret;

	barrier->members = calloc(barrier->nr_members, sizeof(*barrier->members));
	if (!barrier->members)
		return error_code(-ENOMEM);
	ret = afar_region_map(barrier->region, barrier->offset,
			      barrier->nr_members * sizeof(struct barrier_slot), 0,
			      &barrier->mapping);
	if (ret)
		return ret;
	barrier->slots = afar_mapping_data(barrier->mapping);
	if (barrier->member == 0 && work_bytes) {
		ret = afar_buffer_alloc(barrier->region->target.session, work_bytes,
					&barrier->work);
		if (ret)
			return ret;
	}
	ret = afar_queue_open(
		barrier->region->target.session,
		&(struct afar_queue_options){.size = sizeof(struct afar_queue_options), .depth = 2},
		&barrier->queue);
	return ret ? ret : afar_queue_connect(barrier->queue, afar_region_target(barrier->region));
}

/* Frees what the barrier has. Nobody uses it and nothing is in flight, so this cannot fail. */
static void barrier_destroy(struct afar_barrier *barrier)
{
	if (barrier->queue)
		afar_queue_close(barrier->queue);
	if (barrier->work)
		afar_buffer_unregister(barrier->work);
	if (barrier->mapping)
		afar_mapping_unmap(barrier->mapping);
	free(barrier->members);
}

static int barrier_new(struct afar_region *region, const struct afar_barrier_options *options,
		       struct afar_barrier **out)
{
	struct afar_barrier *barrier = handle_new(HANDLE_BARRIER, sizeof(*barrier));
	uint32_t spin_us = options->spin_us ? options->spin_us : DEFAULT_SPIN_US;
	uint32_t pause_us = options->pause_us_max ? options->pause_us_max : DEFAULT_PAUSE_US_MAX;
	int ret;

	if (!barrier)
		return error_code(-ENOMEM);
	barrier->region = region;
	barrier->offset = options->offset;
	barrier->work_bytes = options->work_bytes;
	barrier->nr_members = options->nr_members;
	barrier->member = options->member;
	barrier->spin_ns = spin_us == UINT32_MAX ? 0 : spin_us * (uint64_t)1000;
	barrier->pause_ns_max = pause_us * (uint64_t)1000;
	ret = get_resources(barrier);
	if (ret) {
		barrier_destroy(barrier);
		handle_discard(barrier);
		return ret;
	}
	*out = barrier;
	return 0;
}

PUBLIC_CALL_OF_CALLS(int, afar_barrier_open,
		     (struct afar_region *region, const struct afar_barrier_options *given,
		      int timeout_ms, struct afar_barrier **out),
		     (region, given, timeout_ms, out))
{
	struct afar_barrier_options options = {0};
	struct afar_barrier *barrier;
	int ret = region_check(region);

	if (ret)
		return ret;
	if (!given || !out)
		return error_fail(-EINVAL, "open a barrier: options or out is null");
	ret = ABI_TAKE(&options, given, afar_barrier_options, pause_us_max);
	if (!ret)
		ret = check_options(region, &options);
	if (!ret)
		ret = barrier_new(region, &options, &barrier);
	if (ret)
		return ret;
	ret = barrier_meet(barrier, timeout_ms);
	if (ret) {
		barrier_destroy(barrier);
		handle_discard(barrier);
		return ret;
	}
	*out = barrier;
	return 0;
}

/* Reports that we leave. Others may not have seen our last report yet, so that stays readable. */
static void report_leaving(struct afar_barrier *barrier)
{
	enum barrier_status status = STATUS_LEFT;
	uint64_t finished = barrier->phase;

	if (barrier->member == 0) {
		barrier_tell(barrier, STATUS_ENDED, barrier->phase);
		return;
	}
	if (!barrier->has_reported)
		finished--;
	else if (barrier->slots[barrier->member].state.status >> 5 == STATUS_FAILED)
		status = STATUS_LEFT_FAILED;
	barrier_tell(barrier, status, finished);
}

PUBLIC_CALL_OF_CALLS(int, afar_barrier_close, (struct afar_barrier *barrier), (barrier))
{
	int ret = check_barrier(barrier);

	if (ret)
		return ret;
	ret = handle_close(barrier, HANDLE_BARRIER);
	if (ret)
		return error_fail(ret, "close a barrier: it is closed already");
	report_leaving(barrier);
	barrier_destroy(barrier);
	handle_retire(barrier);
	return 0;
}

/* ---- The coordinator */

static int write_work(struct afar_barrier *barrier, const void *work)
{
	void *copy = afar_buffer_data(barrier->work);
	size_t length = barrier->nr_members * barrier->work_bytes;

	memcpy(copy, work, length);
	return write_through(barrier, barrier->nr_members * sizeof(struct barrier_slot),
			     barrier->work, copy, length);
}

PUBLIC_CALL_OF_CALLS(int, afar_barrier_start, (struct afar_barrier *barrier, const void *work),
		     (barrier, work))
{
	int ret = check_coordinator(barrier, "start a phase");

	if (ret)
		return ret;
	if (barrier->phase && !barrier->has_reported)
		return error_fail(
			-EBUSY,
			"start a phase: not all members have reported the one before; collect "
			"it, or close the barrier");
	if (work && barrier->work)
		ret = write_work(barrier, work);
	if (ret)
		return ret;
	ret = barrier_tell(barrier, STATUS_BEGUN, barrier->phase + 1);
	if (ret)
		return ret;
	barrier->phase++;
	barrier->has_reported = false;
	for (uint32_t i = 1; i < barrier->nr_members; i++) {
		struct barrier_member *member = &barrier->members[i];

		member->has_reported = member->has_left;
		member->status = -ESHUTDOWN;
	}
	return 0;
}

static int read_error(struct afar_barrier *barrier, struct barrier_state *state, int *out)
{
	/* The error was written before the status, and nothing else in the line changes now. */
	int ret = barrier_read(barrier, &state->error, sizeof(state->error));

	*out = (int)le32toh(state->error);
	if (*out >= 0)
		*out = -EIO;
	return ret;
}

/* Takes what a member's state line says about the phase. */
static int hear_member(struct afar_barrier *barrier, struct barrier_state *state,
		       struct barrier_member *member)
{
	enum barrier_status status = status_of(state);
	int ret = 0;

	if (state->instance != barrier->instance)
		return 0;
	member->has_left = status == STATUS_LEFT || status == STATUS_LEFT_FAILED;
	if (!is_phase(state, barrier->phase)) {
		member->has_reported = member->has_left;
		member->status = -ESHUTDOWN;
		return 0;
	}
	member->status = 0;
	if (status == STATUS_FAILED || status == STATUS_LEFT_FAILED)
		ret = read_error(barrier, state, &member->status);
	member->has_reported = !ret && status != STATUS_JOINED;
	return ret;
}

static bool is_late(const struct afar_barrier *barrier, uint32_t i)
{
	return !barrier->members[i].has_reported;
}

/* Finds the first and the last member that have not reported. False: all have. */
static bool find_late(const struct afar_barrier *barrier, uint32_t *first, uint32_t *last)
{
	*first = 1;
	*last = barrier->nr_members - 1;
	while (*first <= *last && !is_late(barrier, *first))
		(*first)++;
	while (*last > *first && !is_late(barrier, *last))
		(*last)--;
	return *first <= *last;
}

/* Looks at the members that have not reported. 1: all have. */
static int hear_members(struct afar_barrier *barrier)
{
	uint32_t first, last;
	int ret;

	if (!find_late(barrier, &first, &last))
		return 1;
	ret = barrier_read(barrier, &barrier->slots[first].state,
			   (last - first) * sizeof(struct barrier_slot) +
				   sizeof(struct barrier_state));
	for (uint32_t i = first; i <= last && !ret; i++) {
		if (is_late(barrier, i))
			ret = hear_member(barrier, &barrier->slots[i].state, &barrier->members[i]);
	}
	return ret ? ret : !find_late(barrier, &first, &last);
}

static int give_statuses(const struct afar_barrier *barrier, int *statuses)
{
	int nr_failed = 0;

	if (statuses)
		statuses[0] = 0;
	for (uint32_t i = 1; i < barrier->nr_members; i++) {
		const struct barrier_member *member = &barrier->members[i];

		if (statuses)
			statuses[i] = member->has_reported ? member->status : -ETIMEDOUT;
		nr_failed += member->has_reported && member->status;
	}
	return nr_failed;
}

PUBLIC_CALL_OF_CALLS(int, afar_barrier_collect,
		     (struct afar_barrier *barrier, int *statuses, int timeout_ms),
		     (barrier, statuses, timeout_ms))
{
	struct barrier_wait wait;
	char names[BARRIER_NAMES_MAX];
	int ret = check_coordinator(barrier, "collect a phase");

	if (ret)
		return ret;
	wait = barrier_wait_begin(barrier, timeout_ms);
	do {
		ret = hear_members(barrier);
		if (ret < 0)
			return ret;
		if (ret) {
			barrier->has_reported = true;
			return give_statuses(barrier, statuses);
		}
	} while (!barrier_wait_pause(barrier, &wait));
	give_statuses(barrier, statuses);
	barrier_name(barrier, is_late, names);
	return error_fail(-ETIMEDOUT,
			  "collect a phase: of %u members these have not reported it: %s",
			  barrier->nr_members, names);
}

/* ---- The others */

/* Looks for the next phase. 1: it has begun. */
static int look_for_phase(struct afar_barrier *barrier)
{
	struct barrier_state *state = &barrier->slots[0].state;
	int ret = barrier_read(barrier, state, sizeof(*state));

	if (ret)
		return ret;
	if (state->instance != barrier->instance)
		return error_fail(-ESHUTDOWN,
				  "wait for a phase: the barrier was opened anew; close it "
				  "and open it, too");
	if (is_phase(state, barrier->phase + 1))
		return 1;
	if (status_of(state) == STATUS_ENDED)
		return error_fail(-ESHUTDOWN, "wait for a phase: member 0 has closed the barrier");
	return 0;
}

static int read_work(struct afar_barrier *barrier, void *work)
{
	uint64_t offset = barrier->offset + barrier->nr_members * sizeof(struct barrier_slot) +
			  barrier->member * barrier->work_bytes;
	ssize_t count = afar_region_pread(barrier->region, work, barrier->work_bytes, offset);

	return count < 0 ? (int)count : 0;
}

PUBLIC_CALL_OF_CALLS(int, afar_barrier_next,
		     (struct afar_barrier *barrier, void *work, int timeout_ms),
		     (barrier, work, timeout_ms))
{
	struct barrier_wait wait;
	int ret = check_member(barrier, "wait for a phase");

	if (ret)
		return ret;
	if (barrier->phase && !barrier->has_reported)
		return error_fail(
			-EINVAL,
			"wait for a phase: the one before is not reported; report it first");
	wait = barrier_wait_begin(barrier, timeout_ms);
	while ((ret = look_for_phase(barrier)) == 0) {
		if (barrier_wait_pause(barrier, &wait))
			return error_fail(-ETIMEDOUT,
					  "wait for a phase: member 0 has not begun it");
	}
	if (ret > 0)
		ret = work && barrier->work_bytes ? read_work(barrier, work) : 0;
	if (ret)
		return ret;
	barrier->phase++;
	barrier->has_reported = false;
	return 0;
}

PUBLIC_CALL_OF_CALLS(int, afar_barrier_report, (struct afar_barrier *barrier, int status),
		     (barrier, status))
{
	struct barrier_state *state;
	int ret = check_member(barrier, "report a phase");

	if (ret)
		return ret;
	if (status > 0 || barrier->has_reported)
		return error_fail(
			-EINVAL,
			"report a phase: the status is positive, or it was reported before");
	if (status) {
		state = &barrier->slots[barrier->member].state;
		state->error = htole32((uint32_t)status);
		ret = barrier_write(barrier, &state->error, sizeof(state->error));
	}
	if (!ret)
		ret = barrier_tell(barrier, status ? STATUS_FAILED : STATUS_FINISHED,
				   barrier->phase);
	if (!ret)
		barrier->has_reported = true;
	return ret;
}

/* ---- Equals */

static int wait_as_coordinator(struct afar_barrier *barrier, int timeout_ms)
{
	int ret = afar_barrier_collect(barrier, NULL, timeout_ms);

	return ret ? ret : afar_barrier_start(barrier, NULL);
}

PUBLIC_CALL_OF_CALLS(int, afar_barrier_wait, (struct afar_barrier *barrier, int timeout_ms),
		     (barrier, timeout_ms))
{
	int ret = check_barrier(barrier);

	if (ret)
		return ret;
	if (barrier->member == 0)
		return wait_as_coordinator(barrier, timeout_ms);
	if (!barrier->has_reported)
		ret = afar_barrier_report(barrier, 0);
	return ret ? ret : afar_barrier_next(barrier, NULL, timeout_ms);
}
