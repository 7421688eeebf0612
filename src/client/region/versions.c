/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copy-on-write regions (afar/cow.h). The manager keeps each version as a region of its own, with a generation. So a handle
 * moves to another version by a new binding, a new generation, and a close of the old one: move_to(). Where a version
 * that is being written has its own memory, its layout says so, and writes elsewhere end with -EROFS.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/namespace/deferred_close.h"
#include "client/namespace/region.h"
#include "client/namespace/versions_handle.h"
#include "client/queue/progress.h"
#include "client/queue/queue.h"
#include "client/region/versions.h"
#include "client/region/versions_prepare.h"
#include "client/region/versions_use.h"
#include "client/target/same_host.h"

/* ---- Checks */

static int check_cow(const struct afar_region *region, const char *asked)
{
	int ret = region_check(region);

	if (ret || region->versions)
		return ret;
	return error_fail(-EINVAL,
			  "%s the region at %#llx: it is not copy-on-write; make one with "
			  "AFAR_ALLOC_COW",
			  asked, (unsigned long long)region->target.address);
}

/* Counts the caller in, and fails if operations are in flight. */
static int enter(struct afar_region *region, const char *asked)
{
	struct handle *handle = &region->target.handle;

	if (!handle_enter(handle))
		return error_fail(-EINVAL, "%s a region: it is being closed", asked);
	same_host_wait(&region->target);
	if ((handle->nr_users & ~HANDLE_SHUT) <= region->nr_mappings + 1)
		return 0;
	handle_unuse(handle);
	return error_fail(-EBUSY,
			  "%s the region at %#llx: operations on it are in flight; wait for them",
			  asked, (unsigned long long)region->target.address);
}

static void leave(struct afar_region *region)
{
	handle_unuse(&region->target.handle);
}

static int check_draft(const struct afar_region *region, const char *asked)
{
	if (region->versions->is_draft)
		return 0;
	return error_fail(-EINVAL, "%s the region at %#llx: no version is begun; begin one first",
			  asked, (unsigned long long)region->target.address);
}

/* ---- Moving from version to version */

/* Takes the handle to the version of which the manager has given the session a reference. Gives back the reference to
 * the one before, or, if it fails, the new one. */
static int move_to(struct afar_region *region, const Afar__RegionInfo *info)
{
	const struct layout_description layout = layout_describe(info);
	struct afar_target *target = &region->target;
	uint64_t left = target->generation;
	struct binding *binding;
	int ret = 0;

	if (info->family != target->family)
		ret = error_fail(
			-AFAR_EMALFORMED,
			"look at a copy-on-write region: the manager answered another one");
	if (!ret && info->generation != left) {
		pthread_mutex_lock(&target->lock);
		ret = binding_new(target, &layout, &binding);
		if (!ret) {
			target->generation = info->generation;
			target_bind(target, binding);
			target->is_lost = false;
			target->is_published = !info->is_draft;
			versions_take_info(region->versions, info);
		}
		pthread_mutex_unlock(&target->lock);
	} else if (!ret) {
		/* A publish whose outcome was unknown may have made it the newest. */
		pthread_mutex_lock(&target->lock);
		target->is_published = !info->is_draft;
		versions_take_info(region->versions, info);
		pthread_mutex_unlock(&target->lock);
	}
	region_call_close(target->session, target->ns, target->address,
			  ret ? info->generation : left);
	return ret;
}

/* Calls the manager for another version, and moves there. The answer may come `wait_ms` later than others. */
static int call_and_move(struct afar_region *region, Afar__Request *request, uint32_t wait_ms)
{
	struct afar_target *target = &region->target;
	uint64_t deadline = session_deadline(target->session);
	Afar__Frame *reply;
	int ret;

	if (deadline < UINT64_MAX - (uint64_t)wait_ms * 1000000U)
		deadline += (uint64_t)wait_ms * 1000000U;
	ret = target_call(target, deadline, request, &reply);
	if (ret)
		return ret;
	ret = move_to(region, reply->reply->region_info);
	rpc_frame_free(reply);
	return ret;
}

static int move_to_newest(struct afar_region *region)
{
	Afar__RegionOpen message = AFAR__REGION_OPEN__INIT;

	message.namespace_ = region->target.ns;
	message.address = region->target.address;
	message.generation = region->target.generation;
	return call_and_move(region, RPC_REQUEST(REGION_OPEN, region_open, &message), 0);
}

PUBLIC_CALL(int, afar_region_refresh, (struct afar_region *region), (region))
{
	int ret = check_cow(region, "refresh");

	if (ret)
		return ret;
	if (region->versions->is_draft)
		return error_fail(-EBUSY,
				  "refresh the region at %#llx: this handle has begun a version; "
				  "publish or abandon that first",
				  (unsigned long long)region->target.address);
	ret = enter(region, "refresh");
	if (ret)
		return ret;
	ret = move_to_newest(region);
	leave(region);
	return ret;
}

/* ---- Preparing: versions_prepare.c has the rest */

