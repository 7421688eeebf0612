/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of a list that follow each other in the file and in memory are one: its plan is shorter then. */
#ifndef CLIENT_FILE_JOIN_H
#define CLIENT_FILE_JOIN_H

#include "afar/file.h"

/* Joins the ranges of a list, if that leaves half of them at most. Returns the memory of the joined ones, which the caller frees, or NULL
 * if the list stays as it is. */
struct afar_file_vector *file_join(const struct afar_file_vector **vectors, unsigned *nr);

#endif
