/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The component `fs`: opens, closes, deletes and describes files. The first rank finds or makes a file by its path, and tells the
 * others its inode number. Each rank then has it open in a session of its own.
 */
#include "mpiio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ompi/mca/fs/base/base.h>
#include <ompi/mca/fs/fs.h>
#include <opal/util/info.h>
#include <opal/util/output.h>

#define PRIORITY 90
#define ROOT	 0
/* mpirun --mca fs_base_verbose 10 shows which files go this way. */
#define VERBOSITY 10
#define WHY_BYTES 256 /* of a line of afar_last_error() */

/* ---- Which files are ours */

static bool find_name(const char *text, struct mpiio_name *out)
{
	return mpiio_name_parse(text, out) || mpiio_name_find_mounted(text, out);
}

/* Returns whether the file system of a mount is the one that our cluster has under this name. */
static bool is_same_system(const struct mpiio_name *name)
{
	struct mpiio_system *system;
	bool is_same;

	if (mpiio_system_get(name->system, &system))
		return false;
	is_same = afar_fs_identity(system->fs) == name->identity;
	mpiio_system_put(system);
	return is_same;
}

/* Without a communicator a file is to be deleted. */
static bool has_ranks(const struct ompio_file_t *handle)
{
	return handle->f_comm && handle->f_comm != MPI_COMM_NULL;
}

static bool is_ours(const struct ompio_file_t *handle)
{
	struct mpiio_name name;
	int is_mounted = 0;

	if (mpiio_name_parse(handle->f_filename, &name))
		return true;
	/* All ranks have to choose alike. */
	if (!has_ranks(handle) || handle->f_rank == ROOT)
		is_mounted =
			mpiio_name_find_mounted(handle->f_filename, &name) && is_same_system(&name);
	if (has_ranks(handle))
		PMPI_Bcast(&is_mounted, 1, MPI_INT, ROOT, handle->f_comm);
	return is_mounted;
}

/* ---- Opening */

/* The first rank tells this to the others. */
struct opened {
	int error; /* a class of MPI's errors */
	int flags;
	char system[AFAR_NAME_MAX + 1]; /* others may have it mounted nowhere */
	uint64_t ino;
	uint64_t stripe_bytes;
	uint32_t width;
	uint32_t tier;
};

static int flags_of(int amode)
{
	int flags = amode & MPI_MODE_RDWR ? O_RDWR : amode & MPI_MODE_WRONLY ? O_WRONLY : O_RDONLY;

	if (amode & MPI_MODE_CREATE)
		flags |= O_CREAT;
	if (amode & MPI_MODE_EXCL)
		flags |= O_EXCL;
	return flags;
}

/* OMPIO asks for reading, too, where the program only writes. */
static bool may_go_without_reading(const struct ompio_file_t *handle, int flags, int ret)
{
	return ret == -EACCES && (flags & O_ACCMODE) == O_RDWR &&
	       (handle->f_amode & MPI_MODE_WRONLY);
}

/* Reads a hint; 0: there is none. A senseless one is as one that no file can have. */
static uint64_t read_hint(struct opal_info_t *info, const char *name, uint64_t max)
{
	char text[32];
	char *end;
	int is_there = 0;
	uint64_t number;

	if (!info || opal_info_get(info, name, sizeof(text) - 1, text, &is_there) != OPAL_SUCCESS ||
	    !is_there)
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	return errno || end == text || *end || number == 0 || number > max ? max : number;
}

static struct afar_open_options options_of(struct ompio_file_t *handle, struct opal_info_t *info)
{
	return (struct afar_open_options){
		.size = sizeof(struct afar_open_options),
		.mode = (uint32_t)mca_fs_base_get_file_perm(handle) & 0777U,
		.width = (uint32_t)read_hint(info, "striping_factor", UINT32_MAX),
		.stripe_bytes = read_hint(info, "striping_unit", UINT64_MAX),
	};
}

/* Opens or makes the file. Goes without a layout that none can have, after a line that says so. */
static int open_or_make(struct afar_fs *fs, const struct mpiio_name *name, int flags,
			struct afar_open_options *options, struct afar_file **out)
{
	int ret = afar_file_open_path(fs, NULL, name->dir, name->path, flags, options, out);
	char why[WHY_BYTES];

	if (ret != -EINVAL || (options->width == 0 && options->stripe_bytes == 0))
		return ret;
	snprintf(why, sizeof(why), "%s", afar_last_error());
	options->width = 0;
	options->stripe_bytes = 0;
	ret = afar_file_open_path(fs, NULL, name->dir, name->path, flags, options, out);
	/* Else it was not the hints. */
	if (ret != -EINVAL)
		fprintf(stderr,
			"afar: hints striping_unit and striping_factor for %s do not count: %s\n",
			name->path, why);
	return ret;
}

