/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tickets that are out: their nonces, in the order of their expiry and in a tree; in another tree,
 * which session may get which. The control port issues them, the progress threads redeem them,
 * fences revoke those of ended sessions. Owns the signing key.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <urcu/list.h>

#include "base/clock.h"
#include "base/error.h"
#include "server/control/tickets.h"
#include "server/stores/stores.h"

#define NR_TICKETS_MAX 16384U /* unused at once: one more, and the oldest becomes invalid */

struct ticket {
	struct cds_list_head node;
	struct admission admission; /* the nonce is the connection's number */
	uint64_t expiry;	    /* on clock_ns() */
};

/* The reaches that one session is entitled to. */
struct entitled {
	uint64_t session; /* first: it is searched for by number */
	struct reach *reaches;
	size_t nr_reaches;
};

/* A session that ended. */
struct ended {
	uint64_t session; /* first, as above */
	struct cds_list_head node;
	uint64_t forget_at; /* on clock_ns() */
};

/* A namespace of which something was sealed. */
struct sealed {
	uint64_t namespace; /* first, as above */
	uint64_t changes;   /* the number of the last sealing */
};

struct tickets {
	uint64_t incarnation;
	uint32_t lifetime_s;
	uint32_t memory_s;
	uint8_t key[TICKET_KEY_BYTES];

	pthread_mutex_t lock;
	struct cds_list_head out; /* the first to expire first */
	void *out_by_nonce;
	unsigned nr_out;
	void *entitled;		    /* tree of struct entitled */
	struct cds_list_head ended; /* the first to be forgotten first */
	void *ended_by_session;
	size_t nr_ended;
	void *sealed; /* tree of struct sealed */
	uint64_t nr_changes;
};

static int compare_nonce(const void *a, const void *b)
{
	uint64_t left = ((const struct ticket *)a)->admission.connection;
	uint64_t right = ((const struct ticket *)b)->admission.connection;

	return (left > right) - (left < right);
}

