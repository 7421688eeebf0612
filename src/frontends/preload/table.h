/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table of what is known of each descriptor of the process. Lookups take no lock, and memory is mapped, never allocated: any call may come
 * from an allocator or a signal handler.
 *
 * A forked child finds an empty table, which stays so: all of its calls go to the kernel.
 */
#ifndef PRELOAD_TABLE_H
#define PRELOAD_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct afar_file;
struct cluster;

/* An entry is 0, or a number with one of these in its lowest bits, or a struct held. */
#define ENTRY_COUNT   1U /* transfers seen so far, times ENTRY_ONE */
#define ENTRY_KERNEL  2U /* the kernel carries out all of its calls */
#define ENTRY_LIBRARY 4U /* it is libafar's own, and the program must not close it */
#define ENTRY_TAGS    7U
#define ENTRY_ONE     8U

/* An open file of libafar, beside the kernel's. All descriptors that are copies of each other have the same one. */
struct held {
	atomic_uint users;	  /* entries, and calls under way; 0: free */
	uint32_t next;		  /* while it is free */
	int flags;		  /* F_GETFL's */
	atomic_uint nr_forgotten; /* users that were entries, and cannot drop it: table_forget() */
	atomic_bool is_over;	  /* calls go to the kernel */
	atomic_bool is_written;	  /* since it was synced */
	struct afar_file *file;
	struct cluster *cluster;
	uint64_t device, ino;
};

/* Returns whether this is the process that began, and the library is on: no fork's child, and not about to end. */
bool table_is_on(void);
/* Begins with nothing known; `end` closes the file of a held that nobody has any more. Without it the table is off. */
void table_begin(void (*end)(struct held *held));
/* Switches it off, or on again. Returns whether it was on. */
bool table_set_on(bool is_on);

/* 0: nothing is known. */
uintptr_t table_get(int fd);
/* Both drop a held that the entry had. Return false if there is no room; false as well if the entry is not `expected`. */
bool table_set(int fd, uintptr_t entry);
bool table_replace(int fd, uintptr_t expected, uintptr_t entry);
/* Sets it, without a file's end: whoever ends the held later drops it for the entry. */
void table_forget(int fd, uintptr_t entry);
/* Drops a held for the entries that have forgotten it. */
void held_drop_forgotten(struct held *held);
/* Returns the highest descriptor that may have an entry, plus 1. */
int table_end(void);

/* Gives the held of a descriptor, for the caller until held_drop(); NULL: it has none. */
struct held *table_take(int fd);
/* Returns a new one with one user; NULL: no memory. */
struct held *held_new(void);
void held_keep(struct held *held);
/* The last user ends the file. */
void held_drop(struct held *held);
/* Calls it for all that are in use, each kept meanwhile. */
void held_for_each(void (*call)(struct held *held, void *argument), void *argument);

#endif
