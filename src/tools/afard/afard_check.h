/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_AFARD_CHECK_H
#define TOOLS_AFARD_CHECK_H

/* `afard --check FOLDER`: prints what is damaged in the folder of a manager that does not run, or in that of a daemon with one.
 * Changes nothing. Returns the exit status, 1 after a line on standard error. */
int check_folder(const char *folder);

#endif
