/* SPDX-License-Identifier: BSD-3-Clause */
/* See monitor.h. Owns the descriptor, the page that settling asks about, and the thread. */
#include "memory/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

#define PAGE	      4096U
#define PAGEMAP_FILE  (UINT64_C(1) << 61) /* of a file, or shared */
#define PAGEMAP_BATCH 64U
#define FEATURES                                                                           \
	(UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP | \
	 UFFD_FEATURE_PAGEFAULT_FLAG_WP)

struct monitor {
	struct monitor_options options;
	int fd;
	int pagemap_fd;
	int stop_fd;
	void *page; /* watched; nobody else knows of it */
	pthread_t thread;
};

/* ---- Changes */

static void take_message(struct monitor *monitor, const struct uffd_msg *message)
{
	struct range range;

	switch (message->event) {
	case UFFD_EVENT_UNMAP:
	case UFFD_EVENT_REMOVE:
		range = (struct range){message->arg.remove.start, message->arg.remove.end};
		monitor->options.changed(monitor->options.context, range,
					 message->event == UFFD_EVENT_UNMAP ? MONITOR_GONE
									    : MONITOR_DROPPED);
		break;
	case UFFD_EVENT_REMAP:
		range = (struct range){message->arg.remap.from,
				       message->arg.remap.from + message->arg.remap.len};
		monitor->options.changed(monitor->options.context, range, MONITOR_GONE);
		range = (struct range){message->arg.remap.to,
				       message->arg.remap.to + message->arg.remap.len};
		monitor->options.changed(monitor->options.context, range, MONITOR_GONE);
		break;
	default:
		break;
	}
}

/* The lock first: who looks up either comes before a change is taken, or sees what it changed. */
static void take_changes(struct monitor *monitor)
{
	struct uffd_msg message;

	pthread_mutex_lock(monitor->options.lock);
	while (read(monitor->fd, &message, sizeof(message)) == (ssize_t)sizeof(message))
		take_message(monitor, &message);
	pthread_mutex_unlock(monitor->options.lock);
}

static bool has_pending(const struct monitor *monitor)
{
	struct uffdio_writeprotect ask = {.range = {(uintptr_t)monitor->page, PAGE}};

	return ioctl(monitor->fd, UFFDIO_WRITEPROTECT, &ask) != 0 && errno == EAGAIN;
}

void monitor_settle(struct monitor *monitor)
{
	while (has_pending(monitor))
		take_changes(monitor);
}

static void *thread_run(void *argument)
{
	struct monitor *monitor = argument;
	struct pollfd fds[] = {{.fd = monitor->fd, .events = POLLIN},
			       {.fd = monitor->stop_fd, .events = POLLIN}};

	while (fds[1].revents == 0) {
		if (poll(fds, 2, -1) > 0 && fds[0].revents != 0)
			take_changes(monitor);
	}
	return NULL;
}

/* ---- Watching */

static bool register_range(const struct monitor *monitor, struct range range, uint64_t mode)
{
	struct uffdio_register ask = {.range = {range.start, range.end - range.start},
				      .mode = mode};

	return ioctl(monitor->fd, UFFDIO_REGISTER, &ask) == 0;
}

void monitor_unwatch(struct monitor *monitor, struct range range)
{
	struct uffdio_range ask = {range.start, range.end - range.start};

	/* A part of the range that is no longer mapped is not watched either. */
	ioctl(monitor->fd, UFFDIO_UNREGISTER, &ask);
}

void monitor_unwatch_all(struct monitor *monitor, const struct ranges *ranges)
{
	for (size_t i = 0; i < ranges->nr; i++)
		monitor_unwatch(monitor, ranges->at[i]);
}

bool monitor_watch(struct monitor *monitor, struct range range)
{
	/* Minor faults are for what is shared, or mapped of something shared, and for that alone. */
	if (register_range(monitor, range, UFFDIO_REGISTER_MODE_MINOR)) {
		monitor_unwatch(monitor, range);
		return false;
	}
	return register_range(monitor, range, UFFDIO_REGISTER_MODE_WP);
}

