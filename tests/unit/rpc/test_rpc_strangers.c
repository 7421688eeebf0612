/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control channel against those who are not who they should be, or do not speak as they should.
 * They are strangers on a listener's port, liars behind a proven key, servers that are none. Each ends
 * with one status or one line, and an honest connection opened before goes on.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "lib/rpc/rpc_liar.h"
#include "lib/rpc/rpc_world.h"
#include "unit/group.h"

/* ---- The world: the log goes to a file, and an honest client is there before and after */

static int log_file = -1, real_stderr = -1;
static struct rpc_connection *honest;

/* Returns what was logged so far. */
static const char *log_text(void)
{
	static char text[65536];
	ssize_t length = pread(log_file, text, sizeof(text) - 1, 0);

	text[length > 0 ? length : 0] = 0;
	return text;
}

static int strangers_start(void **state)
{
	char path[] = "/tmp/test_rpc_log_XXXXXX";

	world_start(state);
	log_file = mkstemp(path);
	assert_true(log_file >= 0);
	unlink(path);
	fflush(stderr);
	real_stderr = dup(STDERR_FILENO);
	dup2(log_file, STDERR_FILENO);
	honest = world_pair(&echo_handlers);
	return 0;
}

static int strangers_stop(void **state)
{
	int honest_status = call_ping(honest);

	dup2(real_stderr, STDERR_FILENO);
	if (strstr(log_text(), "Sanitizer") || strstr(log_text(), "runtime error"))
		fputs(log_text(), stderr);
	close(real_stderr);
	close(log_file);
	rpc_connection_unref(honest);
	world_stop(state);
	return honest_status;
}

static unsigned log_lines(const char *what)
{
	unsigned count = 0;

	for (const char *at = log_text(); (at = strstr(at, what)); at++)
		count++;
	return count;
}

/* The server's loop has gone on since: the line about what it has just refused is written. */
static void await_server(void)
{
	assert_int_equal(call_ping(honest), 0);
}

/* ---- Plain sockets */

static int open_socket(void)
{
	const struct timeval patience = {.tv_sec = 60};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static void connect_socket(int fd)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
					    .sin_port = htons(world.port),
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
}

static int dial(void)
{
	int fd = open_socket();

	connect_socket(fd);
	return fd;
}

/* Reads until the other end has closed; fails when it does not. */
static void await_hangup(int fd)
{
	char bytes[4096];
	ssize_t count;

	do
		count = recv(fd, bytes, sizeof(bytes), 0);
	while (count > 0);
	assert_true(count == 0 || errno == ECONNRESET);
	close(fd);
}

/* "127.0.0.1:PORT" of our end. */
static const char *own_address(int fd)
{
	static char text[32];
	struct sockaddr_in address;
	socklen_t length = sizeof(address);

	getsockname(fd, (struct sockaddr *)&address, &length);
	snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(address.sin_port));
	return text;
}

static void expect_refusal(int fd, const char *why)
{
	char line[200];

	snprintf(line, sizeof(line), "%s: connection refused: %s", own_address(fd), why);
	await_hangup(fd);
	if (log_lines(line) != 1)
		fail_msg("no line \"%s\" in the log:\n%s", line, log_text());
	await_server();
	assert_int_equal(world.server.nr_opened, 1);
	assert_int_equal(world.server.nr_closed, 0); /* the owner hears nothing of it */
}

/* ---- Strangers */

static void test_plain_text(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: afar\r\n\r\n";
	int fd = dial();

	(void)state;
	assert_int_equal(send(fd, text, sizeof(text) - 1, 0), sizeof(text) - 1);
	expect_refusal(fd, "it does not speak TLS 1.3 with a pre-shared key");
}

static void test_random_bytes(void **state)
{
	uint8_t bytes[3000];

	(void)state;
	srandom(1);
	for (int round = 0; round < 100; round++) {
		int fd = dial();

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)random();
		if (round % 2)
			memcpy(bytes, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
		send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
		await_hangup(fd);
	}
	assert_int_equal(world.server.nr_opened, 1);
}

