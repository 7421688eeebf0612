/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that can be shared, and a tree of it by address. Owns the descriptors. */
#include "base/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <search.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

struct shared {
	uintptr_t addr; /* first: the tree is searched for it */
	size_t length;
	int fd;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static void *by_address; /* tree of struct shared */

static int compare(const void *a, const void *b)
{
	uintptr_t left = *(const uintptr_t *)a, right = *(const uintptr_t *)b;

	return (left > right) - (left < right);
}

static int open_file(size_t length)
{
	int fd = memfd_create("afar", MFD_CLOEXEC | MFD_ALLOW_SEALING), ret;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)length) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

/* Address space is taken first, some more, of which the ends are cut off. */
static void *map_aligned(int fd, size_t length, size_t alignment)
{
	size_t head, longer;
	char *memory;

	if (__builtin_add_overflow(length, alignment, &longer))
		return NULL;
	memory = mmap(NULL, longer, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	head = (size_t)(-(uintptr_t)memory % alignment);
	if (head > 0)
		munmap(memory, head);
	munmap(memory + head + length, alignment - head);
	memory += head;
	if (mmap(memory, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED) {
		munmap(memory, length);
		return NULL;
	}
	return memory;
}

static int note(void *addr, size_t length, int fd)
{
	struct shared *shared = malloc(sizeof(*shared));
	const void *found;

	if (!shared)
		return -ENOMEM;
	*shared = (struct shared){(uintptr_t)addr, length, fd};
	pthread_rwlock_wrlock(&lock);
	found = tsearch(shared, &by_address, compare);
	pthread_rwlock_unlock(&lock);
	if (found)
		return 0;
	free(shared);
	return -ENOMEM;
}

int shared_map(size_t length, size_t alignment, void **addr)
{
	int fd = open_file(length), ret;
	void *memory;

	if (fd < 0)
		return error_fail(fd, "share %zu MiB of memory: %s", length >> 20,
				  afar_strerror(fd));
	memory = map_aligned(fd, length, alignment);
	ret = memory ? note(memory, length, fd) : -ENOMEM;
	if (ret != 0) {
		if (memory)
			munmap(memory, length);
		close(fd);
		return error_fail(ret,
				  "map %zu MiB: the kernel gives no address space; ask for less",
				  length >> 20);
	}
	*addr = memory;
	return 0;
}

void shared_unmap(void *addr)
{
	const uintptr_t key = (uintptr_t)addr;
	struct shared *const *found;
	struct shared *shared = NULL;

	pthread_rwlock_wrlock(&lock);
	found = tfind(&key, &by_address, compare);
	if (found) {
		shared = *found;
		tdelete(shared, &by_address, compare);
	}
	pthread_rwlock_unlock(&lock);
	if (!shared)
		return;
	munmap(addr, shared->length);
	fallocate(shared->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)shared->length);
	close(shared->fd);
	free(shared);
}

int shared_descriptor(const void *addr, size_t length)
{
	const uintptr_t key = (uintptr_t)addr;
	struct shared *const *found;
	int fd = -1;

	pthread_rwlock_rdlock(&lock);
	found = tfind(&key, &by_address, compare);
	if (found && (*found)->length == length)
		fd = (*found)->fd;
	pthread_rwlock_unlock(&lock);
	return fd;
}

int shared_make_read_only(const void *addr, size_t length)
{
	int fd = shared_descriptor(addr, length);

	if (fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0)
		return 0;
	return error_fail(fd < 0 ? -EINVAL : -errno,
			  "make shared memory read-only: %s; Linux 5.1 or newer can",
			  fd < 0 ? "there is none" : afar_strerror(errno));
}

bool shared_keep(int fd)
{
	int seals;

	fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
	seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && (seals & F_SEAL_SEAL) != 0;
}
