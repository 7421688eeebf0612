/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI calls of one open file. OMPIO has a table of functions in each; those here take the place of the ones that read and write. They call
 * OMPIO's, and then return the error that was noted meanwhile. Collective calls return it to all ranks. Atomic mode is refused, because
 * OMPIO would say yes and do nothing for it.
 */
#include "mpiio.h"

#include <stdio.h>

#include <ompi/request/request.h>

int mpiio_agree(struct ompi_communicator_t *communicator, int error)
{
	int worst = error;

	if (PMPI_Allreduce(&error, &worst, 1, MPI_INT, MPI_MAX, communicator) != MPI_SUCCESS)
		return error != MPI_SUCCESS ? error : MPI_ERR_OTHER;
	return error != MPI_SUCCESS ? error : worst;
}

/* Ends a call of one rank. `ret`: of OMPIO. */
static int end_alone(struct ompi_file_t *handle, int ret)
{
	int error = atomic_exchange(&mpiio_file_of(handle)->call_error, MPI_SUCCESS);

	return ret != OMPI_SUCCESS ? ret : error;
}

static int end_together(struct ompi_file_t *handle, int ret)
{
	int error = atomic_exchange(&mpiio_file_of(handle)->call_error, MPI_SUCCESS);

	error = mpiio_agree(
		((mca_common_ompio_data_t *)handle->f_io_selected_data)->ompio_fh.f_comm, error);
	return ret != OMPI_SUCCESS ? ret : error;
}

/* The request has been carried out, and waiting for it tells the error. */
static int end_request(struct ompi_file_t *handle, int ret, struct ompi_request_t **request)
{
	int error = end_alone(handle, OMPI_SUCCESS);

	if (ret == OMPI_SUCCESS && error != MPI_SUCCESS && *request)
		(*request)->req_status.MPI_ERROR = error;
	return ret;
}

#define PART_MEMORY(constant) constant void *data, int count, struct ompi_datatype_t *datatype
#define OMPIO_OF(handle)      mpiio_file_of(handle)->ompio

/* Each defines the functions of a form, of those that read and those that write. */
#define DEFINE_AT(name, constant, end)                                                      \
	static int our_##name(struct ompi_file_t *handle, MPI_Offset offset,                \
			      PART_MEMORY(constant), struct ompi_status_public_t *status)   \
	{                                                                                   \
		return end(handle, OMPIO_OF(handle).io_module_file_##name(                  \
					   handle, offset, data, count, datatype, status)); \
	}
#define DEFINE_HERE(name, constant, end)                                                       \
	static int our_##name(struct ompi_file_t *handle, PART_MEMORY(constant),               \
			      struct ompi_status_public_t *status)                             \
	{                                                                                      \
		return end(handle, OMPIO_OF(handle).io_module_file_##name(handle, data, count, \
									  datatype, status));  \
	}
#define DEFINE_REQUEST_AT(name, constant)                                                   \
	static int our_##name(struct ompi_file_t *handle, MPI_Offset offset,                \
			      PART_MEMORY(constant), struct ompi_request_t **request)       \
	{                                                                                   \
		return end_request(handle,                                                  \
				   OMPIO_OF(handle).io_module_file_##name(                  \
					   handle, offset, data, count, datatype, request), \
				   request);                                                \
	}
#define DEFINE_REQUEST(name, constant)                                                         \
	static int our_##name(struct ompi_file_t *handle, PART_MEMORY(constant),               \
			      struct ompi_request_t **request)                                 \
	{                                                                                      \
		return end_request(handle,                                                     \
				   OMPIO_OF(handle).io_module_file_##name(handle, data, count, \
									  datatype, request),  \
				   request);                                                   \
	}
