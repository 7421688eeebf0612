/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See own.h. A program that opens a file expects the lowest number that is free, and one that begins by closing all descriptors must not
 * close libafar's. So these are moved up at once, and entries of the table protect them. Threads that libafar starts are its own for life.
 *
 * Owns nothing but the mark of each thread.
 */
#include "own.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "real.h"
#include "signals.h"
#include "table.h"

#define HIGH_MAX 16384 /* the kernel's own table is as long as the highest number */

struct own own_enter(void)
{
	struct own own = {.was_inside = own_is_inside, .error = errno};

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &own.cancel);
	own_is_inside = true;
	return own;
}

void own_leave(const struct own *own)
{
	pthread_setcancelstate(own->cancel, NULL);
	errno = own->error;
	own_is_inside = own->was_inside;
	/* A handler may jump away. */
	if (!own->was_inside)
		signals_deliver();
}

/* ---- Descriptors */

bool own_has(int fd)
{
	return !own_is_inside && table_get(fd) == ENTRY_LIBRARY;
}

/* Three quarters of what the process may have, so that there is room above. */
static int high_begin(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < 64)
		return 0;
	return limit.rlim_cur / 4 * 3 < HIGH_MAX ? (int)(limit.rlim_cur / 4 * 3) : HIGH_MAX;
}

int own_move(int fd)
{
	const int error = errno, begin = high_begin();
	int high = -1;

	if (!own_is_inside || fd < 0)
		return fd;
	if (fd < begin)
		high = REAL(fcntl)(fd, F_DUPFD_CLOEXEC, begin);
	if (high >= 0)
		REAL(close)(fd);
	else
		high = fd;
	table_set(high, ENTRY_LIBRARY);
	errno = error;
	return high;
}

TAKEN int socket(int domain, int type, int protocol)
{
	return own_move(REAL(socket)(domain, type, protocol));
}

TAKEN int socketpair(int domain, int type, int protocol, int fds[2])
{
	const int ret = REAL(socketpair)(domain, type, protocol, fds);

	if (!ret) {
		fds[0] = own_move(fds[0]);
		fds[1] = own_move(fds[1]);
	}
	return ret;
}

TAKEN int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	return own_move(REAL(accept4)(fd, address, length, flags));
}

TAKEN int eventfd(unsigned value, int flags)
{
	return own_move(REAL(eventfd)(value, flags));
}

TAKEN int epoll_create1(int flags)
{
	return own_move(REAL(epoll_create1)(flags));
}

TAKEN int timerfd_create(clockid_t clock, int flags)
{
	return own_move(REAL(timerfd_create)(clock, flags));
}

TAKEN int memfd_create(const char *name, unsigned flags)
{
	return own_move(REAL(memfd_create)(name, flags));
}

TAKEN int pipe2(int fds[2], int flags)
{
	const int ret = REAL(pipe2)(fds, flags);

	if (!ret) {
		fds[0] = own_move(fds[0]);
		fds[1] = own_move(fds[1]);
	}
	return ret;
}

/* Moves the descriptors that came with a message. */
TAKEN ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	const ssize_t ret = REAL(recvmsg)(fd, message, flags);
	struct cmsghdr *part;

	if (!own_is_inside || ret < 0)
		return ret;
	for (part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len;
		     at += sizeof(int)) {
			int passed;

			memcpy(&passed, CMSG_DATA(part) + at, sizeof(passed));
			passed = own_move(passed);
			memcpy(CMSG_DATA(part) + at, &passed, sizeof(passed));
		}
	}
	return ret;
}

/* ---- Threads */

struct start {
	void *(*run)(void *argument);
	void *argument;
};

static void *run_inside(void *argument)
{
	struct start start = *(struct start *)argument;

	free(argument);
	own_is_inside = true;
	return start.run(start.argument);
}

TAKEN int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			 void *(*run)(void *argument), void *argument)
{
	struct start *start;
	int ret;

	if (!own_is_inside)
		return REAL(pthread_create)(thread, attributes, run, argument);
	start = malloc(sizeof(*start));
	if (!start)
		return EAGAIN;
	*start = (struct start){run, argument};
	ret = REAL(pthread_create)(thread, attributes, run_inside, start);
	if (ret)
		free(start);
	return ret;
}
