/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a daemon answers: its metrics, its health, the status as JSON, and the page that shows that. Whatever costs
 * something is kept for a moment, so that a thousand who ask cost no more than four in a second. Called by http.c, on one
 * thread.
 */
#include "answers.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/evp.h>

#include "base/clock.h"
#include "base/error.h"
#include "exposition.h"
#include "manager/view.h"
#include "page.h"
#include "rpc/status_json.h"
#include "server/view.h"

#define KEPT_NS		((uint64_t)250000000)
#define VIEW_TIMEOUT_MS 500U /* of the manager, whose disk may hang */
#define STUCK_NS	((uint64_t)5000000000)
#define HASH_TEXT_MAX	64
#define POLICY_MAX	512

/* A text, and when it was made. */
struct kept {
	char *bytes;
	size_t length;
	uint64_t made_at; /* on clock_ns(); 0: not yet */
};

struct answers {
	struct manager *manager;
	struct server *server;
	double started_at; /* in seconds since 1970 */
	/* Of the manager: what it showed last, and when; and when it was asked last. */
	Afar__ClusterStatus *cluster;
	uint64_t shown_at, asked_at;
	uint64_t stuck_since;	/* it has not answered since; 0: it has */
	struct kept metrics[2]; /* the older format, OpenMetrics */
	struct kept status;
	char health[256];
	char policy[POLICY_MAX];
};

static bool is_fresh(uint64_t made_at, uint64_t now)
{
	return made_at != 0 && now - made_at < KEPT_NS;
}

static void keep(struct kept *kept, char *bytes, size_t length)
{
	free(kept->bytes);
	*kept = (struct kept){bytes, length, bytes ? clock_ns() : 0};
}

static void answer_kept(const struct kept *kept, const char *type, struct answer *out)
{
	static const char sorry[] = "there is no memory for an answer now; ask again\n";

	if (kept->bytes)
		*out = (struct answer){200, type, kept->bytes, kept->length};
	else
		*out = (struct answer){503, "text/plain; charset=utf-8", sorry, sizeof(sorry) - 1};
}

/* ---- What the manager shows */

static void look(struct answers *answers)
{
	const uint64_t now = clock_ns();
	Afar__ClusterStatus *cluster;

	if (!answers->manager || is_fresh(answers->asked_at, now))
		return;
	if (manager_view(answers->manager, VIEW_TIMEOUT_MS, &cluster) == 0) {
		if (answers->cluster)
			afar__cluster_status__free_unpacked(answers->cluster, NULL);
		answers->cluster = cluster;
		answers->shown_at = clock_ns();
		answers->stuck_since = 0;
	} else if (answers->stuck_since == 0) {
		answers->stuck_since = now;
	}
	answers->asked_at = clock_ns();
}

/* ---- The answers */

static const char *role_of(const struct answers *answers)
{
	return answers->manager && answers->server ? "all"
	       : answers->manager		   ? "manager"
						   : "server";
}

static char *compose_metrics(struct answers *answers, bool is_open, size_t *length)
{
	struct server_view *own = answers->server ? server_view(answers->server) : NULL;
	struct exposition exposition = {
		.version = AFAR_PROGRAM_VERSION,
		.role = role_of(answers),
		.started_at = answers->started_at,
		.own = own,
	};
	struct metrics_text text;

	look(answers);
	if (answers->manager) {
		exposition.counts = manager_counts(answers->manager);
		exposition.cluster = answers->cluster;
		exposition.cluster_age = (double)(clock_ns() - answers->shown_at) / 1e9;
	}
	metrics_begin(&text, is_open);
	expose(&text, &exposition);
	if (own)
		server_view_free(own);
	return metrics_end(&text, length);
}

void answer_metrics(struct answers *answers, bool is_open, struct answer *out)
{
	struct kept *kept = &answers->metrics[is_open];
	size_t length = 0;

	if (!is_fresh(kept->made_at, clock_ns())) {
		char *bytes = compose_metrics(answers, is_open, &length);

		keep(kept, bytes, length);
	}
	answer_kept(kept,
		    is_open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
			    : "text/plain; version=0.0.4; charset=utf-8",
		    out);
}

