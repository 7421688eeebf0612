/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors of Afar.
 *
 * A function of libafar that can fail returns 0 or a count, or a negative code. The code is an
 * errno value if errno has the right word; otherwise it is one of Afar's own codes from the table
 * below. Those start above 10000, so that the two never meet. errno itself is never set.
 */
#ifndef AFAR_ERROR_H
#define AFAR_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(code, value, sentence): the only list of Afar's codes. */
#define AFAR_ERROR_TABLE(X)                                                                        \
	X(AFAR_ELOST, 10001,                                                                       \
	  "the data is lost: a server that held it has restarted or was removed")                  \
	X(AFAR_EAUTH, 10002, "the peer did not accept the key")                                    \
	X(AFAR_EVERSION, 10003, "the peer speaks another protocol version")                        \
	X(AFAR_EFORKED, 10004, "the session belongs to the parent process: open one after fork")   \
	X(AFAR_ESERVER, 10005, "a server that holds part of the data cannot be reached")           \
	X(AFAR_EMANAGER, 10006, "the manager cannot be reached")                                   \
	X(AFAR_ERESERVE, 10007, "the namespace has not enough reserved space: reserve more first") \
	X(AFAR_ENOSERVER, 10008, "no server has joined the cluster")                               \
	X(AFAR_ESESSION, 10009, "the session has ended: open a new one")                           \
	X(AFAR_EFREED, 10010, "the region was freed")                                              \
	X(AFAR_EMALFORMED, 10011, "the peer sent a message that cannot be understood")             \
	X(AFAR_EUNSYNCED, 10012,                                                                   \
	  "writes that were not synced may be lost: their store ended unclean")

enum afar_error {
#define AFAR_ERROR_ENUM(code, value, sentence) code = value,
	AFAR_ERROR_TABLE(AFAR_ERROR_ENUM)
#undef AFAR_ERROR_ENUM
};

/*
 * The sentence of an error code, positive or negative, errno's included. Never NULL; the text is
 * static for Afar's codes and thread-local for errno's. Thread-safe, does not block.
 */
const char *afar_strerror(int error);

/* The code's name ("AFAR_ELOST", "ENOENT"), or "unknown". Thread-safe, does not block. */
const char *afar_error_name(int error);

/*
 * About the calling thread's last failed call of libafar, in one line without a newline: the
 * request, the problem and the remedy. Empty when none has failed yet. A call that
 * succeeds does not change it. Owned by the thread; valid
 * until its next failing call.
 */
const char *afar_last_error(void);

/*
 * Makes `line` the calling thread's afar_last_error(), and returns `error`. For libraries over this one, and for functions that
 * Afar calls (afar/graph.h). Control characters become '?', and a long line is cut. NULL: the code's sentence. Thread-safe,
 * does not block.
 */
int afar_fail(int error, const char *line);

#ifdef __cplusplus
}
#endif
#endif