static int fail_torn(const struct afar_region *region, const char *asked)
{
	return error_fail(-EINVAL,
			  "%s the region at %#llx: an earlier prepare has failed, so bytes are "
			  "missing; abandon this version",
			  asked, (unsigned long long)region->target.address);
}

PUBLIC_CALL(int, afar_region_prepare,
	    (struct afar_region *region, const struct afar_range *ranges, unsigned nr_ranges),
	    (region, ranges, nr_ranges))
{
	int ret = check_cow(region, "prepare ranges of");

	if (!ret)
		ret = check_draft(region, "prepare ranges of");
	if (!ret && region->versions->is_torn)
		ret = fail_torn(region, "prepare ranges of");
	if (!ret)
		ret = enter(region, "prepare ranges of");
	if (ret)
		return ret;
	ret = versions_prepare(region, ranges, nr_ranges);
	leave(region);
	return ret;
}

/* ---- Beginning */

static int begin(struct afar_region *region, int timeout_ms)
{
	const uint32_t wait_ms = timeout_ms < 0 ? UINT32_MAX : (uint32_t)timeout_ms; /* 49 days */
	struct versions *versions = region->versions;
	Afar__RegionBegin message = AFAR__REGION_BEGIN__INIT;
	int ret;

	/* The one before stays if its outcome is unknown: the manager may have begun a version for it. */
	if (!versions->claim &&
	    getrandom(&versions->claim, sizeof(versions->claim), 0) != sizeof(versions->claim))
		return error_code(-EIO);
	message.namespace_ = region->target.ns;
	message.address = region->target.address;
	message.generation = region->target.generation;
	message.claim = versions->claim;
	message.wait_ms = wait_ms;
	ret = call_and_move(region, RPC_REQUEST(REGION_BEGIN, region_begin, &message), wait_ms);
	if (!ret) {
		versions->claim = 0;
		versions_keep(region);
	}
	return ret;
}

/* Sees to it that nothing that was written to the version can land later. */
static int settle(struct afar_region *region, const char *asked)
{
	struct afar_target *target = &region->target;

	if (!target_is_in_doubt(target))
		return 0;
	target_settle_all(target, session_deadline(target->session));
	if (!target_is_in_doubt(target))
		return 0;
	return error_fail(-AFAR_ESERVER,
			  "%s the region at %#llx: a server may still carry out a write whose "
			  "outcome is unknown, and does not answer; try again",
			  asked, (unsigned long long)target->address);
}

/* Goes back to the version before, and keeps the error. */
static int undo_begin(struct afar_region *region, int status)
{
	char why[ERROR_LINE_BYTES];

	strncpy(why, error_last_line(), sizeof(why) - 1);
	why[sizeof(why) - 1] = '\0';
	/* Posted writes may still land: the memory stays ours until they cannot any more. */
	if (settle(region, "begin a version of") == 0)
		move_to_newest(region);
	else
		region->versions->is_torn = true;
	return error_fail(status, "%s", why);
}

static int begin_within(struct afar_region *region, const struct afar_range *ranges,
			unsigned nr_ranges, int timeout_ms)
{
	int ret = check_cow(region, "begin a version of");

	if (!ret && region->versions->is_draft)
		ret = error_fail(
			-EBUSY,
			"begin a version of the region at %#llx: this handle has begun one; "
			"publish or abandon that first",
			(unsigned long long)region->target.address);
	if (!ret)
		ret = enter(region, "begin a version of");
	if (ret)
		return ret;
	ret = begin(region, timeout_ms);
	if (!ret && nr_ranges) {
		ret = versions_prepare(region, ranges, nr_ranges);
		if (ret)
			ret = undo_begin(region, ret);
	}
	leave(region);
	return ret;
}

PUBLIC_CALL(int, afar_region_begin,
	    (struct afar_region *region, const struct afar_range *ranges, unsigned nr_ranges),
	    (region, ranges, nr_ranges))
{
	return begin_within(region, ranges, nr_ranges, 0);
}

PUBLIC_CALL(int, afar_region_begin_within,
	    (struct afar_region *region, const struct afar_range *ranges, unsigned nr_ranges,
	     int timeout_ms),
	    (region, ranges, nr_ranges, timeout_ms))
{
	return begin_within(region, ranges, nr_ranges, timeout_ms);
}

/* ---- The word: the newest version's number, beside a mark that tells it from what was in the memory before */

static uint64_t mark_of(const struct afar_target *target)
{
	return (target->family * 0x9E3779B97F4A7C15U | UINT64_C(1) << 40) >> 40 << 40;
}

static uint64_t version_in(const struct afar_target *target, uint64_t word)
{
	return word >> 40 << 40 == mark_of(target) ? word & ((UINT64_C(1) << 40) - 1) : 0;
}

/* Gets the view on the word, which stays where it is in all versions. The caller holds the versions' lock. */
static int open_word(struct afar_region *region)
{
	struct versions *versions = region->versions;
	struct binding *binding;
	int ret;

	if (versions->word)
		return 0;
	binding = target_binding(&region->target);
	ret = version_view_open(&region->target, binding->layout, &versions->word);
	binding_unref(binding);
	return ret;
}

