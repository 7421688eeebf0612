/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The HTTP of a daemon's metrics and status page, by libmicrohttpd on one thread of our own. Only GET and HEAD of four
 * paths are answered, and nothing of a request changes anything.
 *
 * Strangers may come. Each connection carries one request, and lives LIFE_NS at most, however slowly it goes. At most
 * CONNECTIONS_MAX are there. When all are taken, those end that are older than PATIENCE_NS, so that whoever asks properly
 * has a turn.
 */
#include "metrics.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "answers.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/uri.h"
#include "http.h"

#define CONNECTIONS_MAX 64U
#define LIFE_NS		((uint64_t)10000000000)
#define PATIENCE_NS	((uint64_t)1000000000)
#define IDLE_S		5U
#define REQUEST_BYTES	16384U /* of one, and what else libmicrohttpd needs for it */
#define BACKLOG		64
#define ADDRESS_MAX	(URI_HOST_MAX + 16)

/* A connection that is there. */
struct visitor {
	int fd; /* -1: the place is free */
	uint64_t since;
	bool is_ended; /* we have shut it down */
};

struct metrics {
	struct answers *answers;
	struct MHD_Daemon *http;
	pthread_t thread;
	int listener;
	int wake; /* an eventfd, to stop the thread */
	bool is_local, has_thread;
	char address[ADDRESS_MAX];
	struct visitor visitors[CONNECTIONS_MAX];
	unsigned nr_visitors;
};

/* ---- Answering */

static enum MHD_Result send_answer(struct metrics *metrics, struct MHD_Connection *connection,
				   const struct answer *answer, const char *allow)
{
	/* The bytes are copied, because the next answer may replace them. */
	struct MHD_Response *response = MHD_create_response_from_buffer(
		answer->length, (void *)(uintptr_t)answer->bytes, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result ret;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, "Content-Type", answer->type);
	MHD_add_response_header(response, "Content-Security-Policy",
				answers_policy(metrics->answers));
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "X-Frame-Options", "DENY");
	MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(response, "Connection", "close");
	if (allow)
		MHD_add_response_header(response, "Allow", allow);
	ret = MHD_queue_response(connection, (unsigned)answer->status, response);
	MHD_destroy_response(response);
	return ret;
}

static void say(struct answer *out, int status, const char *line)
{
	*out = (struct answer){status, "text/plain; charset=utf-8", line, strlen(line)};
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static void find_answer(struct metrics *metrics, struct MHD_Connection *connection, const char *url,
			struct answer *out)
{
	struct answers *answers = metrics->answers;

	if (metrics->is_local && !http_host_is_local(header(connection, "Host")))
		say(out, 403,
		    "this is shown at localhost alone, and the request names another host\n");
	else if (strcmp(url, "/") == 0)
		answer_page(answers, out);
	else if (strcmp(url, "/metrics") == 0)
		answer_metrics(answers, http_wants_openmetrics(header(connection, "Accept")), out);
	else if (strcmp(url, "/status.json") == 0)
		answer_status(answers, out);
	else if (strcmp(url, "/health") == 0)
		answer_health(answers, out);
	else
		say(out, 404, "there are /, /metrics, /status.json and /health\n");
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_bytes, void **note)
{
	static int has_begun;
	struct metrics *metrics = context;
	struct answer answer;

	(void)version;
	(void)upload;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		say(&answer, 405, "nothing here changes anything: GET and HEAD\n");
		return send_answer(metrics, connection, &answer, "GET, HEAD");
	}
	/* libmicrohttpd asks at the headers, for each part of a body, and at the end. */
	if (*note != &has_begun || *upload_bytes > 0) {
		*note = &has_begun;
		*upload_bytes = 0;
		return MHD_YES;
	}
	find_answer(metrics, connection, url, &answer);
	return send_answer(metrics, connection, &answer, NULL);
}

/* ---- Who is there, on the thread */

