/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that make, copy and close descriptors, and those that end the way past the mount: they keep the table in step with the kernel's.
 * A descriptor that was closed behind our back is found when its number comes anew, or cannot be sought in.
 *
 * The child of a vfork() has our memory and descriptors of its own, so it changes no entry.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "enter.h"
#include "own.h"
#include "processes.h"
#include "real.h"
#include "signals.h"

/* ---- Opening */

/* The number is another file's now, or will be. A handler cannot close a file, which then stays open. */
static void forget(int fd, uintptr_t entry)
{
	if (signals_in_handler())
		table_forget(fd, entry);
	else
		table_set(fd, entry);
}

/* Forgets what the number was before. */
static int opened(int fd)
{
	if (own_is_inside)
		return own_move(fd);
	if (fd >= 0 && table_get(fd) && process_is_own())
		forget(fd, 0);
	return fd;
}

/* The mode is there only if a file may be made. */
#define MODE_OF(flags)                                                \
	({                                                            \
		mode_t mode_ = 0;                                     \
		if ((flags) & (O_CREAT | O_TMPFILE)) {                \
			va_list arguments_;                           \
			va_start(arguments_, flags);                  \
			mode_ = (mode_t)va_arg(arguments_, unsigned); \
			va_end(arguments_);                           \
		}                                                     \
		mode_;                                                \
	})

TAKEN int open(const char *path, int flags, ...)
{
	return opened(REAL(open)(path, flags, MODE_OF(flags)));
}

TAKEN int open64(const char *path, int flags, ...)
{
	return opened(REAL(open64)(path, flags, MODE_OF(flags)));
}

TAKEN int openat(int dir, const char *path, int flags, ...)
{
	return opened(REAL(openat)(dir, path, flags, MODE_OF(flags)));
}

TAKEN int openat64(int dir, const char *path, int flags, ...)
{
	return opened(REAL(openat64)(dir, path, flags, MODE_OF(flags)));
}

TAKEN int creat(const char *path, mode_t mode)
{
	return opened(REAL(creat)(path, mode));
}

TAKEN int creat64(const char *path, mode_t mode)
{
	return opened(REAL(creat64)(path, mode));
}

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);

TAKEN int __open_2(const char *path, int flags)
{
	return opened(REAL(__open_2)(path, flags));
}

TAKEN int __open64_2(const char *path, int flags)
{
	return opened(REAL(__open64_2)(path, flags));
}

TAKEN int __openat_2(int dir, const char *path, int flags)
{
	return opened(REAL(__openat_2)(dir, path, flags));
}

TAKEN int __openat64_2(int dir, const char *path, int flags)
{
	return opened(REAL(__openat64_2)(dir, path, flags));
}

/* ---- Copying */

/* The new number means what the old one does. A file that nobody has decided on is decided on for each. */
static int copied(int from, int to)
{
	struct way way;

	if (own_is_inside)
		return own_move(to);
	if (to < 0 || from == to || !process_is_own())
		return to;
	if (!enter_if_held(from, &way)) {
		if (table_get(to))
			forget(to, 0);
		return to;
	}
	held_keep(way.held);
	if (!table_set(to, (uintptr_t)way.held))
		held_drop(way.held);
	enter_leave(&way);
	return to;
}

TAKEN int dup(int fd)
{
	return copied(fd, REAL(dup)(fd));
}

/* The kernel closes what the number was. A transfer of another thread on it goes to the kernel from now on. */
static bool may_take(int from, int to)
{
	if (own_has(to)) {
		errno = EBUSY;
		return false;
	}
	if (from != to && !own_is_inside && table_get(to) && process_is_own() &&
	    REAL(fcntl)(from, F_GETFD) >= 0)
		forget(to, 0);
	return true;
}

TAKEN int dup2(int from, int to)
{
	return may_take(from, to) ? copied(from, REAL(dup2)(from, to)) : -1;
}

TAKEN int dup3(int from, int to, int flags)
{
	return may_take(from, to) ? copied(from, REAL(dup3)(from, to, flags)) : -1;
}

/* Appending is the kernel's, through all copies of the descriptor. */
static void leave_appending(int fd)
{
	struct way way;

	if (own_is_inside || !process_is_own())
		return;
	if (enter_if_held(fd, &way)) {
		way.held->is_over = true;
		enter_leave(&way);
	}
	if (table_get(fd) || !signals_in_handler())
		forget(fd, ENTRY_KERNEL);
}

static int control(int fd, int command, void *argument, int ret)
{
	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		return copied(fd, ret);
	if (command == F_SETFL && ret == 0 && (uintptr_t)argument & O_APPEND)
		leave_appending(fd);
	return ret;
}

