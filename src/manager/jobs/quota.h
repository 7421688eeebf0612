/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of what may be reserved: for a namespace, and for all namespaces together that a principal
 * owns, in memory and on flash. The owner's limit counts, whoever reserves. A limit that is lowered
 * below what is reserved takes nothing away. Operators have no limit, nor has the name of a key
 * that was revoked.
 */
#ifndef MANAGER_QUOTA_H
#define MANAGER_QUOTA_H

#include "manager/core_private.h"
#include "manager/jobs/job.h"

core_operation namespace_limit, key_limit;
/* -EDQUOT with a sentence: a limit is not enough for so many bytes more. */
int quota_check(const struct core *core, const struct namespace *ns, uint64_t bytes);
/* Begins a pass over all jobs, in the order in which they began; each is counted when it has taken its step. */
void quota_begin(struct core *core);
void quota_count(struct core *core, const struct job *job);
/* In such a pass: lets a job ask servers for so many bytes. If a limit is too low for that and for
 * what those before it may ask for, the job is queued, and asks here again. -EDQUOT as
 * quota_check(). */
int quota_claim(const struct core *core, struct job *job, const struct namespace *ns,
		uint64_t bytes);
/* How much more the limits allow; UINT64_MAX: there are none. */
uint64_t quota_room(const struct core *core, const struct namespace *ns);
/* Fills in the owner's limit, and what is reserved of it. */
void quota_tell_owner(const struct core *core, const struct namespace *ns,
		      Afar__NamespaceInfo *info);

#endif
