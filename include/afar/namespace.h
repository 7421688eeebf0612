/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces: what memory is reserved for, and who may use it; see afar.h. */
#ifndef AFAR_NAMESPACE_H
#define AFAR_NAMESPACE_H

#include <afar/session.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_namespace; /* a named, flat, 64-bit address space with a policy */

enum afar_tier {
	AFAR_TIER_DRAM = 0,  /* volatile: lost when its server ends */
	AFAR_TIER_FLASH = 1, /* on flash: unavailable while its server is down, and back then */
};

struct afar_policy {
	size_t size;	/* sizeof(struct afar_policy)                                       */
	uint32_t tier;	/* enum afar_tier */
	uint32_t width; /* servers a region is striped over; 0: all, at most 64 */
	uint64_t stripe_bytes; /* stripe unit, a power of two from 4 KiB to 1 GiB; 0: 1 MiB */
	uint64_t max_bytes;    /* may be reserved for it at most; 0: as much as there is */
};

struct afar_namespace_stat {
	size_t size; /* sizeof(struct afar_namespace_stat), set by the caller */
	char name[AFAR_NAME_MAX + 1];
	uint32_t tier;
	uint32_t width;
	uint64_t stripe_bytes;
	uint64_t reserved_bytes;  /* extents on servers */
	uint64_t allocated_bytes; /* of those, bound to regions */
	uint64_t nr_regions;
	/* The principal that made it; empty: the operators have it. */
	char owner[AFAR_PRINCIPAL_MAX + 1];
	uint32_t rights; /* the caller's: AFAR_RIGHT_… bits */
	uint32_t reserved32;
	uint64_t max_bytes; /* may be reserved at most; 0: as much as there is */
	/* All that the owner has, and may have: afar_key_limit(). Told to the owner and to operators; 0
	 * if it has no limit. */
	uint64_t owner_reserved_bytes, owner_max_bytes;
};

/*
 * Creates and opens a namespace; `out` may be NULL ("Making"). Names: 1 to AFAR_NAME_MAX bytes of [A-Za-z0-9._-], not starting
 * with '.' or '-'. `policy` may be NULL (dram tier, defaults).
 * Errors: -EEXIST, -EINVAL (name or policy), -EOPNOTSUPP (tier).
 */
int afar_namespace_create(struct afar_session *session, const char *name,
			  const struct afar_policy *policy, struct afar_namespace **out);

/* Opens a namespace. Errors: -ENOENT. */
int afar_namespace_open(struct afar_session *session, const char *name,
			struct afar_namespace **out);

/* Closes the handle; the namespace lives on. -EBUSY while regions opened through it are open. */
int afar_namespace_close(struct afar_namespace *ns);

/*
 * Deletes a namespace and gives its memory back to the servers, which zero it before anyone else
 * gets it.
 * Errors: -ENOENT; -ENOTEMPTY: it has regions (AFAR_DELETE_REGIONS frees those that nobody has
 * open); -EBUSY: a session has a region open, or closed it while a server may still carry out a
 * write there.
 */
#define AFAR_DELETE_REGIONS 0x1U
int afar_namespace_delete(struct afar_session *session, const char *name, unsigned flags);

/*
 * Lists namespaces in order of name. Puts up to `max` entries after the name `after` (NULL: from
 * the first) into `out`; the caller has set the first entry's `size`. Returns how many; 0 at the
 * end.
 */
int afar_namespace_list(struct afar_session *session, const char *after,
			struct afar_namespace_stat *out, unsigned max);

int afar_namespace_stat(struct afar_namespace *ns, struct afar_namespace_stat *out);

#define AFAR_RIGHT_READ	 0x1U /* open, list and read regions */
#define AFAR_RIGHT_WRITE 0x2U /* write, make and free them; goes with AFAR_RIGHT_READ */

/*
 * Replaces the rights of a principal on a namespace; for its owner and operators. `rights` is
 * AFAR_RIGHT_READ, that and AFAR_RIGHT_WRITE, or 0 for nothing. If a right is taken away, those
 * sessions of the principal end that have regions of the namespace open. They get -AFAR_ESESSION,
 * and may open new ones. Nothing of theirs can reach the memory once every server has closed their
 * connections.
 * Errors: -ENOENT (no such principal), -EINVAL (rights; the owner's own).
 */
int afar_namespace_grant(struct afar_namespace *ns, const char *principal, unsigned rights);

/*
 * Sets how much may be reserved for this namespace, instead of its policy's max_bytes; for its owner and
 * operators. It keeps what it has, also beyond that. `max_bytes` 0: as much as there is.
 */
int afar_namespace_limit(struct afar_namespace *ns, uint64_t max_bytes);

/*
 * Gets at least `bytes` more of the servers' memory ready for this namespace, all or nothing.
 * Memory comes from the servers' warm pools, or is populated and registered now. Reserve in
 * advance, because populating is slow. When this returns 0, the memory is the namespace's, whatever
 * becomes of the session. A caller that dies before gets nothing: the manager gives back what
 * servers have granted once the session ends.
 * Errors: -EINVAL (0, or past 2^64; it is a volume or a file system, which have their own calls),
 * -ENOSPC (the servers do not have so much), -EDQUOT (the namespace, or its owner, may not have so much),
 * -AFAR_ENOSERVER, -ECANCELED.
 */
int afar_namespace_reserve(struct afar_namespace *ns, uint64_t bytes);

/*
 * Cancels the reservations that other threads of this session are making for the namespace. Their
 * calls return soon: -ECANCELED when nothing was kept, or 0 when all was done before the manager heard
 * of this. Waits for neither, so a program may end while a call is still inside
 * afar_namespace_reserve(). Memory that is reserved already stays.
 * Errors: -AFAR_EMANAGER (the connection is lost just now: nothing is cancelled).
 */
int afar_namespace_reserve_cancel(struct afar_namespace *ns);

/*
 * Gives up to `bytes` of reserved memory back, in whole extents that no region uses (UINT64_MAX:
 * all of them). Takes those that were reserved last, if they make the sum, else the largest first.
 * Returns 0, and in `*released`, which may be NULL, how many bytes were given back.
 * Errors: -EINVAL (0).
 */
int afar_namespace_release(struct afar_namespace *ns, uint64_t bytes, uint64_t *released);

/*
 * Says that what the manager's older records lead to in a namespace, a volume or a file system may be read; for operators only. After
 * afar_manager_accept_older() everything that had bytes then answers -EBADMSG when it is opened.
 * The caller accepts that the bytes of files and regions there may be others', which were given the
 * same places since that copy. From then on they are read with status 0.
 * Errors: -ENOENT, -EALREADY (it waits for nobody's word).
 */
int afar_namespace_accept_older(struct afar_session *session, const char *name);

#ifdef __cplusplus
}
#endif
#endif
