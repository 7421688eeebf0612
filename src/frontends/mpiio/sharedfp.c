/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The component `sharedfp`: shared pointers, for ranks on several machines; on one, Open MPI's own `sm` comes first. The pointer is 8 bytes,
 * in a file without a name. Rank 0 makes that beside the file, and it goes when all have closed it. A rank that moves the pointer has it locked.
 */
#include "mpiio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <ompi/mca/sharedfp/base/base.h>
#include <ompi/mca/sharedfp/sharedfp.h>
#include <opal/mca/base/mca_base_var.h>

#define ROOT 0

/* Between those of `sm` and of `lockedfile`, which needs a path. */
static int priority_of_ours = 20;

struct pointer {
	struct afar_file *file; /* a word: bytes from where the view begins */
};

/* ---- Moving the pointer */

static int64_t fail(struct ompio_file_t *handle, int64_t ret)
{
	mpiio_note(handle, handle->f_fs_ptr, false, (int)ret);
	return -1;
}

static int lock(struct pointer *pointer, uint32_t mode)
{
	const struct afar_lock whole = {
		.size = sizeof(whole),
		.mode = mode,
		.owner = 1,
	};

	return afar_file_lock(pointer->file, &whole, -1);
}

/* Adds to the pointer, or sets it if `is_set`. Returns what it was; -1: that failed, and is noted. */
static int64_t move(struct ompio_file_t *handle, int64_t bytes, bool is_set)
{
	struct pointer *pointer = handle->f_sharedfp_data;
	int64_t before = 0, now;
	ssize_t ret = pointer ? lock(pointer, AFAR_LOCK_EXCLUSIVE) : -ENOTSUP;

	if (ret)
		return fail(handle, ret);
	ret = afar_file_pread(pointer->file, &before, sizeof(before), 0);
	now = is_set ? bytes : before + bytes;
	if (ret >= 0 && now != before)
		ret = afar_file_pwrite(pointer->file, &now, sizeof(now), 0);
	lock(pointer, AFAR_LOCK_NONE);
	return ret < 0 ? fail(handle, ret) : before;
}

static int64_t bytes_of(int count, struct ompi_datatype_t *datatype)
{
	MPI_Count size = 0;

	PMPI_Type_size_x(datatype, &size);
	return (int64_t)count * size;
}

/* Takes the next bytes for this rank. Gives where they begin, in etypes. */
static int take(struct ompio_file_t *handle, int count, struct ompi_datatype_t *datatype,
		OMPI_MPI_OFFSET_TYPE *at)
{
	int64_t before = move(handle, bytes_of(count, datatype), false);

	*at = (OMPI_MPI_OFFSET_TYPE)(before / (int64_t)handle->f_etype_size);
	return before < 0 ? MPI_ERR_IO : OMPI_SUCCESS;
}

/* Takes the next bytes for all ranks, in their order. */
static int take_in_order(struct ompio_file_t *handle, int count, struct ompi_datatype_t *datatype,
			 OMPI_MPI_OFFSET_TYPE *at)
{
	int64_t own = bytes_of(count, datatype), end = 0, before = 0;

	PMPI_Scan(&own, &end, 1, MPI_INT64_T, MPI_SUM, handle->f_comm);
	if (handle->f_rank == handle->f_size - 1)
		before = move(handle, end, false);
	PMPI_Bcast(&before, 1, MPI_INT64_T, handle->f_size - 1, handle->f_comm);
	*at = (OMPI_MPI_OFFSET_TYPE)((before + end - own) / (int64_t)handle->f_etype_size);
	return before < 0 ? MPI_ERR_IO : OMPI_SUCCESS;
}

/* ---- The calls */

/* Gives it in bytes: OMPIO divides. */
static int get_position(struct ompio_file_t *handle, OMPI_MPI_OFFSET_TYPE *at)
{
	*at = (OMPI_MPI_OFFSET_TYPE)move(handle, 0, false);
	return *at < 0 ? MPI_ERR_IO : OMPI_SUCCESS;
}

/* For all ranks at once. */
static int seek(struct ompio_file_t *handle, OMPI_MPI_OFFSET_TYPE offset, int whence)
{
	int64_t to = offset * (int64_t)handle->f_etype_size;
	OMPI_MPI_OFFSET_TYPE end = 0;
	int64_t before = 0;
	int error = OMPI_SUCCESS;

	/* Each new view asks for the begin. */
	if (!handle->f_sharedfp_data)
		return offset == 0 && whence == MPI_SEEK_SET ? OMPI_SUCCESS
							     : MPI_ERR_UNSUPPORTED_OPERATION;
	if (handle->f_rank == ROOT) {
		if (whence == MPI_SEEK_CUR)
			before = move(handle, 0, false);
		to += before;
		if (before < 0)
			error = MPI_ERR_IO;
		if (whence == MPI_SEEK_END) {
			error = handle->f_fs->fs_file_get_size(handle, &end);
			to += end - handle->f_disp;
		}
		if (error == OMPI_SUCCESS && to < 0)
			error = MPI_ERR_ARG;
		if (error == OMPI_SUCCESS && move(handle, to, true) < 0)
			error = MPI_ERR_IO;
	}
	PMPI_Bcast(&error, 1, MPI_INT, ROOT, handle->f_comm);
	return error;
}

