/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Volumes: namespaces that hold one region, a disk. Each session that has it open does so in a mode,
 * which its reference keeps. An exclusive one excludes all that write, until its session has been
 * fenced everywhere.
 */
#ifndef MANAGER_VOLUMES_H
#define MANAGER_VOLUMES_H

#include "manager/core_private.h"

core_operation volume_take_over, volume_resize;
/* An open that former holders are in the way of waits while their sessions are being ended. */
core_wait volume_wait;

/* The rights that opening in a mode takes; VOLUME_NONE: of a region that is no volume. */
uint32_t volume_rights(uint32_t mode);
/* Finds the volume's region for a session to open as it asks. With a sentence: -EINVAL (mode; the namespace is no
 * volume, or is one and the mode is VOLUME_NONE), -EACCES, -EBUSY, -ENOENT (unfinished). */
int volume_find_to_open(const struct core *core, const struct session *session,
			const struct namespace *ns, const Afar__RegionOpen *ask,
			struct region **out);
#define HOLDER_TEXT_MAX 512
/* Says who has the reference's region open, and `advice`. If that session has ended or is about to,
 * says instead what its end waits for, because nobody can close anything there. */
void reference_describe(const struct core *core, const struct reference *reference,
			const char *advice, char out[HOLDER_TEXT_MAX]);
/* Checks the deletion of a volume or a file system, or of a namespace that shall be neither. With a
 * sentence: -ENOENT, -EINVAL, -EBUSY. */
int volume_check_delete(const struct core *core, const struct namespace *ns,
			const Afar__NamespaceDelete *ask);
/* NULL: no memory. */
Afar__VolumeInfo *volume_info(const struct core *core, const struct namespace *ns);

#endif
