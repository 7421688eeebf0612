/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Volumes: remote disks. A volume has a name, a size and a tier. Programs read and write it by the
 * byte, have it synced, and give parts of it back. `afar export` lends it to every NBD client.
 *
 * A volume is a namespace that holds one disk and nothing else, so both share their names, and
 * rights on it are granted with afar_namespace_grant(). New bytes read as zeros, on both tiers.
 *
 * Errors beyond those of each comment: those that afar.h says every function may return.
 *
 * docs/volumes.md says what this takes from published remote disks, and what differs.
 */
#ifndef AFAR_VOLUME_H
#define AFAR_VOLUME_H

#include <afar/afar.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_volume;

#define AFAR_VOLUME_BLOCK 4096U /* sizes are multiples of it */

/* ---- Making, listing, changing, ending ------------------------------------------------------- */

/*
 * Makes a volume of `bytes`, all zeros, reserves room for all of it, and opens it as afar_volume_open() does without options;
 * `out` may be NULL. `policy` may be NULL (dram tier, defaults); its max_bytes is 0. Slow on dram, where the memory is populated now. A caller that
 * dies meanwhile leaves an unfinished volume, which cannot be opened, and can be deleted.
 * Errors: -EINVAL (name, policy, or a size that is 0 or no multiple of AFAR_VOLUME_BLOCK), -EEXIST,
 * -ENOSPC, -AFAR_ENOSERVER, -EOPNOTSUPP (tier); those of afar_volume_open(), and then it stays.
 */
int afar_volume_create(struct afar_session *session, const char *name, uint64_t bytes,
		       const struct afar_policy *policy, struct afar_volume **out);

struct afar_volume_stat {
	size_t size; /* sizeof(struct afar_volume_stat), set by the caller */
	char name[AFAR_NAME_MAX + 1];
	uint64_t bytes;
	uint64_t stripe_bytes;
	uint32_t tier;	       /* enum afar_tier */
	uint32_t width;	       /* servers, or stores, that it is striped over */
	uint32_t rights;       /* the caller's: AFAR_RIGHT_… bits */
	uint32_t nr_readers;   /* sessions that have it open to read alone */
	uint32_t nr_writers;   /* … to write */
	uint8_t is_exclusive;  /* its one writer has it for itself */
	uint8_t is_unfinished; /* afar_volume_create() has not ended */
	uint8_t is_lost;       /* part of it is gone for good */
	uint8_t reserved8[5];
	char owner[AFAR_PRINCIPAL_MAX + 1];
	char holder[AFAR_NAME_MAX + 1]; /* a session that may write, for people; empty: none */
};

/*
 * Lists volumes in order of name. Puts up to `max` entries after the name `after` (NULL: from the
 * first) into `out`; the caller has set the first entry's `size`. Returns how many; 0 at the end.
 */
int afar_volume_list(struct afar_session *session, const char *after, struct afar_volume_stat *out,
		     unsigned max);

/* Describes the volume of this name. Errors: -ENOENT. */
int afar_volume_stat_by_name(struct afar_session *session, const char *name,
			     struct afar_volume_stat *out);

/*
 * Changes the size; for its owner and operators. A larger one reserves room first. Those who have
 * the volume open go on, and see the new size when they open it anew or call afar_volume_stat(). A
 * smaller one drops what lies behind; nobody may have the volume open. If that is cut off, the
 * bytes behind the new size may be zeros already.
 * Errors: -ENOENT, -EINVAL (a size that is 0 or no multiple of AFAR_VOLUME_BLOCK), -ENOSPC,
 * -AFAR_ERESERVE (in more pieces than a volume can have: make a new one and copy), -EBUSY (a
 * smaller size, and somebody has it open: the sentence says who).
 */
int afar_volume_resize(struct afar_session *session, const char *name, uint64_t bytes);

/* Deletes a volume and gives its room back; for its owner and operators. Errors: -ENOENT, -EBUSY
 * (somebody has it open: the sentence says who). */
int afar_volume_delete(struct afar_session *session, const char *name);

/* ---- Opening ---------------------------------------------------------------------------------- */

enum afar_volume_mode {
	AFAR_VOLUME_EXCLUSIVE = 0, /* nobody else may write; others may read */
	AFAR_VOLUME_SHARED = 1,	   /* others may write, too */
	AFAR_VOLUME_READ_ONLY = 2,
};

/*
 * For a holder that hangs, or whose machine is gone. If others have the volume open so that this is
 * refused, their sessions end first, with -AFAR_ESESSION. Nothing that they have begun lands any
 * more.
 */
