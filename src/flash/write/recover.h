/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens what a crash, or an orderly end, has left. */
#ifndef FLASH_RECOVER_H
#define FLASH_RECOVER_H

struct ftl;

/* Fills an empty layer. 0, or a negative code with a line. */
int ftl_recover(struct ftl *ftl);

#endif
