/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that speaks by hand; see rpc_liar.h. */
#include "lib/rpc/rpc_liar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/rpc/rpc_world.h"

static SSL_SESSION *session_of(SSL *ssl)
{
	static const unsigned char number[2] = {0x13, 0x01};
	SSL_SESSION *session = SSL_SESSION_new();

	SSL_SESSION_set1_master_key(session, good_key.secret, KEY_BYTES);
	SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, number));
	SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
	return session;
}

static int use_session(SSL *ssl, const EVP_MD *digest, const unsigned char **identity,
		       size_t *length, SSL_SESSION **session)
{
	(void)digest;
	*identity = (const unsigned char *)good_key.identity;
	*length = strlen(good_key.identity);
	*session = session_of(ssl);
	return 1;
}

static int find_session(SSL *ssl, const unsigned char *identity, size_t length,
			SSL_SESSION **session)
{
	(void)identity;
	(void)length;
	*session = session_of(ssl);
	return 1;
}

void liar_open(struct liar *liar, const SSL_METHOD *method, int fd)
{
	liar->fd = fd;
	liar->context = SSL_CTX_new(method);
	SSL_CTX_set_ciphersuites(liar->context, "TLS_AES_128_GCM_SHA256");
	SSL_CTX_set_psk_use_session_callback(liar->context, use_session);
	SSL_CTX_set_psk_find_session_callback(liar->context, find_session);
	liar->ssl = SSL_new(liar->context);
	SSL_set_fd(liar->ssl, fd);
}

void liar_free(struct liar *liar)
{
	SSL_free(liar->ssl);
	SSL_CTX_free(liar->context);
	close(liar->fd);
}

void liar_send(struct liar *liar, const void *bytes, size_t length)
{
	assert_int_equal(SSL_write(liar->ssl, bytes, (int)length), (int)length);
}

void liar_send_frame(struct liar *liar, const Afar__Frame *frame)
{
	uint8_t bytes[512];
	size_t length = afar__frame__pack(frame, bytes + 4);

	bytes[0] = (uint8_t)length;
	bytes[1] = bytes[2] = bytes[3] = 0;
	liar_send(liar, bytes, length + 4);
}

Afar__Frame *liar_receive(struct liar *liar)
{
	uint8_t bytes[4096];
	size_t have = 0, length = 4;
	int count;

	while (have < length) {
		count = SSL_read(liar->ssl, bytes + have, (int)(length - have));
		if (count <= 0)
			return NULL;
		have += (size_t)count;
		if (have == 4)
			length = 4U + bytes[0] + bytes[1] * 256U;
		assert_true(length <= sizeof(bytes));
	}
	return afar__frame__unpack(NULL, length - 4, bytes + 4);
}

void make_ping(Afar__Frame *frame, Afar__Request *request, Afar__Ping *ping)
{
	fill_ping(request, ping);
	afar__frame__init(frame);
	frame->version = RPC_VERSION;
	frame->request_id = 9;
	frame->body_case = AFAR__FRAME__BODY_REQUEST;
	frame->request = request;
}