#define DEFINE_END(name, constant)                                                                 \
	static int our_##name(struct ompi_file_t *handle, constant void *data,                     \
			      struct ompi_status_public_t *status)                                 \
	{                                                                                          \
		return end_together(handle,                                                        \
				    OMPIO_OF(handle).io_module_file_##name(handle, data, status)); \
	}

#define NONE
DEFINE_AT(read_at, NONE, end_alone)
DEFINE_AT(read_at_all, NONE, end_together)
DEFINE_AT(write_at, const, end_alone)
DEFINE_AT(write_at_all, const, end_together)
DEFINE_HERE(read, NONE, end_alone)
DEFINE_HERE(read_all, NONE, end_together)
DEFINE_HERE(read_shared, NONE, end_alone)
DEFINE_HERE(read_ordered, NONE, end_together)
DEFINE_HERE(write, const, end_alone)
DEFINE_HERE(write_all, const, end_together)
DEFINE_HERE(write_shared, const, end_alone)
DEFINE_HERE(write_ordered, const, end_together)
DEFINE_REQUEST_AT(iread_at, NONE)
DEFINE_REQUEST_AT(iread_at_all, NONE)
DEFINE_REQUEST_AT(iwrite_at, const)
DEFINE_REQUEST_AT(iwrite_at_all, const)
DEFINE_REQUEST(iread, NONE)
DEFINE_REQUEST(iread_all, NONE)
DEFINE_REQUEST(iread_shared, NONE)
DEFINE_REQUEST(iwrite, const)
DEFINE_REQUEST(iwrite_all, const)
DEFINE_REQUEST(iwrite_shared, const)
/* An error of the call that begins is told by the one that ends. */
DEFINE_END(read_at_all_end, NONE)
DEFINE_END(read_all_end, NONE)
DEFINE_END(read_ordered_end, NONE)
DEFINE_END(write_at_all_end, const)
DEFINE_END(write_all_end, const)
DEFINE_END(write_ordered_end, const)

/* ---- Calls that OMPIO would carry out in another way */

static int our_set_atomicity(struct ompi_file_t *handle, int flag)
{
	const struct ompio_file_t *ompio =
		&((mca_common_ompio_data_t *)handle->f_io_selected_data)->ompio_fh;

	if (!flag)
		return OMPIO_OF(handle).io_module_file_set_atomicity(handle, flag);
	if (ompio->f_rank == 0)
		fprintf(stderr,
			"afar: set atomic mode of %s: Open MPI's OMPIO has none; use "
			"MPI_File_sync, "
			"or a mount and --mca io romio321\n",
			ompio->f_filename);
	return MPI_ERR_UNSUPPORTED_OPERATION;
}

/* OMPIO would write zeros. */
static int our_preallocate(struct ompi_file_t *handle, MPI_Offset bytes)
{
	const struct ompio_file_t *ompio =
		&((mca_common_ompio_data_t *)handle->f_io_selected_data)->ompio_fh;
	int ret, error = MPI_SUCCESS;

	if (ompio->f_rank == 0 && bytes > 0) {
		ret = afar_file_allocate(mpiio_file_of(handle)->file, 0, 0, (uint64_t)bytes);
		error = mpiio_class(ret);
		if (ret)
			mpiio_say(0, "preallocate", ompio->f_filename, ret);
	}
	PMPI_Bcast(&error, 1, MPI_INT, 0, ompio->f_comm);
	return error;
}

void mpiio_calls_wrap(struct ompi_file_t *handle, struct mpiio_file *file)
{
	mca_io_base_module_2_0_0_t *table = &handle->f_io_selected_module.v2_0_0;

	file->ompio = *table;
#define WRAP(name) table->io_module_file_##name = our_##name
	WRAP(read_at);
	WRAP(read_at_all);
	WRAP(read_at_all_end);
	WRAP(read);
	WRAP(read_all);
	WRAP(read_all_end);
	WRAP(read_shared);
	WRAP(read_ordered);
	WRAP(read_ordered_end);
	WRAP(iread_at);
	WRAP(iread_at_all);
	WRAP(iread);
	WRAP(iread_all);
	WRAP(iread_shared);
	WRAP(write_at);
	WRAP(write_at_all);
	WRAP(write_at_all_end);
	WRAP(write);
	WRAP(write_all);
	WRAP(write_all_end);
	WRAP(write_shared);
	WRAP(write_ordered);
	WRAP(write_ordered_end);
	WRAP(iwrite_at);
	WRAP(iwrite_at_all);
	WRAP(iwrite);
	WRAP(iwrite_all);
	WRAP(iwrite_shared);
	WRAP(set_atomicity);
	WRAP(preallocate);
#undef WRAP
}
