/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read(2), write(2) and their kin, which the program calls instead of the C library's. Arguments that the kernel would refuse go to the
 * kernel. The kernel keeps the offset of a descriptor. A transfer without an offset first moves it on. So others that share it,
 * in this process or another one, get what follows. Then it takes back what it could not move.
 *
 * A bad address ends the program with SIGSEGV where the kernel would answer EFAULT.
 */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#include "enter.h"
#include "real.h"

#define KERNEL_MAX 0x7ffff000U /* as much as the kernel moves at once */
#define HERE	   (-1)	       /* at the descriptor's own offset */

/* Returns what the pieces are together; 0: nothing, or what the kernel is to judge. */
static size_t length_of(const struct iovec *iov, int nr)
{
	size_t length = 0;

	if (nr <= 0 || nr > IOV_MAX)
		return 0;
	for (int i = 0; i < nr; i++)
		if (__builtin_add_overflow(length, iov[i].iov_len, &length) || length > KERNEL_MAX)
			return 0;
	return length;
}

/* Both leave errno to enter_leave(). */
/* Moves the offset on by `length`. Returns where it was; -1: it cannot be. */
static off_t claim(int fd, size_t length)
{
	const off_t after = lseek(fd, (off_t)length, SEEK_CUR);

	return after < 0 ? -1 : after - (off_t)length;
}

static void take_back(int fd, size_t length)
{
	if (length)
		lseek(fd, -(off_t)length, SEEK_CUR);
}

/* Returns whether it was carried out, with what the call returns in `*ret`. */
static bool move(int fd, const struct iovec *iov, int nr, off_t offset, bool is_writing,
		 ssize_t *ret)
{
	const size_t length = length_of(iov, nr);
	const bool is_here = offset == HERE;
	struct way way;
	ssize_t moved;

	if (!length || offset < HERE || offset > INT64_MAX - (int64_t)KERNEL_MAX)
		return false;
	if (!enter(fd, length, is_writing, &way))
		return false;
	if (is_here)
		offset = claim(fd, length);
	/* It has become another file's before that. */
	if (is_here && offset >= 0 && table_get(fd) != (uintptr_t)way.held) {
		take_back(fd, length);
		offset = -1;
	}
	moved = offset < 0 ? ENTER_KERNEL
			   : (is_writing ? enter_write : enter_read)(way.held, iov, nr,
								     (uint64_t)offset);
	if (is_here && offset >= 0 && moved < (ssize_t)length)
		take_back(fd, moved > 0 ? length - (size_t)moved : length);
	enter_leave(&way);
	if (moved == ENTER_KERNEL)
		return false;
	if (moved == ENTER_ERROR)
		errno = EIO;
	*ret = moved == ENTER_ERROR ? -1 : moved;
	return true;
}

static bool move_one(int fd, const void *data, size_t size, off_t offset, bool is_writing,
		     ssize_t *ret)
{
	const struct iovec iov = {(void *)(uintptr_t)data,
				  size < KERNEL_MAX || size > SSIZE_MAX ? size : KERNEL_MAX};

	return move(fd, &iov, 1, offset, is_writing, ret);
}

/* ---- Reading */

TAKEN ssize_t read(int fd, void *data, size_t size)
{
	ssize_t ret;

	return move_one(fd, data, size, HERE, false, &ret) ? ret : REAL(read)(fd, data, size);
}

TAKEN ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
	ssize_t ret;

	return offset >= 0 && move_one(fd, data, size, offset, false, &ret)
		       ? ret
		       : REAL(pread)(fd, data, size, offset);
}

TAKEN ssize_t readv(int fd, const struct iovec *iov, int nr)
{
	ssize_t ret;

	return move(fd, iov, nr, HERE, false, &ret) ? ret : REAL(readv)(fd, iov, nr);
}

TAKEN ssize_t preadv(int fd, const struct iovec *iov, int nr, off_t offset)
{
	ssize_t ret;

	return offset >= 0 && move(fd, iov, nr, offset, false, &ret)
		       ? ret
		       : REAL(preadv)(fd, iov, nr, offset);
}

/* Here an offset of -1 means the descriptor's own. */
TAKEN ssize_t preadv2(int fd, const struct iovec *iov, int nr, off_t offset, int flags)
{
	ssize_t ret;

	return !flags && move(fd, iov, nr, offset, false, &ret)
		       ? ret
		       : REAL(preadv2)(fd, iov, nr, offset, flags);
}

/* ---- Writing */

TAKEN ssize_t write(int fd, const void *data, size_t size)
{
	ssize_t ret;

	return move_one(fd, data, size, HERE, true, &ret) ? ret : REAL(write)(fd, data, size);
}

TAKEN ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
	ssize_t ret;

	return offset >= 0 && move_one(fd, data, size, offset, true, &ret)
		       ? ret
		       : REAL(pwrite)(fd, data, size, offset);
}

TAKEN ssize_t writev(int fd, const struct iovec *iov, int nr)
{
	ssize_t ret;

	return move(fd, iov, nr, HERE, true, &ret) ? ret : REAL(writev)(fd, iov, nr);
}

TAKEN ssize_t pwritev(int fd, const struct iovec *iov, int nr, off_t offset)
{
	ssize_t ret;

	return offset >= 0 && move(fd, iov, nr, offset, true, &ret)
		       ? ret
		       : REAL(pwritev)(fd, iov, nr, offset);
}

TAKEN ssize_t pwritev2(int fd, const struct iovec *iov, int nr, off_t offset, int flags)
{
	ssize_t ret;

	return !flags && move(fd, iov, nr, offset, true, &ret)
		       ? ret
		       : REAL(pwritev2)(fd, iov, nr, offset, flags);
}

/* ---- The same by other names */

TAKEN ssize_t pread64(int fd, void *data, size_t size, off64_t offset)
	__attribute__((alias("pread")));
TAKEN ssize_t preadv64(int fd, const struct iovec *iov, int nr, off64_t offset)
	__attribute__((alias("preadv")));
TAKEN ssize_t preadv64v2(int fd, const struct iovec *iov, int nr, off64_t offset, int flags)
	__attribute__((alias("preadv2")));
TAKEN ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset)
	__attribute__((alias("pwrite")));
TAKEN ssize_t pwritev64(int fd, const struct iovec *iov, int nr, off64_t offset)
	__attribute__((alias("pwritev")));
TAKEN ssize_t pwritev64v2(int fd, const struct iovec *iov, int nr, off64_t offset, int flags)
	__attribute__((alias("pwritev2")));

/* Programs that were built with _FORTIFY_SOURCE call these, which end the program if the data has no room. */
ssize_t __read_chk(int fd, void *data, size_t size, size_t room);
ssize_t __pread_chk(int fd, void *data, size_t size, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *data, size_t size, off64_t offset, size_t room)
	__attribute__((alias("__pread_chk")));

TAKEN ssize_t __read_chk(int fd, void *data, size_t size, size_t room)
{
	ssize_t ret;

	return size <= room && move_one(fd, data, size, HERE, false, &ret)
		       ? ret
		       : REAL(__read_chk)(fd, data, size, room);
}

TAKEN ssize_t __pread_chk(int fd, void *data, size_t size, off_t offset, size_t room)
{
	ssize_t ret;

	return size <= room && offset >= 0 && move_one(fd, data, size, offset, false, &ret)
		       ? ret
		       : REAL(__pread_chk)(fd, data, size, offset, room);
}