static int read_shared(struct ompio_file_t *handle, void *data, int count,
		       struct ompi_datatype_t *datatype, ompi_status_public_t *status)
{
	OMPI_MPI_OFFSET_TYPE at;
	int ret = take(handle, count, datatype, &at);

	return ret ? ret : mca_common_ompio_file_read_at(handle, at, data, count, datatype, status);
}

static int write_shared(struct ompio_file_t *handle, const void *data, int count,
			struct ompi_datatype_t *datatype, ompi_status_public_t *status)
{
	OMPI_MPI_OFFSET_TYPE at;
	int ret = take(handle, count, datatype, &at);

	return ret ? ret
		   : mca_common_ompio_file_write_at(handle, at, data, count, datatype, status);
}

static int read_ordered(struct ompio_file_t *handle, void *data, int count,
			struct ompi_datatype_t *datatype, ompi_status_public_t *status)
{
	OMPI_MPI_OFFSET_TYPE at;
	int ret = take_in_order(handle, count, datatype, &at);

	return ret ? ret
		   : mca_common_ompio_file_read_at_all(handle, at, data, count, datatype, status);
}

static int write_ordered(struct ompio_file_t *handle, const void *data, int count,
			 struct ompi_datatype_t *datatype, ompi_status_public_t *status)
{
	OMPI_MPI_OFFSET_TYPE at;
	int ret = take_in_order(handle, count, datatype, &at);

	return ret ? ret
		   : mca_common_ompio_file_write_at_all(handle, at, data, count, datatype, status);
}

static int iread_shared(struct ompio_file_t *handle, void *data, int count,
			struct ompi_datatype_t *datatype, ompi_request_t **request)
{
	OMPI_MPI_OFFSET_TYPE at;
	int ret = take(handle, count, datatype, &at);

	return ret ? ret
		   : mca_common_ompio_file_iread_at(handle, at, data, count, datatype, request);
}

static int iwrite_shared(struct ompio_file_t *handle, const void *data, int count,
			 struct ompi_datatype_t *datatype, ompi_request_t **request)
{
	OMPI_MPI_OFFSET_TYPE at;
	int ret = take(handle, count, datatype, &at);

	return ret ? ret
		   : mca_common_ompio_file_iwrite_at(handle, at, data, count, datatype, request);
}

/* Split calls are carried out when they begin, but for the bytes, which wait for a request. */
static int read_ordered_begin(struct ompio_file_t *handle, void *data, int count,
			      struct ompi_datatype_t *datatype)
{
	OMPI_MPI_OFFSET_TYPE at;
	int ret = handle->f_split_coll_in_use ? MPI_ERR_OTHER
					      : take_in_order(handle, count, datatype, &at);

	if (ret)
		return ret;
	handle->f_split_coll_in_use = true;
	return mca_common_ompio_file_iread_at_all(handle, at, data, count, datatype,
						  &handle->f_split_coll_req);
}

static int write_ordered_begin(struct ompio_file_t *handle, const void *data, int count,
			       struct ompi_datatype_t *datatype)
{
	OMPI_MPI_OFFSET_TYPE at;
	int ret = handle->f_split_coll_in_use ? MPI_ERR_OTHER
					      : take_in_order(handle, count, datatype, &at);

	if (ret)
		return ret;
	handle->f_split_coll_in_use = true;
	return mca_common_ompio_file_iwrite_at_all(handle, at, data, count, datatype,
						   &handle->f_split_coll_req);
}

static int end_split(struct ompio_file_t *handle, ompi_status_public_t *status)
{
	handle->f_split_coll_in_use = false;
	return ompi_request_wait(&handle->f_split_coll_req, status);
}

static int read_ordered_end(struct ompio_file_t *handle, void *data, ompi_status_public_t *status)
{
	(void)data;
	return end_split(handle, status);
}

static int write_ordered_end(struct ompio_file_t *handle, const void *data,
			     ompi_status_public_t *status)
{
	(void)data;
	return end_split(handle, status);
}

/* ---- Opening */