/* Compares the numbers with which the structs begin. */
static int compare_session(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

int tickets_open(uint64_t incarnation, uint32_t lifetime_s, uint32_t memory_s, struct tickets **out)
{
	struct tickets *tickets = calloc(1, sizeof(*tickets));

	if (!tickets)
		return error_code(-ENOMEM);
	if (RAND_bytes(tickets->key, sizeof(tickets->key)) != 1) {
		free(tickets);
		return error_fail(-EIO, "start the server: no randomness for the ticket key");
	}
	tickets->incarnation = incarnation;
	tickets->lifetime_s = lifetime_s;
	tickets->memory_s = memory_s;
	pthread_mutex_init(&tickets->lock, NULL);
	CDS_INIT_LIST_HEAD(&tickets->out);
	CDS_INIT_LIST_HEAD(&tickets->ended);
	*out = tickets;
	return 0;
}

static void free_entitled(void *node)
{
	struct entitled *entitled = node;

	free(entitled->reaches);
	free(entitled);
}

static void drop(struct tickets *tickets, struct ticket *ticket)
{
	tdelete(ticket, &tickets->out_by_nonce, compare_nonce);
	cds_list_del(&ticket->node);
	tickets->nr_out--;
	free(ticket);
}

void tickets_close(struct tickets *tickets)
{
	struct ticket *ticket, *next;

	if (!tickets)
		return;
	cds_list_for_each_entry_safe (ticket, next, &tickets->out, node)
		drop(tickets, ticket);
	tdestroy(tickets->entitled, free_entitled);
	tdestroy(tickets->ended_by_session, free);
	tdestroy(tickets->sealed, free);
	pthread_mutex_destroy(&tickets->lock);
	OPENSSL_cleanse(tickets->key, sizeof(tickets->key));
	free(tickets);
}

static void drop_expired(struct tickets *tickets)
{
	uint64_t now = clock_ns();
	struct ticket *ticket, *next;

	cds_list_for_each_entry_safe (ticket, next, &tickets->out, node) {
		if (ticket->expiry > now)
			return;
		drop(tickets, ticket);
	}
}

/* The caller holds the lock. */
static int check_ended(struct tickets *tickets, uint64_t session)
{
	if (!tfind(&session, &tickets->ended_by_session, compare_session))
		return 0;
	return error_fail(-AFAR_ESESSION, "connect: the session has ended; open a new one");
}

int tickets_check_session(struct tickets *tickets, uint64_t session)
{
	int ret;

	pthread_mutex_lock(&tickets->lock);
	ret = check_ended(tickets, session);
	pthread_mutex_unlock(&tickets->lock);
	return ret;
}

/* ---- Who is entitled. With the lock held. */

static struct entitled *find_entitled(struct tickets *tickets, uint64_t session)
{
	struct entitled *const *found = tfind(&session, &tickets->entitled, compare_session);

	return found ? *found : NULL;
}

static struct entitled *find_or_add_entitled(struct tickets *tickets, uint64_t session)
{
	struct entitled *entitled = find_entitled(tickets, session);

	if (entitled)
		return entitled;
	entitled = calloc(1, sizeof(*entitled));
	if (!entitled)
		return NULL;
	entitled->session = session;
	if (!tsearch(entitled, &tickets->entitled, compare_session)) {
		free(entitled);
		return NULL;
	}
	return entitled;
}

static bool is_entitled(const struct entitled *entitled, struct reach reach)
{
	for (size_t i = 0; entitled && i < entitled->nr_reaches; i++) {
		if (entitled->reaches[i].namespace == reach.namespace &&
		    entitled->reaches[i].may_write == reach.may_write)
			return true;
	}
	return false;
}

static int entitle(struct entitled *entitled, struct reach reach)
{
	struct reach *reaches;

	if (is_entitled(entitled, reach))
		return 0;
	reaches = reallocarray(entitled->reaches, entitled->nr_reaches + 1, sizeof(*reaches));
	if (!reaches)
		return error_code(-ENOMEM);
	reaches[entitled->nr_reaches++] = reach;
	entitled->reaches = reaches;
	return 0;
}

int tickets_entitle(struct tickets *tickets, const struct admission *admission)
{
	struct entitled *entitled;
	int ret;

	pthread_mutex_lock(&tickets->lock);
	entitled = find_or_add_entitled(tickets, admission->session);
	ret = entitled ? entitle(entitled, admission->reach) : error_code(-ENOMEM);
	pthread_mutex_unlock(&tickets->lock);
	return ret;
}

static int check_entitled(struct tickets *tickets, const struct admission *admission)
{
	if (is_entitled(find_entitled(tickets, admission->session), admission->reach))
		return 0;
	return error_fail(
		-EACCES,
		"connect: session %llx has no keys to %s namespace %llu; ask for them first",
		(unsigned long long)admission->session,
		admission->reach.may_write ? "write" : "read",
		(unsigned long long)admission->reach.namespace);
}

/* A namespace that is being forgotten. */
struct leaving {
	uint64_t namespace;
};

static void leave(const void *node, VISIT order, void *argument)
{
	struct entitled *entitled = *(struct entitled *const *)node;
	const struct leaving *leaving = argument;
	size_t nr_left = 0;

	if (order != postorder && order != leaf)
		return;
	for (size_t i = 0; i < entitled->nr_reaches; i++) {
		if (entitled->reaches[i].namespace != leaving->namespace)
			entitled->reaches[nr_left++] = entitled->reaches[i];
	}
	entitled->nr_reaches = nr_left;
}

/* ---- Namespaces of which something was sealed. With the lock held. */

static struct sealed *find_sealed(struct tickets *tickets, uint64_t namespace)
{
	struct sealed *const *found = tfind(&namespace, &tickets->sealed, compare_session);

	return found ? *found : NULL;
}

static struct sealed *find_or_add_sealed(struct tickets *tickets, uint64_t namespace)
{
	struct sealed *sealed = find_sealed(tickets, namespace);

	if (sealed)
		return sealed;
	sealed = calloc(1, sizeof(*sealed));
	if (!sealed)
		return NULL;
	sealed->namespace = namespace;
	if (!tsearch(sealed, &tickets->sealed, compare_session)) {
		free(sealed);
		return NULL;
	}
	return sealed;
}

static void forget_sealed(struct tickets *tickets, uint64_t namespace)
{
	struct sealed *sealed = find_sealed(tickets, namespace);

	if (!sealed)
		return;
	tdelete(sealed, &tickets->sealed, compare_session);
	free(sealed);
}

int tickets_note_seal(struct tickets *tickets, uint64_t namespace)
{
	struct ticket *ticket, *next;
	struct sealed *sealed;

	pthread_mutex_lock(&tickets->lock);
	sealed = find_or_add_sealed(tickets, namespace);
	if (sealed) {
		sealed->changes = ++tickets->nr_changes;
		cds_list_for_each_entry_safe (ticket, next, &tickets->out, node) {
			if (ticket->admission.reach.namespace == namespace)
				drop(tickets, ticket);
		}
	}
	pthread_mutex_unlock(&tickets->lock);
	return sealed ? 0 : error_code(-ENOMEM);
}

void tickets_forget_namespace(struct tickets *tickets, struct extent_pool *pool,
			      struct stores *stores, uint64_t namespace)
{
	struct leaving leaving = {namespace};

	pthread_mutex_lock(&tickets->lock);
	if (!extent_pool_has(pool, namespace) && !stores_have(stores, namespace)) {
		twalk_r(tickets->entitled, leave, &leaving);
		forget_sealed(tickets, namespace);
	}
	pthread_mutex_unlock(&tickets->lock);
}

/* ---- Tickets */

/* Remembers the nonce of an issued ticket. */
static int remember(struct tickets *tickets, struct admission *admission)
{
	struct ticket *ticket, **known;
	const struct sealed *sealed;
	int ret = 0;

	ticket = calloc(1, sizeof(*ticket));
	if (!ticket)
		return error_code(-ENOMEM);
	ticket->admission = *admission;
	ticket->expiry = clock_deadline_ms((int64_t)tickets->lifetime_s * 1000);

	pthread_mutex_lock(&tickets->lock);
	ret = check_ended(tickets, admission->session);
	if (ret == 0)
		ret = check_entitled(tickets, admission);
	if (ret != 0)
		goto out_unlock;
	sealed = find_sealed(tickets, admission->reach.namespace);
	admission->changes = sealed ? sealed->changes : 0;
	drop_expired(tickets);
	/* A session that takes many tickets keeps no other out: correct clients use theirs at once,
	 * while they are new. */
	if (tickets->nr_out >= NR_TICKETS_MAX)
		drop(tickets, cds_list_first_entry(&tickets->out, struct ticket, node));
	known = tsearch(ticket, &tickets->out_by_nonce, compare_nonce);
	if (!known || *known != ticket) {
		/* No memory, or a nonce that exists already: once in 2^64. */
		ret = error_code(known ? -EAGAIN : -ENOMEM);
		goto out_unlock;
	}
	cds_list_add_tail(&ticket->node, &tickets->out);
	tickets->nr_out++;
	ticket = NULL;

out_unlock:
	pthread_mutex_unlock(&tickets->lock);
	free(ticket);
	return ret;
}

int tickets_issue(struct tickets *tickets, struct admission *admission, struct rpc_ticket *out)
{
	uint64_t nonce;
	int ret;

	if (RAND_bytes((unsigned char *)&nonce, sizeof(nonce)) != 1)
		return error_fail(-EIO, "connect: the server has no randomness");
	*out = (struct rpc_ticket){
		.session = admission->session,
		.incarnation = tickets->incarnation,
		.nonce = nonce,
		.expiry = (uint32_t)(time(NULL) + tickets->lifetime_s),
	};
	ret = ticket_sign(out, tickets->key);
	if (ret != 0)
		return ret;
	admission->connection = nonce;
	return remember(tickets, admission);
}

int tickets_redeem(struct tickets *tickets, const void *bytes, size_t length, struct admission *out)
{
	struct rpc_ticket shown;
	struct ticket like, **known;
	int ret;

	ret = ticket_verify(bytes, length, tickets->key, tickets->incarnation, (uint32_t)time(NULL),
			    &shown);
	if (ret != 0)
		return ret;
	like.admission.connection = shown.nonce;
	pthread_mutex_lock(&tickets->lock);
	drop_expired(tickets);
	known = tfind(&like, &tickets->out_by_nonce, compare_nonce);
	if (known) {
		*out = (*known)->admission;
		drop(tickets, *known);
	}
	pthread_mutex_unlock(&tickets->lock);
	if (!known)
		return error_fail(-EACCES,
				  "connect: the ticket was used or revoked before; ask for "
				  "another");
	return 0;
}

void tickets_cancel(struct tickets *tickets, uint64_t session, uint64_t connection)
{
	const struct ticket like = {.admission.connection = connection};
	struct ticket **known;

	pthread_mutex_lock(&tickets->lock);
	known = tfind(&like, &tickets->out_by_nonce, compare_nonce);
	if (known && (*known)->admission.session == session)
		drop(tickets, *known);
	pthread_mutex_unlock(&tickets->lock);
}

/* The caller holds the lock. */
static void forget_entitled(struct tickets *tickets, uint64_t session)
{
	struct entitled *entitled = find_entitled(tickets, session);

	if (!entitled)
		return;
	tdelete(entitled, &tickets->entitled, compare_session);
	free_entitled(entitled);
}

/* ---- Sessions that ended. With the lock held. */

static void forget_ended(struct tickets *tickets)
{
	uint64_t now = clock_ns();
	struct ended *ended, *next;

	cds_list_for_each_entry_safe (ended, next, &tickets->ended, node) {
		if (ended->forget_at > now)
			return;
		tdelete(ended, &tickets->ended_by_session, compare_session);
		cds_list_del(&ended->node);
		tickets->nr_ended--;
		free(ended);
	}
}

/* Remembers that a session has ended. If it is told again, it remembers that from the second time
 * on. */
static int remember_ended(struct tickets *tickets, uint64_t session)
{
	struct ended *ended = malloc(sizeof(*ended)), **known;

	if (!ended)
		return error_code(-ENOMEM);
	ended->session = session;
	CDS_INIT_LIST_HEAD(&ended->node);
	known = tsearch(ended, &tickets->ended_by_session, compare_session);
	if (!known) {
		free(ended);
		return error_code(-ENOMEM);
	}
	if (*known == ended)
		tickets->nr_ended++;
	else
		free(ended);
	(*known)->forget_at = clock_deadline_ms((int64_t)tickets->memory_s * 1000);
	cds_list_del(&(*known)->node);
	cds_list_add_tail(&(*known)->node, &tickets->ended);
	return 0;
}

int tickets_revoke(struct tickets *tickets, uint64_t session)
{
	struct ticket *ticket, *next;
	int ret;

	pthread_mutex_lock(&tickets->lock);
	forget_ended(tickets);
	ret = remember_ended(tickets, session);
	if (ret == 0) {
		forget_entitled(tickets, session);
		cds_list_for_each_entry_safe (ticket, next, &tickets->out, node) {
			if (ticket->admission.session == session)
				drop(tickets, ticket);
		}
	}
	pthread_mutex_unlock(&tickets->lock);
	return ret;
}

/* ---- All of them */

static void count_entitled(const void *node, VISIT order, void *argument)
{
	const struct entitled *entitled = *(struct entitled *const *)node;
	struct tickets_stat *stat = argument;

	if (order != postorder && order != leaf)
		return;
	stat->nr_sessions++;
	stat->nr_reaches += entitled->nr_reaches;
}

struct collection {
	uint64_t *sessions;
	size_t nr, max;
};

static void collect(const void *node, VISIT order, void *argument)
{
	const struct entitled *entitled = *(struct entitled *const *)node;
	struct collection *collection = argument;

	if ((order == postorder || order == leaf) && collection->nr < collection->max)
		collection->sessions[collection->nr++] = entitled->session;
}

/* The caller holds the lock. */
static int revoke_entitled(struct tickets *tickets)
{
	struct tickets_stat stat = {0};
	struct collection collection = {NULL};
	int ret = 0;

	twalk_r(tickets->entitled, count_entitled, &stat);
	collection.max = stat.nr_sessions;
	collection.sessions = calloc(collection.max + 1, sizeof(*collection.sessions));
	if (!collection.sessions)
		return error_code(-ENOMEM);
	twalk_r(tickets->entitled, collect, &collection);
	for (size_t i = 0; i < collection.nr && ret == 0; i++) {
		ret = remember_ended(tickets, collection.sessions[i]);
		if (ret == 0)
			forget_entitled(tickets, collection.sessions[i]);
	}
	free(collection.sessions);
	return ret;
}

int tickets_revoke_all(struct tickets *tickets)
{
	struct ticket *ticket, *next;
	int ret;

	pthread_mutex_lock(&tickets->lock);
	forget_ended(tickets);
	ret = revoke_entitled(tickets);
	cds_list_for_each_entry_safe (ticket, next, &tickets->out, node)
		drop(tickets, ticket);
	pthread_mutex_unlock(&tickets->lock);
	return ret;
}

/* ---- Looking */

void tickets_stat(struct tickets *tickets, struct tickets_stat *out)
{
	*out = (struct tickets_stat){0};
	pthread_mutex_lock(&tickets->lock);
	out->nr_out = tickets->nr_out;
	out->nr_ended = tickets->nr_ended;
	twalk_r(tickets->entitled, count_entitled, out);
	pthread_mutex_unlock(&tickets->lock);
}
