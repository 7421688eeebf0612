/* SPDX-License-Identifier: BSD-3-Clause */
/* Servers, stores, and the manager, as operators deal with them; see afar.h. */
#ifndef AFAR_SERVER_H
#define AFAR_SERVER_H

#include <afar/session.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_server_stat {
	size_t size;		 /* sizeof(struct afar_server_stat), set by the caller */
	uint64_t server;	 /* its number */
	uint64_t capacity_bytes; /* of its memory, as it has told last; 0: it is down */
	uint64_t granted_bytes;	 /* of these, to namespaces */
	uint32_t is_up;
	uint32_t reserved;
	char name[AFAR_NAME_MAX + 1];
};

/*
 * Lists servers in order of their numbers. Puts up to `max` entries with a number above `after` (0: all) into `out`; the
 * caller has set the first entry's `size`. Returns how many; 0 at the end. If there are more than
 * 1000 servers, it knows 1000, as afar_session_status() does.
 */
int afar_server_list(struct afar_session *session, uint64_t after, struct afar_server_stat *out,
		     unsigned max);

struct afar_store_stat {
	size_t size;	 /* sizeof(struct afar_store_stat), set by the caller */
	uint64_t store;	 /* its number */
	uint64_t server; /* the number of the server that has it, or had it last */
	uint64_t capacity_bytes;
	uint64_t granted_bytes; /* of these, to namespaces */
	uint32_t is_up;
	uint32_t reserved;
};

/* Lists stores likewise. */
int afar_store_list(struct afar_session *session, uint64_t after, struct afar_store_stat *out,
		    unsigned max);

struct afar_server_region {
	size_t size;	     /* sizeof(struct afar_server_region), set by the caller           */
	uint64_t generation; /* unique in the cluster, and higher than those of older regions  */
	char ns[AFAR_NAME_MAX + 1];
	char name[AFAR_NAME_MAX + 1]; /* empty when it has none */
	uint64_t address;
	uint64_t length; /* bytes */
};

/*
 * Lists the regions that have a part on the server with this number, in order of their generations: what is lost without
 * it. For operators only. Up to `max` entries with a generation above `after` (0: all) into `out`, whose first entry's
 * `size` the caller has set. Returns how many; 0 at the end. afar_server_list() tells the numbers.
 * Errors: -ENOENT.
 */
int afar_server_regions(struct afar_session *session, uint64_t server, uint64_t after,
			struct afar_server_region *out, unsigned max);

/*
 * Takes a server that is down out of the cluster; for operators only. The caller vouches that its
 * machine is gone for good, or that nobody needs what is on it. Afar takes no server for dead
 * because it is silent. Regions with a part on it are lost. All that waited for it is free: its
 * extents, and what others hold for sessions that ended while it could not be reached. If the
 * process lives after all, it is not let in again; started anew, it joins as a new server.
 * Errors: -ENOENT, -EBUSY (it is connected).
 */
int afar_server_remove(struct afar_session *session, uint64_t server);

/* Is told of a record of the manager. */
typedef void (*afar_manager_say)(void *argument, const char *record);

/*
 * Compares each record of the manager with its checksum; for operators only. `say` is called for each one that is damaged,
 * with what it is. Blocks a second for some 10 million records that the machine has in memory; others' calls go on meanwhile. Returns how many are damaged.
 * `*nr_records` (may be NULL) gets how many there are.
 */
int64_t afar_manager_check(struct afar_session *session, afar_manager_say say, void *argument,
			   uint64_t *nr_records);

/*
 * Says that the manager's records count, though servers or stores have seen later ones. Use it when
 * an older copy of the manager's folder was put back, and the newest is lost. For operators only.
 * Until then these do not join, and afar_session_status() tells who they are (`newer`). From then
 * on they do, until the manager ends. It is the caller's word that what was made since that copy is
 * given up. Sessions that are older than the manager's start end. Nothing that had bytes at the
 * time of the copy is read before afar_namespace_accept_older().
 * Errors: -EALREADY (nobody has seen later ones).
 */
int afar_manager_accept_older(struct afar_session *session);

/*
 * Lists the regions that have a part in the store with this number, as afar_server_regions() does:
 * they are lost if it is forgotten. For operators only. afar_store_list() tells the numbers of
 * stores; people see them as 16 hexadecimal digits. Errors: -ENOENT.
 */
