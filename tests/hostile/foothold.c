/* SPDX-License-Identifier: BSD-3-Clause */
/* See foothold.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "foothold.h"
#include "lib/rpc/control.h"

struct town town;

void gain_foothold(struct foothold *foothold, const char *name, uint64_t bytes)
{
	struct intruder *intruder = &foothold->intruder;
	uint64_t ns;

	intruder_open(intruder, town.host, town.port, &town.mallory);
	snprintf(foothold->name, sizeof(foothold->name), "%s", name);
	ns = intruder_make_namespace(intruder, name, bytes);
	intruder_make_region(intruder, ns, bytes, &foothold->place);
	assert_int_equal(intruder_enter(intruder, foothold->place.control, &foothold->place.pass,
					&foothold->control),
			 0);
	data_client_open(&foothold->data);
	assert_int_equal(intruder_ask_keys(foothold->control, intruder->session, &foothold->place,
					   &foothold->remote),
			 0);
}

void foothold_delete_namespace(const char *name)
{
	int status;

	do
		status = afar_namespace_delete(town.admin, name, AFAR_DELETE_REGIONS);
	while (status == -EBUSY);
	assert_int_equal(status, 0);
}

void lose_foothold(struct foothold *foothold)
{
	data_client_close(&foothold->data);
	control_close(foothold->control);
	intruder_close(&foothold->intruder);
	foothold_delete_namespace(foothold->name);
}

void get_keys(struct foothold *foothold, const struct place *place, struct remote *remote)
{
	assert_int_equal(
		intruder_ask_keys(foothold->control, foothold->intruder.session, place, remote), 0);
}

int ask_ticket(struct foothold *foothold, const struct place *place, uint32_t rights,
	       struct rpc_ticket *out)
{
	return intruder_ask_ticket(foothold->control, foothold->intruder.session, place->ns, rights,
				   out);
}

void get_ticket(struct foothold *foothold, struct rpc_ticket *out)
{
	assert_int_equal(ask_ticket(foothold, &foothold->place, RIGHT_ALL, out), 0);
}

void connect_to(struct foothold *foothold, const struct place *place, uint32_t rights)
{
	struct rpc_ticket ticket;

	assert_int_equal(ask_ticket(foothold, place, rights, &ticket), 0);
	assert_int_equal(data_client_connect(&foothold->data, place->data, &ticket, sizeof(ticket)),
			 0);
}

void connect_data(struct foothold *foothold)
{
	connect_to(foothold, &foothold->place, RIGHT_ALL);
}
