/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls about files, seen from their operations alone; see asks.h. */
#include "manager/files/asks.h"
#include "manager/connections/rights.h"

#include <unistd.h>

/* ---- Beside a batch */

/* The others are about the file system as a whole: they read all of it, or its counts. */
static bool can_look(const Afar__FilesLook *ask)
{
	for (size_t i = 0; i < ask->n_operations; i++)
		switch (ask->operations[i]->what_case) {
		case AFAR__FILE_LOOK__WHAT_LOOKUP:
		case AFAR__FILE_LOOK__WHAT_WALK:
		case AFAR__FILE_LOOK__WHAT_STAT:
		case AFAR__FILE_LOOK__WHAT_LIST:
		case AFAR__FILE_LOOK__WHAT_READ_LINK:
		case AFAR__FILE_LOOK__WHAT_GET_XATTR:
		case AFAR__FILE_LOOK__WHAT_LIST_XATTRS:
		case AFAR__FILE_LOOK__WHAT_MAP:
			break;
		default:
			return false;
		}
	return true;
}

/* The others are about what sessions wait for. */
static bool can_hold(const Afar__FilesHold *ask)
{
	for (size_t i = 0; i < ask->n_operations; i++)
		switch (ask->operations[i]->what_case) {
		case AFAR__FILE_HOLD__WHAT_OPEN:
		case AFAR__FILE_HOLD__WHAT_CLOSE:
		case AFAR__FILE_HOLD__WHAT_END:
			break;
		default:
			return false;
		}
	return true;
}

bool files_can_ask(const Afar__Request *request)
{
	switch (request->call_case) {
	case AFAR__REQUEST__CALL_FILES_LOOK:
		return can_look(request->files_look);
	case AFAR__REQUEST__CALL_FILES_HOLD:
		return can_hold(request->files_hold);
	default:
		return false;
	}
}

/* ---- Who asks */

bool looks_ask_who(const Afar__FilesLook *ask)
{
	for (size_t i = 0; i < ask->n_operations; i++)
		switch (ask->operations[i]->what_case) {
		case AFAR__FILE_LOOK__WHAT_STAT:
		case AFAR__FILE_LOOK__WHAT_READ_LINK:
		case AFAR__FILE_LOOK__WHAT_MAP:
		case AFAR__FILE_LOOK__WHAT_SYSTEM:
		case AFAR__FILE_LOOK__WHAT_CHECK:
		case AFAR__FILE_LOOK__WHAT_LOST:
			break;
		default:
			return true;
		}
	return false;
}

bool holds_ask_who(const Afar__FilesHold *ask)
{
	for (size_t i = 0; i < ask->n_operations; i++)
		if (ask->operations[i]->what_case == AFAR__FILE_HOLD__WHAT_OPEN)
			return true;
	return false;
}

bool holds_want_delegation(const Afar__FilesHold *ask)
{
	for (size_t i = 0; i < ask->n_operations; i++)
		if (ask->operations[i]->what_case == AFAR__FILE_HOLD__WHAT_OPEN &&
		    ask->operations[i]->open->wants_delegation)
			return true;
	return false;
}

/* The others are for files that the session has opened. */
bool changes_ask_who(const Afar__FilesChange *ask)
{
	for (size_t i = 0; i < ask->n_operations; i++)
		switch (ask->operations[i]->what_case) {
		case AFAR__FILE_CHANGE__WHAT_EXTEND:
		case AFAR__FILE_CHANGE__WHAT_PUNCH:
		case AFAR__FILE_CHANGE__WHAT_SYNC:
			break;
		default:
			return true;
		}
	return false;
}

/* ---- Rights */

/* It reads everything, and others wait meanwhile. */
uint32_t rights_to_look(const Afar__FilesLook *ask)
{
	for (size_t i = 0; i < ask->n_operations; i++)
		if (ask->operations[i]->what_case == AFAR__FILE_LOOK__WHAT_CHECK ||
		    ask->operations[i]->what_case == AFAR__FILE_LOOK__WHAT_LOST)
			return RIGHT_READ | RIGHT_OWN;
	return RIGHT_READ;
}

/* Those that only read open files to read. */
uint32_t rights_to_hold(const Afar__FilesHold *ask)
{
	for (size_t i = 0; i < ask->n_operations; i++) {
		const Afar__FileHold *operation = ask->operations[i];

		if (operation->what_case == AFAR__FILE_HOLD__WHAT_END ||
		    operation->what_case == AFAR__FILE_HOLD__WHAT_APPEND ||
		    (operation->what_case == AFAR__FILE_HOLD__WHAT_OPEN &&
		     (operation->open->access & W_OK)))
			return RIGHT_ALL;
	}
	return RIGHT_READ;
}
