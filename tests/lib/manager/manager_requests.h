/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requests that the manager's tests send, each the caller's, and what a server answers that is
 * asked for its figures.
 */
#ifndef TESTS_MANAGER_REQUESTS_H
#define TESTS_MANAGER_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "manager/core_private.h"

Afar__Request *ask_create(const char *name, uint32_t width, uint64_t stripe_bytes);
Afar__Request *ask_delete(const char *name, bool with_regions);
Afar__Request *ask_reserve(uint64_t ns, uint64_t bytes);
Afar__Request *ask_cancel(uint64_t ns);
Afar__Request *ask_release(uint64_t ns, uint64_t bytes);
Afar__Request *ask_alloc(uint64_t ns, const char *name, uint64_t bytes, bool is_first);
Afar__Request *ask_temporary(uint64_t ns, const char *name, uint64_t bytes);
Afar__Request *ask_open(uint64_t ns, const char *name, uint64_t address);
Afar__Request *ask_close(const Afar__RegionInfo *region);
Afar__Request *ask_free(const Afar__RegionInfo *region);
/* By its name, or if that is empty by its address. */
Afar__Request *ask_free_named(uint64_t ns, const char *name, uint64_t address);
Afar__Request *ask_session_close(void);
Afar__Request *ask_status(void);
Afar__Request *ask_accept_records(void);
Afar__Request *ask_fresh_status(void);
Afar__Request *ask_namespaces(const char *after, uint32_t max);
Afar__Request *ask_regions(uint64_t ns, uint64_t after, uint32_t max);
Afar__Request *ask_namespace(const char *name);

Afar__Request *ask_grant(uint64_t ns, const char *principal, uint32_t rights);
Afar__Request *ask_access(const Afar__RegionInfo *region);
Afar__Request *ask_seal(const Afar__RegionInfo *region);
Afar__Request *ask_region_resize(const Afar__RegionInfo *region, uint64_t bytes);
Afar__Request *ask_use(const Afar__RegionInfo *region);
Afar__Request *ask_finish(const Afar__RegionInfo *region);
Afar__Request *ask_look(const Afar__RegionInfo *region);
/* Copy-on-write regions: one; what its versions are asked. */
Afar__Request *ask_cow(uint64_t ns, const char *name, uint64_t bytes);
Afar__Request *ask_newest(const Afar__RegionInfo *region);
Afar__Request *ask_begin(const Afar__RegionInfo *region, uint64_t claim);
Afar__Request *ask_prepare(const Afar__RegionInfo *region, const uint32_t *units, size_t nr);
Afar__Request *ask_publish(const Afar__RegionInfo *region);
/* A namespace for a volume; its region, unfinished. Modes: enum volume_mode. */
Afar__Request *ask_volume(const char *name);
Afar__Request *ask_volume_alloc(uint64_t ns, uint64_t bytes);
Afar__Request *ask_volume_open(uint64_t ns, uint32_t mode);
Afar__Request *ask_volume_delete(const char *name);
Afar__Request *ask_take_over(uint64_t ns, uint32_t mode);
Afar__Request *ask_resize(uint64_t ns, uint64_t bytes);
Afar__Request *ask_key_add(const char *name, bool is_server);
Afar__Request *ask_key_list(void);
Afar__Request *ask_server_regions(uint64_t server, uint64_t after, uint32_t max);
Afar__Request *ask_accept_namespace(const char *name);
Afar__Request *ask_loss_list(uint64_t server, uint64_t after);
Afar__Request *ask_loss_count(uint64_t server, uint64_t fs, const Afar__LossCounted *so_far,
			      uint32_t max);
Afar__Request *ask_server_remove(uint64_t server);
Afar__Request *ask_store_regions(uint64_t store);
Afar__Request *ask_store_forget(uint64_t store);
Afar__Request *ask_free_orphans(uint64_t store);
Afar__Request *ask_store_add(uint64_t server, const char *path);
Afar__Request *ask_store_remove(uint64_t store);
Afar__Request *ask_key_revoke(const char *name);
/* 0 bytes: no limit. */
Afar__Request *ask_key_limit(const char *name, uint64_t max_bytes);
Afar__Request *ask_limit(uint64_t ns, uint64_t max_bytes);

/*
 * Answers for a server with two lanes. The first has taken in so many bytes, and the second says
 * what would act on a terminal.
 */
Afar__Reply *answer_look(uint64_t bytes_in);

#endif
