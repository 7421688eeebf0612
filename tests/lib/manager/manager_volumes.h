/* SPDX-License-Identifier: BSD-3-Clause */
/* The ground of the tests of volumes: volume "v", and sessions that open it. */
#ifndef TESTS_MANAGER_VOLUMES_H
#define TESTS_MANAGER_VOLUMES_H

#include "lib/manager/manager_test.h"

#define BLOCK	     4096U
#define VOLUME_BYTES (3 * MIB + 5 * BLOCK)

/* Each test begins with two servers, three sessions of the owner's, one of a reader's, and volume
 * "v", which nobody has open. */
extern struct fake_client client, other, third, reader;
extern uint64_t vol;

/* For cmocka. Whatever was done, all of it can be cleaned up. */
int begin_volumes(void **state);
int end_volumes(void **state);
#define VOLUME_TEST(name) cmocka_unit_test_setup_teardown(name, begin_volumes, end_volumes)

void make_volume(const char *name, uint64_t reserved, uint64_t bytes, uint64_t *number);
struct region *region_of(uint64_t number);
/* How the volume's region is named in requests that no reply is at hand for. */
Afar__RegionInfo name_of(uint64_t number);
void close_volume(struct fake_client *who);
Afar__VolumeInfo *look(struct fake_client *who, const char *name, Afar__Reply **reply);
enum volume_mode mode_of(const struct fake_client *who);
/* Each of them allows this. */
void expect_capabilities(Afar__Access *const *accesses, size_t nr, uint32_t rights);
/* The capabilities that it asks for later allow the same. */
void expect_rights_again(struct fake_client *who, uint32_t rights);

#endif
