/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls about files to the manager: FilesLook, FilesHold and FilesChange, each of several operations. */
#ifndef CLIENT_FS_CALL_H
#define CLIENT_FS_CALL_H

#include "client/files/fs.h"

/* One operation, until the end of the block: FILE_LOOK(STAT, stat, &message). */
#define FILE_LOOK(WHAT, what, message)                                            \
	(&(Afar__FileLook){PROTOBUF_C_MESSAGE_INIT(&afar__file_look__descriptor), \
			   .what_case = AFAR__FILE_LOOK__WHAT_##WHAT, .what = (message)})
#define FILE_CHANGE(WHAT, what, message)                                              \
	(&(Afar__FileChange){PROTOBUF_C_MESSAGE_INIT(&afar__file_change__descriptor), \
			     .what_case = AFAR__FILE_CHANGE__WHAT_##WHAT, .what = (message)})
#define FILE_HOLD(WHAT, what, message)                                            \
	(&(Afar__FileHold){PROTOBUF_C_MESSAGE_INIT(&afar__file_hold__descriptor), \
			   .what_case = AFAR__FILE_HOLD__WHAT_##WHAT, .what = (message)})

/* Fills one that closes a handle. */
static inline void fs_fill_close(Afar__FileHold *operation, Afar__FileClose *close, uint64_t handle)
{
	afar__file_close__init(close);
	close->handle = handle;
	afar__file_hold__init(operation);
	operation->what_case = AFAR__FILE_HOLD__WHAT_CLOSE;
	operation->close = close;
}

/* ---- fs_message.c */

/* Takes who asks from a program; NULL: this process. -EINVAL. */
int fs_who_take(const struct afar_who *given, struct fs_who *out);
void fs_who_copy(struct fs_who *to, const struct fs_who *from);

/* Checks attributes, of any inode. -AFAR_EMALFORMED. */
int fs_check_attributes(const Afar__FileAttributes *attributes);
/* Gives attributes that have been checked to the program, in its struct. */
void fs_give_attributes(const Afar__FileAttributes *attributes, struct afar_file_stat *out);
/* Checks the program's struct, which may be NULL if it may. */
int fs_check_stat(const struct afar_file_stat *out, bool may_be_null);
/* Checks and gives the attributes of a result. `out` may be NULL. */
int fs_give(const Afar__FileResult *result, struct afar_file_stat *out);

/* Fails with -AFAR_EMALFORMED: the manager answered `what`. */
int fs_fail_malformed(const char *what);

/* ---- fs_call.c */

struct fs_answer {
	Afar__Frame *frame;
	Afar__FileResult **results; /* as many as there were operations */
};

/* Carry out up to FS_CALL_MAX operations. On 0 the answer is the caller's, for fs_answer_free(), and
 * each result has a status that is 0 or negative. `who` may be NULL where it does not matter. */
int fs_look(struct afar_fs *fs, const struct fs_who *who, Afar__FileLook **operations, unsigned nr,
	    struct fs_answer *out);
int fs_look_until(struct afar_fs *fs, uint64_t deadline, const struct fs_who *who,
		  Afar__FileLook **operations, unsigned nr, struct fs_answer *out);
int fs_hold(struct afar_fs *fs, const struct fs_who *who, Afar__FileHold **operations, unsigned nr,
	    struct fs_answer *out);
int fs_change(struct afar_fs *fs, const struct fs_who *who, Afar__FileChange **operations,
	      unsigned nr, struct fs_answer *out);
/* Carry out one operation, and fail as it does. `out` may be NULL. */
int fs_look_one(struct afar_fs *fs, const struct fs_who *who, Afar__FileLook *operation,
		struct fs_answer *out);
int fs_hold_one(struct afar_fs *fs, const struct fs_who *who, Afar__FileHold *operation,
		struct fs_answer *out);
int fs_change_one(struct afar_fs *fs, const struct fs_who *who, Afar__FileChange *operation,
		  struct fs_answer *out);
void fs_answer_free(struct fs_answer *answer);
/* Fails as an operation did; 0: it did not. */
int fs_result_fail(const Afar__FileResult *result);

#endif
