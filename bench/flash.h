/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the stages of suite `flash` have in common: a load, which is what one measurement does, the target that it is done to, and fio,
 * which does the same to a file. A target is a table of functions; one measurement opens it and closes it.
 */
#ifndef BENCH_FLASH_H
#define BENCH_FLASH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "flash/device.h"
#include "harness.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

struct flash_load {
	bool is_write;
	bool is_durable; /* each write survives the loss of power when it ended */
	bool is_random;	 /* else one behind the other                           */
	uint64_t block;	 /* bytes of one operation                              */
	unsigned depth;	 /* operations in flight                                */
};

/* One operation. All but what is the target's is the load's. */
struct flash_request {
	bool is_write;
	bool is_durable;
	uint64_t offset;
	struct iovec memory;
	void (*done)(struct flash_request *request, int status);
	union {
		struct flash_io io; /* of flash_target_device */
	};
};

struct flash_target {
	/* Owns it from then on. Fails by bench_fail(). */
	int (*open)(const char *path, void **target);
	void (*close)(void *target); /* nothing is in flight */
	uint64_t (*size)(void *target);
	void (*submit)(void *target, struct flash_request *request);
	/* As flash_device_poll(). */
	int (*poll)(void *target, int timeout_ms);
};

/* The file as it is. */
extern const struct flash_target flash_target_device;

/* What was measured once. */
struct flash_figures {
	double per_second; /* operations                         */
	double cpu_ns;	   /* of one: user's and kernel's        */
};

/* ---- flash_load.c */

/* Does it for a second. */
int flash_load_run(const struct flash_target *target, const char *path,
		   const struct flash_load *load, struct flash_figures *out);
/* Writes all of it once. */
int flash_load_fill(const struct flash_target *target, const char *path);

/* ---- flash_fio.c */

/* NULL, or why there is none. */
const char *flash_fio_missing(void);
/* Does it for a second, with io_uring and O_DIRECT. */
int flash_fio_run(const char *path, const struct flash_load *load, struct flash_figures *out);

/* ---- flash_file.c */

#define FLASH_FILE_BYTES (1024 * MIB)

/* A file of FLASH_FILE_BYTES with its blocks, in a folder of its own. */
struct flash_file {
	char folder[256];
	char path[300];
};

int flash_file_make(struct flash_file *file);
/* Takes what there is. */
void flash_file_remove(struct flash_file *file);

/* ---- The stages */

extern const struct bench_stage flash_device_stage;	   /* flash_device.c        */
extern const struct bench_stage flash_amplification_stage; /* flash_amplification.c */

#endif
