/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS 1.3 by OpenSSL: external pre-shared keys with a fresh Diffie-Hellman exchange (psk_dhe_ke,
 * RFC 8446), TLS_AES_128_GCM_SHA256, no certificates, no tickets, no early data. Called by
 * connections and listeners; owns all objects of OpenSSL.
 *
 * Neither end accepts a peer without the key. A server has no certificate to fall back to, a client
 * trusts none, and both check at the end that the key was used.
 */
#include "rpc/tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"

#define TLS_CIPHER "TLS_AES_128_GCM_SHA256"
static const unsigned char tls_cipher_number[2] = {0x13, 0x01};

/* OpenSSL's reasons above this are alerts that the peer sent. */
#define TLS_REASON_ALERT SSL_AD_REASON_OFFSET

struct tls {
	SSL *ssl;
	struct tls_acceptor *acceptor; /* NULL: we connected; used during the handshake only */
	struct key key; /* ours to prove, or the one claimed; wiped after the handshake */
	int fd;
	int socket_error; /* negative errno of the last failed socket call */
	bool is_at_end;	  /* the peer has shut its side                     */
	bool has_claimed; /* a server's peer named an identity              */
	bool is_known;	  /* and there is a key of it                       */
};

struct tls_acceptor {
	SSL_CTX *context;
	uint8_t decoy[KEY_BYTES]; /* the key of no principal; used for unknown identities */
	tls_find_key *find;
	void *find_context;
};

/* ---- The socket: OpenSSL's own would raise SIGPIPE in an application's thread */

static int bio_receive(BIO *bio, char *bytes, int size)
{
	struct tls *tls = BIO_get_data(bio);
	ssize_t count = recv(tls->fd, bytes, (size_t)size, MSG_DONTWAIT);

	BIO_clear_retry_flags(bio);
	if (count < 0 && errno == EAGAIN)
		BIO_set_retry_read(bio);
	else if (count < 0)
		tls->socket_error = -errno;
	else if (count == 0)
		tls->is_at_end = true;
	return (int)count;
}

static int bio_send(BIO *bio, const char *bytes, int length)
{
	struct tls *tls = BIO_get_data(bio);
	ssize_t count = send(tls->fd, bytes, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT);

	BIO_clear_retry_flags(bio);
	if (count < 0 && errno == EAGAIN)
		BIO_set_retry_write(bio);
	else if (count < 0)
		tls->socket_error = errno == EPIPE ? -ECONNRESET : -errno;
	return (int)count;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
	const struct tls *tls = BIO_get_data(bio);

	(void)number;
	(void)pointer;
	switch (command) {
	case BIO_CTRL_FLUSH:
		return 1;
	case BIO_CTRL_EOF:
		return tls->is_at_end;
	default:
		return 0;
	}
}

/* ---- What all connections of the process share, made at the first use and kept */

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static BIO_METHOD *socket_method;
static SSL_CTX *client_context;

/* A daemon's or an application's exit() must not free OpenSSL under threads that still use it. */
static void start_openssl(void)
{
	OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

static BIO_METHOD *make_socket_method(void)
{
	BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "socket");

	if (!method)
		return NULL;
	BIO_meth_set_read(method, bio_receive);
	BIO_meth_set_write(method, bio_send);
	BIO_meth_set_ctrl(method, bio_control);
	return method;
}

static SSL_CTX *make_context(const SSL_METHOD *method)
{
	SSL_CTX *context = SSL_CTX_new(method);

	if (!context)
		return NULL;
	SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_clear_options(context, SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX);
	/* AUTO_RETRY: "try again" then means that the socket is empty, as edge-triggered epoll
	 * needs. */
	SSL_CTX_set_mode(context, SSL_MODE_AUTO_RETRY | SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_read_ahead(context, 1);
	if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
	    SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
	    SSL_CTX_set_ciphersuites(context, TLS_CIPHER) == 1 &&
	    SSL_CTX_set_num_tickets(context, 0) == 1)
		return context;
	SSL_CTX_free(context);
	return NULL;
}

/* ---- Keys */