#define AFAR_VOLUME_TAKE_OVER 0x1U

struct afar_volume_options {
	size_t size;   /* sizeof(struct afar_volume_options) */
	uint32_t mode; /* enum afar_volume_mode */
	uint32_t flags;
	/*
	 * On flash: while a server of the volume cannot be reached, calls wait for it up to so long,
	 * and then go on. 0: they fail with -AFAR_ESERVER. If the volume is exclusive, what was
	 * written and not synced when the server ended is written again, before anything else. So a
	 * disk outlives its server, and no sync fails for that.
	 */
	uint32_t retry_ms;
	uint32_t reserved;
	/* Bytes of changes kept to be written again; with more, the library syncs. 0: 64 MiB. */
	uint64_t log_bytes;
	/*
	 * The number (afar_session_stat()) of a session of the same principal, whose place this one
	 * takes: that of a process which has died. If it has the volume open, in any mode, it alone
	 * ends first, and nothing that it has begun lands any more. -EOPNOTSUPP: the manager is of an
	 * older release. 0: none.
	 */
	uint64_t replaces;
	/*
	 * The mark, from afar_volume_mark(), of a handle whose process has died. A sync of the new
	 * handle fails once with -AFAR_EUNSYNCED if a store has lost since what the old one had
	 * written, and not synced. Opening is refused with -ESTALE if that volume is gone, also if
	 * another one has its name now. NULL: none.
	 */
	const char *mark;
};

/*
 * Opens a volume. `options` may be NULL. It is the caller's until afar_volume_close(); the session
 * cannot be closed before.
 * Errors: -ENOENT, -EACCES, -EBUSY (open elsewhere, in a way that this does not go with: the sentence
 * says who has it), -EINVAL (the mark is none), -ESTALE (it is another volume's), -AFAR_ELOST, -AFAR_ESERVER.
 */
int afar_volume_open(struct afar_session *session, const char *name,
		     const struct afar_volume_options *options, struct afar_volume **out);

/* Closes the handle. Does not sync. -EBUSY while operations are in flight. */
int afar_volume_close(struct afar_volume *volume);

/* Describes the volume as it is now. From then on, the handle can be used up to this size. */
int afar_volume_stat(struct afar_volume *volume, struct afar_volume_stat *out);

/* The volume as a target of queue operations; they need no afar_volume_… call. NULL if it was opened
 * with retry_ms, because only the calls below wait and write again. */
struct afar_target *afar_volume_target(struct afar_volume *volume);

/* ---- Reading and writing: blocking, from any number of threads --------------------------------- */

/*
 * Read into, or write from, any memory. They return `length`. `flags` is 0 or AFAR_OP_DURABLE, which
 * on dram does nothing.
 * Errors: -ERANGE (past the end), -EINVAL (memory, flags), -EACCES (opened to read alone),
 * -EBADMSG (a block of the device is bad), -ENOSPC, -AFAR_ESERVER, -AFAR_ELOST, -AFAR_ESESSION (taken
 * over), -ETIMEDOUT.
 */
ssize_t afar_volume_pread(struct afar_volume *volume, void *data, size_t length, uint64_t offset);
ssize_t afar_volume_pwrite(struct afar_volume *volume, const void *data, size_t length,
			   uint64_t offset, unsigned flags);

/*
 * Have a range read as zeros; return 0. On flash whole blocks of AFAR_VOLUME_BLOCK take no room
 * afterwards. Trimming may leave the bytes of a block as they were if only a part of it is in the
 * range. On dram it leaves all. `flags` and errors as above.
 */
int afar_volume_zero(struct afar_volume *volume, uint64_t offset, uint64_t length, unsigned flags);
int afar_volume_trim(struct afar_volume *volume, uint64_t offset, uint64_t length, unsigned flags);

/*
 * On flash: all that had completed on the volume, by anybody, survives the end of servers and the
 * loss of power. On dram: makes it visible to all. Errors: -AFAR_EUNSYNCED (as AFAR_OP_SYNC says),
 * those above.
 */
int afar_volume_sync(struct afar_volume *volume);

/*
 * Puts into `*out` what the handle remembers of the volume, as text, which the caller frees. It is
 * for the process that goes on should this one die (afar_volume_options.mark). It is another one
 * after a good sync for which a server had restarted, and when the volume has grown. One that was
 * taken earlier makes a later handle tell of a loss that has been told or mended. One that was
 * taken after a failed sync may hide a loss. -ENOMEM.
 */
int afar_volume_mark(struct afar_volume *volume, char **out);

#ifdef __cplusplus
}
#endif
#endif
