/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's errors as MPI has them, and the lines that say more. */
#include "mpiio.h"

#include <errno.h>
#include <stdio.h>

int mpiio_class(int error)
{
	switch (-error) {
	case 0:
		return MPI_SUCCESS;
	case ENOENT:
		return MPI_ERR_NO_SUCH_FILE;
	case EEXIST:
		return MPI_ERR_FILE_EXISTS;
	case EACCES:
	case EPERM:
	case AFAR_EAUTH:
		return MPI_ERR_ACCESS;
	case EROFS:
		return MPI_ERR_READ_ONLY;
	case ENOSPC:
	case EFBIG:
		return MPI_ERR_NO_SPACE;
	case EDQUOT:
		return MPI_ERR_QUOTA;
	case EBUSY:
		return MPI_ERR_FILE_IN_USE;
	case EISDIR:
	case ENOTDIR:
	case EINVAL:
	case ELOOP:
	case ENAMETOOLONG:
		return MPI_ERR_BAD_FILE;
	case ENOMEM:
		return MPI_ERR_NO_MEM;
	default:
		return MPI_ERR_IO;
	}
}

void mpiio_say(int rank, const char *what, const char *name, int error)
{
	const char *line = afar_last_error();

	fprintf(stderr, "afar: rank %d: %s %s: %s\n", rank, what, name,
		*line ? line : afar_strerror(error));
}

void mpiio_note(struct ompio_file_t *handle, struct mpiio_file *file, bool is_write, int error)
{
	const int class = mpiio_class(error);
	int none = MPI_SUCCESS;

	atomic_store(&file->call_error, class);
	if (!is_write || atomic_compare_exchange_strong(&file->lost, &none, class))
		mpiio_say(handle->f_rank, is_write ? "write" : "read", handle->f_filename, error);
}
