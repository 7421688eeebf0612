/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress threads under floods: whoever streams messages, and however many strangers come, all else has its
 * turn. First over a transport that never runs dry: a thread that waited there for the end of anything would
 * wait for ever. Then over tcp, against a peer that streams as fast as it can.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "lib/fabric/data_client.h"
#include "lib/fabric/tcp_peer.h"
#include "server/data/progress.h"
#include "unit/group.h"

#define NR_LOOKS  1000U
#define NR_FRAMES 4096U
#define NR_USES	  100U
#define STREAMED  ((uint64_t)1 << 20) /* bytes of replies: the stream goes on */

enum { SESSION_GOOD = 1, SESSION_EVIL, SESSION_ENDS };

/* ---- Something that is counted, and waited for */

struct count {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t value;
};

#define COUNT_INITIALIZER                                              \
	{                                                              \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 \
	}

static void count_add(struct count *count, uint64_t more)
{
	pthread_mutex_lock(&count->lock);
	count->value += more;
	pthread_cond_broadcast(&count->changed);
	pthread_mutex_unlock(&count->lock);
}

/* Until there are so many. */
static void count_reach(struct count *count, uint64_t value)
{
	struct timespec until;
	int error = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += GRACE_MS / 1000;
	pthread_mutex_lock(&count->lock);
	while (count->value < value && error == 0)
		error = pthread_cond_timedwait(&count->changed, &count->lock, &until);
	pthread_mutex_unlock(&count->lock);
	assert_int_equal(error, 0);
}

/* Until there were so many more than now. */
static void count_await(struct count *count, uint64_t more)
{
	pthread_mutex_lock(&count->lock);
	more += count->value;
	pthread_mutex_unlock(&count->lock);
	count_reach(count, more);
}

/* ---- A transport that never runs dry */

static struct flood {
	struct fabric fabric;
	struct fabric_domain domain;
	struct fabric_listener listener;
	struct fabric_queue queue;
	int full_fd, empty_fd; /* of the queue: always readable, never */
	int listener_fd;
	bool has_messages, has_strangers, is_short;
	struct count looks, polls;
} flood = {.looks = COUNT_INITIALIZER, .polls = COUNT_INITIALIZER};

static int flood_listen(struct fabric *fabric, const char *address, struct fabric_listener **out)
{
	(void)address;
	flood.listener.fabric = fabric;
	*out = &flood.listener;
	return 0;
}

static void flood_listener_close(struct fabric_listener *listener)
{
	(void)listener;
}

static int flood_listener_fd(struct fabric_listener *listener)
{
	(void)listener;
	return flood.listener_fd;
}

static int flood_listener_next(struct fabric_listener *listener, struct fabric_request *out)
{
	(void)listener;
	count_add(&flood.looks, 1);
	*out = (struct fabric_request){.peer = "somewhere"};
	if (flood.is_short)
		return error_fail(-EMFILE, "nobody can be accepted");
	return flood.has_strangers ? 0 : -EAGAIN;
}

static void flood_reject(struct fabric_listener *listener, struct fabric_request *request)
{
	(void)listener;
	(void)request;
}

static int flood_queue_open(struct fabric *fabric, uint32_t depth, struct fabric_queue **out)
{
	(void)depth;
	flood.queue.fabric = fabric;
	*out = &flood.queue;
	return 0;
}

static void flood_queue_close(struct fabric_queue *queue)
{
	(void)queue;
}

static int flood_queue_fd(struct fabric_queue *queue)
{
	(void)queue;
	return flood.has_messages ? flood.full_fd : flood.empty_fd;
}

static int flood_queue_arm(struct fabric_queue *queue)
{
	(void)queue;
	return flood.has_messages ? -EAGAIN : 0;
}

/* Its messages are of a connection that there is not any more. */
static int flood_queue_poll(struct fabric_queue *queue, struct fabric_completion *out, unsigned max)
{
	(void)queue;
	count_add(&flood.polls, 1);
	for (unsigned i = 0; i < max && flood.has_messages; i++)
		out[i] = (struct fabric_completion){0};
	return flood.has_messages ? (int)max : 0;
}

static int flood_queue_event(struct fabric_queue *queue, struct fabric_event *out)
{
	(void)queue;
	(void)out;
	return 0;
}

static const struct fabric_listening_ops flood_listening_ops = {
	.listen = flood_listen,
	.close = flood_listener_close,
	.fd = flood_listener_fd,
	.next = flood_listener_next,
	.reject = flood_reject,
};

static const struct fabric_ops flood_ops = {
	.transport = "flood",
	.queue_open = flood_queue_open,
	.queue_close = flood_queue_close,
	.queue_fd = flood_queue_fd,
	.queue_arm = flood_queue_arm,
	.queue_poll = flood_queue_poll,
	.queue_event = flood_queue_event,
};

