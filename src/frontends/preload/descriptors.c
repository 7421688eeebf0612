/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that make, copy and close descriptors, and those that end the way past the mount: they keep the table in step with the kernel's.
 * A descriptor that was closed behind our back is found when its number comes anew, or cannot be sought in.
 *
 * The child of a vfork() has our memory and descriptors of its own, so it changes no entry of a held file.
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

/* Forgets what the number was before. */
static int opened(int fd)
{
	if (own_is_inside)
		return own_move(fd);
	if (fd >= 0 && table_get(fd))
		table_set(fd, 0);
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
	struct held *held;

	if (own_is_inside)
		return own_move(to);
	if (to < 0 || from == to)
		return to;
	held = table_take(from);
	if (!held) {
		if (table_get(to))
			table_set(to, 0);
		return to;
	}
	if (!process_is_own() || !table_set(to, (uintptr_t)held))
		held_drop(held);
	return to;
}

TAKEN int dup(int fd)
{
	return copied(fd, REAL(dup)(fd));
}

/* The kernel closes what the number was. */
static bool may_take(int fd)
{
	if (!own_has(fd))
		return true;
	errno = EBUSY;
	return false;
}

TAKEN int dup2(int from, int to)
{
	return may_take(to) ? copied(from, REAL(dup2)(from, to)) : -1;
}

TAKEN int dup3(int from, int to, int flags)
{
	return may_take(to) ? copied(from, REAL(dup3)(from, to, flags)) : -1;
}

static int control(int fd, int command, void *argument, int ret)
{
	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		return copied(fd, ret);
	if (command == F_SETFL && ret == 0 && (uintptr_t)argument & O_APPEND && !own_is_inside)
		table_set(fd, ENTRY_KERNEL);
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

/* Others see size and times when it returns. Returns 0, or -1 with errno. */
static int leave(int fd)
{
	struct held *held;
	int ret;

	if (!table_get(fd))
		return 0;
	if (own_is_inside) {
		table_set(fd, 0);
		return 0;
	}
	held = table_take(fd);
	if (!held) {
		table_set(fd, 0);
		return 0;
	}
	if (!process_is_own()) {
		held_drop(held);
		return 0;
	}
	/* Its file stays open, as a handler cannot close it. */
	if (signals_in_handler()) {
		table_set(fd, 0);
		return 0;
	}
	ret = enter_flush(held);
	table_set(fd, 0);
	held_drop(held);
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

/* It closes the descriptor from inside of the C library. */
TAKEN int fclose(FILE *stream)
{
	const int error = errno, fd = fileno(stream);

	errno = error;
	if (fd >= 0)
		leave(fd);
	return REAL(fclose)(stream);
}

/* ---- Syncing */

static int synced(int fd, int ret)
{
	struct held *held = own_is_inside || signals_in_handler() ? NULL : table_take(fd);

	if (!held)
		return ret;
	if (enter_sync(held) && !ret) {
		errno = EIO;
		ret = -1;
	}
	held_drop(held);
	return ret;
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