static void test_hello_cut_short(void **state)
{
	static const uint8_t part[] = {0x16, 3, 1, 0, 0xe8, 1, 0, 0, 0xe4, 3, 3, 1, 2, 3};
	int fd = dial();

	(void)state;
	assert_int_equal(send(fd, part, sizeof(part), 0), sizeof(part));
	shutdown(fd, SHUT_WR);
	expect_refusal(fd, "it left before it proved a key");
}

static void test_silence_both_ways(void **state)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in bound;
	socklen_t length = sizeof(bound);
	struct rpc_connection *connection;
	int mute = open_socket(), silent = dial();

	(void)state;
	bind(mute, (const struct sockaddr *)&address, sizeof(address));
	assert_int_equal(listen(mute, 1), 0);
	getsockname(mute, (struct sockaddr *)&bound, &length);
	rpc_connect(world.client_loop, "127.0.0.1", ntohs(bound.sin_port), &good_key,
		    &echo_handlers, &world.client, &connection);
	assert_int_equal(await_closed(&world.client, 1), -ETIMEDOUT);
	rpc_connection_unref(connection);
	close(mute);
	expect_refusal(silent, "it proved no key within 5000 ms");
}

#define WRONG_SECRET "its secret for the key \"alice\" is not the one known here"

/* `logged`: what the server says of the key. */
static void expect_no_access(const struct key *key, const char *logged)
{
	const unsigned nr_closed = world.client.nr_closed;
	struct rpc_connection *connection = world_connect(key, &echo_handlers);

	assert_int_equal(await_closed(&world.client, nr_closed + 1), -AFAR_EAUTH);
	await_server();
	assert_int_equal(world.client.nr_opened, 1);
	assert_int_equal(world.server.nr_opened, 1);
	assert_int_equal(log_lines(logged), 1);
	assert_int_equal(call_ping(connection), -ENOTCONN);
	rpc_connection_unref(connection);
}

static void test_wrong_key(void **state)
{
	struct key key = good_key;

	(void)state;
	key.secret[31] ^= 1;
	expect_no_access(&key, WRONG_SECRET);
}

static void test_unknown_identity(void **state)
{
	struct key key = good_key;

	(void)state;
	strcpy(key.identity, "mallory");
	expect_no_access(&key, "its key \"mallory\" is unknown");
}

/* One's identity with another's key. */
static void test_key_of_another(void **state)
{
	struct key key = good_key;

	(void)state;
	memcpy(key.secret, other_key.secret, sizeof(key.secret));
	expect_no_access(&key, WRONG_SECRET);
}

static void test_identity_with_control_characters(void **state)
{
	struct key key = good_key;
	int lines;

	(void)state;
	strcpy(key.identity, "x\n2030 error all is lost");
	lines = (int)log_lines("\n");
	rpc_connection_unref(world_connect(&key, &echo_handlers));
	assert_int_equal(await_closed(&world.client, 1), -AFAR_EAUTH);
	await_server();
	assert_int_equal(log_lines("\n"), lines + 1);
}

static void test_log_is_not_flooded(void **state)
{
	uint64_t begin = clock_ns(), seconds;

	(void)state;
	for (int i = 0; i < 500; i++) {
		int fd = dial();

		assert_int_equal(send(fd, "nonsense", 8, 0), 8);
		await_hangup(fd);
	}
	seconds = (clock_ns() - begin) / 1000000000U + 2;
	assert_in_range(log_lines("\n"), 1, seconds * 11);
}

static void test_crowd_of_silent_strangers(void **state)
{
	struct rpc_connection *connection;
	int fds[400];

	(void)state;
	for (int i = 0; i < 400; i++)
		fds[i] = dial();
	connection = world_connect(&good_key, &echo_handlers);
	await_opened(&world.client, 2);
	assert_int_equal(call_ping(connection), 0);
	await_hangup(fds[0]);
	assert_in_range(log_lines("had to make room for others"), 1, 400);
	for (int i = 1; i < 400; i++)
		close(fds[i]);
	rpc_connection_unref(connection);
}

