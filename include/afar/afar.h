/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Afar: other machines' memory, set up in advance and then read and written one-sided.
 *
 * Functions are of two kinds:
 *
 *  - Control path (sessions, namespaces, reserve, alloc, open, map, connect): may block, allocate
 *    and talk to the manager and to servers. The session's timeout bounds each call.
 *  - Data path (afar_mapping_read/_write, afar_region_pread/…, afar_queue_*): one-sided transfers
 *    between local memory and the servers' memory. They involve no server program, no copy, no
 *    allocation, and no lock shared with other queues.
 *
 * Threads: any number of threads may use sessions, namespaces, regions, mappings and buffers at
 * once. A queue belongs to one thread at a time; use several queues for several threads.
 *
 * Errors: functions return 0 or a count, or a negative code (see afar/error.h). afar_last_error()
 * has the details in one line. Comments below list only errors beyond these:
 *
 *  - Any function may return -EINVAL for a null, closed or unmapped handle (double close, free or
 *    unmap included), -ENOMEM, and -AFAR_EFORKED in a child of the process that opened the session.
 *  - Control-path functions may also return: -AFAR_EMANAGER or -AFAR_ESERVER: a peer cannot be
 *    reached; -ETIMEDOUT: it did not answer in time, and the outcome is unknown; -AFAR_ESESSION:
 *    the manager ended the session; -ESTALE: another cluster has its address. The library retries
 *    under the same request id, so a call is never carried out twice.
 *  - -EACCES: the session's principal has some right here, and not the one for this. The sentence
 *    says who could help. Without any right on a namespace, calls answer as if it were not there.
 *
 * Rights: a key names a principal. The principal that creates a namespace owns it and may do
 * everything with it. So may operators, whose keys are in the manager's own key file. Others may do
 * what the owner grants them: AFAR_RIGHT_READ to open, list and read its regions; AFAR_RIGHT_WRITE
 * to write, make and free them, too. They see nothing of other namespaces, and learn at most that a
 * name is taken, when they want it for one of their own. Only owner and operators reserve and
 * release memory, grant, and delete.
 *
 * Sizes: a struct that begins with `size` may grow at its end in later releases. The library
 * accepts the size of an older release. It accepts a newer one's if all that it does not know is
 * zero. It fills a struct in as far as the size goes. Other sizes are -EINVAL. In an array all entries
 * have the size of the first. A struct without `size` stays as it is; some have reserved members.
 *
 * Time-outs: `timeout_ms` of a function is for how many milliseconds it waits for others: for members, for a lock, for
 * completions. 0: it does not wait. Negative: no limit. The session's own timeout bounds each question to the manager or a
 * server besides, and each operation. In options 0 stands for the default.
 *
 * Making: functions that make a namespace, a region, a volume, a file system or a file open it, too: the handle in `*out` is
 * the caller's to close. If `out` is NULL they only make it. Nothing is made if they fail, unless the outcome is unknown.
 *
 * Memory model: operations are not ordered among each other, except by AFAR_OP_AFTER. Overlapping
 * concurrent accesses tear at byte granularity. Every later operation on the same path sees a
 * completed write; operations on all paths see it after AFAR_OP_FLUSH. More, with examples:
 * docs/memory-model.md.
 *
 * The model, to reserve, alloc and map in advance and then to read and write without any set-up, is
 * that of RStore (A. Trivedi, "End-to-End Considerations in the Unification of High-Performance
 * I/O", ETH Zürich 2016, chapter 6, Table 6.1).
 */
#ifndef AFAR_AFAR_H
#define AFAR_AFAR_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <afar/error.h>
#include <afar/version.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_session;   /* an authenticated relation to one cluster */
struct afar_namespace; /* a named, flat, 64-bit address space with a policy */
struct afar_region;    /* an allocated segment <address, length> of a namespace */
struct afar_mapping;   /* local, transfer-ready memory bound to a range of a region */
struct afar_buffer;    /* local memory registered for transfers */
struct afar_queue;     /* a thread submits operations and reaps completions here */
struct afar_target;    /* operations read or write it: a region */

/* ---- Sessions -------------------------------------------------------------------------------- */

struct afar_session_options {
	size_t size;	      /* sizeof(struct afar_session_options)                              */
	const char *key_file; /* NULL: the URI's "key", else $AFAR_KEY, else the default place    */
	uint32_t timeout_ms;  /* for every call and operation; 0: 30 000                          */
	/* Microseconds that a wait spins before it sleeps. A wait also spins 1 ns for each byte in
	 * flight, up to 1 ms. 0: 50; ~0: never spin. */
	uint32_t spin_us;
	uint64_t cache_bytes; /* mapping memory kept for reuse after unmap; 0: an eighth of RAM   */
	/* The only transport to reach servers over: "local", "tcp", "verbs". NULL: $AFAR_PATH; if
	 * that is not set, the best that works for each server. */
	const char *path;
	/* Bytes of plain memory that may stay registered after transfers of more than 64 KiB, on
	 * transports that need registered memory. A registration is found again as long as nobody
	 * frees the memory or maps it anew. 0: none; registered buffers are better. */
	uint64_t registration_bytes;
	/* Congestion control for sending over tcp: a name that the system knows; "system": the
	 * system's default; "auto": that too, but cubic (or else reno) if the default is a bbr and
	 * the server is on this machine. NULL: $AFAR_CONGESTION; if that is not set, "auto". */
	const char *congestion;
};

/*
 * Opens a session with the cluster whose manager is at `uri`: "afar://HOST[:PORT][?key=FILE]"; the
 * port is 7411 by default. NULL means $AFAR_CLUSTER; if that is not set, the cluster that `afar up`
 * started in ./afar-data; if there is none, afar://127.0.0.1. `options` may be NULL. The session is
 * the caller's until afar_session_close(). It starts one thread, with all signals blocked, which
 * sleeps except for connection events.
 * Errors: -EINVAL (malformed URI; a congestion control that is not available here), -ENOENT, -EACCES
 * or -EPERM (key file: there is none, it cannot be read, others may use it), -AFAR_EAUTH (wrong key),
 * -AFAR_EVERSION, -AFAR_EMANAGER (nobody answers there).
 */
int afar_session_open(const char *uri, const struct afar_session_options *options,
		      struct afar_session **out);

/*
 * Closes the session; the manager drops the references that it still held. -EBUSY, and nothing is
 * closed: namespaces, regions, mappings, buffers or queues of the session are open.
 */
int afar_session_close(struct afar_session *session);

/*
 * Describes the cluster as the manager sees it, as one JSON object in `*json` (free() it): servers,
 * their capacity and use, their lanes and which of them this session takes ("is_chosen"),
 * namespaces, sessions. It is the text of `afar status --json`. Operators see all namespaces and
 * sessions, and the paths of the servers' devices; others see the namespaces they have rights on,
 * and their own sessions. "principal" is the session's own.
 */
int afar_session_status(struct afar_session *session, char **json);

struct afar_session_stat {
	size_t size; /* sizeof(struct afar_session_stat), set by the caller */
	/* Memory of ended mappings, and of ended buffers of 2 MiB and more, kept for the next
	 * ones. */
	uint64_t cached_bytes;
	uint64_t cached_bytes_max; /* options.cache_bytes                    */
	uint64_t nr_cache_hits;	   /* made of it, since the session began */
	uint64_t nr_cache_misses;  /* populated anew */
	uint64_t huge_bytes;	   /* of all the process's memory: on huge pages */
	/* Memory registered with transports that need it: buffers, mappings, queues' own memory,
	 * plain memory. */
	uint64_t nr_registrations; /* made since the session began */
	uint64_t registered_bytes; /* now */
	uint64_t nr_bounced; /* transfers copied part by part, because registering was refused */
	/* Plain memory that stays registered, see options.registration_bytes. */
	uint64_t kept_bytes;
	uint64_t kept_bytes_max;
	uint64_t nr_kept;
	uint64_t nr_kept_max;
	uint64_t nr_kept_hits;	  /* pieces of transfers that were found */
	uint64_t nr_kept_misses;  /* … that had to be registered */
	uint64_t nr_kept_evicted; /* registrations dropped for want of room */
	uint64_t nr_kept_changed; /* … because their memory was unmapped, moved or dropped */
	/* Connections to servers' memory, one for each queue, namespace and server. */
	uint32_t nr_paths;
	uint32_t nr_unused_paths_max; /* per queue: kept although no open region needs them */
	uint32_t nr_blocking_queues;  /* made for blocking calls */
	uint32_t nr_blocking_queues_max;
	uint64_t number;    /* the session's own, that others are told of it by */
	uint32_t has_ended; /* 1: calls fail with -AFAR_ESESSION, or -ESTALE, for good */
	uint32_t reserved;
};

/*
 * Reports how much the session keeps for reuse, up to which limits, and how often that has helped.
 * While a program uses buffers and mappings that it has, nr_registrations stands still. It does not
 * wait for others. For `huge_bytes` the kernel walks the process's page tables, at most once a
 * second: do not call it on the data path.
 * Errors: -EINVAL (no session, `out` is null or its `size` was not set), -AFAR_EFORKED.
 */
int afar_session_stat(struct afar_session *session, struct afar_session_stat *out);

/* ---- Keys: the cluster's principals ---------------------------------------------------------- */

#define AFAR_PRINCIPAL_MAX 32 /* bytes of a principal's name, without the final 0 */
#define AFAR_KEY_HEX_MAX   65 /* bytes of a key's secret: 64 hex digits and the final 0 */

#define AFAR_KEY_SERVER	  0x1U /* a server's key: joins the cluster, and does nothing else */
#define AFAR_KEY_OPERATOR 0x2U /* in the manager's own key file: may do everything */
#define AFAR_KEY_ANY_UID \
	0x4U /* may say that it is anybody when it uses files (afar/file.h): for mounts */
#define AFAR_KEY_UID 0x8U /* may use files as one user: afar_key_add_user() makes it */

struct afar_key_stat {
	size_t size; /* sizeof(struct afar_key_stat), set by the caller */
	char name[AFAR_PRINCIPAL_MAX + 1];
	uint32_t flags;	      /* AFAR_KEY_… */
	uint32_t nr_sessions; /* open ones; of a server's key: servers */
	uint32_t uid;	      /* with AFAR_KEY_UID: for whom it may use files */
	/* Of a client: what is reserved for all namespaces that it owns, and may be at most; 0: as
	 * much as there is. */
	uint64_t reserved_bytes, max_bytes;
};

/*
 * Makes a principal and its key; for operators only. `name` is 1 to AFAR_PRINCIPAL_MAX bytes of
 * [A-Za-z0-9._@-]. `flags` is 0, AFAR_KEY_SERVER or AFAR_KEY_ANY_UID. `secret` gets 64 lower-case hex digits and a 0;
 * the cluster never shows them again. A key file is the line "NAME:SECRET" in a file of mode 0600.
 * Errors: -EEXIST, -EINVAL (name, flags).
 */
int afar_key_add(struct afar_session *session, const char *name, unsigned flags,
		 char secret[AFAR_KEY_HEX_MAX]);

/*
 * Lists principals in order of name; for operators only. Puts up to `max` entries after the name
 * `after` (NULL: from the first) into `out`; the caller has set the first entry's `size`. Returns
 * how many; 0 at the end.
 */
int afar_key_list(struct afar_session *session, const char *after, struct afar_key_stat *out,
		  unsigned max);

/*
 * Ends a principal; for operators only. Its key lets nobody in any more, and its sessions end.
 * Memory that they could reach becomes nobody else's before every server has closed their
 * connections (afar_session_status() says which sessions are still ending). The namespaces it owns
 * stay, and belong to the operators.
 * Errors: -ENOENT, -EINVAL (its key is in a key file of the manager's: change it there).
 */
int afar_key_revoke(struct afar_session *session, const char *name);

/*
 * Sets how much may be reserved, in memory and on flash, for all namespaces, volumes and file systems
 * together that a client owns; for operators only. More is -EDQUOT, whoever asks for it. What they have
 * stays, also beyond that. `max_bytes` 0: as much as there is.
 * Errors: -ENOENT, -EINVAL (it is an operator's or a server's key).
 */
int afar_key_limit(struct afar_session *session, const char *name, uint64_t max_bytes);

/* ---- Servers and stores ----------------------------------------------------------------------- */

#define AFAR_NAME_MAX 255 /* bytes of a namespace's or a region's name, without the final 0 */

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
 * `size` the caller has set. Returns how many; 0 at the end. afar_session_status() tells the numbers of servers.
 * Errors: -ENOENT.
 */
int afar_server_regions(struct afar_session *session, uint64_t server, uint64_t after,
			struct afar_server_region *out, unsigned max);

/*
 * Takes a server that is down out of the cluster; for operators only. It is the caller's word that its machine is gone for
 * good, or that nobody needs what is on it: Afar takes no server for dead because it is silent. Regions with a part
 * on it are lost, and what waited for it is free: its extents, and what others hold for sessions that ended while it
 * could not be reached. If the process lives after all, it is not let in again; started anew, it joins as a new server.
 * Errors: -ENOENT, -EBUSY (it is connected).
 */
int afar_server_remove(struct afar_session *session, uint64_t server);

/* Gives the URI by which another session of the same principal can be opened with the same manager, whatever the working directory and the
 * environment are then: with its address, and the key file's absolute name. It is the caller's, for free(). */
int afar_session_uri(struct afar_session *session, char **uri);

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
 * Says that what the manager's older records lead to in a namespace, a volume or a file system may be read; for operators only. After
 * afar_manager_accept_older() everything that had bytes then answers -EBADMSG when it is opened. It is the caller's word that the bytes of files and regions
 * there may be others', which were given the same places since that copy: from then on they are read with status 0.
 * Errors: -ENOENT, -EALREADY (it waits for nobody's word).
 */
int afar_namespace_accept_older(struct afar_session *session, const char *name);

/*
 * Says that the manager's records count, though servers or stores have seen later ones: an older copy of the manager's folder was put
 * back, and the newest is lost. For operators only. Until then these do not join, and afar_session_status() tells who they are (`newer`). From then on
 * they do, until the manager ends. It is the caller's word that what was made since that copy is given up. Sessions that are older than the manager's start
 * end. What had bytes at the time of the copy is not read before afar_namespace_accept_older().
 * Errors: -EALREADY (nobody has seen later ones).
 */
int afar_manager_accept_older(struct afar_session *session);

/*
 * Lists the regions that have a part in the store with this number, as afar_server_regions() does:
 * they are lost if it is forgotten. For operators only. afar_session_status() tells the numbers of
 * stores, as text of 16 hexadecimal digits. Errors: -ENOENT.
 */
int afar_store_regions(struct afar_session *session, uint64_t store, uint64_t after,
		       struct afar_server_region *out, unsigned max);

/* What a namespace loses. */
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
 * Takes a store that is away out of the cluster; for operators only. The caller says that its device
 * is gone for good, or that nobody needs what is on it: Afar itself waits for a store for ever,
 * because its data outlives its servers. Regions with a part in it are lost. A device that comes
 * back after all is let in again, as a new store: what is on it is kept, and belongs to no region.
 * Errors: -ENOENT, -EBUSY (a connected server has it open).
 */
int afar_store_forget(struct afar_session *session, uint64_t store);

/*
 * Frees the orphans of a store: extents that it has and the manager does not know. For operators
 * only. An orphan is left when a store was forgotten and comes back, or when the manager was restored
 * from an older copy. In that case it may be the data of regions which that copy does not have: it is
 * the caller's word that nobody needs it. afar_session_status() tells how many there are.
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

/* ---- Namespaces ------------------------------------------------------------------------------- */

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
 * operators. What it has stays, also beyond that. `max_bytes` 0: as much as there is.
 */
int afar_namespace_limit(struct afar_namespace *ns, uint64_t max_bytes);

/*
 * Gets at least `bytes` more of the servers' memory ready for this namespace, all or nothing.
 * Memory comes from the servers' warm pools, or is populated and registered now. That is slow, so
 * do it in advance.
 * When this returns 0, the memory is the namespace's, whatever becomes of the session. A caller that
 * dies before gets nothing: the manager gives back what servers have granted once the session ends.
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
 * all of them): those that were reserved last, if they make the sum, else the largest first. Returns 0, and in `*released`, which may be NULL, how many bytes were given back.
 * Errors: -EINVAL (0).
 */
int afar_namespace_release(struct afar_namespace *ns, uint64_t bytes, uint64_t *released);

/* ---- Regions --------------------------------------------------------------------------------- */

/*
 * The address of every namespace's first region. Programs that share nothing but the namespace's
 * name meet there. All try to open it. Those that get -ENOENT allocate it with AFAR_ALLOC_FIRST.
 * One succeeds; the others get -EADDRINUSE and open it (Trivedi, §6.3.1). afar_region_bootstrap()
 * in afar/barrier.h does that.
 */
#define AFAR_FIRST_ADDRESS ((uint64_t)0x1000)

#define AFAR_ALLOC_FIRST 0x1U /* at AFAR_FIRST_ADDRESS, or fail with -EADDRINUSE */
/*
 * The servers' network cards carry out the region's atomics, one-sided, instead of their
 * processors. That holds for good. Only sessions over a transport with such atomics (verbs) can use
 * them; all others get -EOPNOTSUPP. Reads and writes are as in any region.
 */
#define AFAR_ALLOC_NIC_ATOMICS 0x2U
/*
 * The region counts as unfinished, for all who list it, until afar_region_finish(): also when whoever fills it
 * dies. It can be opened, read and written like any other.
 */
#define AFAR_ALLOC_UNFINISHED 0x4U
/*
 * As AFAR_ALLOC_UNFINISHED, and the manager frees the region if it is unfinished when the session that has made it
 * closes it or ends, however that is: a program that is killed leaves nothing half made. The memory returns to the
 * namespace when nobody else has the region open either.
 */
#define AFAR_ALLOC_TEMPORARY 0x10U
/*
 * The region is copy-on-write: it changes version by version (afar/cow.h). Its first version is all zeros and takes no memory;
 * writers get theirs as they begin. Not with AFAR_ALLOC_NIC_ATOMICS (-EOPNOTSUPP),
 * AFAR_ALLOC_UNFINISHED or AFAR_ALLOC_TEMPORARY (-EINVAL).
 */
#define AFAR_ALLOC_COW 0x8U

struct afar_region_stat {
	size_t size; /* sizeof(struct afar_region_stat), set by the caller */
	uint64_t address;
	uint64_t length;	      /* bytes */
	char name[AFAR_NAME_MAX + 1]; /* empty: it has none */
	uint32_t width;		      /* servers it is striped over */
	uint32_t nr_references;	      /* sessions that have it open */
	uint64_t stripe_bytes;
	uint32_t is_lost; /* part of it was on a server that has restarted, or was removed */
	uint32_t rights; /* the caller's on its namespace: AFAR_RIGHT_… bits; an open region keeps
			   * those it was opened with */
	uint32_t has_nic_atomics; /* it was made with AFAR_ALLOC_NIC_ATOMICS */
	uint32_t is_sealed;	  /* nobody can write it any more */
	uint32_t
		is_unfinished; /* made with AFAR_ALLOC_UNFINISHED or _TEMPORARY, and not finished yet */
	/* Of a region made with AFAR_ALLOC_COW; else 0: */
	uint64_t version;  /* the newest one; nr_references counts those who have this one open */
	uint32_t nr_older; /* versions before it that somebody has open still */
	uint32_t nr_older_references;	/* sessions that have one of those open, added up */
	char writer[AFAR_NAME_MAX + 1]; /* the session that is writing the next one; empty: none */
};

/*
 * Binds reserved memory to a new region of `bytes`: metadata only, one call to the manager. Its
 * content is undefined: zero where the memory is fresh; elsewhere the remains of earlier regions of
 * this same namespace. The region outlives the session, but for AFAR_ALLOC_TEMPORARY. A region made by `_alloc` is known by its
 * address alone, one made by `_create` also by a name (1 to AFAR_NAME_MAX bytes without control
 * characters). `out` may be NULL ("Making").
 * Errors: -EINVAL (0 bytes, past 2^64, unknown flag, name), -AFAR_ERESERVE (beyond the
 * reservation), -EADDRINUSE (AFAR_ALLOC_FIRST), -EEXIST (name), -EOPNOTSUPP
 * (AFAR_ALLOC_NIC_ATOMICS: the session's transport to the servers has no atomics).
 */
int afar_region_alloc(struct afar_namespace *ns, uint64_t bytes, unsigned flags,
		      struct afar_region **out);
int afar_region_create(struct afar_namespace *ns, const char *name, uint64_t bytes, unsigned flags,
		       struct afar_region **out);

/*
 * Says, durably, that a region that was made with AFAR_ALLOC_UNFINISHED or AFAR_ALLOC_TEMPORARY is complete. One call to the
 * manager. Flush earlier writes first (AFAR_OP_FLUSH) if others may read them over other paths. Does
 * nothing to a region that is finished.
 * Errors: -EACCES (without AFAR_RIGHT_WRITE), -AFAR_EFREED.
 */
int afar_region_finish(struct afar_region *region);

/*
 * Opens a region by name, or the one that begins at `address`: one call to the manager, for its
 * layout. afar_region_map(), afar_queue_connect(), or the first blocking read or write fetch the
 * keys of its extents and connect to its servers.
 * Errors: -ENOENT, -AFAR_ELOST.
 */
int afar_region_open(struct afar_namespace *ns, const char *name, struct afar_region **out);
int afar_region_open_at(struct afar_namespace *ns, uint64_t address, struct afar_region **out);

/*
 * Closes the handle; the region lives on. -EBUSY while it is mapped, attached or has operations in
 * flight.
 *
 * After a write with an unknown outcome, it asks the region's servers to close the old connection.
 * That may take a second if a server does not answer. Until the server has done so, the session
 * keeps its reference, because the server may still carry out that write: the memory of a freed
 * region must not become another's before. The session looks again when it next deals with regions,
 * and at its own end.
 */
int afar_region_close(struct afar_region *region);

/*
 * Ends the region for everybody. Its name and address are gone at once; its memory returns to the
 * namespace when the last session that has it open closes it. The handle stays, for
 * afar_region_close().
 * Errors: -AFAR_EFREED (freed before, by this or another handle).
 */
int afar_region_destroy(struct afar_region *region);

/*
 * Frees a region that is not open here, even if its servers are gone: the way to get rid of a lost
 * one.
 * Errors: -ENOENT (none, or freed before).
 */
int afar_region_delete(struct afar_namespace *ns, const char *name);
int afar_region_delete_at(struct afar_namespace *ns, uint64_t address);

int afar_region_stat(struct afar_region *region, struct afar_region_stat *out);

/*
 * Lists the regions of a namespace in order of address. Puts up to `max` entries with an address
 * above `after` (0: all) into `out`; the caller has set the first entry's `size`. Returns how many.
 */
int afar_region_list(struct afar_namespace *ns, uint64_t after, struct afar_region_stat *out,
		     unsigned max);

/*
 * Reads or writes the bytes at `offset` one-sided, from or to any memory; blocks until they are
 * transferred. All or nothing: returns the byte count asked for, or an error. After an error any
 * part may have been written. Nothing is moved if the range is not wholly inside the region.
 *
 * If the transport needs registered memory, more than 64 KiB of plain memory are registered for the
 * transfer. Less is copied part by part, and so is more if the process may pin no more memory.
 *
 * Memory that is not there is -EFAULT where the kernel notices, and SIGSEGV where the library
 * copies: afar_region(3).
 *
 * Connections are made at the first use. A server closes a session's connections when memory that
 * the session could reach becomes another's; a transfer that meets that is repeated over a new one.
 *
 * Errors: -ERANGE (past the end), -EINVAL (more than SSIZE_MAX, more than IOV_MAX pieces), -EACCES
 * (a write without AFAR_RIGHT_WRITE: nothing was moved), -EROFS (a write to a sealed region:
 * nothing was moved), -AFAR_ESERVER, -AFAR_ELOST, -ETIMEDOUT (outcome of a write unknown; the
 * memory is quiescent).
 */
ssize_t afar_region_pread(struct afar_region *region, void *data, size_t length, uint64_t offset);
ssize_t afar_region_pwrite(struct afar_region *region, const void *data, size_t length,
			   uint64_t offset);

/*
 * Makes durable all that has completed on the region before the call, by anybody, if it is on flash
 * (AFAR_OP_SYNC). In memory it does nothing. Blocks. Errors: -AFAR_EUNSYNCED: writes that had
 * completed since the region was opened or last synced may be lost; said once. -AFAR_ESERVER: a
 * store's server cannot be reached; -EIO: a device has failed.
 */
int afar_region_sync(struct afar_region *region);
ssize_t afar_region_readv(struct afar_region *region, const struct iovec *iov, int nr_iov,
			  uint64_t offset);
ssize_t afar_region_writev(struct afar_region *region, const struct iovec *iov, int nr_iov,
			   uint64_t offset);

/*
 * Atomics on the little-endian 64-bit word at `offset`, a multiple of 8; they block until done.
 * `*before` (may be NULL) gets the old word. compare_swap stores `operand` if the word is
 * `compare`.
 *
 * A processor of the server's machine carries them out. So all atomics on one word are atomic
 * against each other, whichever transports their callers use. They are not atomic against reads and
 * writes of other sizes. Over `local` that processor is the caller's. Otherwise an atomic is one
 * message to the server and back: nothing else on the data path needs the server's CPU.
 *
 * Errors: -EINVAL (not a multiple of 8), -ERANGE, -EACCES, -EROFS, -AFAR_ESERVER, -AFAR_ELOST,
 * -ETIMEDOUT. An atomic is not repeated when its connection is lost: after the last three it may
 * have been done, or not.
 */
int afar_region_fetch_add(struct afar_region *region, uint64_t offset, uint64_t operand,
			  uint64_t *before);
int afar_region_compare_swap(struct afar_region *region, uint64_t offset, uint64_t compare,
			     uint64_t operand, uint64_t *before);

/* ---- Sealed regions -------------------------------------------------------------------------- */

/*
 * Makes the region immutable, for good and for everybody, its owner and operators included. It
 * holds what was written before, and nothing changes it any more. It can be opened, read and freed
 * as before; writes and atomics answer -EROFS. Its bytes never change, so caches may keep them. Its
 * servers copy it to memory that they lend for reading alone, with a CRC32C for each 4096 bytes,
 * which afar_region_verify() checks.
 *
 * A write that was acknowledged before the call is in it, if it was flushed (AFAR_OP_FLUSH). The
 * call itself flushes blocking calls. A write that is under way is in it, or fails. The servers
 * close the namespace's data connections once: operations on them end with -AFAR_ESERVER, and
 * queues need afar_queue_connect() again. Blocking reads and writes continue by themselves. Sealing
 * a sealed region does nothing and returns 0.
 *
 * The copy takes as many bytes again, and a little more for the sums. Afterwards the region's
 * former memory is free for others of its namespace. For owner and operators, the call reserves the
 * memory that the namespace lacks; for others the namespace must have enough free sealed memory.
 * Blocks. Whatever happens meanwhile, the region ends as it was, or sealed.
 * Errors: -EACCES (without AFAR_RIGHT_WRITE), -AFAR_EFREED, -AFAR_ELOST, -ENOSPC, -AFAR_ERESERVE,
 * -AFAR_ESERVER (a server of it cannot be reached).
 */
int afar_region_seal(struct afar_region *region);

/*
 * Reads the blocks of 4096 bytes that [offset, offset + length) touches, and compares them with the
 * sums made when the region was sealed. 0: all are right. -EBADMSG: one is not, and `*bad` (may be
 * NULL) gets its offset.
 * Errors: -EINVAL (not sealed), -ERANGE, -EBADMSG, those of afar_region_pread().
 */
int afar_region_verify(struct afar_region *region, uint64_t offset, uint64_t length, uint64_t *bad);

/* ---- Attaching ------------------------------------------------------------------------------- */

/*
 * Maps the region's memory itself, `length` bytes at `offset`, into the caller's address space,
 * contiguous at `*addr`, however it is striped. Loads and stores then go to the servers' memory
 * without a call. All servers of the range must be on this machine and lend their memory (transport
 * local). `prot` is PROT_READ or PROT_READ | PROT_WRITE of <sys/mman.h>; a sealed region can be
 * attached for reading alone. `offset` is a multiple of the page, because whole pages are attached;
 * `length` need not be. docs/memory-model.md says what loads and stores of several processes
 * see.
 *
 * The whole range becomes inaccessible when the session ends, the region is sealed, or a server of
 * the range ends or restarts. From then on until it is detached, touching it raises SIGSEGV. It
 * never becomes anybody else's memory. Do not give it to the kernel or to devices for longer than a
 * call (no O_DIRECT, no registering). A forked child does not have it.
 *
 * Each stripe unit is a mapping of its own to the kernel, which limits them (vm.max_map_count).
 * Errors: -EOPNOTSUPP (a server of the range is elsewhere: the sentence says which and why),
 * -EINVAL, -ERANGE, -EACCES (the caller may not write it), -EROFS (sealed), -ENOMEM, -AFAR_ELOST,
 * -AFAR_ESERVER, -ETIMEDOUT.
 */
int afar_region_attach(struct afar_region *region, uint64_t offset, size_t length, unsigned prot,
		       void **addr);

/* Unmaps it: `addr` as afar_region_attach() gave it. The region cannot be closed before. -EINVAL:
 * it is not attached there. */
int afar_region_detach(struct afar_region *region, void *addr);

/* ---- Mappings -------------------------------------------------------------------------------- */

/*
 * Binds `length` bytes of the region at `offset` to private local memory, and connects to the
 * servers that hold them. The memory is populated and ready for transfers on every transport. Its
 * content is undefined until afar_mapping_read(). `flags` is 0. After unmap the session keeps the
 * memory, up to its cache_bytes, so that mapping again is quick.
 * Errors: -ERANGE (not wholly inside the region), -EINVAL (0 bytes).
 */
int afar_region_map(struct afar_region *region, uint64_t offset, size_t length, unsigned flags,
		    struct afar_mapping **out);

/*
 * Ends a mapping; its memory must not be touched afterwards. Changes that were not written with
 * afar_mapping_write() are dropped. -EBUSY while queue operations use its buffer.
 */
int afar_mapping_unmap(struct afar_mapping *mapping);

/* The mapping's memory, `length` bytes, page-aligned; NULL for an unmapped handle. */
void *afar_mapping_data(const struct afar_mapping *mapping);
size_t afar_mapping_length(const struct afar_mapping *mapping);

/* The mapping's memory as a buffer, for queue operations; owned by the mapping. */
struct afar_buffer *afar_mapping_buffer(const struct afar_mapping *mapping);

/*
 * Transfers a range of the mapping, from the region to the local memory or back; blocks. `offset`
 * is relative to the mapping. One-sided, no set-up. Returns 0.
 * Errors: those of afar_region_pread().
 */
int afar_mapping_read(struct afar_mapping *mapping, size_t offset, size_t length);
int afar_mapping_write(struct afar_mapping *mapping, size_t offset, size_t length);

/* ---- Buffers --------------------------------------------------------------------------------- */

enum afar_memory_kind {
	AFAR_MEMORY_HOST = 0,
};

struct afar_memory {
	size_t size;   /* sizeof(struct afar_memory) */
	uint32_t kind; /* enum afar_memory_kind */
	uint32_t reserved;
	void *addr;
	uint64_t length; /* bytes                                 */
};

#define AFAR_ACCESS_READ  0x1U /* may be the source of writes */
#define AFAR_ACCESS_WRITE 0x2U /* may be the destination of reads */
/* Goes with one of these: servers may access it themselves, for operations with AFAR_OP_DRIVEN. */
#define AFAR_ACCESS_SERVER 0x4U

/*
 * Registers memory of the caller for transfers. It must stay mapped until afar_buffer_unregister().
 * `access`: AFAR_ACCESS_… bits.
 * Errors: -EOPNOTSUPP (kind), -EINVAL (no memory, no access), -ENOMEM (over verbs also: more than
 * the process may pin, RLIMIT_MEMLOCK).
 */
int afar_buffer_register(struct afar_session *session, const struct afar_memory *memory,
			 unsigned access, struct afar_buffer **out);

/* Allocates and registers `length` bytes, on huge pages if there are any. */
int afar_buffer_alloc(struct afar_session *session, size_t length, struct afar_buffer **out);

/* Ends a registration; frees the memory if afar_buffer_alloc() made it. -EBUSY while in use. */
int afar_buffer_unregister(struct afar_buffer *buffer);

void *afar_buffer_data(const struct afar_buffer *buffer);

/* ---- Queues ---------------------------------------------------------------------------------- */

enum afar_opcode {
	AFAR_OP_READ = 1,  /* target → iov */
	AFAR_OP_WRITE = 2, /* iov → target */
	/*
	 * Completes, with result 0, when all writes to the target that were submitted to the queue
	 * before it have completed, and everybody sees them, over any path. -ECANCELED: one of
	 * those writes failed and had not been reaped yet when the flush was submitted. Moves no
	 * bytes: nr_iov and offset are 0. Waits for nothing else, unless it has AFAR_OP_AFTER, too.
	 */
	AFAR_OP_FLUSH = 3,
	/* Atomics on the 64-bit word at `offset`, a multiple of 8, as in afar_region_fetch_add().
	 * The iov is one piece of 8 bytes for the old word, or none. The result is 8. */
	AFAR_OP_FETCH_ADD = 4,	  /* word += operand                        */
	AFAR_OP_COMPARE_SWAP = 5, /* if word == compare then word = operand */
	/*
	 * A flush that also makes durable, on flash: all that had completed on the target when it
	 * starts, by anybody, survives the end of servers and the loss of power when it completes.
	 * It waits as a flush does. -AFAR_EUNSYNCED: writes that had completed since the target
	 * was opened, or since its last sync, may be lost, because a server with a store of it
	 * ended before they were synced. That is said once; the target stays usable, and nothing
	 * is written again. In memory it is a flush.
	 */
	AFAR_OP_SYNC = 6,
	/*
	 * Has `operand` bytes at `offset` read as zeros, without sending any. On flash, whole blocks
	 * of 4 KiB then take no room. May have AFAR_OP_DURABLE on flash. Otherwise like a write; the
	 * result is the number of bytes. nr_iov is 0.
	 */
	AFAR_OP_ZERO = 7,
	/* A zero that may leave as they were: bytes of a block of 4 KiB of which only a part is
	 * given; in memory, all. */
	AFAR_OP_TRIM = 8,
};

/*
 * A flag of an operation: it starts only when all operations that were submitted to the queue
 * before it have completed. If one of those fails, and had not been reaped yet when this one was
 * submitted, this one completes with -ECANCELED and has done nothing. Later operations are not
 * ordered against it, unless they have the flag, too. Its time counts from its submission.
 */
#define AFAR_OP_AFTER 0x1U

/*
 * A flag of a read or write: the server moves the data, when it has room, in turns with other
 * clients' requests. Its iov is in buffers that were registered with AFAR_ACCESS_SERVER. Completes
 * with -EOPNOTSUPP if the path is not over tcp.
 */
#define AFAR_OP_DRIVEN 0x2U

/*
 * A flag of a write, zero or trim on flash: when it has completed, it survives the end of servers and the loss of
 * power. Costs less than a write and a sync. -EOPNOTSUPP in memory.
 */
#define AFAR_OP_DURABLE 0x4U

/*
 * A flag of a read or write on flash: it is checked on the whole way between this memory and the device. The CRC32C
 * of each block of 4 KiB goes with the bytes. That of a write is made before afar_queue_submit() returns, compared when
 * the bytes have come, and kept with the block. That of a read is the one that is kept, and is compared when the bytes
 * are here. The memory must not change meanwhile, and that of a write must be readable, or the process gets a signal.
 *
 * Offset and pieces of iov are whole blocks, in multiples of 4096; the last piece may end where the region does. Else
 * the submit fails with -EINVAL. -EOPNOTSUPP in memory. It completes with -EBADMSG if a block was changed on the way,
 * or on its device, and afar_queue_explain() says which of the two, and where. The block that a write is refused for
 * stays as it was; others of the same write are old or new. The connection goes on.
 */
#define AFAR_OP_CHECKED 0x8U

struct afar_iov {
	struct afar_buffer *buffer; /* that contains `addr`; NULL: plain memory, not on verbs */
	void *addr;
	size_t length; /* bytes */
};

/* One operation. The array `iov` and its memory stay the caller's, and must stay in place until
 * completion. */
struct afar_op {
	uint16_t opcode; /* enum afar_opcode */
	uint16_t reserved16;
	uint32_t flags; /* AFAR_OP_AFTER, AFAR_OP_DRIVEN, AFAR_OP_DURABLE, AFAR_OP_CHECKED, or 0 */
	uint32_t nr_iov;
	uint32_t reserved32;
	struct afar_target *target; /* afar_region_target(), afar_file_target() */
	uint64_t offset;	    /* bytes into the target */
	const struct afar_iov *iov;
	uint64_t operand; /* of atomics; bytes of a zero or trim; else 0 */
	uint64_t compare; /* of compare-and-swap; else 0 */
	uint64_t user_data;
	uint64_t reserved[2]; /* what is reserved must be 0 */
};

struct afar_completion {
	uint64_t user_data;
	int64_t result; /* bytes, or a negative error */
	uint32_t flags; /* none yet: 0 */
	uint32_t reserved32;
	uint64_t reserved[2]; /* what is reserved is 0 */
};

struct afar_queue_options {
	size_t size;	/* sizeof(struct afar_queue_options)            */
	uint32_t depth; /* operations in flight at most; 0: 256; ≤ 65536 */
	uint32_t reserved;
};

struct afar_target *afar_region_target(struct afar_region *region);

/* Opens a queue. `options` may be NULL. */
int afar_queue_open(struct afar_session *session, const struct afar_queue_options *options,
		    struct afar_queue **out);

/* Closes a queue and its connections. -EBUSY while operations are in flight or not yet reaped. */
int afar_queue_close(struct afar_queue *queue);

/*
 * Gets the target's keys and connects the queue to each of its servers: set-up, blocks. Connections
 * are kept, and all targets on those servers share them.
 *
 * Call it again after an operation failed with -AFAR_ESERVER, -ETIMEDOUT or -ECANCELED, which cost
 * the connection. A server may have closed it because memory that the session could reach became
 * another's. Operations that ended so, on any queue of the session, may still land in the target's
 * namespace before this call returns. They cannot land behind what is written after it. Blocking
 * calls see to that by themselves.
 * Errors: -AFAR_ESERVER, -AFAR_ELOST, -ETIMEDOUT.
 */
int afar_queue_connect(struct afar_queue *queue, struct afar_target *target);

/*
 * Takes up to `n` operations, in order; never blocks or allocates. Returns how many were taken:
 * fewer than `n` when the queue is full (reap, then submit the rest), or when the next one is
 * malformed. If the first is malformed: -EINVAL (opcode, flags, null target or iov, a flush of a
 * part, plain memory where the servers' transport is verbs), -ERANGE (past the end), -EACCES (a
 * write to a region without AFAR_RIGHT_WRITE), -EROFS (a write to a sealed region), -EOPNOTSUPP (an
 * atomic on a region made with AFAR_ALLOC_NIC_ATOMICS, over a transport that has none).
 * Failures of the transfer itself come as completions, -ENOTCONN without afar_queue_connect() among
 * them.
 */
int afar_queue_submit(struct afar_queue *queue, const struct afar_op *ops, unsigned n);

/*
 * Reaps up to `max` completions in any order. Returns as soon as there are `min` (0: without
 * waiting). After `timeout_ms` (-1: no limit) it returns as many as there are, even 0. If fewer
 * than `min` operations are in flight, it waits for those only. Spins, then sleeps.
 */
int afar_queue_wait(struct afar_queue *queue, struct afar_completion *completions, unsigned max,
		    unsigned min, int timeout_ms);

/*
 * Waits for the one operation submitted with `user_data` (the first, if there are several). The
 * others' completions stay, to be reaped later.
 * Errors: -ENOENT (no such operation), -ETIMEDOUT (`timeout_ms` passed; the operation is still in
 * flight).
 */
int afar_queue_wait_one(struct afar_queue *queue, uint64_t user_data,
			struct afar_completion *completion, int timeout_ms);

/*
 * Cancels all operations in flight that were submitted with `user_data`. Returns how many; 0: they
 * have completed before. Each completes with -ECANCELED, and is reaped like any other. Its outcome
 * is unknown: any part may have been transferred, but its memory is quiescent.
 *
 * An operation on a file that a thread carries out (afar_file_target()) is not ended, nor counted, once that has begun.
 *
 * A posted transfer can be recalled only by closing its connection. So other operations with
 * transfers on these connections complete with -AFAR_ESERVER (outcome unknown, too), and the queue
 * needs afar_queue_connect() again. An operation that has posted nothing costs no connection. Does
 * not wait for the network.
 */
int afar_queue_cancel(struct afar_queue *queue, uint64_t user_data);

/*
 * Says why an operation failed whose completion was reaped. From then on afar_last_error() has its
 * line: the request, the server and region, the remedy, and whether it may have been done. Returns the
 * completion's result if that is negative, else 0. The queue remembers as many failed operations as it
 * is deep, and forgets the oldest first. Of several with the same user_data and result it tells of the
 * last. The line of an operation that it has forgotten is that of afar_strerror(). Does not block.
 * Errors: -EINVAL (`completion` is null).
 */
int afar_queue_explain(struct afar_queue *queue, const struct afar_completion *completion);

/*
 * For event loops: a descriptor that polls readable when the queue may have completions. Call
 * afar_queue_arm() each time before sleeping on it: 0 when it is safe to sleep, -EAGAIN when there
 * are completions to reap now. Reap with afar_queue_wait(…, 0, 0). The descriptor is the queue's:
 * do not read or close it.
 */
int afar_queue_fd(struct afar_queue *queue);
int afar_queue_arm(struct afar_queue *queue);

#ifdef __cplusplus
}
#endif
#endif
