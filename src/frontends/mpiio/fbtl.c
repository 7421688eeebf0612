/* SPDX-License-Identifier: BSD-3-Clause */
/* The component `fbtl`: moves the pieces that OMPIO has made of a view and a datatype, all of a call together. */
#include "mpiio.h"

#include <errno.h>
#include <stdlib.h>

#include <ompi/mca/fbtl/fbtl.h>

#define PRIORITY 90

/* Carries out the transfers of `handle`. Returns how many bytes; 0 if it failed, which is noted. */
static ssize_t transfer(struct ompio_file_t *handle, bool is_write)
{
	struct mpiio_file *file = handle->f_fs_ptr;
	const unsigned nr = (unsigned)handle->f_num_of_io_entries;
	struct afar_file_vector *vectors = malloc((nr + 1) * sizeof(*vectors));
	ssize_t ret = -ENOMEM;

	for (unsigned i = 0; vectors && i < nr; i++) {
		const mca_common_ompio_io_array_t *entry = &handle->f_io_array[i];

		vectors[i] = (struct afar_file_vector){
			.offset = (uint64_t)(uintptr_t)entry->offset,
			.data = entry->memory_address,
			.length = entry->length,
		};
	}
	if (vectors)
		ret = is_write ? afar_file_writex(file->file, vectors, nr)
			       : afar_file_readx(file->file, vectors, nr);
	free(vectors);
	if (ret >= 0)
		return ret;
	mpiio_note(handle, file, is_write, (int)ret);
	return 0;
}

static ssize_t preadv_all(struct ompio_file_t *handle)
{
	return transfer(handle, false);
}

static ssize_t pwritev_all(struct ompio_file_t *handle)
{
	return transfer(handle, true);
}

static int begin_or_end(struct ompio_file_t *handle)
{
	(void)handle;
	return OMPI_SUCCESS;
}

/* Requests that are not waited for are carried out at once, because OMPIO does that where ipreadv is NULL. */
static mca_fbtl_base_module_t module = {
	.fbtl_module_init = begin_or_end,
	.fbtl_module_finalize = begin_or_end,
	.fbtl_preadv = preadv_all,
	.fbtl_pwritev = pwritev_all,
};

static int init_query(bool has_progress_threads, bool has_threads)
{
	(void)has_progress_threads;
	(void)has_threads;
	return OMPI_SUCCESS;
}

/* Takes the files that the component `fs` of Afar has taken. */
static mca_fbtl_base_module_t *file_query(struct ompio_file_t *handle, int *priority)
{
	if (!handle->f_fs_component ||
	    strcmp(handle->f_fs_component->mca_component_name, "afar") != 0)
		return NULL;
	*priority = PRIORITY;
	return &module;
}

extern mca_fbtl_base_component_2_0_0_t mca_fbtl_afar_component;
mca_fbtl_base_component_2_0_0_t mca_fbtl_afar_component = {
	.fbtlm_version = {MCA_FBTL_BASE_VERSION_2_0_0, .mca_component_name = "afar"},
	.fbtlm_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
	.fbtlm_init_query = init_query,
	.fbtlm_file_query = file_query,
	.fbtlm_file_unquery = begin_or_end,
};