int afar_store_regions(struct afar_session *session, uint64_t store, uint64_t after,
		       struct afar_server_region *out, unsigned max);

/* The kinds of a namespace's loss. */
enum afar_loss_kind {
	AFAR_LOSS_REGIONS, /* regions with a part there: all of each        */
	AFAR_LOSS_VOLUME,  /* the volume: all of it                         */
	AFAR_LOSS_FILES,   /* of a file system's files what is there        */
};
struct afar_loss {
	size_t size; /* sizeof(struct afar_loss), as the library has it */
	char ns[AFAR_NAME_MAX + 1];
	uint32_t kind;	 /* enum afar_loss_kind                           */
	uint32_t is_cut; /* there may be more than `nr` files, and bytes  */
	uint64_t nr;	 /* regions, or files; 1 of a volume              */
	uint64_t bytes;	 /* of the regions, or of the volume; that files have there */
};

/* Is told what a namespace loses. */
typedef void (*afar_loss_say)(void *argument, const struct afar_loss *loss);

/*
 * Tells what is lost with the memory of a server, or with a store, before it is given up; for operators only. `say` is called for
 * each namespace that has something there. Counting files asks the manager several times: it goes through the
 * places of all files, 20 000 in one call, while others' calls go on. It stops when it has counted `max_files` of a file system (0: never).
 * Errors: -ENOENT, -EOPNOTSUPP (the manager is older).
 */
int afar_server_losses(struct afar_session *session, uint64_t server, uint64_t max_files,
		       afar_loss_say say, void *argument);
int afar_store_losses(struct afar_session *session, uint64_t store, uint64_t max_files,
		      afar_loss_say say, void *argument);

/*
 * Takes a store that is away out of the cluster; for operators only. The caller vouches that its
 * device is gone for good, or that nobody needs what is on it. Afar itself waits for a store for
 * ever, because its data outlives its servers. Regions with a part in it are lost. A device that
 * comes back after all is let in again, as a new store. It keeps what is on it, and that belongs to
 * no region.
 * Errors: -ENOENT, -EBUSY (a connected server has it open).
 */
int afar_store_forget(struct afar_session *session, uint64_t store);

/*
 * Frees the orphans of a store: extents that it has and the manager does not know. For operators
 * only. An orphan is left when a store was forgotten and comes back, or when the manager was restored
 * from an older copy. In that case it may be the data of regions which that copy does not have. The
 * caller vouches that nobody needs it. Their number is in afar_session_status().
 *
 * Blocks until they are removed from the device, durably. `*freed` (may be NULL) gets how many bytes
 * there are more for others; 0 if there was no orphan. After an error some may be freed; the rest is
 * kept, and may be freed by another call.
 * Errors: -ENOENT; -AFAR_ESERVER (it is away, or its server failed); -EIO (its device takes no changes).
 */
int afar_store_free_orphans(struct afar_session *session, uint64_t store, uint64_t *freed);

/*
 * Has a running server lend one device more; for operators only. `path` is that of a file or block
 * device with a flash layer (`afar flash create`), on the server's machine, and absolute. It is opened as
 * at the server's start, and refused for the same reasons. `*store` (may be NULL) gets its number.
 *
 * The server does not keep that: it opens the device again at its next start if its flags or its
 * configuration file say so.
 *
 * Blocks until the device can be used, or for some seconds if another process has it open. After
 * -ETIMEDOUT, look at the status: the server may still be about it.
 * Errors: -ENOENT (no such server; nothing at the path), -EINVAL (the path; no flash layer; another
 * cluster's; an older image), -EEXIST (it is open there already), -EBUSY (somebody else has it open),
 * -AFAR_ESERVER (the server is down, or failed), those of opening it.
 */
int afar_store_add(struct afar_session *session, uint64_t server, const char *path,
		   uint64_t *store);

/*
 * Takes a store in which nothing is reserved out of the cluster; for operators only. If a server has it
 * open, that one closes the device first, cleanly. Other stores go on. The device can be added again, to
 * any server of the cluster; what is on it and belongs to no region stays.
 *
 * Blocks until the device is closed. After an error it may be closed, and listed as away: call again.
 * Errors: -ENOENT, -EBUSY (regions are there, or reserved bytes; the last error names some),
 * -AFAR_ESERVER (its server failed).
 */
int afar_store_remove(struct afar_session *session, uint64_t store);

#ifdef __cplusplus
}
#endif
#endif
