/* SPDX-License-Identifier: BSD-3-Clause */
/* See policy.h. */
#include "policy.h"

#include <string.h>

#define STRIPE_MIN ((uint64_t)4096)
#define STRIPE_MAX ((uint64_t)1 << 30)

int policy_read(const struct cli_command *command, const struct policy_flags *flags,
		struct afar_policy *out)
{
	uint64_t servers;
	int ret;

	*out = (struct afar_policy){.size = sizeof(*out), .tier = AFAR_TIER_DRAM};
	if (flags->tier && strcmp(flags->tier, "flash") == 0)
		out->tier = AFAR_TIER_FLASH;
	else if (flags->tier && strcmp(flags->tier, "dram") != 0)
		return cli_misuse(command, "'%.64s' is no tier; use dram or flash", flags->tier);
	if (flags->width) {
		if (number_parse(flags->width, CLI_WIDTH_ALL, &servers))
			return cli_misuse(command, "--width '%.64s' is not a number up to %d",
					  flags->width, CLI_WIDTH_ALL);
		out->width = (uint32_t)servers;
	}
	if (flags->stripe) {
		ret = cli_size(command, "--stripe", flags->stripe, &out->stripe_bytes);
		if (ret)
			return ret;
		if (out->stripe_bytes < STRIPE_MIN || out->stripe_bytes > STRIPE_MAX ||
		    (out->stripe_bytes & (out->stripe_bytes - 1)))
			return cli_misuse(command,
					  "--stripe '%.64s' is not a power of two from 4K to 1G",
					  flags->stripe);
	}
	return 0;
}

const char *policy_tier(uint32_t tier)
{
	return tier == AFAR_TIER_DRAM ? "dram" : tier == AFAR_TIER_FLASH ? "flash" : "?";
}

static const struct {
	const char *word;
	unsigned rights;
} rights_words[] = {
	{"none", 0},
	{"r", AFAR_RIGHT_READ},
	{"rw", AFAR_RIGHT_READ | AFAR_RIGHT_WRITE},
};
#define NR_RIGHTS (sizeof(rights_words) / sizeof(rights_words[0]))

bool policy_parse_rights(const char *word, unsigned *out)
{
	for (size_t i = 0; i < NR_RIGHTS; i++) {
		if (strcmp(word, rights_words[i].word) == 0) {
			*out = rights_words[i].rights;
			return true;
		}
	}
	return false;
}

const char *policy_rights(uint32_t rights)
{
	for (size_t i = 0; i < NR_RIGHTS; i++) {
		if (rights_words[i].rights == rights)
			return rights_words[i].word;
	}
	return "?";
}