static int read_word(struct afar_region *region, uint64_t *out)
{
	const struct afar_iov iov = {.addr = out, .length = sizeof(*out)};
	int ret = open_word(region);

	if (ret)
		return ret;
	ret = target_transfer(&region->versions->word->target, AFAR_OP_READ, 0, &iov, 1,
			      region->target.length, sizeof(*out));
	/* Something in the namespace was sealed since: the next one sees that. */
	if (ret == -ESTALE) {
		version_view_close(region->versions->word);
		region->versions->word = NULL;
	}
	return ret;
}

/* Raises the word to the version, never lowers it: a writer that was stopped here may come late. Fails quietly, because it is a hint. */
static void raise_word(struct afar_region *region, uint64_t version)
{
	const struct afar_target *target = &region->target;
	uint64_t word, before;
	const struct afar_iov iov = {.addr = &before, .length = sizeof(before)};
	struct afar_op op = {.opcode = AFAR_OP_COMPARE_SWAP,
			     .offset = target->length,
			     .operand = mark_of(target) | version,
			     .nr_iov = 1,
			     .iov = &iov};
	int ret;

	if (!region->versions->has_word)
		return;
	pthread_mutex_lock(&region->versions->lock);
	ret = read_word(region, &word);
	while (!ret && version_in(target, word) < version) {
		op.target = &region->versions->word->target;
		op.compare = word;
		ret = target_atomic(&op);
		if (!ret && before == word)
			break;
		word = before;
	}
	pthread_mutex_unlock(&region->versions->lock);
}

/* ---- Publishing and abandoning */

static int call_publish(struct afar_region *region)
{
	struct afar_target *target = &region->target;
	Afar__RegionPublish message = AFAR__REGION_PUBLISH__INIT;

	message.namespace_ = target->ns;
	message.address = target->address;
	message.generation = target->generation;
	return session_call(target->session, RPC_REQUEST(REGION_PUBLISH, region_publish, &message),
			    NULL);
}

/* It may be written again, unless the manager may have published it. */
static void thaw(struct afar_region *region)
{
	region->target.is_published = region->versions->is_asked;
}

/* From here on nobody writes: writers on this host have gone when the windows are closed. */
static int freeze(struct afar_region *region, const char *asked)
{
	int ret;

	region->target.is_published = true;
	same_host_close(&region->target);
	ret = enter(region, asked);
	if (ret)
		thaw(region);
	return ret;
}

static int publish(struct afar_region *region)
{
	struct afar_target *target = &region->target;
	int ret = 0;

	target_flush(target);
	if (target->is_flash)
		ret = target_sync(target);
	if (!ret)
		ret = settle(region, "publish a version of");
	if (ret) {
		thaw(region);
		return ret;
	}
	region->versions->is_asked = true;
	ret = call_publish(region);
	if (ret)
		return ret;
	region->versions->is_draft = false;
	raise_word(region, region->versions->number);
	return 0;
}

PUBLIC_CALL(int, afar_region_publish, (struct afar_region *region), (region))
{
	int ret = check_cow(region, "publish a version of");

	if (!ret)
		ret = check_draft(region, "publish a version of");
	if (!ret && region->versions->is_torn)
		ret = fail_torn(region, "publish a version of");
	if (!ret)
		ret = freeze(region, "publish a version of");
	if (ret)
		return ret;
	ret = publish(region);
	leave(region);
	return ret;
}

PUBLIC_CALL(int, afar_region_abandon, (struct afar_region *region), (region))
{
	int ret = check_cow(region, "abandon a version of");

	if (!ret)
		ret = check_draft(region, "abandon a version of");
	if (!ret)
		ret = freeze(region, "abandon a version of");
	if (ret)
		return ret;
	ret = settle(region, "abandon a version of");
	if (!ret)
		ret = move_to_newest(region);
	if (ret)
		thaw(region);
	leave(region);
	return ret;
}

/* ---- Looking */

uint64_t afar_region_version(const struct afar_region *region)
{
	return handle_is(region, HANDLE_REGION) && region->versions ? region->versions->number : 0;
}

PUBLIC_CALL_OF_CALLS(int, afar_region_newest, (struct afar_region *region, uint64_t *version),
	    (region, version))
{
	struct afar_region_stat stat = {.size = sizeof(stat)};
	uint64_t word = 0, found = 0;
	int ret = check_cow(region, "look for a newer version of");

	if (ret)
		return ret;
	if (!version)
		return error_fail(-EINVAL, "look for a newer version of a region: version is null");
	if (region->versions->has_word) {
		pthread_mutex_lock(&region->versions->lock);
		ret = read_word(region, &word);
		pthread_mutex_unlock(&region->versions->lock);
		found = version_in(&region->target, word);
	} else {
		ret = afar_region_stat(region, &stat);
		found = stat.version;
	}
	if (ret)
		return ret;
	*version = found > region->versions->number ? found : region->versions->number;
	return 0;
}
