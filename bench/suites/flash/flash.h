/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the stages of suite `flash` share. A load is what one measurement does, and a
 * target is what it is done to. fio does the same load to a file. A target is a table of functions;
 * a stage opens it once, for all its rows.
 */
#ifndef BENCH_FLASH_H
#define BENCH_FLASH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <afar/afar.h>

#include "flash/device/device.h"
#include "flash/ftl.h"
#include "harness/harness.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

struct flash_load {
	bool is_write;
	bool is_durable;  /* each write survives a loss of power when it has ended */
	bool is_checked;  /* with AFAR_OP_CHECKED: of a target on flash, over a queue */
	bool is_random;	  /* false: one behind the other */
	uint64_t block;	  /* bytes of one operation                              */
	unsigned depth;	  /* operations in flight                                */
	uint64_t span_ns; /* of one measurement; 0: a second                    */
};

/* One operation. The load owns it, except for the target's part. */
struct flash_request {
	bool is_write;
	bool is_durable;
	bool is_checked;
	bool is_once; /* of flash_target_queue */
	uint64_t offset;
	struct iovec memory;
	void (*done)(struct flash_request *request, int status);
	union {
		struct flash_io io; /* of flash_target_device */
		struct {
			struct ftl_get get;
			struct ftl_put put;
			struct ftl_sync sync;
		} layer;	       /* of flash_target_layer */
		struct afar_iov piece; /* of flash_target_queue */
	};
};

struct flash_target {
	/* Opens the target; the caller owns it. Fails by bench_fail(). */
	int (*open)(const char *path, void **target);
	void (*close)(void *target); /* nothing may be in flight */
	uint64_t (*size)(void *target);
	/* Makes the memory of all requests that follow ready, until it is taken back. NULL: there is no
	 * need. Fails by bench_fail(). */
	int (*lend)(void *target, void *memory, size_t length);
	void (*take_back)(void *target);
	void (*submit)(void *target, struct flash_request *request);
	/* Polls like flash_device_poll(). */
	int (*poll)(void *target, int timeout_ms);
};

/* The file itself. */
extern const struct flash_target flash_target_device;
/* A translation layer that was made in the file. */
extern const struct flash_target flash_target_layer;

/* The result of one measurement. */
struct flash_figures {
	double per_second; /* operations                         */
	double cpu_ns;	   /* of one operation: user's and kernel's */
};

/* ---- flash_load.c */

/* Runs the load for its span. */
int flash_load_run(const struct flash_target *target, void *opened, const struct flash_load *load,
		   struct flash_figures *out);
/* Writes all of the target, `times` times. */
int flash_load_fill(const struct flash_target *target, void *opened, unsigned times);

/* ---- flash_queue.c */

#define FLASH_QUEUE_DEPTH 64U

/* A queue of libafar that loads are done through. */
struct flash_queue;
extern const struct flash_target flash_target_queue; /* its open() is flash_queue_open() */

/* Opens a queue that is connected to the servers of `target`, of `bytes`. */
int flash_queue_open(struct afar_session *session, struct afar_target *target, uint64_t bytes,
		     struct flash_queue **out);
/* Connects again, after a server was started anew. */
int flash_queue_connect(struct flash_queue *queue);
/* NULL is allowed. */
void flash_queue_close(struct flash_queue *queue);

/* ---- flash_fio.c */

/* Returns NULL, or why there is no fio. */
const char *flash_fio_missing(void);
/* Has fio run the load for a second, with io_uring and O_DIRECT. */
int flash_fio_run(const char *path, const struct flash_load *load, struct flash_figures *out);
/* Has fio run the load, for its span, as a client of the NBD server at a Unix socket. A durable write
 * is a write and a flush; fio can tell no server to write durably. Plain writes end with one flush.
 * A load without a span goes over the whole disk once. */
int flash_fio_run_nbd(const char *socket, const struct flash_load *load, struct flash_figures *out);

/* ---- flash_file.c */

#define FLASH_FILE_BYTES (1 * GIB)

/* A file in a folder of its own. */
struct flash_file {
	char folder[256];
	char path[300];
};

/* Makes a file and writes all its blocks once. Blocks that were never written read as zeros,
 * without asking any storage. */
int flash_file_make(struct flash_file *file, uint64_t bytes);
/* Makes a file that has blocks only where it is written. */
int flash_file_make_sparse(struct flash_file *file, uint64_t bytes);
/* Removes the file and its folder, as far as they are there. */
void flash_file_remove(struct flash_file *file);

/* ---- flash_rows.c: rows whose parameters are a load, against fio */

/* The first member of their stages. */
struct flash_stage {
	const struct flash_target *target;
	void *opened;
	struct flash_file fios; /* fio writes this file, and reads it unless … */
	const char *reads;	/* … this names another to read; NULL: none */
	double cpu_ns[2];	/* of the last measurement: ours, fio's */
	/* NULL, or adds to the row's note. */
	void (*describe)(const struct flash_stage *stage, char *out, size_t size);
};

int flash_rows_run_ours(void *stage, const struct bench_row *row, unsigned repetition,
			double *value);
int flash_rows_run_fio(void *stage, const struct bench_row *row, unsigned repetition,
		       double *value);

#define FLASH_LOAD(...) (&(const struct flash_load){__VA_ARGS__})
#define FLASH_FIO	"fio on a raw file: io_uring, O_DIRECT, same size and depth"

/* ---- flash_layer.c */

/* Makes an empty layer, over whatever the file holds. `journal_blocks` 0: the usual size. */
int flash_layer_create(const char *path, uint32_t journal_blocks);
/* Opens the layer as flash_target_layer does, and uses only `bytes` of it. */
int flash_layer_open(const char *path, uint64_t bytes, void **target);
/* Makes durable what has been put. Blocks. */
int flash_layer_sync(void *target);
/* Closes the layer as a loss of power would. */
void flash_layer_abandon(void *target);

/* ---- The stages */

/* flash_layer.c, the row on writes of 1 MiB alone: for suite flash-tier */
extern const struct bench_stage flash_layer_writes_stage;

extern const struct bench_stage flash_device_stage;	   /* flash_device.c        */
extern const struct bench_stage flash_layer_stage;	   /* flash_layer.c         */
extern const struct bench_stage flash_recovery_stage;	   /* flash_recovery.c …    */
extern const struct bench_stage flash_start_stage;	   /* … also                */
extern const struct bench_stage flash_amplification_stage; /* flash_amplification.c */

#endif