static int make_word(struct afar_fs *fs, const char *filename, struct afar_file **out)
{
	const int64_t none = 0;
	struct mpiio_name name;
	ssize_t ret = -ENOENT;
	uint64_t dir;

	if (mpiio_name_parse(filename, &name) || mpiio_name_find_mounted(filename, &name))
		ret = mpiio_name_directory(fs, &name, &dir);
	if (ret == 0)
		ret = afar_file_create(fs, NULL, dir, NULL, 0600, O_TMPFILE | O_RDWR, out, NULL);
	if (ret == 0)
		ret = afar_file_pwrite(*out, &none, sizeof(none), 0);
	return ret < 0 ? (int)ret : 0;
}

/* If there can be none, the file is used without it: calls on its shared pointer fail. */
static int file_open(struct ompi_communicator_t *communicator, const char *filename, int amode,
		     struct opal_info_t *info, struct ompio_file_t *handle)
{
	const struct mpiio_file *file = handle->f_fs_ptr;
	struct pointer *pointer = calloc(1, sizeof(*pointer));
	uint64_t ino = 0;
	int ret = pointer ? 0 : -ENOMEM;

	(void)amode;
	(void)info;
	if (ret == 0 && handle->f_rank == ROOT)
		ret = make_word(file->system->fs, filename, &pointer->file);
	if (ret == 0 && handle->f_rank == ROOT)
		ino = afar_file_ino(pointer->file);
	PMPI_Bcast(&ino, 1, MPI_UINT64_T, ROOT, communicator);
	if (ret == 0 && handle->f_rank != ROOT)
		ret = ino == 0
			      ? -EIO
			      : afar_file_open(file->system->fs, NULL, ino, O_RDWR, &pointer->file);
	if (mpiio_agree(communicator, mpiio_class(ret)) != MPI_SUCCESS && pointer) {
		if (pointer->file)
			afar_file_close(pointer->file);
		free(pointer);
		pointer = NULL;
	}
	handle->f_sharedfp_data = pointer;
	return OMPI_SUCCESS;
}

static int file_close(struct ompio_file_t *handle)
{
	struct pointer *pointer = handle->f_sharedfp_data;

	handle->f_sharedfp_data = NULL;
	if (pointer)
		afar_file_close(pointer->file);
	free(pointer);
	return OMPI_SUCCESS;
}

/* ---- The component */

static int begin_or_end(struct ompio_file_t *handle)
{
	(void)handle;
	return OMPI_SUCCESS;
}

static mca_sharedfp_base_module_t module = {
	.sharedfp_module_init = begin_or_end,
	.sharedfp_module_finalize = begin_or_end,
	.sharedfp_seek = seek,
	.sharedfp_get_position = get_position,
	.sharedfp_read = read_shared,
	.sharedfp_read_ordered = read_ordered,
	.sharedfp_read_ordered_begin = read_ordered_begin,
	.sharedfp_read_ordered_end = read_ordered_end,
	.sharedfp_iread = iread_shared,
	.sharedfp_write = write_shared,
	.sharedfp_write_ordered = write_ordered,
	.sharedfp_write_ordered_begin = write_ordered_begin,
	.sharedfp_write_ordered_end = write_ordered_end,
	.sharedfp_iwrite = iwrite_shared,
	.sharedfp_file_open = file_open,
	.sharedfp_file_close = file_close,
};

static int init_query(bool has_progress_threads, bool has_threads)
{
	(void)has_progress_threads;
	(void)has_threads;
	return OMPI_SUCCESS;
}

static mca_sharedfp_base_module_t *file_query(struct ompio_file_t *handle, int *priority)
{
	if (!handle->f_fs_component ||
	    strcmp(handle->f_fs_component->mca_component_name, "afar") != 0)
		return NULL;
	*priority = priority_of_ours;
	return &module;
}

extern mca_sharedfp_base_component_2_0_0_t mca_sharedfp_afar_component;

static int register_parameters(void)
{
	(void)mca_base_component_var_register(&mca_sharedfp_afar_component.sharedfpm_version,
					      "priority", "Priority of shared pointers in Afar",
					      MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_9,
					      MCA_BASE_VAR_SCOPE_READONLY, &priority_of_ours);
	return OMPI_SUCCESS;
}

mca_sharedfp_base_component_2_0_0_t mca_sharedfp_afar_component = {
	.sharedfpm_version = {MCA_SHAREDFP_BASE_VERSION_2_0_0, .mca_component_name = "afar",
			      .mca_register_component_params = register_parameters},
	.sharedfpm_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
	.sharedfpm_init_query = init_query,
	.sharedfpm_file_query = file_query,
	.sharedfpm_file_unquery = begin_or_end,
};
