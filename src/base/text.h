/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that goes to a terminal or a log but may hold bytes of a peer or a user. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

/* Makes `text` one harmless line: control characters, those of Latin-1 in UTF-8 included, become '?'. */
static inline void text_clean(char *text)
{
	unsigned char *at = (unsigned char *)text;

	for (; *at; at++) {
		if (*at < 0x20 || *at == 0x7f)
			*at = '?';
		else if (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
			at[0] = at[1] = '?';
	}
}

#endif
