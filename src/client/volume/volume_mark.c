/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Marks of volumes: what a handle remembers of its volume, as text, for the handle that takes its place when its process
 * has died. A mark is "IDENTITY,STORE:OPENING,…;" in hexadecimal digits. One that was cut off lacks the end, and is none.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/volume/volume.h"

/* ---- Writing one */

static void write_mark(FILE *text, struct afar_volume *volume)
{
	struct binding *binding = target_binding(&volume->region->target);

	fprintf(text, "%" PRIx64, volume->ns->identity);
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		const struct layout_home *home = &binding->layout->homes[i];

		if (home->is_store)
			fprintf(text, ",%" PRIx64 ":%" PRIx64, home->life,
				(uint64_t)binding->servers[i].opening);
	}
	fputc(';', text);
	binding_unref(binding);
}

PUBLIC_CALL(int, afar_volume_mark, (struct afar_volume *volume, char **out), (volume, out))
{
	size_t length;
	FILE *text;
	int ret = volume_enter(volume);

	if (ret)
		return ret;
	if (!out)
		ret = error_fail(-EINVAL, "mark volume '%s': out is null", volume->ns->name);
	text = ret ? NULL : open_memstream(out, &length);
	if (text) {
		write_mark(text, volume);
		if (fclose(text))
			ret = error_code(-ENOMEM);
	} else if (!ret) {
		ret = error_code(-ENOMEM);
	}
	handle_unuse(&volume->handle);
	return ret;
}

/* ---- Reading one */

static bool take_number(const char **at, char end, uint64_t *out)
{
	char *behind;

	if (!isxdigit((unsigned char)**at))
		return false;
	errno = 0;
	*out = strtoull(*at, &behind, 16);
	if (errno || (*behind != end && *behind != ';'))
		return false;
	*at = behind;
	return true;
}

/* Has the handle remember an opening of a store that is older than what the manager told. */
static void remember(struct binding *binding, uint64_t store, uint64_t opening)
{
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		const struct layout_home *home = &binding->layout->homes[i];
		struct binding_server *server = &binding->servers[i];

		if (home->is_store && home->life == store && server->opening > opening)
			server->opening = opening;
	}
}

/* Reads a mark. Without a binding it is only looked at. False: it is none. */
static bool take_mark(const char *mark, struct binding *binding, uint64_t *identity)
{
	const char *at = mark;
	uint64_t store, opening;

	if (!take_number(&at, ',', identity))
		return false;
	while (*at == ',') {
		at++;
		if (!take_number(&at, ':', &store) || *at++ != ':' ||
		    !take_number(&at, ',', &opening))
			return false;
		if (binding)
			remember(binding, store, opening);
	}
	return at[0] == ';' && at[1] == '\0';
}

int volume_mark_check(const struct afar_namespace *ns, const char *mark)
{
	uint64_t identity;

	if (!take_mark(mark, NULL, &identity))
		return error_fail(-EINVAL,
				  "open volume '%s' with the mark '%.64s': it is none; give one as "
				  "afar_volume_mark() gave it",
				  ns->name, mark);
	if (identity != ns->identity)
		return error_fail(-ESTALE,
				  "open volume '%s': the one that the mark is of is gone, and this "
				  "is another one of its name; open that without the mark",
				  ns->name);
	return 0;
}

void volume_mark_take(struct afar_volume *volume, const char *mark)
{
	struct binding *binding = target_binding(&volume->region->target);
	uint64_t identity;

	take_mark(mark, binding, &identity);
	volume->is_successor = true;
	binding_unref(binding);
}