/* At once, and not for having been silent for too long. */
static void test_closed_listener_drops_strangers(void **state)
{
	int fd = dial();

	(void)state;
	await_server(); /* it has accepted */
	rpc_listener_close(world.listener);
	await_hangup(fd);
	assert_int_equal(log_lines("connection refused"), 0);
}

static void test_no_descriptor_left(void **state)
{
	struct rlimit limit, tight;
	uint64_t begin = clock_ns();
	int fd = open_socket();
	char byte;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &limit);
	tight = limit;
	tight.rlim_cur = (rlim_t)fd + 1;
	for (int hole = dup(fd); hole < fd && hole >= 0; hole = dup(fd))
		;
	setrlimit(RLIMIT_NOFILE, &tight);
	connect_socket(fd);
	while (!log_lines("clients have to wait"))
		assert_int_equal(call_ping(honest), 0);
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	setrlimit(RLIMIT_NOFILE, &limit);
	/* There are only so many complaints in a second. */
	for (uint64_t second = clock_ns() / 1000000000U; clock_ns() / 1000000000U == second;)
		assert_int_equal(call_ping(honest), 0);
	send(fd, "nonsense", 8, 0);
	expect_refusal(fd, "it does not speak TLS 1.3 with a pre-shared key");
	/* One line for each pause of 50 ms: it did not spin. */
	assert_in_range(log_lines("clients have to wait"), 1, 2 + (clock_ns() - begin) / 50000000U);
}

/* ---- Liars: they have a key and speak nonsense */

static void liar_dial(struct liar *liar)
{
	liar_open(liar, TLS_client_method(), dial());
	assert_int_equal(SSL_connect(liar->ssl), 1);
}

/* The connection ends with -AFAR_EMALFORMED and one line. */
static void expect_breach(struct liar *liar, const char *why)
{
	assert_null(liar_receive(liar));
	assert_int_equal(await_closed(&world.server, 1), -AFAR_EMALFORMED);
	assert_int_equal(log_lines(why), 1);
	assert_int_equal(log_lines("(alice): connection ended"), 1);
	liar_free(liar);
}

/* Each keeps to what a connection may, and has the server keep as much of it as it can: all together they may not. */
static void test_buffer_cap(void **state)
{
	static const uint8_t header[] = {0, 0, 0, 4}; /* 64 MiB */
	static uint8_t noise[33U << 20];
	struct liar liars[6];

	(void)state;
	for (int i = 0; i < 6; i++) {
		liar_dial(&liars[i]);
		liar_send(&liars[i], header, sizeof(header));
		liar_send(&liars[i], noise, sizeof(noise));
		assert_int_equal(call_ping(honest), 0);
	}
	/* The first that were there. */
	assert_null(liar_receive(&liars[0]));
	assert_int_equal(await_closed(&world.server, 1), -ENOBUFS);
	assert_in_range(log_lines("the most of all, and no room for more"), 1, 3);
	assert_in_range(world.server.nr_closed, 1, 3);
	for (int i = 0; i < 6; i++)
		liar_free(&liars[i]);
}

static void test_length_too_large(void **state)
{
	static const uint8_t header[] = {1, 0, 0, 4}; /* 64 MiB + 1 */
	struct liar liar;

	(void)state;
	liar_dial(&liar);
	liar_send(&liar, header, sizeof(header));
	expect_breach(&liar, "frame: 67108865 bytes are more than the 67108864 allowed");
}

/* A length announced and never delivered costs what has arrived, not what was announced. */
static void test_length_never_delivered(void **state)
{
	static const uint8_t header[] = {0, 0, 0, 4, 1, 2, 3};
	struct liar liar;

	(void)state;
	liar_dial(&liar);
	liar_send(&liar, header, sizeof(header));
	liar_free(&liar);
	assert_int_equal(await_closed(&world.server, 1), -ECONNRESET);
}

static void test_no_protobuf(void **state)
{
	static const uint8_t frame[] = {5, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff};
	struct liar liar;

	(void)state;
	liar_dial(&liar);
	liar_send(&liar, frame, sizeof(frame));
	expect_breach(&liar, "frame of 5 bytes: it is not a message");
}

