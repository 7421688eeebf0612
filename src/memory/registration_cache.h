/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pin-down cache (Tezuka et al.; Wu, Wyckoff and Panda, §5). Keeps registrations of memory that
 * is used again, for programs that cannot register buffers themselves. The registrar behind a seam
 * does the work: a fabric, or a fake.
 *
 * The cache keeps only memory that the monitor (monitor.h) can watch. It never returns a
 * registration of memory that was freed or mapped anew before the lookup. Everything else is
 * registered for the one use.
 */
#ifndef MEMORY_REGISTRATION_CACHE_H
#define MEMORY_REGISTRATION_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Registers whole pages. Any thread may call its functions, several at once, without any lock. */
struct registrar {
	/* 0, or a negative code with a sentence. */
	int (*add)(void *context, void *addr, size_t length, void **registration);
	/* Removes several together, which may be cheaper than one by one. */
	void (*remove)(void *context, void *const *registrations, size_t nr);
	void *context;
};

struct registration_cache_options {
	struct registrar registrar;
	uint64_t bytes_max; /* registered, as long as those in use leave room */
	size_t nr_max;	    /* registrations kept */
	unsigned batch;	    /* deregistered together; at least 1 */
	bool trusts_thread; /* looks up without asking for changes: to prove that this is wrong */
};

struct registration_cache_stat {
	uint64_t nr_hits;
	uint64_t nr_added;	     /* registered, to be kept */
	uint64_t nr_passing;	     /* registered for one use */
	uint64_t nr_merged;	     /* absorbed by a larger one */
	uint64_t nr_evicted;	     /* for want of room */
	uint64_t nr_changed;	     /* whose memory was unmapped, moved or dropped */
	uint64_t nr_removals;	     /* batches deregistered */
	uint64_t nr_removals_in_use; /* of those, by threads that asked for a registration */
	uint64_t bytes;		     /* registered now */
	uint64_t bytes_max;	     /* as in the options; so is nr_max */
	size_t nr;		     /* kept now */
	size_t nr_max;
	size_t nr_unwatchable; /* ranges of which nothing is kept any more */
};

struct registration_cache;
struct registration;

/* Starts two threads. Errors, with a sentence: those of monitor_open(). */
int registration_cache_open(const struct registration_cache_options *options,
			    struct registration_cache **out);
/* Deregisters everything. No registration may be in use. */
void registration_cache_close(struct registration_cache *cache);

/*
 * Takes a registration that covers `length` > 0 bytes at `addr`; give it back after use. May block
 * for as long as registering takes. Errors: the registrar's; -AFAR_EFORKED: in a child of the
 * process that opened the cache; -EINVAL: no bytes, or beyond the address space; -ENOMEM.
 */
int registration_take(struct registration_cache *cache, void *addr, size_t length,
		      struct registration **out);
void registration_give(struct registration_cache *cache, struct registration *registration);
/* The registrar's own registration. */
void *registration_handle(const struct registration *registration);

void registration_cache_stat(struct registration_cache *cache, struct registration_cache_stat *out);

#endif
