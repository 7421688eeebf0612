/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells the library's release. */
#include <afar/version.h>

unsigned afar_version(void)
{
	return AFAR_VERSION;
}
