/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds a server by what an operator calls it; see servers.h. */
#include "servers.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether `text` is the server's name or number. */
static bool is_called(const json_t *server, const char *text)
{
	const char *name = json_string_value(json_object_get(server, "name"));
	char number[32];

	snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
		 json_integer_value(json_object_get(server, "server")));
	return !strcmp(text, number) || (name && !strcmp(text, name));
}

static uint64_t number_of(const json_t *object, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

static int pick(const json_t *status, const char *asked, const char *text, struct found_server *out)
{
	const json_t *server;
	size_t i, nr = 0;

	json_array_foreach(json_object_get(status, "servers"), i, server)
	{
		if (!is_called(server, text))
			continue;
		nr++;
		out->number = number_of(server, "server");
		out->is_up = json_is_true(json_object_get(server, "is_up"));
		out->down_ms = number_of(server, "down_ms");
		out->granted_bytes = number_of(server, "granted_bytes");
	}
	if (nr == 0)
		return cli_fail("%s server %s: there is none of this name or number; "
				"'afar status' lists them",
				asked, text);
	if (nr > 1)
		return cli_fail("%s server %s: %zu have this name or number; use the number "
				"that one of them alone has, from 'afar status --json'",
				asked, text, nr);
	return 0;
}

int server_find(struct cli *cli, const char *asked, const char *text, struct found_server *out)
{
	json_t *status;
	char *json;
	int ret = afar_session_status(cli->session, &json);

	if (ret)
		return cli_fail_last(ret);
	status = json_loads(json, 0, NULL);
	free(json);
	if (!status)
		return cli_fail("%s server %s: the library's answer is no JSON; use the same "
				"release of afar and libafar",
				asked, text);
	ret = pick(status, asked, text, out);
	json_decref(status);
	return ret;
}