static void test_empty_frame(void **state)
{
	static const uint8_t frame[] = {0, 0, 0, 0};
	struct liar liar;

	(void)state;
	liar_dial(&liar);
	liar_send(&liar, frame, sizeof(frame));
	expect_breach(&liar, "frame of 0 bytes: it has no version or no body");
}

static void test_random_frames(void **state)
{
	uint8_t bytes[300];

	(void)state;
	srandom(2);
	for (unsigned round = 1; round <= 100; round++) {
		struct liar liar;

		liar_dial(&liar);
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)random();
		bytes[0] = (uint8_t)(sizeof(bytes) - 4 - 256);
		bytes[1] = 1;
		bytes[2] = bytes[3] = 0;
		liar_send(&liar, bytes, sizeof(bytes));
		assert_null(liar_receive(&liar));
		assert_int_equal(await_closed(&world.server, round), -AFAR_EMALFORMED);
		liar_free(&liar);
	}
}

/* A frame that takes far more memory decoded than on the wire. */
static void test_frame_that_swells(void **state)
{
	const size_t inner = RPC_FRAME_MAX / 2;
	uint8_t head[] = {0, 0, 0, 0, 0x08, 1, 0x8a, 0x01, 0, 0, 0, 0, 0xfa, 0x01, 0, 0, 0, 0};
	uint8_t *entries = malloc(inner);
	size_t length = sizeof(head) - 4 + inner;
	struct liar liar;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		head[i] = (uint8_t)(length >> 8 * i);
	/* reply { keys { keys {} keys {} … } } */
	for (unsigned i = 0; i < 4; i++) {
		head[8 + i] = (uint8_t)((inner + 6) >> 7 * i & 0x7f) | (i < 3 ? 0x80 : 0);
		head[14 + i] = (uint8_t)(inner >> 7 * i & 0x7f) | (i < 3 ? 0x80 : 0);
	}
	for (size_t i = 0; i < inner; i += 2) {
		entries[i] = 0x0a;
		entries[i + 1] = 0;
	}
	liar_dial(&liar);
	liar_send(&liar, head, sizeof(head));
	SSL_write(liar.ssl, entries, (int)inner);
	free(entries);
	expect_breach(&liar, "it is not a message");
}

static void test_request_without_call_and_reply_to_nothing(void **state)
{
	Afar__Reply reply = AFAR__REPLY__INIT;
	Afar__Request request;
	Afar__Frame frame, *answer;
	Afar__Ping ping;
	struct liar liar;

	(void)state;
	liar_dial(&liar);
	make_ping(&frame, &request, &ping);
	frame.body_case = AFAR__FRAME__BODY_REPLY;
	frame.reply = &reply;
	liar_send_frame(&liar, &frame); /* ignored */

	make_ping(&frame, &request, &ping);
	request.call_case = AFAR__REQUEST__CALL__NOT_SET;
	liar_send_frame(&liar, &frame);
	answer = liar_receive(&liar);
	assert_non_null(answer);
	assert_int_equal(answer->request_id, 9);
	assert_int_equal(answer->reply->status, -EOPNOTSUPP);
	afar__frame__free_unpacked(answer, NULL);

	make_ping(&frame, &request, &ping);
	liar_send_frame(&liar, &frame);
	answer = liar_receive(&liar);
	assert_non_null(answer);
	assert_int_equal(answer->reply->status, 0);
	afar__frame__free_unpacked(answer, NULL);
	liar_free(&liar);
}

