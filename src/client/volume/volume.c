/* SPDX-License-Identifier: BSD-3-Clause */
/* Volumes: the calls that make, find, open, change and end them. */
#include "client/volume/volume.h"
#include "client/namespace/region.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/namespace/deferred_close.h"
#include "rpc/manager_features.h"

static int check_volume(const struct afar_volume *volume)
{
	if (!handle_is(volume, HANDLE_VOLUME))
		return error_fail(-EINVAL, "use a volume: the handle is null or closed");
	return session_check(volume->ns->session);
}

int volume_enter(struct afar_volume *volume)
{
	int ret = check_volume(volume);

	if (ret)
		return ret;
	return handle_enter(&volume->handle)
		       ? 0
		       : error_fail(-EINVAL, "use a volume: it is being closed");
}

static int check_name(const struct afar_session *session, const char *name)
{
	int ret = session_check(session);

	if (ret == 0 && (!name || !name[0]))
		return error_fail(-EINVAL, "use a volume: it needs a name");
	return ret;
}

static int check_bytes(const char *asked, const char *name, uint64_t bytes)
{
	if (bytes != 0 && bytes % AFAR_VOLUME_BLOCK == 0)
		return 0;
	return error_fail(-EINVAL,
			  "%s volume '%s' %s %llu bytes: a size is a multiple of %u, and not 0",
			  asked, name, asked[0] == 'c' ? "of" : "to", (unsigned long long)bytes,
			  AFAR_VOLUME_BLOCK);
}

/* ---- Looking */

static void give_stat(const Afar__NamespaceInfo *info, void *out, size_t size)
{
	struct afar_volume_stat stat = {
		.bytes = info->volume->bytes,
		.width = info->volume->width,
		.rights = info->rights,
		.nr_readers = info->volume->nr_readers,
		.nr_writers = info->volume->nr_writers,
		.is_exclusive = info->volume->is_exclusive != 0,
		.is_unfinished = info->volume->is_unfinished != 0,
		.is_lost = info->volume->is_lost != 0,
	};

	name_copy(stat.name, info->name);
	name_copy(stat.holder, info->volume->holder);
	memcpy(stat.owner, info->owner, strnlen(info->owner, AFAR_PRINCIPAL_MAX));
	if (info->policy) {
		stat.tier = info->policy->tier;
		stat.stripe_bytes = info->policy->stripe_bytes;
	}
	abi_give(out, size, &stat, sizeof(stat));
}

static const struct namespace_telling telling = {
	.kind = NAMESPACE_VOLUME,
	.name = "afar_volume_stat",
	.oldest = ABI_SIZE(afar_volume_stat, holder),
	.give = give_stat,
};

PUBLIC_CALL(int, afar_volume_list,
	    (struct afar_session *session, const char *after, struct afar_volume_stat *out,
	     unsigned max),
	    (session, after, out, max))
{
	return namespace_tell_all(session, &telling, after, out, max);
}

PUBLIC_CALL(int, afar_volume_stat_by_name,
	    (struct afar_session *session, const char *name, struct afar_volume_stat *out),
	    (session, name, out))
{
	int ret = check_name(session, name);

	return ret ? ret : namespace_tell(session, &telling, name, out);
}

PUBLIC_CALL(int, afar_volume_stat, (struct afar_volume *volume, struct afar_volume_stat *out),
	    (volume, out))
{
	int ret = volume_enter(volume);

	if (ret)
		return ret;
	ret = namespace_tell(volume->ns->session, &telling, volume->ns->name, out);
	if (ret == 0 && out->bytes > volume->region->target.length)
		ret = target_look(&volume->region->target);
	handle_unuse(&volume->handle);
	return ret;
}

/* ---- Making, ending, changing */

/* Deletes what could not be finished, and keeps the error. */
static int undo_create(struct afar_session *session, const char *name, int status)
{
	char why[512];

	strncpy(why, error_last_line(), sizeof(why) - 1);
	why[sizeof(why) - 1] = '\0';
	namespace_end(session, name, AFAR_DELETE_REGIONS, NAMESPACE_VOLUME);
	return error_fail(status, "%s", why);
}

