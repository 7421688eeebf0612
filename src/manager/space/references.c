/* SPDX-License-Identifier: BSD-3-Clause */
/* References of sessions to regions: found, taken, dropped. A freed region goes with the last one, and with the last
 * region the memory of a deleted namespace. */
#include <errno.h>

#include <afar/afar.h>

#include "manager/connections/rights.h"
#include "manager/files/files.h"
#include "manager/jobs/job.h"
#include "manager/space/references.h"

/* ---- What goes */

int namespace_release_extent(struct core *core, struct extent *extent)
{
	int ret = state_release_extent(core->state, extent);

	if (ret == 0)
		store_put_extent(core->store, extent);
	return ret;
}

int namespace_finish(struct core *core, struct namespace *ns)
{
	struct extent *extent, *next;
	int ret;

	if (!ns->is_deleted || !cds_list_empty(&ns->regions) || !cds_list_empty(&ns->freed))
		return 0;
	ret = jobs_drop(core, ns->number);
	cds_list_for_each_entry_safe (extent, next, &ns->extents, namespace_node)
		if (ret == 0)
			ret = namespace_release_extent(core, extent);
	if (ret < 0)
		return ret;
	store_delete_namespace(core->store, ns);
	return state_remove_namespace(core->state, ns);
}

int region_remove(struct core *core, struct region *region)
{
	struct namespace *ns = region->ns;
	int ret;

	store_delete_region(core->store, region);
	ret = state_remove_region(core->state, region);
	return ret == 0 ? namespace_finish(core, ns) : ret;
}

int region_reclaim(struct core *core, struct region *region)
{
	bool is_version = region->family != 0;
	int ret;

	if (!region->is_freed || !cds_list_empty(&region->references))
		return 0;
	ret = state_shed(core->state, region);
	if (ret < 0)
		return ret;
	if (!region_needs_trims(core->state, region))
		return region_remove(core, region);
	if (is_version)
		store_put_region(core->store, region);
	return state_begin_trims(core->state, region);
}

int region_end(struct core *core, struct region *region)
{
	int ret = state_free_region(core->state, region);

	if (ret == 0)
		store_put_region(core->store, region);
	return ret;
}

/* ---- Finding */

int region_find(const struct core *core, const struct session *session, const char *asked,
		uint64_t ns_number, uint64_t address, uint64_t generation, struct region **out)
{
	struct region *region = state_region(core->state, generation);

	if (region && !rights_see(core, session, region->ns))
		region = NULL;
	if (region ? region_is_gone(region)
		   : generation != 0 && generation < core->state->next_generation)
		return error_fail(
			-AFAR_EFREED,
			"%s the region at 0x%llx: it was freed before; nothing is left to do",
			asked, (unsigned long long)address);
	if (!region || region->ns->number != ns_number || region->address != address)
		return error_fail(-ENOENT,
				  "%s the region at 0x%llx: there is none with generation %llu in "
				  "namespace %llu; open it again",
				  asked, (unsigned long long)address,
				  (unsigned long long)generation, (unsigned long long)ns_number);
	*out = region;
	return 0;
}

int region_of_job(const struct core *core, const struct job *job, const char *asked,
		  struct region **out)
{
	*out = state_region(core->state, job->region);
	if (!*out || (*out)->is_freed)
		return error_fail(-AFAR_EFREED, "%s a region: it was freed meanwhile", asked);
	if ((*out)->is_lost)
		return error_fail(-AFAR_ELOST,
				  "%s the region at 0x%llx: a part of it is lost; free it and make "
				  "it anew",
				  asked, (unsigned long long)(*out)->address);
	return 0;
}

static int find_reference(const struct session *session, const char *asked,
			  const struct region *region, struct reference **out)
{
	*out = session_reference(session, region->generation);
	if (!*out)
		return error_fail(-EINVAL,
				  "%s the region at 0x%llx: this session does not have it open",
				  asked, (unsigned long long)region->address);
	return 0;
}

int region_find_reference(const struct session *session, const char *asked,
			  const struct region *region, struct reference **out)
{
	int ret = find_reference(session, asked, region, out);

	return ret == 0 ? namespace_check_records(region->ns, asked) : ret;
}

/* ---- Taking and dropping */

static int count_reference(struct core *core, struct reference *reference, uint64_t count)
{
	int ret = undo_room(core->undo, 1);

	if (ret == 0)
		undo_set(core->undo, reference->count, count);
	return ret;
}

int region_take_reference(struct core *core, struct session *session, struct region *region,
			  enum volume_mode mode)
{
	struct reference *reference = session_reference(session, region->generation);
	int ret;

	if (!session_has_used(session, region->ns->number)) {
		ret = state_use_namespace(core->state, session, region->ns->number);
		if (ret < 0)
			return ret;
		store_put_session(core->store, session);
	}
	ret = reference ? count_reference(core, reference, reference->count + 1)
			: state_add_reference(core->state, session, region, 1, &reference);
	if (ret == 0) {
		reference->mode = mode; /* one that was there has it already */
		store_put_reference(core->store, reference);
	}
	return ret;
}

/* Nobody will finish it any more. */
static bool is_left_behind(const struct region *region, const struct session *session)
{
	return region->maker == session->number && region->is_unfinished && !region->is_freed;
}

int region_drop(struct core *core, struct reference *reference)
{
	struct region *region = reference->region;
	int ret = 0;

	if (region->ns->is_files)
		ret = files_session_left(core, region->ns, reference->session->number);
	if (ret == 0 && is_left_behind(region, reference->session))
		ret = region_end(core, region);
	if (ret < 0)
		return ret;
	store_delete_reference(core->store, reference);
	ret = state_remove_reference(core->state, reference);
	return ret == 0 ? region_reclaim(core, region) : ret;
}

int region_close(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionClose *ask = event->request->region_close;
	struct reference *reference = NULL;
	struct region *region = NULL;
	int ret = region_find(core, session, "close", ask->namespace_, ask->address,
			      ask->generation, &region);

	if (ret == 0)
		ret = find_reference(session, "close", region, &reference);
	if (ret < 0)
		return ret;
	if (reference->count == 1)
		return region_drop(core, reference);
	ret = count_reference(core, reference, reference->count - 1);
	if (ret == 0)
		store_put_reference(core->store, reference);
	return ret;
}