/* ---- A data port */

struct port {
	struct fabric *fabric;
	struct domains *domains;
	struct domain *domain; /* that all are let into */
	struct progress *progress;
	struct fabric_memory memory;
	char lent[4096];
};

/* Lets in whoever knows the word of a session. */
static int admit(void *context, const void *shown, size_t length, struct admission *out)
{
	static const char *const words[] = {
		[SESSION_GOOD] = "good", [SESSION_EVIL] = "evil", [SESSION_ENDS] = "ends"};

	(void)context;
	for (uint64_t session = SESSION_GOOD; session <= SESSION_ENDS; session++) {
		*out = (struct admission){.session = session, .reach = {1, true}};
		if (length == 4 && memcmp(shown, words[session], 4) == 0)
			return 0;
	}
	return error_fail(-EACCES, "nobody knows it");
}

static bool serve(void *context, const struct admission *admission,
		  const struct message_request *request, struct message_reply *reply,
		  const struct progress_message *message)
{
	(void)context;
	(void)admission;
	(void)request;
	(void)message;
	reply->status = -EOPNOTSUPP;
	return true;
}

static void on_changed(void *context)
{
	(void)context;
}

static void port_open(struct port *port, struct fabric *fabric)
{
	const struct progress_options options = {.fabric = fabric,
						 .address = "127.0.0.1:0",
						 .nr_threads = 1,
						 .spin_us = 50,
						 .domains = port->domains,
						 .admit = admit,
						 .serve = serve,
						 .changed = on_changed};

	port->fabric = fabric;
	assert_int_equal(progress_start(&options, &port->progress), 0);
}

/* ---- Ends of sessions */

struct ending {
	uint64_t session;
	struct count ended;
};

static bool is_its(const void *argument, const struct admission *admission)
{
	const struct ending *ending = argument;

	return admission->session == ending->session;
}

static void has_ended(void *argument)
{
	struct ending *ending = argument;

	count_add(&ending->ended, 1);
}

/* Its connections are closed afterwards. */
static void end_session(struct progress *progress, uint64_t session)
{
	static struct ending ending = {.ended = COUNT_INITIALIZER};
	const struct progress_order order = {is_its, has_ended, &ending};
	struct progress_closing *closing;
	uint64_t before = ending.ended.value;

	ending.session = session;
	assert_int_equal(progress_closing_new(progress, &closing), 0);
	progress_close(closing, &order);
	count_reach(&ending.ended, before + 1);
}

/* ---- Over the transport that never runs dry */

static void flood_open(struct port *port)
{
	flood.fabric.ops = &flood_ops;
	flood.fabric.listening = &flood_listening_ops;
	flood.full_fd = eventfd(1, EFD_CLOEXEC);
	flood.empty_fd = eventfd(0, EFD_CLOEXEC);
	flood.listener_fd = eventfd(1, EFD_CLOEXEC);
	assert_true(flood.full_fd >= 0 && flood.empty_fd >= 0 && flood.listener_fd >= 0);
	*port = (struct port){0};
	port_open(port, &flood.fabric);
}

static void flood_close(struct port *port)
{
	progress_stop(port->progress);
	close(flood.listener_fd);
	close(flood.full_fd);
	close(flood.empty_fd);
	flood.has_messages = flood.has_strangers = flood.is_short = false;
}

static void messages_keep_nobody_waiting(void **state)
{
	struct port port;

	(void)state;
	flood.has_messages = true;
	flood_open(&port);
	count_await(&flood.polls, NR_LOOKS);
	count_await(&flood.looks, 2);
	end_session(port.progress, SESSION_ENDS);
	count_await(&flood.polls, NR_LOOKS);
	flood_close(&port);
}

static void strangers_keep_nobody_waiting(void **state)
{
	struct port port;

	(void)state;
	flood.has_strangers = true;
	flood_open(&port);
	count_await(&flood.looks, NR_LOOKS);
	end_session(port.progress, SESSION_ENDS);
	count_await(&flood.polls, NR_LOOKS);
	count_await(&flood.looks, NR_LOOKS);
	flood_close(&port);
}

