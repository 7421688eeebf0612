/* SPDX-License-Identifier: BSD-3-Clause */
/* libafar, which is loaded only when a program moves much on a mount. */
#ifndef PRELOAD_LIBRARY_H
#define PRELOAD_LIBRARY_H

#include <afar/file.h>

#define LIBRARY_CALLS(CALL)         \
	CALL(afar_strerror)         \
	CALL(afar_last_error)       \
	CALL(afar_session_open)     \
	CALL(afar_session_close)    \
	CALL(afar_fs_open)          \
	CALL(afar_fs_close)         \
	CALL(afar_fs_identity)      \
	CALL(afar_file_open)        \
	CALL(afar_file_close)       \
	CALL(afar_file_close_later) \
	CALL(afar_file_flush)       \
	CALL(afar_file_sync)        \
	CALL(afar_file_advise)      \
	CALL(afar_file_pread)       \
	CALL(afar_file_pwrite)      \
	CALL(afar_file_readx)       \
	CALL(afar_file_writex)

/* Its functions, once library_load() has returned NULL: library.afar_file_pread(…). */
struct library {
#define MEMBER(function) __typeof__(&(function)) function;
	LIBRARY_CALLS(MEMBER)
#undef MEMBER
};
extern struct library library;

/* Returns NULL, or why it cannot be loaded. One thread at a time. */
const char *library_load(void);

#endif