static void test_newer_caller(void **state)
{
	Afar__Request request;
	Afar__Frame frame, *answer;
	Afar__Ping ping;
	struct liar liar;
	char wanted[64];
	uint8_t *junk;

	(void)state;
	liar_dial(&liar);
	make_ping(&frame, &request, &ping);
	frame.version = RPC_VERSION + 1;
	liar_send_frame(&liar, &frame);
	junk = calloc(1, 1U << 20);
	liar_send(&liar, junk, 1U << 20); /* not looked at any more, must not kill the answer */
	free(junk);
	answer = liar_receive(&liar);
	assert_non_null(answer);
	assert_int_equal(answer->request_id, 9);
	assert_int_equal(answer->version, RPC_VERSION);
	assert_int_equal(answer->reply->status, -AFAR_EVERSION);
	snprintf(wanted, sizeof(wanted), "protocol %u, this is protocol %u", RPC_VERSION + 1U,
		 (unsigned)RPC_VERSION);
	assert_non_null(strstr(answer->reply->message, wanted));
	afar__frame__free_unpacked(answer, NULL);
	assert_null(liar_receive(&liar));
	liar_free(&liar);
	assert_int_equal(await_closed(&world.server, 1), -AFAR_EVERSION);
	snprintf(wanted, sizeof(wanted), "connection ended: frame: the peer speaks protocol %u",
		 RPC_VERSION + 1U);
	assert_int_equal(log_lines(wanted), 1);
}

/* TLS broken in the middle of an open connection. */
static void test_broken_record(void **state)
{
	static const uint8_t record[] = {0x17, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6,  7, 8,
					 9,    1, 2, 3, 4,  5, 6, 7, 8, 9, 10, 11};
	struct liar liar;

	(void)state;
	liar_dial(&liar);
	assert_int_equal(send(liar.fd, record, sizeof(record), 0), sizeof(record));
	expect_breach(&liar, "TLS: a record is broken");
}

static void test_older_tls(void **state)
{
	struct liar liar;

	(void)state;
	liar_open(&liar, TLS_client_method(), dial());
	SSL_set_max_proto_version(liar.ssl, TLS1_2_VERSION);
	assert_int_not_equal(SSL_connect(liar.ssl), 1);
	await_hangup(dup(liar.fd));
	assert_int_equal(log_lines("it does not speak TLS 1.3"), 1);
	liar_free(&liar);
}

/* A client without any key, with a certificate's handshake in mind. */
static void test_no_key_offered(void **state)
{
	struct liar liar;

	(void)state;
	liar_open(&liar, TLS_client_method(), dial());
	SSL_set_psk_use_session_callback(liar.ssl, NULL);
	assert_int_not_equal(SSL_connect(liar.ssl), 1);
	await_hangup(dup(liar.fd));
	assert_int_equal(log_lines("it does not speak TLS 1.3 with a pre-shared key"), 1);
	assert_int_equal(world.server.nr_opened, 1);
	liar_free(&liar);
}

/* ---- Servers that are none; they serve one connection on a thread */

struct impostor {
	pthread_t thread;
	int fd;
	void (*serve)(int fd);
};

static void *impostor_main(void *argument)
{
	struct impostor *impostor = argument;
	int fd = accept4(impostor->fd, NULL, NULL, SOCK_CLOEXEC);

	impostor->serve(fd);
	close(fd);
	return NULL;
}

/* Connects to it; returns the status it ends with. */
static int meet_impostor(void (*serve)(int fd), rpc_done *done)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct impostor impostor = {.fd = open_socket(), .serve = serve};
	struct rpc_connection *connection;
	struct sockaddr_in bound;
	socklen_t length = sizeof(bound);
	int status;

	bind(impostor.fd, (const struct sockaddr *)&address, sizeof(address));
	listen(impostor.fd, 1);
	getsockname(impostor.fd, (struct sockaddr *)&bound, &length);
	pthread_create(&impostor.thread, NULL, impostor_main, &impostor);
	rpc_connect(world.client_loop, "127.0.0.1", ntohs(bound.sin_port), &good_key,
		    &echo_handlers, &world.client, &connection);
	if (done)
		assert_int_equal(send_ping(connection, &plain_envelope, done, &world.client), 0);
	status = await_closed(&world.client, 1);
	pthread_join(impostor.thread, NULL);
	close(impostor.fd);
	rpc_connection_unref(connection);
	return status;
}

static void serve_text(int fd)
{
	char bytes[1024];

	recv(fd, bytes, sizeof(bytes), 0);
	send(fd, "220 mail.example ESMTP\r\n", 24, MSG_NOSIGNAL);
	await_hangup(dup(fd));
}