/* Makes a session as if from an earlier connection, with the key as its secret. */
static SSL_SESSION *make_session(SSL *ssl, const uint8_t secret[KEY_BYTES])
{
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, tls_cipher_number);
	SSL_SESSION *session = SSL_SESSION_new();

	if (session && cipher && SSL_SESSION_set1_master_key(session, secret, KEY_BYTES) == 1 &&
	    SSL_SESSION_set_cipher(session, cipher) == 1 &&
	    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

/* Client: offers our key. */
static int offer_key(SSL *ssl, const EVP_MD *digest, const unsigned char **identity, size_t *length,
		     SSL_SESSION **session)
{
	const struct tls *tls = SSL_get_app_data(ssl);

	*session = NULL;
	if (digest && !EVP_MD_is_a(digest, "SHA256"))
		return 0;
	*session = make_session(ssl, tls->key.secret);
	*identity = (const unsigned char *)tls->key.identity;
	*length = strlen(tls->key.identity);
	return !!*session;
}

/* Server: finds the key of the identity that the peer claims. An unknown identity gets the decoy,
 * so that it fails in the same way as a wrong key. */
static int find_claimed_key(SSL *ssl, const unsigned char *identity, size_t length,
			    SSL_SESSION **session)
{
	struct tls *tls = SSL_get_app_data(ssl);
	struct tls_acceptor *acceptor = tls->acceptor;
	bool is_sound = length > 0 && length <= KEY_IDENTITY_MAX && !memchr(identity, 0, length);

	tls->has_claimed = true;
	memset(tls->key.identity, 0, sizeof(tls->key.identity));
	memcpy(tls->key.identity, identity, is_sound ? length : 0);
	tls->is_known = is_sound &&
			acceptor->find(acceptor->find_context, tls->key.identity, tls->key.secret);
	if (!tls->is_known)
		memcpy(tls->key.secret, acceptor->decoy, KEY_BYTES);
	*session = make_session(ssl, tls->key.secret);
	return !!*session;
}

/* Server: checks at the end of the handshake that the key has not been revoked or replaced since
 * its beginning. */
static bool is_key_still_good(const struct tls *tls)
{
	const struct tls_acceptor *acceptor = tls->acceptor;
	uint8_t secret[KEY_BYTES];
	bool is_good = acceptor->find(acceptor->find_context, tls->key.identity, secret) &&
		       CRYPTO_memcmp(secret, tls->key.secret, KEY_BYTES) == 0;

	OPENSSL_cleanse(secret, sizeof(secret));
	return is_good;
}

/* ---- Making and ending */

static int open_shared(void)
{
	int ret = 0;

	pthread_mutex_lock(&shared_lock);
	if (!socket_method) {
		start_openssl();
		socket_method = make_socket_method();
	}
	if (socket_method && !client_context) {
		client_context = make_context(TLS_client_method());
		if (client_context) {
			/* We trust no authority, so no certificate verifies. */
			SSL_CTX_set_verify(client_context, SSL_VERIFY_PEER, NULL);
			SSL_CTX_set_psk_use_session_callback(client_context, offer_key);
		}
	}
	if (!client_context)
		ret = -ENOMEM;
	pthread_mutex_unlock(&shared_lock);
	ERR_clear_error();
	return ret;
}

int tls_acceptor_open(tls_find_key *find, void *context, struct tls_acceptor **out)
{
	struct tls_acceptor *acceptor;
	int ret = open_shared();

	if (ret)
		return error_code(ret);
	acceptor = calloc(1, sizeof(*acceptor));
	if (!acceptor)
		return error_code(-ENOMEM);
	acceptor->find = find;
	acceptor->find_context = context;
	acceptor->context = make_context(TLS_server_method());
	if (!acceptor->context || RAND_bytes(acceptor->decoy, sizeof(acceptor->decoy)) != 1) {
		tls_acceptor_close(acceptor);
		return error_code(-ENOMEM);
	}
	SSL_CTX_set_psk_find_session_callback(acceptor->context, find_claimed_key);
	*out = acceptor;
	return 0;
}

void tls_acceptor_close(struct tls_acceptor *acceptor)
{
	SSL_CTX_free(acceptor->context);
	OPENSSL_cleanse(acceptor->decoy, sizeof(acceptor->decoy));
	ERR_clear_error();
	free(acceptor);
}

static int tls_open(SSL_CTX *context, int fd, struct tls **out)
{
	struct tls *tls = calloc(1, sizeof(*tls));
	BIO *bio;

	if (!tls)
		return error_code(-ENOMEM);
	tls->fd = fd;
	tls->ssl = SSL_new(context);
	bio = BIO_new(socket_method);
	if (!tls->ssl || !bio) {
		BIO_free(bio);
		tls_free(tls);
		return error_code(-ENOMEM);
	}
	BIO_set_data(bio, tls);
	BIO_set_init(bio, 1);
	SSL_set_bio(tls->ssl, bio, bio);
	SSL_set_app_data(tls->ssl, tls);
	*out = tls;
	return 0;
}

int tls_accept(struct tls_acceptor *acceptor, int fd, struct tls **out)
{
	int ret = tls_open(acceptor->context, fd, out);

	if (ret)
		return ret;
	(*out)->acceptor = acceptor;
	SSL_set_accept_state((*out)->ssl);
	return 0;
}

int tls_connect(const struct key *key, int fd, struct tls **out)
{
	int ret = open_shared();

	if (ret)
		return error_code(ret);
	ret = tls_open(client_context, fd, out);
	if (ret)
		return ret;
	(*out)->key = *key;
	SSL_set_connect_state((*out)->ssl);
	return 0;
}

void tls_free(struct tls *tls)
{
	if (!tls)
		return;
	SSL_free(tls->ssl);
	OPENSSL_cleanse(tls, sizeof(*tls));
	ERR_clear_error();
	free(tls);
}

const char *tls_identity(const struct tls *tls)
{
	return tls->key.identity;
}

bool tls_is_known(const struct tls *tls)
{
	return tls->is_known;
}

/* ---- Moving bytes */

/* Converts the failure of the OpenSSL call that returned `result` to a status. */
static int tls_status(struct tls *tls, int result)
{
	switch (SSL_get_error(tls->ssl, result)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return -ECONNRESET;
	default:
		if (tls->socket_error)
			return tls->socket_error;
		return tls->is_at_end ? -ECONNRESET : -AFAR_EMALFORMED;
	}
}

/* Returns whether a handshake that failed for the peer's bytes failed for its key. */
static bool is_about_the_key(const struct tls *tls)
{
	int reason = ERR_GET_REASON(ERR_peek_error());

	if (tls->acceptor)
		return tls->has_claimed;
	return reason >= TLS_REASON_ALERT || reason == SSL_R_CERTIFICATE_VERIFY_FAILED;
}

int tls_handshake(struct tls *tls)
{
	int ret;

	ERR_clear_error();
	ret = SSL_do_handshake(tls->ssl);
	if (ret != 1) {
		ret = tls_status(tls, ret);
		if (ret == -AFAR_EMALFORMED && is_about_the_key(tls))
			ret = -AFAR_EAUTH;
		return ret;
	}
	ret = SSL_session_reused(tls->ssl) && (!tls->acceptor || is_key_still_good(tls))
		      ? 0
		      : -AFAR_EAUTH;
	OPENSSL_cleanse(tls->key.secret, sizeof(tls->key.secret));
	return ret;
}

ssize_t tls_read(struct tls *tls, void *bytes, size_t size)
{
	size_t count;
	int ret;

	ERR_clear_error();
	ret = SSL_read_ex(tls->ssl, bytes, size, &count);
	return ret == 1 ? (ssize_t)count : tls_status(tls, ret);
}

ssize_t tls_write(struct tls *tls, const void *bytes, size_t length)
{
	size_t count;
	int ret;

	ERR_clear_error();
	ret = SSL_write_ex(tls->ssl, bytes, length, &count);
	return ret == 1 ? (ssize_t)count : tls_status(tls, ret);
}

void tls_close_notify(struct tls *tls)
{
	ERR_clear_error();
	SSL_shutdown(tls->ssl);
	ERR_clear_error();
}
