/* SPDX-License-Identifier: BSD-3-Clause */
/* An operator looks whether the manager's records are what was committed. */
#include "manager/dispatch/records_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "manager/tables/record_names.h"

#define RECORDS_MAX 20000U /* of one call: some milliseconds */
#define DAMAGED_MAX 256U

static int check_record(void *argument, struct meta_bytes key, bool is_damaged)
{
	Afar__RecordsChecked *checked = argument;
	char name[RECORD_NAME_MAX];

	if (is_damaged && checked->n_damaged == DAMAGED_MAX)
		return 1; /* the next call tells of this one */
	checked->nr_records++;
	memcpy(checked->last.data, key.data, key.length);
	checked->last.len = key.length;
	if (!is_damaged)
		return 0;
	record_name(key, name);
	checked->damaged[checked->n_damaged] = strdup(name);
	if (!checked->damaged[checked->n_damaged])
		return error_code(-ENOMEM);
	checked->n_damaged++;
	return 0;
}

int check_records(struct core *core, struct session *session, struct event *event)
{
	const Afar__RecordsCheck *ask = event->request->records_check;
	const struct meta_bytes after = {ask->after.data, ask->after.len};
	const size_t max = ask->max != 0 && ask->max < RECORDS_MAX ? ask->max : RECORDS_MAX;
	Afar__RecordsChecked *checked;
	int ret;

	(void)session;
	if (after.length > METASTORE_KEY_MAX)
		return error_fail(-EINVAL, "check the manager's records: %zu bytes are no key",
				  after.length);
	checked = MESSAGE_NEW(afar__records_checked, Afar__RecordsChecked);
	if (!checked)
		return error_code(-ENOMEM);
	event->reply->records_checked = checked;
	event->reply->result_case = AFAR__REPLY__RESULT_RECORDS_CHECKED;
	checked->damaged = calloc(DAMAGED_MAX, sizeof(*checked->damaged));
	checked->last.data = malloc(METASTORE_KEY_MAX);
	if (!checked->damaged || !checked->last.data)
		return error_code(-ENOMEM);
	ret = store_check(core->store, (struct meta_bytes){"", 0}, after, max, check_record,
			  checked);
	if (ret == 0 && checked->nr_records < max)
		checked->last.len = 0;
	return ret < 0 ? ret : 0;
}