PUBLIC_CALL_OF_CALLS(int, afar_volume_create,
		     (struct afar_session *session, const char *name, uint64_t bytes,
		      const struct afar_policy *policy, struct afar_volume **out),
		     (session, name, bytes, policy, out))
{
	const struct namespace_wish wish = {
		.name = name, .policy = policy, .kind = NAMESPACE_VOLUME};
	struct afar_namespace *ns;
	struct afar_region *region;
	int ret = check_name(session, name);

	if (ret == 0)
		ret = check_bytes("create", name, bytes);
	if (ret == 0)
		ret = namespace_make(session, &wish, &ns);
	if (ret)
		return ret;
	ret = namespace_reserve(ns, bytes);
	if (ret == 0)
		ret = region_make_volume(ns, bytes, &region);
	if (ret == 0) {
		ret = afar_region_finish(region);
		afar_region_close(region);
	}
	afar_namespace_close(ns);
	if (ret)
		return undo_create(session, name, ret);
	/* It is there, and may be others' already: it stays also if it cannot be opened. */
	return out ? afar_volume_open(session, name, NULL, out) : 0;
}

PUBLIC_CALL(int, afar_volume_delete, (struct afar_session *session, const char *name),
	    (session, name))
{
	int ret = check_name(session, name);

	return ret ? ret : namespace_end(session, name, AFAR_DELETE_REGIONS, NAMESPACE_VOLUME);
}

static int call_resize(struct afar_namespace *ns, uint64_t bytes)
{
	Afar__VolumeResize resize = AFAR__VOLUME_RESIZE__INIT;

	resize.namespace_ = ns->number;
	resize.bytes = bytes;
	return session_call(ns->session, RPC_REQUEST(VOLUME_RESIZE, volume_resize, &resize), NULL);
}

static int grow(struct afar_namespace *ns, uint64_t bytes)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	uint64_t missing;
	int ret = afar_namespace_stat(ns, &stat);

	if (ret)
		return ret;
	/* More may be reserved than the volume has: it was rounded up, or the volume was larger. */
	missing = bytes > stat.reserved_bytes ? bytes - stat.reserved_bytes : 0;
	if (missing != 0)
		ret = namespace_reserve(ns, missing);
	if (ret)
		return error_fail(ret, "resize volume '%s' to %llu bytes: %s", ns->name,
				  (unsigned long long)bytes, error_last_line());
	return call_resize(ns, bytes);
}

/* Zeroes what lies behind the new size before it drops that, because the manager may hand it out again
 * when the volume grows. */
static int shrink(struct afar_namespace *ns, uint64_t bytes)
{
	uint64_t old_bytes;
	struct afar_volume *volume = NULL;
	struct afar_target *target;
	int ret = afar_volume_open(ns->session, ns->name, NULL, &volume);

	if (ret == -EBUSY)
		return error_fail(ret, "resize volume '%s' to %llu bytes, which are fewer: %s",
				  ns->name, (unsigned long long)bytes, error_last_line());
	if (ret || !volume)
		return ret;
	/* Somebody may have resized it since we looked. Nobody else writes to it from now on. */
	target = &volume->region->target;
	old_bytes = target->length;
	if (old_bytes > bytes)
		ret = target_zero(target, AFAR_OP_ZERO, target->is_flash ? AFAR_OP_DURABLE : 0,
				  bytes, old_bytes - bytes);
	else if (old_bytes < bytes)
		ret = error_fail(-EBUSY,
				 "resize volume '%s' to %llu bytes: somebody else has just made it "
				 "smaller than that; try again",
				 ns->name, (unsigned long long)bytes);
	if (ret == 0)
		ret = call_resize(ns, bytes);
	afar_volume_close(volume);
	if (ret == 0 && old_bytes > bytes)
		afar_namespace_release(ns, old_bytes - bytes, NULL);
	return ret;
}

PUBLIC_CALL_OF_CALLS(int, afar_volume_resize,
		     (struct afar_session *session, const char *name, uint64_t bytes),
		     (session, name, bytes))
{
	struct afar_volume_stat stat = {.size = sizeof(stat)};
	struct afar_namespace *ns;
	int ret = check_name(session, name);

	if (ret == 0)
		ret = check_bytes("resize", name, bytes);
	if (ret == 0)
		ret = afar_volume_stat_by_name(session, name, &stat);
	if (ret == 0)
		ret = namespace_open(session, NAMESPACE_VOLUME, name, &ns);
	if (ret)
		return ret;
	if (bytes > stat.bytes)
		ret = grow(ns, bytes);
	else if (bytes < stat.bytes)
		ret = shrink(ns, bytes);
	afar_namespace_close(ns);
	return ret;
}

/* ---- Opening and closing */

/* The modes, as the protocol numbers them. */
static const uint32_t wire_modes[] = {
	[AFAR_VOLUME_EXCLUSIVE] = 1,
	[AFAR_VOLUME_SHARED] = 2,
	[AFAR_VOLUME_READ_ONLY] = 3,
};