bool monitor_is_private(struct monitor *monitor, struct range range)
{
	uint64_t entries[PAGEMAP_BATCH];
	size_t nr_pages = (range.end - range.start) / PAGE, first = range.start / PAGE;

	for (size_t done = 0; done < nr_pages;) {
		size_t nr = nr_pages - done < PAGEMAP_BATCH ? nr_pages - done : PAGEMAP_BATCH;
		ssize_t got = pread(monitor->pagemap_fd, entries, nr * sizeof(*entries),
				    (off_t)((first + done) * sizeof(*entries)));

		if (got != (ssize_t)(nr * sizeof(*entries)))
			return false;
		for (size_t i = 0; i < nr; i++) {
			if ((entries[i] & PAGEMAP_FILE) != 0)
				return false;
		}
		done += nr;
	}
	return true;
}

/* ---- Life */

static int open_descriptors(struct monitor *monitor)
{
	struct uffdio_api api = {.api = UFFD_API, .features = FEATURES};

	monitor->pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	monitor->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	monitor->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (monitor->pagemap_fd < 0 || monitor->stop_fd < 0 ||
	    (monitor->fd < 0 && (errno == EMFILE || errno == ENFILE)))
		return error_fail(-errno, "watch memory: %s", strerror(errno));
	if (monitor->fd < 0 || ioctl(monitor->fd, UFFDIO_API, &api) != 0)
		return error_fail(
			-EOPNOTSUPP,
			"watch memory: the kernel has no userfaultfd with events for this "
			"process (%s); registrations are not cached, use registered buffers",
			strerror(errno));
	return 0;
}

static int map_page(struct monitor *monitor)
{
	struct range range;

	monitor->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (monitor->page == MAP_FAILED)
		return error_code(-ENOMEM);
	range = (struct range){(uintptr_t)monitor->page, (uintptr_t)monitor->page + PAGE};
	if (!register_range(monitor, range, UFFDIO_REGISTER_MODE_WP))
		return error_fail(
			-EOPNOTSUPP,
			"watch memory: the kernel's userfaultfd has no write-protect mode; "
			"registrations are not cached, use registered buffers");
	return 0;
}

static int start_thread(struct monitor *monitor)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&monitor->thread, NULL, thread_run, monitor);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret != 0)
		return error_fail(-ret, "watch memory: no thread; raise the limit of processes");
	pthread_setname_np(monitor->thread, "afar-monitor");
	return 0;
}

static void free_monitor(struct monitor *monitor)
{
	const struct range page = {(uintptr_t)monitor->page, (uintptr_t)monitor->page + PAGE};

	/* Before the page goes, because nobody would take that change. A forked child may keep the descriptor open. */
	if (monitor->fd >= 0 && monitor->page != MAP_FAILED)
		monitor_unwatch(monitor, page);
	if (monitor->fd >= 0)
		close(monitor->fd);
	if (monitor->page != MAP_FAILED)
		munmap(monitor->page, PAGE);
	if (monitor->stop_fd >= 0)
		close(monitor->stop_fd);
	if (monitor->pagemap_fd >= 0)
		close(monitor->pagemap_fd);
	free(monitor);
}

int monitor_open(const struct monitor_options *options, struct monitor **out)
{
	struct monitor *monitor = malloc(sizeof(*monitor));
	int ret;

	if (!monitor)
		return error_code(-ENOMEM);
	*monitor = (struct monitor){
		.options = *options, .fd = -1, .pagemap_fd = -1, .stop_fd = -1, .page = MAP_FAILED};
	ret = open_descriptors(monitor);
	if (ret == 0)
		ret = map_page(monitor);
	if (ret == 0)
		ret = start_thread(monitor);
	if (ret != 0) {
		free_monitor(monitor);
		return ret;
	}
	*out = monitor;
	return 0;
}

/* Closing the descriptor lets those go on who wait for a change to be taken, unless a forked child has it. */
void monitor_close(struct monitor *monitor)
{
	const uint64_t one = 1;

	if (!monitor)
		return;
	if (write(monitor->stop_fd, &one, sizeof(one)) < 0)
		abort(); /* an eventfd that nobody else writes */
	pthread_join(monitor->thread, NULL);
	free_monitor(monitor);
}
