/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The component `fcoll`: collective reads and writes. Servers take many pieces at once, so each rank moves its own, and no rank
 * gathers them for others first. On flash, pieces of less than a block go in Open MPI's own two phases. There few ranks
 * move whole blocks for all; otherwise a block would be written again for each piece.
 */
#include "mpiio.h"

#include <string.h>

#include <ompi/mca/fcoll/base/base.h>
#include <ompi/mca/fcoll/fcoll.h>
#include <opal/mca/base/mca_base_var.h>

#define PRIORITY 90
/* The component of Open MPI that moves small pieces. */
#define TWO_PHASES "vulcan"

/* Measured. In memory each rank's own pieces are never slower, from 64 bytes on; on flash from whole blocks on. */
#define FLASH_PIECE_BYTES AFAR_FILE_BLOCK

static size_t piece_bytes; /* 0: by the tier */

/* ---- Which way */

/* Returns the bytes of a piece of this rank, on average; SIZE_MAX if it has one or none. */
static uint64_t find_piece(const struct ompio_file_t *handle, size_t bytes)
{
	uint64_t piece;

	if (handle->f_iov_count == 0 || handle->f_view_size == 0)
		return UINT64_MAX;
	piece = handle->f_view_size / handle->f_iov_count;
	/* A view without holes is one piece, however often it is repeated. */
	if (handle->f_iov_count == 1 && (ptrdiff_t)handle->f_view_size == handle->f_view_extent)
		return UINT64_MAX;
	return bytes <= piece ? UINT64_MAX : piece;
}

/* Finds how Open MPI does it; NULL: not at all. */
static mca_fcoll_base_module_t *find_two_phases(struct ompio_file_t *handle)
{
	mca_fcoll_base_component_t *component = mca_fcoll_base_component_lookup(TWO_PHASES);
	int priority;

	return component ? component->fcollm_file_query(handle, &priority) : NULL;
}

/* All ranks ask at once, and hear the same. NULL: each moves its own pieces. */
static mca_fcoll_base_module_t *choose(struct ompio_file_t *handle, int count,
				       struct ompi_datatype_t *datatype)
{
	const struct mpiio_file *file = handle->f_fs_ptr;
	const size_t small = piece_bytes != 0 ? piece_bytes
			     : file->is_flash ? FLASH_PIECE_BYTES
					      : 0;
	uint64_t piece = UINT64_MAX, least = 0;
	MPI_Count size;

	if (small == 0)
		return NULL;
	if (PMPI_Type_size_x(datatype, &size) == MPI_SUCCESS)
		piece = find_piece(handle, (size_t)count * (size_t)size);
	if (PMPI_Allreduce(&piece, &least, 1, MPI_UINT64_T, MPI_MIN, handle->f_comm) != MPI_SUCCESS)
		return NULL;
	return least < small ? find_two_phases(handle) : NULL;
}

static int read_all(struct ompio_file_t *handle, void *data, int count,
		    struct ompi_datatype_t *datatype, ompi_status_public_t *status)
{
	const mca_fcoll_base_module_t *two_phases = choose(handle, count, datatype);

	return two_phases ? two_phases->fcoll_file_read_all(handle, data, count, datatype, status)
			  : mca_common_ompio_file_read(handle, data, count, datatype, status);
}

static int write_all(struct ompio_file_t *handle, const void *data, int count,
		     struct ompi_datatype_t *datatype, ompi_status_public_t *status)
{
	const mca_fcoll_base_module_t *two_phases = choose(handle, count, datatype);

	return two_phases ? two_phases->fcoll_file_write_all(handle, data, count, datatype, status)
			  : mca_common_ompio_file_write(handle, data, count, datatype, status);
}

/* ---- The component */

static int begin_or_end(struct ompio_file_t *handle)
{
	(void)handle;
	return OMPI_SUCCESS;
}

/* Without functions for requests OMPIO has each rank move its own pieces. */
static mca_fcoll_base_module_t module = {
	.fcoll_module_init = begin_or_end,
	.fcoll_module_finalize = begin_or_end,
	.fcoll_file_read_all = read_all,
	.fcoll_file_write_all = write_all,
};

static int init_query(bool has_progress_threads, bool has_threads)
{
	(void)has_progress_threads;
	(void)has_threads;
	return OMPI_SUCCESS;
}

static mca_fcoll_base_module_t *file_query(struct ompio_file_t *handle, int *priority)
{
	if (!handle->f_fs_component ||
	    strcmp(handle->f_fs_component->mca_component_name, "afar") != 0)
		return NULL;
	*priority = PRIORITY;
	return &module;
}

extern mca_fcoll_base_component_2_0_0_t mca_fcoll_afar_component;

static int register_parameters(void)
{
	(void)mca_base_component_var_register(
		&mca_fcoll_afar_component.fcollm_version, "piece_bytes",
		"Collective calls whose pieces are smaller on average go in Open MPI's two phases; "
		"1: none, 0: by the tier of the file system",
		MCA_BASE_VAR_TYPE_SIZE_T, NULL, 0, 0, OPAL_INFO_LVL_5, MCA_BASE_VAR_SCOPE_READONLY,
		&piece_bytes);
	return OMPI_SUCCESS;
}

mca_fcoll_base_component_2_0_0_t mca_fcoll_afar_component = {
	.fcollm_version = {MCA_FCOLL_BASE_VERSION_2_0_0, .mca_component_name = "afar",
			   .mca_register_component_params = register_parameters},
	.fcollm_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
	.fcollm_init_query = init_query,
	.fcollm_file_query = file_query,
	.fcollm_file_unquery = begin_or_end,
};
