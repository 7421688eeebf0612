/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the members of a barrier meet, in memory that may hold anything, in whatever order they come:
 *
 *   member:       hello (its nonce)
 *   coordinator:  answer (that nonce, its own: the instance)    to every hello that it finds
 *   member:       state (the instance), hello (nonce, instance) when the answer has its nonce
 *   coordinator:  state (the instance): phase 0 has begun       when every hello has the instance
 *
 * The coordinator may answer an old hello, too; no member takes that answer for its own. An old
 * answer does not have the member's nonce. A member comes here only when it is done with any
 * earlier barrier at this place. Before that, nobody writes its state line of the new instance. So
 * a barrier can be opened at the place of another before all members have closed that.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "client/barrier/barrier.h"

static int draw_number(uint64_t *out)
{
	do {
		if (getrandom(out, sizeof(*out), 0) != sizeof(*out))
			return error_fail(-EIO, "open a barrier: the kernel has no random bytes");
	} while (*out == 0);
	return 0;
}

/* ---- The coordinator */

static int answer(struct afar_barrier *barrier, struct barrier_slot *slot, uint64_t nonce)
{
	int ret;

	slot->answer = (struct barrier_answer){
		.instance = barrier->instance,
		.version = htole32(BARRIER_VERSION),
		.nr_members = htole32(barrier->nr_members),
		.work_bytes = htole64(barrier->work_bytes),
	};
	ret = barrier_write(barrier, &slot->answer, sizeof(slot->answer));
	slot->answer.nonce = nonce;
	if (!ret)
		ret = barrier_write(barrier, &slot->answer.nonce, sizeof(slot->answer.nonce));
	return ret;
}

static bool has_come(const struct afar_barrier *barrier, uint32_t i)
{
	return barrier->slots[i].hello.instance == barrier->instance;
}

static bool is_missing(const struct afar_barrier *barrier, uint32_t i)
{
	return !has_come(barrier, i);
}

/* Looks at all hellos, from the first each time, because a member that had come may have started
 * again. 1: all are there. */
static int look_for_members(struct afar_barrier *barrier, uint64_t *answered)
{
	bool are_all_there = true;
	int ret = barrier_read(barrier, &barrier->slots[1],
			       (barrier->nr_members - 1) * sizeof(barrier->slots[0]));

	if (ret)
		return ret;
	for (uint32_t i = 1; i < barrier->nr_members; i++) {
		uint64_t nonce = barrier->slots[i].hello.nonce;

		if (has_come(barrier, i))
			continue;
		are_all_there = false;
		if (nonce == answered[i])
			continue;
		ret = answer(barrier, &barrier->slots[i], nonce);
		if (ret)
			return ret;
		answered[i] = nonce;
	}
	return are_all_there;
}

static int await_members(struct afar_barrier *barrier, int timeout_ms, uint64_t *answered)
{
	struct barrier_wait wait = barrier_wait_begin(barrier, timeout_ms);
	char names[BARRIER_NAMES_MAX];
	int ret;

	do {
		ret = look_for_members(barrier, answered);
		if (ret)
			return ret < 0 ? ret : 0;
	} while (!barrier_wait_pause(barrier, &wait));
	barrier_name(barrier, is_missing, names);
	return error_fail(-ETIMEDOUT, "open a barrier: of %u members these have not come: %s",
			  barrier->nr_members, names);
}

static int meet_as_coordinator(struct afar_barrier *barrier, int timeout_ms)
{
	uint64_t *answered;
	int ret = draw_number(&barrier->instance);

	if (ret)
		return ret;
	if (barrier->nr_members > 1) {
		answered = calloc(barrier->nr_members, sizeof(*answered));
		if (!answered)
			return error_code(-ENOMEM);
		ret = await_members(barrier, timeout_ms, answered);
		free(answered);
		if (ret)
			return ret;
	}
	/* All wait for the instance here. They must not find it beside an old status. */
	barrier->slots[0].state = (struct barrier_state){.status = STATUS_BEGUN << 5};
	ret = barrier_write(barrier, &barrier->slots[0].state, sizeof(struct barrier_state));
	return ret ? ret : barrier_tell(barrier, STATUS_BEGUN, 0);
}