static int descriptor_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

static void enter(struct metrics *metrics, struct MHD_Connection *connection, void **note)
{
	for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
		struct visitor *visitor = &metrics->visitors[i];

		if (visitor->fd >= 0)
			continue;
		*visitor = (struct visitor){descriptor_of(connection), clock_ns(), false};
		if (visitor->fd < 0)
			return;
		metrics->nr_visitors++;
		*note = visitor;
		return;
	}
}

static void on_connection(void *context, struct MHD_Connection *connection, void **note,
			  enum MHD_ConnectionNotificationCode what)
{
	struct metrics *metrics = context;
	struct visitor *visitor = *note;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		enter(metrics, connection, note);
	} else if (visitor) {
		visitor->fd = -1;
		metrics->nr_visitors--;
		*note = NULL;
	}
}

/* Ends those whose time is up. Returns when the next one's is. */
static uint64_t end_old(struct metrics *metrics)
{
	const bool is_full = metrics->nr_visitors == CONNECTIONS_MAX;
	const uint64_t now = clock_ns(), life = is_full ? PATIENCE_NS : LIFE_NS;
	uint64_t next = CLOCK_NEVER;

	for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
		struct visitor *visitor = &metrics->visitors[i];

		if (visitor->fd < 0 || visitor->is_ended)
			continue;
		if (now - visitor->since >= life) {
			/* libmicrohttpd sees its end, and closes it. */
			shutdown(visitor->fd, SHUT_RDWR);
			visitor->is_ended = true;
		} else if (visitor->since + life < next) {
			next = visitor->since + life;
		}
	}
	return next;
}

static int shorter_ms(int one, int other)
{
	if (one < 0 || other < 0)
		return one < 0 ? other : one;
	return one < other ? one : other;
}

/* How long libmicrohttpd can wait, in ms; -1: as long as nothing comes. */
static int http_patience(struct MHD_Daemon *http)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(http, &ms) != MHD_YES)
		return -1;
	return ms < 60000 ? (int)ms : 60000;
}

/* Has libmicrohttpd do all it can. It looks at the listener again only when it runs again after somebody has left. */
static void run_http(struct metrics *metrics)
{
	unsigned before;

	do {
		before = metrics->nr_visitors;
		MHD_run(metrics->http);
	} while (metrics->nr_visitors != before);
}

static void *run(void *argument)
{
	struct metrics *metrics = argument;
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(metrics->http, MHD_DAEMON_INFO_EPOLL_FD);
	struct pollfd fds[] = {{.fd = metrics->wake, .events = POLLIN},
			       {.fd = info ? info->epoll_fd : -1, .events = POLLIN}};

	do {
		int patience;

		run_http(metrics);
		patience = clock_remaining_ms(end_old(metrics));
		poll(fds, 2, shorter_ms(patience, http_patience(metrics->http)));
	} while (!(fds[0].revents & POLLIN));
	return NULL;
}

/* ---- Starting */

static void complain(void *context, const char *format, va_list arguments)
{
	char line[256];

	(void)context;
	vsnprintf(line, sizeof(line), format, arguments);
	line[strcspn(line, "\n")] = '\0';
	log_debug("metrics: %s", line);
}

/* Splits HOST:PORT, where HOST may be in brackets. */
static void split(const char *address, char host[URI_HOST_MAX], const char **port)
{
	const char *colon = strrchr(address, ':');
	size_t length = (size_t)(colon - address);

	if (*address == '[' && length >= 2)
		snprintf(host, URI_HOST_MAX, "%.*s", (int)length - 2, address + 1);
	else
		snprintf(host, URI_HOST_MAX, "%.*s", (int)length, address);
	*port = colon + 1;
}

static int listen_at(const struct addrinfo *place)
{
	const int yes = 1;
	int fd = socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), ret;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, place->ai_addr, place->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

