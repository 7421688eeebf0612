/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Components for OMPIO, the MPI-IO of Open MPI 4.1: `fs` opens, closes and describes files, `fbtl` moves their bytes. Open MPI loads
 * each from a file of its own, and links what is here into each. A process has one session, of `fs`, for all its files.
 *
 * OMPIO drops the errors of reads and writes, and its collective algorithms hang if one rank gets one. So `fbtl` notes an error in
 * the file, and answers that no bytes were moved. `fs` puts its own functions around those of the MPI call (calls.c), which return
 * what was noted.
 */
#ifndef MPIIO_MPIIO_H
#define MPIIO_MPIIO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ompi/mca/common/ompio/common_ompio.h>

#include <afar/file.h>

/* ---- clusters.c: the session, and its file systems */

struct mpiio_system {
	struct mpiio_system *next;
	char name[AFAR_NAME_MAX + 1];
	struct afar_fs *fs;
	unsigned nr_files; /* open */
};

/* Opens a file system, or finds it. Call mpiio_system_put() for each. Returns 0 or the library's error. */
int mpiio_system_get(const char *name, struct mpiio_system **out);
void mpiio_system_put(struct mpiio_system *system);

/* ---- names.c */

struct mpiio_name {
	char system[AFAR_NAME_MAX + 1];
	char path[AFAR_FILE_PATH_MAX + 1];
	uint64_t dir; /* of a path in a mount: it is the file's name there; 0: it begins with '/' */
	uint64_t identity; /* likewise, of the file system: afar_fs_identity() */
};

/* Finds the directory that the name is in. Returns 0 or the library's error. */
int mpiio_name_directory(struct afar_fs *fs, const struct mpiio_name *name, uint64_t *out);
/* Takes "afar:/FS/PATH", also behind the working directory, as OMPIO has it for files that are deleted when they are closed. Returns
 * whether it is one; one without a path has an empty path. */
bool mpiio_name_parse(const char *text, struct mpiio_name *out);
/* Takes a path in a mounted file system, if the mount lets programs go around it. It may be another cluster's: the caller compares the
 * identity. */
bool mpiio_name_find_mounted(const char *text, struct mpiio_name *out);

/* ---- Open files */

struct mpiio_file {
	struct mpiio_system *system;
	struct afar_file *file;
	bool is_flash;
	atomic_int call_error; /* a class of MPI's errors: of the call that is under way; 0: none */
	atomic_int lost;       /* likewise, of a write that failed; until a sync has told it */
	mca_io_base_module_2_0_0_t ompio; /* what the MPI calls did before calls.c */
};

static inline struct mpiio_file *mpiio_file_of(struct ompi_file_t *handle)
{
	return ((mca_common_ompio_data_t *)handle->f_io_selected_data)->ompio_fh.f_fs_ptr;
}

/* ---- errors.c */

/* Gives the class of MPI's errors for an error of the library. */
int mpiio_class(int error);
/* Says the library's line about the call that failed. `what`: "write", "afar:/fs/x". */
void mpiio_say(int rank, const char *what, const char *name, int error);
/* Notes that a read or a write failed with `error`, and says why, if it is the first time. */
void mpiio_note(struct ompio_file_t *handle, struct mpiio_file *file, bool is_write, int error);

/* ---- calls.c */

/* Has the MPI calls of a file return what is noted of it. */
void mpiio_calls_wrap(struct ompi_file_t *handle, struct mpiio_file *file);
/* Returns the first error of any rank to all. For all ranks at once. */
int mpiio_agree(struct ompi_communicator_t *communicator, int error);

#endif
