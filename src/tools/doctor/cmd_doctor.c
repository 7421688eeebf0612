/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar doctor`: one line for each thing that it looks at, on this machine and in its cluster, with
 * what to do where something is wrong. It changes nothing.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"
#include "tools/cli/commands.h"

/* Returns whether a cluster is named. One that is found by itself is this machine's, not another root's. */
static bool has_cluster(const struct doctor *doctor, const struct cli *cli)
{
	const char *environment = getenv("AFAR_CLUSTER");

	if (cli->cluster)
		return true;
	return !*doctor->root &&
	       ((environment && *environment) || access("./afar-data/cluster", F_OK) == 0 ||
		access("/etc/afar/cluster", F_OK) == 0);
}

static void look(struct doctor *doctor, struct cli *cli, char **files, int nr_files)
{
	for (int i = 0; i < nr_files; i++)
		doctor_take_config(doctor, files[i]);
	if (nr_files == 0)
		doctor_take_configs(doctor);
	doctor_find_daemons(doctor);
	doctor_kernel(doctor);
	doctor_limits(doctor);
	doctor_daemons(doctor);
	if (has_cluster(doctor, cli))
		doctor_cluster(doctor, cli);
	else
		doctor_say(doctor, VERDICT_OK, "cluster", NULL,
			   "none is named, so none was asked (--cluster)");
}

static int print(struct doctor *doctor)
{
	return cli_print_json(json_pack("{s:o, s:i, s:i, s:i}", "findings", doctor->findings,
					"nr_ok", (int)doctor->nr[VERDICT_OK], "nr_warn",
					(int)doctor->nr[VERDICT_WARN], "nr_bad",
					(int)doctor->nr[VERDICT_BAD]));
}

static int run(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	static struct doctor doctor;
	const char *as_json = NULL, *is_strict = NULL, *root = "";
	const struct cli_flag flags[] = {
		{"json", NULL, "print JSON", &as_json},
		{"strict", NULL, "fail on a warning, too", &is_strict},
		{"root", "FOLDER", "look at the machine whose files are below this folder", &root},
		{0},
	};
	char **files;
	int nr, status;

	nr = cli_argument_list(cli, command, flags, argc, argv, 0, DOCTOR_CONFIGS_MAX, &files,
			       &status);
	if (nr < 0)
		return status;
	doctor.root = root;
	if (strlen(root) >= PATH_MAX / 2)
		return cli_misuse(command, "--root: the folder's name is too long");
	doctor.findings = as_json ? json_array() : NULL;
	look(&doctor, cli, files, nr);
	status = as_json ? print(&doctor) : 0;
	if (status)
		return status;
	return doctor.nr[VERDICT_BAD] > 0 || (is_strict && doctor.nr[VERDICT_WARN] > 0) ? CLI_FAILED
											: 0;
}

const struct cli_command doctor_commands[] = {
	{"doctor", "[FILE]... [--json] [--strict] [--root FOLDER]",
	 "check this machine and its cluster: one line each, with the remedy", run},
	{0},
};