/* Leaves out who has keys: whoever sees the page need not know. */
static char *manager_status(const struct answers *answers)
{
	Afar__ClusterStatus cluster;

	if (!answers->cluster)
		return NULL;
	cluster = *answers->cluster;
	cluster.n_principals = 0;
	return status_json(&cluster, "", NULL);
}

static char *server_status(const struct answers *answers)
{
	struct server_view *own = server_view(answers->server);
	char *text = own ? status_json(&own->cluster, "", NULL) : NULL;

	if (own)
		server_view_free(own);
	return text;
}

void answer_status(struct answers *answers, struct answer *out)
{
	if (!is_fresh(answers->status.made_at, clock_ns())) {
		char *text;

		look(answers);
		text = answers->manager ? manager_status(answers) : server_status(answers);
		keep(&answers->status, text, text ? strlen(text) : 0);
	}
	answer_kept(&answers->status, "application/json", out);
}

/* Returns what is wrong, or NULL. */
static const char *complaint(struct answers *answers)
{
	look(answers);
	if (answers->stuck_since != 0 && clock_ns() - answers->stuck_since > STUCK_NS)
		return "the manager does not answer; see its log, and whether its disk does";
	if (answers->manager && counter_get(&manager_counts(answers->manager)->is_failing) != 0)
		return "the manager could not write to its disk last time; see its log";
	if (answers->server && server_is_kept_out(answers->server))
		return "the manager's records are older than what this server has seen; an "
		       "operator decides";
	if (answers->server && !server_is_joined(answers->server))
		return "the server is not in the cluster; see its log";
	return NULL;
}

void answer_health(struct answers *answers, struct answer *out)
{
	const char *wrong = complaint(answers);
	int length;

	length = snprintf(answers->health, sizeof(answers->health), "%s\n", wrong ? wrong : "ok");
	*out = (struct answer){wrong ? 503 : 200, "text/plain; charset=utf-8", answers->health,
			       (size_t)length};
}

void answer_page(struct answers *answers, struct answer *out)
{
	(void)answers;
	*out = (struct answer){200, "text/html; charset=utf-8", page_bytes, page_length};
}

/* ---- The page's policy */

/* Writes the hash of what is between two marks of the page. */
static int hash_between(const char *begin, const char *end, char out[HASH_TEXT_MAX])
{
	const char *from = strstr(page_bytes, begin), *to;
	unsigned char digest[32];

	if (!from)
		return error_code(-EINVAL);
	from += strlen(begin);
	to = strstr(from, end);
	if (!to || EVP_Digest(from, (size_t)(to - from), digest, NULL, EVP_sha256(), NULL) != 1)
		return error_code(-EINVAL);
	EVP_EncodeBlock((unsigned char *)out, digest, sizeof(digest));
	return 0;
}

/* The page has one style and one script, and both are known. */
static int compose_policy(struct answers *answers)
{
	char style[HASH_TEXT_MAX], script[HASH_TEXT_MAX];
	int ret = hash_between("<style>", "</style>", style);

	if (ret == 0)
		ret = hash_between("<script>", "</script>", script);
	if (ret == 0)
		snprintf(answers->policy, sizeof(answers->policy),
			 "default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; "
			 "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
			 "frame-ancestors 'none'",
			 style, script);
	return ret;
}

const char *answers_policy(const struct answers *answers)
{
	return answers->policy;
}

int answers_open(struct manager *manager, struct server *server, struct answers **out)
{
	struct answers *answers = calloc(1, sizeof(*answers));
	struct timespec now;
	int ret;

	if (!answers)
		return error_code(-ENOMEM);
	clock_gettime(CLOCK_REALTIME, &now);
	answers->started_at = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	answers->manager = manager;
	answers->server = server;
	answers->shown_at = clock_ns();
	ret = compose_policy(answers);
	if (ret != 0) {
		free(answers);
		return ret;
	}
	*out = answers;
	return 0;
}

void answers_close(struct answers *answers)
{
	if (!answers)
		return;
	if (answers->cluster)
		afar__cluster_status__free_unpacked(answers->cluster, NULL);
	free(answers->metrics[0].bytes);
	free(answers->metrics[1].bytes);
	free(answers->status.bytes);
	free(answers);
}
