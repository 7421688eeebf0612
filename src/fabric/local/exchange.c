/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of an exchange: made by the serving end, mapped by both. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/local/exchange.h"

#define CODES	  4095U	 /* of errno */
#define OWN_CODES 10000U /* before those of afar/error.h */

int local_exchange_make(void)
{
	int fd = memfd_create("afar-exchange", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(struct local_exchange)) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	close(fd);
	return -ENOMEM;
}

struct local_exchange *local_exchange_map(int fd)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct local_exchange *exchange;
	struct stat file;

	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &file) != 0 ||
	    file.st_size != (off_t)sizeof(*exchange))
		return NULL;
	exchange = mmap(NULL, sizeof(*exchange), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (exchange == MAP_FAILED)
		return NULL;
	madvise(exchange, sizeof(*exchange), MADV_DONTFORK);
	madvise(exchange, sizeof(*exchange), MADV_DONTDUMP);
	return exchange;
}

void local_exchange_unmap(struct local_exchange *exchange)
{
	munmap(exchange, sizeof(*exchange));
}

void local_exchange_copy(void *to, const void *from, size_t nr_words)
{
	const volatile uint64_t *words = from;
	uint64_t *out = to;

	for (size_t i = 0; i < nr_words; i++)
		out[i] = words[i];
}

bool local_status_is_good(int status)
{
	const unsigned code = 0U - (unsigned)status;

	return status == 0 || (code >= 1 && code <= CODES) ||
	       (code > OWN_CODES && code <= OWN_CODES + CODES);
}
