/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions, and the keys that let them in; see afar.h. */
#ifndef AFAR_SESSION_H
#define AFAR_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include <afar/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_session; /* an authenticated relation to one cluster */

#define AFAR_NAME_MAX	   255 /* bytes of a namespace's or a region's name, without the final 0 */
#define AFAR_PRINCIPAL_MAX 32  /* bytes of a principal's name, without the final 0 */

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
	/* Bytes of unregistered memory that may stay registered after transfers of more than 64 KiB, on
	 * transports that need registered memory. A registration is found again as long as nobody
	 * frees the memory or maps it anew. 0: none; registered buffers are better. */
	uint64_t registration_bytes;
	/* Congestion control for sending over tcp: a name that the system knows, or "system", its
	 * default. "auto" is that too, but cubic (or else reno) if the default is a bbr and the
	 * server is on this machine. NULL: $AFAR_CONGESTION; if that is not set, "auto". */
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
 * Describes the cluster as the manager sees it, as one JSON object in `*json` (free() it). It has
 * servers, their capacity and use, their lanes and which of them this session takes ("is_chosen"),
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
	 * unregistered memory. */
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

/* Gives a URI with the manager's address and the key file's absolute name. It opens another session
 * of the same principal, whatever the working directory and the environment are then. It is the
 * caller's, for free(). */
int afar_session_uri(struct afar_session *session, char **uri);

/* ---- Keys: the cluster's principals ---------------------------------------------------------- */

#define AFAR_KEY_HEX_MAX 65 /* bytes of a key's secret: 64 hex digits and the final 0 */

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
	/* For a client: what is reserved for all namespaces that it owns, and may be at most; 0: as
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
 * Sets how much may be reserved, in memory and on flash, for a client's namespaces, volumes and
 * file systems together; for operators only. More is -EDQUOT, whoever asks for it. They keep what
 * they have, also beyond that. `max_bytes` 0: as much as there is.
 * Errors: -ENOENT, -EINVAL (it is an operator's or a server's key).
 */
int afar_key_limit(struct afar_session *session, const char *name, uint64_t max_bytes);

#ifdef __cplusplus
}
#endif
#endif