/* Tells of the open file, whose layout is its own, or the file system's. */
static int describe(struct mpiio_file *file, struct opened *opened)
{
	struct afar_fs_stat system = {.size = sizeof(system)};
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_stat(file->system->fs, &system);

	if (ret == 0)
		ret = afar_file_stat(file->file, &stat);
	opened->ino = afar_file_ino(file->file);
	opened->stripe_bytes = stat.width != 0 ? stat.stripe_bytes : system.stripe_bytes;
	opened->width = stat.width != 0 ? stat.width : system.width;
	opened->tier = system.tier;
	return ret;
}

static int open_by_path(struct ompio_file_t *handle, const struct mpiio_name *name, int amode,
			struct opal_info_t *info, struct mpiio_file *file, struct opened *opened)
{
	struct afar_open_options options = options_of(handle, info);
	int flags = flags_of(amode);
	int ret = mpiio_system_get(name->system, &file->system);

	if (ret)
		return ret;
	ret = open_or_make(file->system->fs, name, flags, &options, &file->file);
	if (may_go_without_reading(handle, flags, ret)) {
		flags = (flags & ~O_ACCMODE) | O_WRONLY;
		ret = open_or_make(file->system->fs, name, flags, &options, &file->file);
	}
	if (ret == 0)
		ret = describe(file, opened);
	if (ret)
		return ret;
	opened->flags = flags & O_ACCMODE;
	strcpy(opened->system, name->system);
	return 0;
}

/* Closes what could not be opened by all. */
static void discard(struct mpiio_file *file)
{
	if (file->file)
		afar_file_close(file->file);
	if (file->system)
		mpiio_system_put(file->system);
	free(file);
}

static int open_as_root(struct ompio_file_t *handle, int amode, struct opal_info_t *info,
			struct mpiio_file *file, struct opened *opened)
{
	struct mpiio_name name;
	int ret = find_name(handle->f_filename, &name) ? 0 : -ENOENT;

	if (ret == 0 && name.path[0] == '\0') {
		fprintf(stderr,
			"afar: open %s: name a file in a file system: afar:/FS/PATH, at most %u "
			"bytes\n",
			handle->f_filename, AFAR_FILE_PATH_MAX);
		return -EISDIR;
	}
	if (ret == 0)
		ret = open_by_path(handle, &name, amode, info, file, opened);
	if (ret)
		mpiio_say(handle->f_rank, "open", handle->f_filename, ret);
	return ret;
}

static int open_as_other(struct ompio_file_t *handle, struct mpiio_file *file,
			 const struct opened *opened)
{
	int ret = mpiio_system_get(opened->system, &file->system);

	if (ret == 0)
		ret = afar_file_open(file->system->fs, NULL, opened->ino, opened->flags,
				     &file->file);
	if (ret)
		mpiio_say(handle->f_rank, "open", handle->f_filename, ret);
	return ret;
}

/* MPI_File_get_info() tells what is. */
static void tell_layout(struct ompio_file_t *handle, const struct opened *opened)
{
	char text[32];

	handle->f_stripe_size = opened->stripe_bytes;
	handle->f_stripe_count = (int)opened->width;
	if (!handle->f_fh || !handle->f_fh->super.s_info)
		return;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)opened->stripe_bytes);
	opal_info_set(handle->f_fh->super.s_info, "striping_unit", text);
	snprintf(text, sizeof(text), "%u", opened->width);
	opal_info_set(handle->f_fh->super.s_info, "striping_factor", text);
}

static int file_open(struct ompi_communicator_t *communicator, const char *filename, int amode,
		     struct opal_info_t *info, struct ompio_file_t *handle)
{
	struct mpiio_file *file = calloc(1, sizeof(*file));
	struct opened opened = {0};
	int error = MPI_SUCCESS;

	(void)filename;
	handle->f_fs_ptr = NULL;
	if (handle->f_rank == ROOT)
		opened.error = file ? mpiio_class(open_as_root(handle, amode, info, file, &opened))
				    : MPI_ERR_NO_MEM;
	PMPI_Bcast(&opened, sizeof(opened), MPI_BYTE, ROOT, communicator);
	if (opened.error == MPI_SUCCESS) {
		if (handle->f_rank != ROOT)
			error = file ? mpiio_class(open_as_other(handle, file, &opened))
				     : MPI_ERR_NO_MEM;
		opened.error = mpiio_agree(communicator, error);
	}
	if (opened.error != MPI_SUCCESS || !file) {
		if (file)
			discard(file);
		return opened.error;
	}
	file->is_flash = opened.tier == AFAR_TIER_FLASH;
	handle->f_fs_ptr = file;
	tell_layout(handle, &opened);
	opal_output_verbose(VERBOSITY, ompi_fs_base_framework.framework_output,
			    "afar: rank %d: %s is inode %llu of file system %s, opened by libafar",
			    handle->f_rank, handle->f_filename, (unsigned long long)opened.ino,
			    opened.system);
	if (handle->f_fh)
		mpiio_calls_wrap(handle->f_fh, file);
	return OMPI_SUCCESS;
}