/* ---- The others */

static int check_answer(const struct afar_barrier *barrier, const struct barrier_answer *answer)
{
	if (le32toh(answer->version) != BARRIER_VERSION)
		return error_fail(-AFAR_EVERSION,
				  "open a barrier: member 0 uses layout %u of it, this library %u",
				  le32toh(answer->version), BARRIER_VERSION);
	if (le32toh(answer->nr_members) != barrier->nr_members ||
	    le64toh(answer->work_bytes) != barrier->work_bytes)
		return error_fail(
			-EINVAL,
			"open a barrier of %u members with %llu bytes of work: member 0 opens "
			"one of %u with %llu",
			barrier->nr_members, (unsigned long long)barrier->work_bytes,
			le32toh(answer->nr_members),
			(unsigned long long)le64toh(answer->work_bytes));
	return 0;
}

/* Joins the instance that the answer names. If the coordinator has died, that may be the instance
 * of a second one; then the member joins again. */
static int join(struct afar_barrier *barrier, struct barrier_slot *slot)
{
	/* The rest was written before the nonce, so it is there now that the nonce has been
	 * seen. */
	int ret = barrier_read(barrier, &slot->answer, sizeof(slot->answer));

	if (!ret)
		ret = check_answer(barrier, &slot->answer);
	if (ret || slot->answer.instance == barrier->instance)
		return ret;
	barrier->instance = slot->answer.instance;
	ret = barrier_tell(barrier, STATUS_JOINED, 0);
	if (ret)
		return ret;
	slot->hello.instance = barrier->instance;
	return barrier_write(barrier, &slot->hello.instance, sizeof(slot->hello.instance));
}

/* Looks for phase 0. 1: the coordinator has seen that all are there. */
static int look_for_coordinator(struct afar_barrier *barrier, uint64_t nonce)
{
	struct barrier_slot *slot = &barrier->slots[barrier->member];
	struct barrier_state *state = &barrier->slots[0].state;
	int ret = barrier_read(barrier, &slot->hello, sizeof(slot->hello) + sizeof(slot->answer));

	if (ret)
		return ret;
	if (slot->hello.nonce != nonce)
		return error_fail(-EEXIST,
				  "open a barrier as member %u: another process has come as that",
				  barrier->member);
	if (slot->answer.nonce == nonce) {
		ret = join(barrier, slot);
		if (ret)
			return ret;
	}
	if (barrier->instance == 0)
		return 0;
	ret = barrier_read(barrier, state, sizeof(*state));
	return ret ? ret : state->instance == barrier->instance;
}

/* Withdraws the hello, so that the coordinator does not count on a member that has given up. */
static void withdraw(struct afar_barrier *barrier, struct barrier_hello *hello)
{
	*hello = (struct barrier_hello){0};
	barrier_write(barrier, hello, sizeof(*hello));
}

static int meet_as_member(struct afar_barrier *barrier, int timeout_ms)
{
	struct barrier_wait wait = barrier_wait_begin(barrier, timeout_ms);
	struct barrier_hello *hello = &barrier->slots[barrier->member].hello;
	uint64_t nonce;
	int ret = draw_number(&nonce);

	if (ret)
		return ret;
	*hello = (struct barrier_hello){.nonce = nonce};
	ret = barrier_write(barrier, hello, sizeof(*hello));
	if (ret)
		return ret;
	do {
		ret = look_for_coordinator(barrier, nonce);
		if (ret)
			return ret < 0 ? ret : 0;
	} while (!barrier_wait_pause(barrier, &wait));
	withdraw(barrier, hello);
	return error_fail(-ETIMEDOUT, "open a barrier as member %u: %s", barrier->member,
			  barrier->instance ? "not all of the others have come"
					    : "member 0 has not come");
}

int barrier_meet(struct afar_barrier *barrier, int timeout_ms)
{
	return barrier->member == 0 ? meet_as_coordinator(barrier, timeout_ms)
				    : meet_as_member(barrier, timeout_ms);
}