/* Runs it, while what is logged goes to a file; returns how many lines. */
static unsigned count_lines(void (*run)(void))
{
	int file = memfd_create("log", MFD_CLOEXEC), before = dup(STDERR_FILENO);
	char text[4096];
	unsigned nr = 0;
	ssize_t length;

	assert_true(file >= 0 && before >= 0);
	assert_int_equal(dup2(file, STDERR_FILENO), STDERR_FILENO);
	log_set_level(LOG_LEVEL_ERROR);
	run();
	log_set_level(LOG_LEVEL_NONE);
	assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(lseek(file, 0, SEEK_SET), 0);
	while ((length = read(file, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < length; i++)
			nr += text[i] == '\n';
	}
	close(before);
	close(file);
	return nr;
}

static void run_short(void)
{
	struct port port;

	flood.is_short = true;
	flood_open(&port);
	count_await(&flood.looks, NR_LOOKS);
	end_session(port.progress, SESSION_ENDS);
	flood_close(&port);
}

static void shortages_do_not_flood_the_log(void **state)
{
	unsigned nr_lines = count_lines(run_short);

	(void)state;
	assert_true(nr_lines > 0);
	assert_true(nr_lines < NR_LOOKS);
}

/* ---- Over tcp: a peer that sends messages without pause, and takes the replies as fast */

struct streamer {
	int fd;
	pthread_t speaker, hearer;
	struct count heard; /* bytes */
};

static void *speak(void *argument)
{
	const struct streamer *streamer = argument;
	static struct {
		uint8_t bytes[TCP_FRAME_SHORT];
	} frames[NR_FRAMES];
	const struct tcp_frame frame = frame_of(TCP_MESSAGE, 0, 0, 0);

	for (unsigned i = 0; i < NR_FRAMES; i++)
		memcpy(frames[i].bytes, &frame, TCP_FRAME_SHORT);
	while (send(streamer->fd, frames, sizeof(frames), MSG_NOSIGNAL | MSG_WAITALL) > 0)
		;
	return NULL;
}

static void *hear_all(void *argument)
{
	struct streamer *streamer = argument;
	static char bytes[1 << 18];
	ssize_t nr;

	while ((nr = recv(streamer->fd, bytes, sizeof(bytes), 0)) > 0)
		count_add(&streamer->heard, (uint64_t)nr);
	return NULL;
}

static void stream_to(struct streamer *streamer, const char *address)
{
	struct tcp_hello hello = hello_of(4);

	memcpy(hello.private_data, "evil", 4);
	streamer->fd = open_peer(address);
	say(streamer->fd, &hello, TCP_HELLO_HEAD + 4);
	expect_welcome(streamer->fd);
	assert_int_equal(pthread_create(&streamer->speaker, NULL, speak, streamer), 0);
	assert_int_equal(pthread_create(&streamer->hearer, NULL, hear_all, streamer), 0);
	count_await(&streamer->heard, STREAMED);
}

static void use(struct port *port, struct data_client *client)
{
	char back[4] = "";

	for (unsigned i = 0; i < NR_USES; i++) {
		assert_int_equal(
			data_client_write(client, "here", 4, port->memory.base, port->memory.key),
			0);
		assert_int_equal(
			data_client_read(client, back, 4, port->memory.base, port->memory.key), 0);
		assert_memory_equal(back, "here", 4);
	}
}

static void a_stream_keeps_nobody_waiting(void **state)
{
	static struct streamer streamer = {.heard = COUNT_INITIALIZER};
	struct data_client before, meanwhile, ends;
	const struct reach mine = {1, true};
	static struct port port;
	struct fabric *fabric;
	const char *address;

	(void)state;
	assert_int_equal(fabric_open("tcp", &fabric), 0);
	assert_int_equal(domains_open(&fabric, 1, &port.domains), 0);
	assert_int_equal(domains_get(port.domains, mine, &port.domain), 0);
	assert_int_equal(fabric_memory_register(port.domain->on[0], port.lent, sizeof(port.lent),
						FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
						&port.memory),
			 0);
	port_open(&port, fabric);
	address = progress_address(port.progress);
	data_client_open(&before);
	data_client_open(&meanwhile);
	data_client_open(&ends);
	assert_int_equal(data_client_connect(&before, address, "good", 4), 0);
	assert_int_equal(data_client_connect(&ends, address, "ends", 4), 0);
	stream_to(&streamer, address);

	use(&port, &before);
	assert_int_equal(data_client_connect(&meanwhile, address, "good", 4), 0);
	use(&port, &meanwhile);
	end_session(port.progress, SESSION_ENDS);
	data_client_await_closed(&ends);
	count_await(&streamer.heard, STREAMED);
	end_session(port.progress, SESSION_EVIL);
	assert_int_equal(pthread_join(streamer.speaker, NULL), 0);
	assert_int_equal(pthread_join(streamer.hearer, NULL), 0);
	close(streamer.fd);
	use(&port, &before);

	data_client_close(&before);
	data_client_close(&meanwhile);
	data_client_close(&ends);
	progress_stop(port.progress);
	fabric_memory_deregister(&port.memory);
	domains_put(port.domains, port.domain);
	domains_close(port.domains);
	fabric_close(fabric);
}

TEST_GROUP(progress)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_keep_nobody_waiting),
		cmocka_unit_test(strangers_keep_nobody_waiting),
		cmocka_unit_test(shortages_do_not_flood_the_log),
		cmocka_unit_test(a_stream_keeps_nobody_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