/* Notes where it listens, and whether others than this machine can come. */
static int note_address(struct metrics *metrics)
{
	struct sockaddr_storage place = {0};
	socklen_t length = sizeof(place);
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getsockname(metrics->listener, (struct sockaddr *)&place, &length) != 0 ||
	    getnameinfo((struct sockaddr *)&place, length, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return error_fail(-EIO, "show the metrics: no address");
	snprintf(metrics->address, sizeof(metrics->address),
		 place.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
	metrics->is_local = strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
			    strncasecmp(host, "::ffff:127.", 11) == 0;
	return 0;
}

static int open_listener(struct metrics *metrics, const char *address)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *places;
	char host[URI_HOST_MAX];
	const char *port;
	int ret;

	split(address, host, &port);
	ret = getaddrinfo(host, port, &hints, &places);
	if (ret != 0)
		return error_fail(-EINVAL,
				  "show the metrics at %s: %s; give --metrics an address "
				  "of this machine",
				  address, gai_strerror(ret));
	ret = listen_at(places);
	freeaddrinfo(places);
	if (ret == -EADDRINUSE)
		return error_fail(ret,
				  "show the metrics at %s: something else listens there; give "
				  "--metrics another port",
				  address);
	if (ret < 0)
		return error_fail(ret,
				  "show the metrics at %s: %s; give --metrics an address of this "
				  "machine",
				  address, afar_strerror(-ret));
	metrics->listener = ret;
	return note_address(metrics);
}

static int start_http(struct metrics *metrics)
{
	metrics->http = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, metrics,
		MHD_OPTION_EXTERNAL_LOGGER, complain, NULL, MHD_OPTION_LISTEN_SOCKET,
		metrics->listener, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)REQUEST_BYTES, MHD_OPTION_NOTIFY_CONNECTION, on_connection, metrics,
		MHD_OPTION_END);
	if (!metrics->http)
		return error_fail(-ENOMEM, "show the metrics: libmicrohttpd does not start");
	return 0;
}

/* Signals are the main thread's. */
static int start_thread(struct metrics *metrics)
{
	sigset_t all, old;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&metrics->thread, NULL, run, metrics);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret != 0)
		return error_fail(-ret, "show the metrics: no thread can be made");
	pthread_setname_np(metrics->thread, "afar-metrics");
	metrics->has_thread = true;
	return 0;
}

int metrics_start(const struct metrics_options *options, struct metrics **out)
{
	struct metrics *metrics = calloc(1, sizeof(*metrics));
	int ret;

	if (!metrics)
		return error_code(-ENOMEM);
	metrics->listener = -1;
	for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
		metrics->visitors[i].fd = -1;
	metrics->wake = eventfd(0, EFD_CLOEXEC);
	ret = metrics->wake < 0 ? error_code(-errno) : 0;
	if (ret == 0)
		ret = open_listener(metrics, options->address);
	if (ret == 0)
		ret = answers_open(options->manager, options->server, &metrics->answers);
	if (ret == 0)
		ret = start_http(metrics);
	if (ret == 0)
		ret = start_thread(metrics);
	if (ret != 0) {
		metrics_stop(metrics);
		return ret;
	}
	*out = metrics;
	return 0;
}

const char *metrics_address(const struct metrics *metrics)
{
	return metrics->address;
}

bool metrics_is_local(const struct metrics *metrics)
{
	return metrics->is_local;
}

void metrics_stop(struct metrics *metrics)
{
	if (!metrics)
		return;
	if (metrics->has_thread) {
		eventfd_write(metrics->wake, 1);
		pthread_join(metrics->thread, NULL);
	}
	if (metrics->http)
		MHD_stop_daemon(metrics->http); /* which closes the listener, too */
	else if (metrics->listener >= 0)
		close(metrics->listener);
	answers_close(metrics->answers);
	if (metrics->wake >= 0)
		close(metrics->wake);
	free(metrics);
}
