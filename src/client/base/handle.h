/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checked handles: each public object begins with a `struct handle`, and the library answers
 * -EINVAL to a null, closed or wrong pointer instead of following it. Closed handles stay allocated
 * until a few hundred more were closed, so the library detects a double close, free or unmap if it
 * comes soon. This helps to find bugs; it is not a promise.
 *
 * `nr_users` counts the children and operations in flight that depend on the object. The object can
 * be closed only when there are none.
 */
#ifndef CLIENT_HANDLE_H
#define CLIENT_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum handle_kind {
	HANDLE_CLOSED = 0,
	HANDLE_SESSION = 0x41665353,
	HANDLE_NAMESPACE = 0x41664e53,
	HANDLE_REGION = 0x41745247, /* a target, as all that begin so: HANDLE_TARGETS */
	HANDLE_MAPPING = 0x41664d50,
	HANDLE_BUFFER = 0x41664246,
	HANDLE_QUEUE = 0x41665155,
	HANDLE_BARRIER = 0x41664252,
	HANDLE_VOLUME = 0x4166564f,
	HANDLE_FS = 0x41664653,
	HANDLE_FILE = 0x41664649,
	HANDLE_FILE_TARGET = 0x41744649,
	HANDLE_CACHE = 0x41664341,
	HANDLE_ARRAY = 0x41664152,
};

struct handle {
	_Atomic uint32_t kind; /* enum handle_kind */
	_Atomic uint32_t nr_users;
};

/* Allocates `size` zeroed bytes that begin with a handle of `kind`; NULL without memory. */
void *handle_new(enum handle_kind kind, size_t size);

/* Frees an object that was never given to the program. */
void handle_discard(void *object);

/*
 * Ends a handle: 0 for exactly one caller, after which the object is the caller's to take apart and
 * to pass to handle_retire(). -EBUSY: it has users. -EINVAL: it is not an open handle of `kind`.
 */
int handle_close(void *object, enum handle_kind kind);

/* Takes a handle_close() back, of an object that could not be taken apart. */
void handle_reopen(void *object, enum handle_kind kind);

/* Hands the memory of a closed handle over, to be freed later. */
void handle_retire(void *object);

static inline bool handle_is(const void *object, enum handle_kind kind)
{
	const struct handle *handle = object;

	return handle && atomic_load_explicit(&handle->kind, memory_order_acquire) == kind;
}

/* The first two letters of the kinds that are targets (client/target/target.h). */
#define HANDLE_TARGETS 0x4174U

/* Returns whether it is an open handle of any kind of target. */
static inline bool handle_is_target(const void *object)
{
	const struct handle *handle = object;

	return handle &&
	       atomic_load_explicit(&handle->kind, memory_order_acquire) >> 16 == HANDLE_TARGETS;
}

#define HANDLE_SHUT 0x80000000U /* in nr_users: it is closed, or being closed */
/* In nr_users of a file's target: its users may begin nothing, because the file's gate is shut
 * (client/files/io/file_queue.c). */
#define HANDLE_GATE 0x40000000U

/* Counts one more user of an object that has a user already. */
static inline void handle_use(struct handle *handle)
{
	atomic_fetch_add_explicit(&handle->nr_users, 1, memory_order_relaxed);
}

static inline void handle_unuse(struct handle *handle)
{
	atomic_fetch_sub_explicit(&handle->nr_users, 1, memory_order_release);
}

/* Counts the caller in, against a close in another thread. False: the close came first. */
static inline bool handle_enter(struct handle *handle)
{
	if (!(atomic_fetch_add_explicit(&handle->nr_users, 1, memory_order_acquire) & HANDLE_SHUT))
		return true;
	handle_unuse(handle);
	return false;
}

/* Returns whether it is shut, for threads in an epoch section (base/epoch.h) and do not count themselves in.
 * The thread that shuts the handle waits for epoch sections. */
static inline bool handle_is_shut(const struct handle *handle)
{
	return atomic_load_explicit(&handle->nr_users, memory_order_acquire) & HANDLE_SHUT;
}

#endif
