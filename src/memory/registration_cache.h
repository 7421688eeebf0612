/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations kept for memory that is used again (a pin-down cache: Tezuka et al.; Wu, Wyckoff and Panda, §5),
 * for programs that cannot register buffers themselves. What registers is behind a seam: a fabric, or a fake.
 *
 * What is kept is only memory that the monitor (monitor.h) can watch, and nothing is found in the cache that was
 * freed or mapped anew before it was looked up. Everything else is registered for the one use.
 */
#ifndef MEMORY_REGISTRATION_CACHE_H
#define MEMORY_REGISTRATION_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Registers whole pages. Its functions are called by any thread, several at once, without any lock. */
struct registrar {
	/* 0, or a negative code with a sentence. */
	int (*add)(void *context, void *addr, size_t length, void **registration);
	/* Together, which may be cheaper than one by one. */
	void (*remove)(void *context, void *const *registrations, size_t nr);
	void *context;
};

struct registration_cache_options {
	struct registrar registrar;
	uint64_t bytes_max; /* registered, if those that are used leave room */
	size_t nr_max;	    /* registrations kept                            */
	unsigned batch;	    /* deregistered together; at least 1              */
	bool trusts_thread; /* looks up without asking for changes: for proving that this is wrong */
};

struct registration_cache_stat {
	uint64_t nr_hits;
	uint64_t nr_added;	     /* registered, to be kept                          */
	uint64_t nr_passing;	     /* registered for one use                          */
	uint64_t nr_merged;	     /* taken into a larger one                         */
	uint64_t nr_evicted;	     /* for want of room                                */
	uint64_t nr_changed;	     /* whose memory was unmapped, moved or dropped      */
	uint64_t nr_removals;	     /* batches deregistered                            */
	uint64_t nr_removals_in_use; /* of those by who asked for a registration   */
	uint64_t bytes;		     /* registered now                                  */
	uint64_t bytes_max;	     /* as options say, as does the next but one        */
	size_t nr;		     /* kept now                                        */
	size_t nr_max;
	size_t nr_unwatchable; /* ranges of which nothing is kept any more        */
};

struct registration_cache;
struct registration;

/* Starts two threads. Errors, with a sentence: those of monitor_open(). */
int registration_cache_open(const struct registration_cache_options *options,
			    struct registration_cache **out);
/* Nothing of it may be in use. Deregisters everything. */
void registration_cache_close(struct registration_cache *cache);

/*
 * A registration that covers `length` > 0 bytes at `addr`, for the caller to use and give back. May block for as
 * long as registering takes. Errors: those of the registrar; -AFAR_EFORKED in a child of the one that opened it; -EINVAL (nothing, or beyond the address space); -ENOMEM.
 */
int registration_take(struct registration_cache *cache, void *addr, size_t length,
		      struct registration **out);
void registration_give(struct registration_cache *cache, struct registration *registration);
/* What the registrar returned. */
void *registration_handle(const struct registration *registration);

void registration_cache_stat(struct registration_cache *cache, struct registration_cache_stat *out);

#endif