/* ---- Open files */

/* Notes that a call on the open file failed with `ret`, and returns its class. */
static int answer(const struct ompio_file_t *handle, const char *what, int ret)
{
	if (ret)
		mpiio_say(handle->f_rank, what, handle->f_filename, ret);
	return mpiio_class(ret);
}

/* Open MPI drops what closing returns, so the file's error handler hears of it here. */
static int file_close(struct ompio_file_t *handle)
{
	struct mpiio_file *file = handle->f_fs_ptr;
	int error;

	if (!file) /* it could not be opened */
		return OMPI_SUCCESS;
	handle->f_fs_ptr = NULL;
	error = answer(handle, "close", afar_file_close(file->file));
	if (error == MPI_SUCCESS)
		error = atomic_load(&file->lost);
	error = mpiio_agree(handle->f_comm, error);
	mpiio_system_put(file->system);
	free(file);
	if (error != MPI_SUCCESS && handle->f_rank == ROOT)
		fprintf(stderr, "afar: close %s: something that was written is lost\n",
			handle->f_filename);
	if (error != MPI_SUCCESS && handle->f_fh && handle->f_fh->error_handler)
		OMPI_ERRHANDLER_INVOKE(handle->f_fh, error, "MPI_File_close");
	return error;
}

static int file_delete(char *filename, struct opal_info_t *info)
{
	struct mpiio_system *system;
	struct mpiio_name name;
	const char *slash;
	uint64_t dir;
	int ret;

	(void)info;
	if (!find_name(filename, &name))
		return MPI_ERR_NO_SUCH_FILE;
	slash = strrchr(name.path, '/');
	if (!slash && name.dir == 0)
		return MPI_ERR_BAD_FILE;
	ret = mpiio_system_get(name.system, &system);
	if (ret == 0) {
		ret = mpiio_name_directory(system->fs, &name, &dir);
		if (ret == 0)
			ret = afar_fs_unlink(system->fs, NULL, dir, slash ? slash + 1 : name.path);
		mpiio_system_put(system);
	}
	if (ret && ret != -ENOENT)
		mpiio_say(ROOT, "delete", filename, ret);
	return mpiio_class(ret);
}

static int file_set_size(struct ompio_file_t *handle, OMPI_MPI_OFFSET_TYPE size)
{
	struct mpiio_file *file = handle->f_fs_ptr;
	int error = MPI_SUCCESS;

	if (handle->f_rank == ROOT)
		error = answer(handle, "set the size of",
			       afar_file_truncate(file->file, (uint64_t)size));
	PMPI_Bcast(&error, 1, MPI_INT, ROOT, handle->f_comm);
	return error;
}

static int file_get_size(struct ompio_file_t *handle, OMPI_MPI_OFFSET_TYPE *size)
{
	struct mpiio_file *file = handle->f_fs_ptr;
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_file_stat(file->file, &stat);

	*size = ret ? 0 : (OMPI_MPI_OFFSET_TYPE)stat.bytes;
	return answer(handle, "find the size of", ret);
}

static int file_sync(struct ompio_file_t *handle)
{
	struct mpiio_file *file = handle->f_fs_ptr;
	int error = answer(handle, "sync", afar_file_sync(file->file));
	int lost = atomic_exchange(&file->lost, MPI_SUCCESS);

	return mpiio_agree(handle->f_comm, lost != MPI_SUCCESS ? lost : error);
}

/* ---- The component */

static int begin_or_end(struct ompio_file_t *handle)
{
	(void)handle;
	return OMPI_SUCCESS;
}

static mca_fs_base_module_t module = {
	.fs_module_init = begin_or_end,
	.fs_module_finalize = begin_or_end,
	.fs_file_open = file_open,
	.fs_file_close = file_close,
	.fs_file_delete = file_delete,
	.fs_file_set_size = file_set_size,
	.fs_file_get_size = file_get_size,
	.fs_file_sync = file_sync,
};

static int init_query(bool has_progress_threads, bool has_threads)
{
	(void)has_progress_threads;
	(void)has_threads;
	return OMPI_SUCCESS;
}

static mca_fs_base_module_t *file_query(struct ompio_file_t *handle, int *priority)
{
	if (!is_ours(handle))
		return NULL;
	*priority = PRIORITY;
	return &module;
}

extern mca_fs_base_component_2_0_0_t mca_fs_afar_component;
mca_fs_base_component_2_0_0_t mca_fs_afar_component = {
	.fsm_version = {MCA_FS_BASE_VERSION_2_0_0, .mca_component_name = "afar"},
	.fsm_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
	.fsm_init_query = init_query,
	.fsm_file_query = file_query,
	.fsm_file_unquery = begin_or_end,
};
