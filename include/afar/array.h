/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays: records in up to eight dimensions, in a region or a file. Any part is read and written in one call.
 *
 *	struct afar_array_shape shape = {.size = sizeof(shape), .nr_dimensions = 2, .record_bytes = 8, .extent = {1000, 2000}};
 *	struct afar_slab slab = {.size = sizeof(slab), .start = {2, 0}, .count = {8, 667}, .stride = {1, 3}};
 *
 *	afar_array_bytes(&shape, &bytes);                    so long is the region
 *	afar_array_create(region, &shape, &array);           or afar_array_create_file()
 *	afar_array_read(array, &slab, data);                 a[2:10, ::3]
 *
 * An array begins with a header of 4096 bytes, which says what follows. So whoever opens the region or the file need
 * not be told. The records follow, by rows or in blocks. Each block is in one piece then, and blocks at the edges take as
 * much room as all others.
 *
 * Rules of afar.h hold. Any number of threads may use an array at once. Its records are bytes of the region or the file:
 * afar_region_sync() or afar_file_sync() makes them durable.
 *
 * The idea is that of the multi-dimensional block interface of PVFS, which Wu, Wyckoff and Panda (PVFS over InfiniBand, 2003) list beside its
 * others.
 */
#ifndef AFAR_ARRAY_H
#define AFAR_ARRAY_H

#include <afar/file.h>
#include <afar/region.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_array; /* an open array */

#define AFAR_ARRAY_DIMENSIONS_MAX 8
#define AFAR_ARRAY_TYPE_MAX	  63
#define AFAR_ARRAY_HEADER_BYTES	  4096 /* the records are behind them */

/* The first dimension's records are neighbours, as in Fortran; else the last one's, as in C. */
#define AFAR_ARRAY_FORTRAN 0x1U
/* It is stored block by block, each block in one piece; else row by row. */
#define AFAR_ARRAY_BLOCKED 0x2U

struct afar_array_shape {
	size_t size;		/* sizeof(struct afar_array_shape), set by the caller */
	uint32_t nr_dimensions; /* 1 to AFAR_ARRAY_DIMENSIONS_MAX; the others' numbers are 0 */
	uint32_t flags;		/* AFAR_ARRAY_… bits */
	uint64_t record_bytes;
	uint64_t extent[AFAR_ARRAY_DIMENSIONS_MAX]; /* records */
	uint64_t block[AFAR_ARRAY_DIMENSIONS_MAX];  /* records; 0: as the extent */
	/* Tells readers what a record is, as numpy says it: "<f8". ASCII; may be empty. */
	char type[AFAR_ARRAY_TYPE_MAX + 1];
};

/*
 * A part of an array, and how its records lie in memory. In each dimension it has `count` records, from `start` on, each `stride` further
 * than the last. A stride of 0 is 1. With a negative one, `start` is the record that is highest.
 */
struct afar_slab {
	size_t size; /* sizeof(struct afar_slab), set by the caller */
	uint64_t start[AFAR_ARRAY_DIMENSIONS_MAX];
	uint64_t count[AFAR_ARRAY_DIMENSIONS_MAX];
	int64_t stride[AFAR_ARRAY_DIMENSIONS_MAX];
	/* Bytes from a record in memory to the next one, for each dimension. May be negative, and 0 if it is written from there. NULL: the
	 * records are packed, in the order of the array. */
	const int64_t *memory_stride;
};

/* Says how many bytes of a region or file such an array takes, header included: `*bytes`. Does not block.
 * Errors: -EINVAL (no such shape, or 2^63 bytes and more). */
int afar_array_bytes(const struct afar_array_shape *shape, uint64_t *bytes);

/*
 * Make an array: write its header over the first bytes of a region or file. A file becomes as long as the array, and reads as zeros
 * where it was not written. The records in a region are what the region's bytes are. The region or file must stay open as long as the array,
 * and closing it answers -EBUSY before. `out` may be NULL ("Making"). Block.
 * Errors: -EINVAL (no such shape; a file that is open with O_APPEND), -ERANGE (the region is shorter), those of afar_region_pwrite(), afar_file_pwrite() and
 * afar_file_truncate().
 */
int afar_array_create(struct afar_region *region, const struct afar_array_shape *shape,
		      struct afar_array **out);
int afar_array_create_file(struct afar_file *file, const struct afar_array_shape *shape,
			   struct afar_array **out);

/*
 * Open the array in a region or file, which they read the header of. The region or file stays open likewise. Block.
 * Errors: -EINVAL (there is no array; O_APPEND), -EBADMSG (its header is damaged), -AFAR_EVERSION (of a later release), -ERANGE (the array is longer than the region or file),
 * those of afar_region_pread() and afar_file_pread().
 */
int afar_array_open(struct afar_region *region, struct afar_array **out);
int afar_array_open_file(struct afar_file *file, struct afar_array **out);

/* Closes the handle. -EBUSY while it is used. */
int afar_array_close(struct afar_array *array);

/* Fills `*out` in, whose size the caller has set. Blocks of a dimension that were not given are as long as it. Does not block. -EINVAL. */
int afar_array_stat(struct afar_array *array, struct afar_array_shape *out);

/*
 * Read or write a part. `data` is where the part's first record is: that at `start`. Many transfers are in flight
 * at once, and those that touch or nearly do are one. Return the bytes of the part; 0 if a count is 0. After an error any part may have been
 * moved. Block.
 * Errors: -ERANGE (outside of the array), -EINVAL (a read with a memory stride of 0, a null pointer, past 2^63). Also those of afar_region_pread(),
 * afar_region_pwrite(), afar_file_readx() and afar_file_writex().
 */
ssize_t afar_array_read(struct afar_array *array, const struct afar_slab *slab, void *data);
ssize_t afar_array_write(struct afar_array *array, const struct afar_slab *slab, const void *data);

/*
 * Fills `*slab` in, whose size the caller has set, with the block at `index`: a number for each dimension, from 0 on. At the edges it has
 * fewer records. Its memory is packed. Does not block.
 * Errors: -ERANGE (no such block).
 */
int afar_array_block(struct afar_array *array, const uint64_t *index, struct afar_slab *slab);

/* Reads the block at `index`, packed. Returns its bytes, fewer at the edges. Blocks. Errors: those of afar_array_block() and
 * afar_array_read(). */
ssize_t afar_array_read_block(struct afar_array *array, const uint64_t *index, void *data);

/*
 * Sets a blocking factor: afar_array_read_block() then reads groups of `factor[i]` blocks in dimension i, and gives the next blocks of the group
 * out of memory. It keeps one group, until a block of another one is wanted, something is written through this handle, or the factor is
 * set again. The group does not change when others write. NULL: nothing is read ahead any more. Does not block.
 * Errors: -ENOMEM.
 */
int afar_array_read_ahead(struct afar_array *array, const uint64_t *factor);

#ifdef __cplusplus
}
#endif
#endif
