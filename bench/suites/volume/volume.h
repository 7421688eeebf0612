/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the stages of suite `volume` share: volumes of a private cluster, and NBD
 * servers, ours and others, of which fio is the client. A load is suite `flash`'s (flash.h).
 */
#ifndef BENCH_VOLUME_H
#define BENCH_VOLUME_H

#include <afar/volume.h>

#include "peers/peer.h"
#include "suites/flash_tier/flash_tier.h"

#define VOLUME_SPAN_NS UINT64_C(500000000) /* of one measurement with fio */
/* The file of a store, and what is used of it: half, as in suite `flash`. */
#define VOLUME_FILE_BYTES  (512 * MIB)
#define VOLUME_FLASH_BYTES (256 * MIB)

/* ---- volume_server.c: NBD servers, each at a Unix socket in a folder of its own */

enum volume_way {
	VOLUME_NONE,	    /* nothing runs */
	VOLUME_LENT_LOCAL,  /* nbdkit and our plugin; the volume's server over local */
	VOLUME_LENT_TCP,    /* … over tcp */
	VOLUME_LENT_FORCED, /* … over tcp, and each write durable (FUA) */
	VOLUME_MEMORY,	    /* nbdkit's plugin `memory` */
	VOLUME_FILE,	    /* nbdkit's plugin `file` */
	VOLUME_FILE_FORCED, /* … each write durable (FUA) */
	VOLUME_QEMU,	    /* qemu-nbd, O_DIRECT by io_uring */
	VOLUME_QEMU_FORCED, /* … each write durable */
};

/* A volume, file or memory to be served. Strings outlive the servers. */
struct volume_place {
	const char *cluster; /* for ours: its URI … */
	const char *volume;  /* … and the volume    */
	bool is_flash;
	const char *file; /* for plugin `file` and qemu-nbd */
	uint64_t bytes;	  /* for plugin `memory`            */
};

struct volume_server {
	enum volume_way way;
	struct peer peer;
	char socket[sizeof(((struct peer *)NULL)->folder) + sizeof("/socket")];
};

/* Return NULL, or why there are no rows over NBD, or none against qemu-nbd. */
const char *volume_nbd_missing(void);
const char *volume_qemu_missing(void);

/* Has the place served in this way from now on. A server that does so already goes on. */
int volume_server_run(struct volume_server *server, enum volume_way way,
		      const struct volume_place *place);
/* Ends what runs. */
void volume_server_end(struct volume_server *server);
/* Returns the CPU time of the server so far; 0: nothing runs. */
uint64_t volume_server_cpu_ns(const struct volume_server *server);

/* ---- volume_scene.c */

/* Makes a volume and writes all of it. */
int volume_make(struct afar_session *session, const char *name, uint32_t tier, uint64_t bytes);
/* Opens it; `retry_ms` as struct afar_volume_options has it. */
int volume_open(struct afar_session *session, const char *name, uint32_t retry_ms,
		struct afar_volume **out);
/* NULL is allowed. */
void volume_close(struct afar_volume *volume);

/* The blocking calls, as a target of loads with one operation in flight. The caller fills it. */
struct volume_calls {
	struct afar_volume *volume;
	uint64_t bytes;
	struct flash_request *waiting; /* the next poll carries it out */
};
extern const struct flash_target flash_target_calls; /* its `opened` is a struct volume_calls */

/* ---- volume_rows.c: rows whose parameters are a struct volume_row */

struct volume_row {
	struct flash_load load;
	enum volume_way ours, theirs;
	bool is_ordered;       /* our disk was written in order before */
	const char *guarantee; /* for the note: what a completed write is worth; NULL: as theirs */
};

/* The first member of their stages. A row runs the servers it needs, one at a time on each side. */
struct volume_stage {
	struct scene scene; /* its session alone */
	pid_t afard;
	struct volume_place place;
	struct volume_server ours, theirs;
	struct volume_calls own; /* a volume that nobody lends, for native rows */
	struct flash_queue *queue;
	bool is_lent_scattered, is_own_scattered; /* by random writes, since they were filled */
	double cpu_us[3]; /* of one operation: our NBD server, afard, theirs */
};

/* Makes the volumes "lent" and "own", and opens the latter. */
int volume_stage_open(struct volume_stage *stage, const struct cluster *cluster, uint32_t tier,
		      uint64_t bytes);
void volume_stage_close(struct volume_stage *stage);

/* Ours through NBD. */
int volume_run_lent(void *stage, const struct bench_row *row, unsigned repetition, double *value);
/* The other server. */
int volume_run_theirs(void *stage, const struct bench_row *row, unsigned repetition, double *value);
/* The library's calls at depth 1, a queue above it. */
int volume_run_native(void *stage, const struct bench_row *row, unsigned repetition, double *value);

#define VOLUME_RANDOM(nr) .load.is_random = true, .load.block = 4 * KIB, .load.depth = (nr)
#define VOLUME_BULK	  .load.block = MIB, .load.depth = 8
#define VOLUME_WRITE	  .load.is_write = true
#define VOLUME_ORDERED	  .is_ordered = true
#define VOLUME_DURABLE	  .load.is_write = true, .load.is_durable = true

/* ---- The stages */

extern const struct bench_stage volume_dram_stage;    /* volume_dram.c    */
extern const struct bench_stage volume_flash_stage;   /* volume_flash.c   */
extern const struct bench_stage volume_vectors_stage; /* volume_vectors.c */
extern const struct bench_stage volume_kept_stage;    /* volume_kept.c    */
extern const struct bench_stage volume_cold_stage;    /* volume_cold.c    */

#endif
