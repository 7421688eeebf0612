/* SPDX-License-Identifier: BSD-3-Clause */
/* The lane of a store that is tested: the first, over tcp, or the one that AFAR_TEST_TRANSPORT names
 * (lib/base/transport.h). */
#ifndef TESTS_TESTED_LANE_H
#define TESTS_TESTED_LANE_H

#include "lib/base/transport.h"
#include "server/stores/store.h"

static inline void tested_lane_want(struct store_options *options)
{
	options->driven_transport = is_on_driven() ? test_transport() : NULL;
	options->driven_address = any_port();
}

static inline const char *tested_lane_address(const struct store *store)
{
	return store_lane_address(store, is_on_driven());
}

/* Has the keys of the first lane be those of the tested one. */
static inline void tested_lane_keys(const struct store_keys *keys)
{
	for (size_t i = 0; i < keys->nr_extents && is_on_driven(); i++)
		keys->keys[i].on[0] = keys->keys[i].on[1];
}

#endif