/* Ends the session of this number, or, with 0, those that are in the way. */
static int take_over(struct afar_namespace *ns, uint32_t wire_mode, uint64_t number)
{
	Afar__VolumeTakeOver message = AFAR__VOLUME_TAKE_OVER__INIT;

	message.namespace_ = ns->number;
	message.mode = wire_mode;
	message.session = number;
	return session_call(ns->session, RPC_REQUEST(VOLUME_TAKE_OVER, volume_take_over, &message),
			    NULL);
}

/* Ends a session whose place this one takes. An older manager would end all that are in the way. */
static int replace(struct afar_namespace *ns, uint32_t wire_mode, uint64_t number)
{
	if (session_has_feature(ns->session, RPC_FEATURE_REPLACES))
		return take_over(ns, wire_mode, number);
	return error_fail(
		-EOPNOTSUPP,
		"open volume '%s' in place of session %llx: the manager is of an older "
		"release, which cannot end that one alone; wait until its lease is over, and "
		"open the volume without that",
		ns->name, (unsigned long long)number);
}

static int open_in(struct afar_namespace *ns, const struct afar_volume_options *options,
		   struct afar_volume **out)
{
	struct afar_volume *volume = handle_new(HANDLE_VOLUME, sizeof(*volume));
	uint32_t mode = wire_modes[options->mode];
	int ret = options->mark ? volume_mark_check(ns, options->mark) : 0;

	if (!volume)
		return error_code(-ENOMEM);
	if (ret)
		goto out_discard;
	volume->ns = ns;
	volume->mode = options->mode;
	ret = options->replaces ? replace(ns, mode, options->replaces) : 0;
	if (ret == 0 && options->flags & AFAR_VOLUME_TAKE_OVER)
		ret = take_over(ns, mode, 0);
	if (ret == 0)
		ret = region_open_volume(ns, mode, options->replaces, &volume->region);
	if (ret)
		goto out_discard;
	ret = volume_retry_open(volume, options->retry_ms, options->log_bytes);
	if (ret)
		goto out_close;
	if (options->mark)
		volume_mark_take(volume, options->mark);
	*out = volume;
	return 0;

out_close:
	volume_retry_close(volume);
	afar_region_close(volume->region);
out_discard:
	handle_discard(volume);
	return ret;
}

PUBLIC_CALL_OF_CALLS(int, afar_volume_open,
		     (struct afar_session *session, const char *name,
		      const struct afar_volume_options *given, struct afar_volume **out),
		     (session, name, given, out))
{
	struct afar_volume_options options = {0};
	struct afar_namespace *ns;
	int ret = check_name(session, name);

	if (ret == 0 && given)
		ret = ABI_TAKE(&options, given, afar_volume_options, log_bytes);
	if (ret)
		return ret;
	if (!out || options.mode > AFAR_VOLUME_READ_ONLY ||
	    (options.flags & ~AFAR_VOLUME_TAKE_OVER) || options.reserved)
		return error_fail(-EINVAL,
				  "open volume '%s': out is null, or mode or flags are unknown",
				  name);
	ret = namespace_open(session, NAMESPACE_VOLUME, name, &ns);
	if (ret == -ENOENT && options.mark)
		ret = error_fail(-ESTALE, "open volume '%s', which is gone: %s", name,
				 error_last_line());
	if (ret)
		return ret;
	ret = ns->kind != NAMESPACE_FILES
		      ? open_in(ns, &options, out)
		      : error_fail(-ENOENT,
				   "open volume '%s': it is a file system, and no volume; see "
				   "'afar volume ls'",
				   name);
	if (ret)
		afar_namespace_close(ns);
	return ret;
}

PUBLIC_CALL_OF_CALLS(int, afar_volume_close, (struct afar_volume *volume), (volume))
{
	int ret = check_volume(volume);

	if (ret)
		return ret;
	ret = handle_close(volume, HANDLE_VOLUME);
	if (ret == -EBUSY)
		return error_fail(ret, "close volume '%s': calls on it are under way",
				  volume->ns->name);
	if (ret)
		return error_fail(ret, "close a volume: it is closed already");
	ret = afar_region_close(volume->region);
	if (ret) {
		/* Operations of queues are in flight: it stays open. */
		handle_reopen(volume, HANDLE_VOLUME);
		return ret;
	}
	volume_retry_close(volume);
	afar_namespace_close(volume->ns);
	handle_retire(volume);
	return 0;
}

struct afar_target *afar_volume_target(struct afar_volume *volume)
{
	return handle_is(volume, HANDLE_VOLUME) && volume->retry_ns == 0 ? &volume->region->target
									 : NULL;
}