static void test_server_speaks_something_else(void **state)
{
	(void)state;
	assert_int_equal(meet_impostor(serve_text, NULL), -AFAR_EMALFORMED);
	assert_int_equal(world.client.nr_opened, 1);
}

/* Ignores the key that the client offers and shows a certificate of its own making. */
static void serve_certificate(int fd)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();
	struct liar liar;

	ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
	X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	X509_set_pubkey(certificate, key);
	X509_sign(certificate, key, EVP_sha256());
	liar_open(&liar, TLS_server_method(), dup(fd));
	SSL_set_psk_find_session_callback(liar.ssl, NULL);
	SSL_use_certificate(liar.ssl, certificate);
	SSL_use_PrivateKey(liar.ssl, key);
	SSL_accept(liar.ssl);
	liar_free(&liar);
	X509_free(certificate);
	EVP_PKEY_free(key);
}

static void test_server_without_the_key(void **state)
{
	(void)state;
	assert_int_equal(meet_impostor(serve_certificate, NULL), -AFAR_EAUTH);
	assert_int_equal(world.client.nr_opened, 1);
}

/* A newer server: it refuses our request in a frame of its own version. */
static void serve_refusal(int fd)
{
	Afar__Frame frame = AFAR__FRAME__INIT, *request;
	Afar__Reply reply = AFAR__REPLY__INIT;
	struct liar liar;

	liar_open(&liar, TLS_server_method(), dup(fd));
	SSL_accept(liar.ssl);
	request = liar_receive(&liar);
	frame.version = RPC_VERSION + 1;
	frame.request_id = request->request_id;
	frame.body_case = AFAR__FRAME__BODY_REPLY;
	frame.reply = &reply;
	reply.status = -AFAR_EVERSION;
	reply.message = "upgrade";
	liar_send_frame(&liar, &frame);
	afar__frame__free_unpacked(request, NULL);
	assert_null(liar_receive(&liar));
	liar_free(&liar);
}

static void on_version(void *argument, const Afar__Frame *reply, int status)
{
	assert_non_null(reply);
	assert_int_equal(reply->reply->status, -AFAR_EVERSION);
	assert_string_equal(reply->reply->message, "upgrade");
	on_done(argument, reply, status);
}

static void test_newer_server(void **state)
{
	(void)state;
	assert_int_equal(meet_impostor(serve_refusal, on_version), -AFAR_EVERSION);
	assert_int_equal(world.client.nr_done, 1);
}

#define in_world(test) cmocka_unit_test_setup_teardown(test, strangers_start, strangers_stop)

TEST_GROUP(rpc_strangers)
{
	const struct CMUnitTest tests[] = {
		in_world(test_plain_text),
		in_world(test_random_bytes),
		in_world(test_hello_cut_short),
		in_world(test_silence_both_ways),
		in_world(test_wrong_key),
		in_world(test_unknown_identity),
		in_world(test_key_of_another),
		in_world(test_identity_with_control_characters),
		in_world(test_crowd_of_silent_strangers),
		in_world(test_closed_listener_drops_strangers),
		in_world(test_no_descriptor_left),
		in_world(test_buffer_cap),
		in_world(test_length_too_large),
		in_world(test_length_never_delivered),
		in_world(test_no_protobuf),
		in_world(test_empty_frame),
		in_world(test_random_frames),
		in_world(test_frame_that_swells),
		in_world(test_request_without_call_and_reply_to_nothing),
		in_world(test_newer_caller),
		in_world(test_broken_record),
		in_world(test_older_tls),
		in_world(test_no_key_offered),
		in_world(test_server_speaks_something_else),
		in_world(test_server_without_the_key),
		in_world(test_newer_server),
		in_world(test_log_is_not_flooded), /* last: it uses up its second's lines */
	};

	signal(SIGPIPE, SIG_IGN); /* for OpenSSL's sockets, as the liars use them */
	log_set_level(LOG_LEVEL_WARN);
	return cmocka_run_group_tests_name("rpc_strangers", tests, NULL, NULL);
}
