/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of afard: its flags and its configuration file, one table for both. */
#ifndef TOOLS_CONFIG_H
#define TOOLS_CONFIG_H

#include <limits.h>
#include <stdint.h>

#include "base/log.h"

#define CONFIG_TEXT_MAX 512

enum role {
	ROLE_MANAGER = 1,
	ROLE_SERVER = 2,
	ROLE_ALL = ROLE_MANAGER | ROLE_SERVER,
};

#define CONFIG_LANES_MAX      8
#define CONFIG_TRANSPORT_MAX  16
#define CONFIG_CONGESTION_MAX 16

struct config_lane {
	char transport[CONFIG_TRANSPORT_MAX]; /* empty: the server's */
	char address[CONFIG_TEXT_MAX];
};

#define CONFIG_FLASH_MAX 16

/* A device of flash. */
struct config_flash {
	char path[PATH_MAX]; /* empty: a file of `bytes` in the server's folder */
	uint64_t bytes;
};

/* Texts are empty, and numbers 0, if they were not given and have no default here. */
struct config {
	enum role role;
	char data[PATH_MAX];	       /* folder */
	char key[PATH_MAX];	       /* file   */
	char metrics[CONFIG_TEXT_MAX]; /* HOST:PORT */
	char listen[CONFIG_TEXT_MAX];
	char manager[CONFIG_TEXT_MAX + PATH_MAX]; /* HOST:PORT or a URI */
	char name[CONFIG_TEXT_MAX];
	char control[CONFIG_TEXT_MAX];
	struct config_lane lanes[CONFIG_LANES_MAX];
	unsigned nr_lanes;		      /* 0: one, at the default address              */
	char transport[CONFIG_TRANSPORT_MAX]; /* of lanes that name none */
	struct config_flash flash[CONFIG_FLASH_MAX];
	unsigned nr_flash;
	uint16_t flash_port;	    /* 0: any */
	uint64_t scrub_bytes_per_s; /* 0: not at all */
	uint64_t cache_bytes;	    /* 0: none */
	uint64_t memory_bytes;
	uint64_t pool_bytes;
	unsigned nr_progress;
	uint32_t spin_us;
	uint64_t stage_bytes;
	char congestion[CONFIG_CONGESTION_MAX]; /* empty: auto */
	uint32_t lease_ms;
	uint32_t claim_ms;
	bool gives_ends;
	enum log_level log_level;
	enum log_format log_format;
	uint32_t slow_ms; /* 0: not at all */
	int ready_fd;	  /* -1: none */
};

enum config_verdict { CONFIG_RUN, CONFIG_SHOWN };

/*
 * Reads the flags and, before they are applied, the file that --config names. Returns CONFIG_RUN;
 * CONFIG_SHOWN after printing the help or the version; or -EINVAL with a sentence, which for the
 * file's faults begins with FILE:LINE.
 */
int config_read(int argc, char **argv, struct config *out);

#endif
