/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attaching: maps a region's memory itself into the caller's address space. No user thread polls an
 * attachment, so the control thread watches the descriptors of all attachments of a session. It
 * ends an attachment as soon as its server asks for that (DESIGN: "fencing").
 *
 * An attachment belongs to the thread that makes it until it is in the session's list. From then
 * on, hold the session's attach_lock to use it.
 */
#include "client/region/attach.h"
#include "client/namespace/region.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/region/attachment.h"

#define EVENTS_MAX 16

/* ---- What the control thread does */

static void on_ready(void *argument)
{
	struct afar_session *session = argument;
	struct epoll_event events[EVENTS_MAX];
	int nr;

	pthread_mutex_lock(&session->attach_lock);
	nr = epoll_wait(session->attach_fd, events, EVENTS_MAX, 0);
	for (int i = 0; i < nr; i++)
		attachment_attend(events[i].data.ptr);
	pthread_mutex_unlock(&session->attach_lock);
}

void attachments_let_go(struct afar_session *session)
{
	struct attachment *attachment;

	pthread_mutex_lock(&session->attach_lock);
	cds_list_for_each_entry (attachment, &session->attachments, node)
		attachment_blank(attachment);
	pthread_mutex_unlock(&session->attach_lock);
}

void attachments_close(struct afar_session *session)
{
	if (session->attach_fd >= 0)
		close(session->attach_fd);
}

/* Opens the session's epoll descriptor. The caller holds the lock. */
static int open_watch(struct afar_session *session)
{
	int ret;

	if (session->attach_fd >= 0)
		return 0;
	session->attach_fd = epoll_create1(EPOLL_CLOEXEC);
	if (session->attach_fd < 0)
		return error_code(-errno);
	ret = rpc_loop_watch(session->loop, session->attach_fd, on_ready, session);
	if (ret) {
		close(session->attach_fd);
		session->attach_fd = -1;
	}
	return ret;
}

/* Hands the attachment to the control thread. */
static int watch(struct afar_session *session, struct attachment *attachment)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = attachment};
	int ret;

	pthread_mutex_lock(&session->attach_lock);
	ret = open_watch(session);
	if (!ret && epoll_ctl(session->attach_fd, EPOLL_CTL_ADD, fabric_queue_fd(attachment->queue),
			      &event) != 0)
		ret = error_code(-errno);
	if (!ret) {
		cds_list_add(&attachment->node, &session->attachments);
		attachment_attend(attachment);
		/* The session ended before the attachment was in the list. */
		if (session_has_ended(session))
			attachment_blank(attachment);
	}
	pthread_mutex_unlock(&session->attach_lock);
	return ret;
}

/* ---- What users call */

static int check_attach(const struct afar_region *region, uint64_t offset, size_t length,
			unsigned prot, void *const *addr)
{
	const struct afar_target *target = &region->target;

	if (!addr || length == 0 || (prot != PROT_READ && prot != (PROT_READ | PROT_WRITE)))
		return error_fail(-EINVAL, "attach a region: addr is null, length is 0, or prot is "
					   "neither PROT_READ nor PROT_READ | PROT_WRITE");
	if (!range_is_inside(offset, length, target->length))
		return error_fail(-ERANGE, "attach %zu bytes at %llu of a region: it has %llu",
				  length, (unsigned long long)offset,
				  (unsigned long long)target->length);
	if (offset % attachment_page_bytes() != 0)
		return error_fail(
			-EINVAL,
			"attach a region at %llu: whole pages are attached; use a multiple "
			"of %zu",
			(unsigned long long)offset, attachment_page_bytes());
	if (target->is_flash)
		return target_fail_flash(target, "attach");
	if (target->family)
		return error_fail(
			-EOPNOTSUPP,
			"attach the region at %#llx: it is copy-on-write, and its versions "
			"are in different memory; map it, or read it",
			(unsigned long long)target->address);
	if ((prot & PROT_WRITE) && !target_may(target, AFAR_OP_WRITE))
		return target_fail_read_only(target);
	return 0;
}

PUBLIC_CALL(int, afar_region_attach,
	    (struct afar_region *region, uint64_t offset, size_t length, unsigned prot,
	     void **addr),
	    (region, offset, length, prot, addr))
{
	struct attachment *attachment;
	struct afar_session *session;
	int ret = region_check(region);

	if (!ret)
		ret = check_attach(region, offset, length, prot, addr);
	if (ret)
		return ret;
	session = region->target.session;
	if (!handle_enter(&region->target.handle))
		return error_fail(-EINVAL, "attach a region: it is being closed");
	ret = attachment_make(region, offset, length, (prot & PROT_WRITE) != 0,
			      session_deadline(session), &attachment);
	if (ret)
		goto out_unuse;
	ret = watch(session, attachment);
	if (ret)
		goto out_free;
	*addr = attachment->addr;
	return 0;

out_free:
	attachment_free(attachment);
out_unuse:
	handle_unuse(&region->target.handle);
	return ret;
}

/* Takes an attachment out of the session's list; NULL: it is not there. */
static struct attachment *take(struct afar_session *session, const struct afar_region *region,
			       const void *addr)
{
	struct attachment *attachment, *found = NULL;

	pthread_mutex_lock(&session->attach_lock);
	cds_list_for_each_entry (attachment, &session->attachments, node) {
		if (attachment->addr == addr && attachment->region == region)
			found = attachment;
	}
	if (found) {
		cds_list_del(&found->node);
		epoll_ctl(session->attach_fd, EPOLL_CTL_DEL, fabric_queue_fd(found->queue), NULL);
	}
	pthread_mutex_unlock(&session->attach_lock);
	return found;
}

PUBLIC_CALL(int, afar_region_detach, (struct afar_region *region, void *addr), (region, addr))
{
	struct attachment *attachment;
	int ret = region_check(region);

	if (ret)
		return ret;
	attachment = take(region->target.session, region, addr);
	if (!attachment)
		return error_fail(
			-EINVAL,
			"detach a region: it is not attached at %p, or was detached before", addr);
	attachment_free(attachment);
	handle_unuse(&region->target.handle);
	return 0;
}