TAKEN int fcntl(int fd, int command, ...)
{
	void *argument;
	va_list arguments;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return control(fd, command, argument, REAL(fcntl)(fd, command, argument));
}

TAKEN int fcntl64(int fd, int command, ...)
{
	void *argument;
	va_list arguments;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return control(fd, command, argument, REAL(fcntl64)(fd, command, argument));
}

/* ---- Closing */

/* Others see size and times when it returns. Returns 0, or -1 with errno. A handler cannot close a file, which then stays open. */
static int leave(int fd)
{
	const uintptr_t entry = table_get(fd);
	struct way way;
	int ret = 0;

	if (!entry || !process_is_own())
		return 0;
	if (!enter_if_held(fd, &way)) {
		table_forget(fd, 0);
		return 0;
	}
	ret = enter_flush(way.held);
	table_set(fd, 0);
	enter_leave(&way);
	if (ret)
		errno = EIO;
	return ret ? -1 : 0;
}

TAKEN int close(int fd)
{
	int ret, error;

	if (own_has(fd)) {
		errno = EBADF;
		return -1;
	}
	ret = leave(fd);
	error = errno;
	if (REAL(close)(fd))
		return -1;
	errno = error;
	return ret;
}

/* Calls the real one for the ranges between libafar's own. */
TAKEN int close_range(unsigned first, unsigned last, int flags)
{
	unsigned at = first, end = (unsigned)table_end();
	const unsigned begin = first;

	if (own_is_inside || first > last)
		return REAL(close_range)(first, last, flags);
	for (; at < end && at <= last; at++) {
		if (!own_has((int)at)) {
			if (!((unsigned)flags & CLOSE_RANGE_CLOEXEC))
				leave((int)at);
			continue;
		}
		if (at > first && REAL(close_range)(first, at - 1, flags))
			return -1;
		first = at + 1;
	}
	if (first > last || first < begin)
		return 0;
	return REAL(close_range)(first, last, flags);
}

TAKEN void closefrom(int first)
{
	close_range(first > 0 ? (unsigned)first : 0, UINT_MAX, 0);
}

/* The C library closes its descriptor from inside. */
static void leave_stream(FILE *stream)
{
	const int error = errno, fd = stream ? fileno(stream) : -1;

	errno = error;
	if (fd >= 0)
		leave(fd);
}

TAKEN int fclose(FILE *stream)
{
	leave_stream(stream);
	return REAL(fclose)(stream);
}

/* They open another file there. */
TAKEN FILE *freopen(const char *path, const char *mode, FILE *stream)
{
	leave_stream(stream);
	return REAL(freopen)(path, mode, stream);
}

TAKEN FILE *freopen64(const char *path, const char *mode, FILE *stream)
{
	leave_stream(stream);
	return REAL(freopen64)(path, mode, stream);
}

/* ---- Syncing */

static int synced(int fd, int ret)
{
	struct way way;
	int ours;

	if (!enter_if_held(fd, &way))
		return ret;
	ours = enter_sync(way.held);
	enter_leave(&way);
	if (!ours || ret)
		return ret;
	errno = EIO;
	return -1;
}

/* Others may have written through the mount. */
TAKEN int fsync(int fd)
{
	return synced(fd, REAL(fsync)(fd));
}

TAKEN int fdatasync(int fd)
{
	return synced(fd, REAL(fdatasync)(fd));
}

/* ---- Streams and mappings, which read and write by themselves */

TAKEN FILE *fdopen(int fd, const char *mode)
{
	enter_bar(fd);
	return REAL(fdopen)(fd, mode);
}

/* Linux maps no handle that was opened past its pages, as one is beside a writer. A new one is opened now that there is none. */
static void *map_anew(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	const int access = REAL(fcntl)(fd, F_GETFL) & O_ACCMODE;
	void *found;
	char path[32];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = access < 0 ? -1 : REAL(open)(path, access | O_CLOEXEC);
	if (again < 0) {
		errno = ENODEV;
		return MAP_FAILED;
	}
	found = REAL(mmap)(address, length, protection, flags, again, offset);
	REAL(close)(again);
	return found;
}

TAKEN void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	int error = errno;
	void *found;

	if (fd < 0 || flags & MAP_ANONYMOUS)
		return REAL(mmap)(address, length, protection, flags, fd, offset);
	enter_bar(fd);
	found = REAL(mmap)(address, length, protection, flags, fd, offset);
	if (found != MAP_FAILED || errno != ENODEV || !table_is_on() || own_is_inside)
		return found;
	found = map_anew(address, length, protection, flags, fd, offset);
	if (found != MAP_FAILED)
		errno = error;
	return found;
}

TAKEN void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset)
	__attribute__((alias("mmap")));
