/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Caches: memory of the program's own, for bytes of regions and files that it reads again and again. Nothing is kept without one.
 *
 *	afar_cache_open(session, 1UL << 30, &cache);
 *	afar_cache_read(cache, region, data, length, offset);         instead of afar_region_pread()
 *	afar_cache_read_file(cache, file, data, length, offset);      instead of afar_file_pread()
 *
 * A cache gives no stale bytes. It keeps two things of regions, because nobody can change them any more: sealed ones (afar_region_seal()),
 * and versions of copy-on-write regions (afar/cow.h). It keeps bytes of a file as long as the manager promises that no other session changes
 * them without asking this one first (afar_fs_quiet_since()). While somebody has a file open to write, this session included, it is read as
 * without a cache. So is everything else.
 *
 * A cache is divided into pages of 4096 bytes. A page that is read and is not there is read as a whole. Threads that
 * want the same page meanwhile wait for that one read. Which page goes for another is told by Multi-Queue (Zhou, Philbin,
 * Li: USENIX 2001), which a long scan does not empty. Kept bytes are found by the region or the file, and not by its handle: whoever opens it again finds them.
 *
 * Rules of afar.h hold. Any number of threads may use a cache at once.
 *
 * The idea: Magoutis, Exploiting Direct-Access Networking in Network Attached Storage Systems, §5.5. There, as here, a program's cache lies
 * above the data path, and the program decides what goes through it.
 */
#ifndef AFAR_CACHE_H
#define AFAR_CACHE_H

#include <afar/afar.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_cache;
struct afar_file; /* afar/file.h */

/*
 * Makes a cache of `bytes`, rounded down to pages, for regions and files of this session. It takes that memory as pages come in, and some 5 % more for its
 * tables. Errors: -EINVAL (less than 64 KiB), -ENOMEM.
 */
int afar_cache_open(struct afar_session *session, uint64_t bytes, struct afar_cache **out);

/* Frees a cache, and all that it keeps. -EBUSY while it is read through. */
int afar_cache_close(struct afar_cache *cache);

/*
 * Reads as afar_region_pread() does, through the cache where the region's bytes can't change. Blocks if not all of them
 * are there. Kept bytes are also read when the region was freed meanwhile, or its servers do not answer.
 * Errors: those of afar_region_pread(); -EINVAL (the region is of another session). A page whose reading failed is not kept.
 */
ssize_t afar_cache_read(struct afar_cache *cache, struct afar_region *region, void *data,
			size_t length, uint64_t offset);

/*
 * Reads as afar_file_pread() does, through the cache as long as the file's bytes can't change unseen. The promise lasts for half a second. The next read asks the manager for
 * another one, and waits 50 ms at most. If none comes, reads do not ask for a second.
 * Errors: those of afar_file_pread(); -EINVAL (the file is of another session).
 */
ssize_t afar_cache_read_file(struct afar_cache *cache, struct afar_file *file, void *data,
			     size_t length, uint64_t offset);

/* Counts of pages. */
struct afar_cache_stat {
	size_t size;	    /* sizeof(struct afar_cache_stat), set by the caller */
	uint64_t bytes;	    /* of all pages that it can keep */
	uint64_t used;	    /* of those that it keeps, or is reading */
	uint64_t nr_hits;   /* were there */
	uint64_t nr_misses; /* were read to be kept */
	uint64_t nr_shared; /* waited for another thread's read */
	uint64_t
		nr_past; /* were read, and not kept: they may change, or no page could go for them */
};

/* Fills `*out` in. Does not block. -EINVAL. */
int afar_cache_stat(struct afar_cache *cache, struct afar_cache_stat *out);

#ifdef __cplusplus
}
#endif

#endif
