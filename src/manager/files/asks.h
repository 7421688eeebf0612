/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls about files, seen from their operations alone: the rights that they take, and more. A new operation is added here, too. */
#ifndef MANAGER_FILES_ASKS_H
#define MANAGER_FILES_ASKS_H

#include "manager/files/files.h"

/* True: permissions of who asks matter for one of the operations. */
bool looks_ask_who(const Afar__FilesLook *ask);
bool holds_ask_who(const Afar__FilesHold *ask);
bool changes_ask_who(const Afar__FilesChange *ask);
/* True: one of the openings would have its file delegated. */
bool holds_want_delegation(const Afar__FilesHold *ask);
/* The rights on the namespace that a call takes. */
uint32_t rights_to_look(const Afar__FilesLook *ask);
uint32_t rights_to_hold(const Afar__FilesHold *ask);

#endif
