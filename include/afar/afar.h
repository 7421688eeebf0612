/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Afar: other machines' memory, set up in advance and then read and written one-sided.
 *
 * Functions are of two kinds:
 *
 *  - Control path (sessions, namespaces, reserve, alloc, open, map, connect): may block, allocate
 *    and talk to the manager and to servers. The session's timeout bounds each call.
 *  - Data path (afar_mapping_read/_write, afar_region_pread/…, afar_queue_*): one-sided transfers
 *    between local memory and the servers' memory. They involve no server program, no copy, no
 *    allocation, and no lock shared with other queues.
 *
 * Threads: any number of threads may use sessions, namespaces, regions, mappings and buffers at
 * once. A queue belongs to one thread at a time; use several queues for several threads.
 *
 * Errors: functions return 0 or a count, or a negative code (see afar/error.h). afar_last_error()
 * has the details in one line. Comments below list only errors beyond these:
 *
 *  - Any function may return -EINVAL for a null, closed or unmapped handle (double close, free or
 *    unmap included), -ENOMEM, and -AFAR_EFORKED in a child of the process that opened the session.
 *  - Control-path functions may also return: -AFAR_EMANAGER or -AFAR_ESERVER: a peer cannot be
 *    reached; -ETIMEDOUT: it did not answer in time, and the outcome is unknown; -AFAR_ESESSION:
 *    the manager ended the session; -ESTALE: another cluster has its address. The library retries
 *    under the same request id, so a call is never carried out twice.
 *  - -EACCES: the session's principal has some right here, and not the one for this. The sentence
 *    says who could help. Without any right on a namespace, calls answer as if it were not there.
 *
 * Rights: a key names a principal. The principal that creates a namespace owns it and may do
 * everything with it. So may operators, whose keys are in the manager's own key file. Others may do
 * what the owner grants them: AFAR_RIGHT_READ to open, list and read its regions; AFAR_RIGHT_WRITE
 * to write, make and free them, too. They see nothing of other namespaces, and learn at most that a
 * name is taken, when they want it for one of their own. Only owner and operators reserve and
 * release memory, grant, and delete.
 *
 * Sizes: a struct that begins with `size` may grow at its end in later releases. The library
 * accepts the size of an older release. It accepts a newer one's if all that it does not know is
 * zero. It fills a struct in as far as the size goes. Other sizes are -EINVAL. In an array all entries
 * have the size of the first. A struct without `size` stays as it is; some have reserved members.
 *
 * Time-outs: `timeout_ms` of a function is for how many milliseconds it waits for others: for members, for a lock, for
 * completions. 0: it does not wait. Negative: no limit. The session's own timeout bounds each question to the manager or a
 * server besides, and each operation. In options 0 stands for the default.
 *
 * Making: functions that make a namespace, a region, a volume, a file system or a file also open
 * it. The handle in `*out` is the caller's to close. If `out` is NULL they only make it. Nothing is
 * made if they fail, unless the outcome is unknown.
 *
 * Memory model: operations are not ordered among each other, except by AFAR_OP_AFTER. Overlapping
 * concurrent accesses tear at byte granularity. Every later operation on the same path sees a
 * completed write; operations on all paths see it after AFAR_OP_FLUSH. More, with examples:
 * docs/memory-model.md.
 *
 * The model, to reserve, alloc and map in advance and then to read and write without any set-up, is
 * that of RStore (A. Trivedi, "End-to-End Considerations in the Unification of High-Performance
 * I/O", ETH Zürich 2016, chapter 6, Table 6.1).
 */
#ifndef AFAR_AFAR_H
#define AFAR_AFAR_H

#include <afar/buffer.h>    /* mappings, and memory registered for transfers */
#include <afar/error.h>	    /* codes, and their sentences */
#include <afar/namespace.h> /* reserved memory, and rights on it */
#include <afar/queue.h>	    /* many operations in flight */
#include <afar/region.h>    /* read, written, sealed, attached */
#include <afar/server.h>    /* servers and stores, for operators */
#include <afar/session.h>   /* sessions and keys */
#include <afar/version.h>   /* releases */

#endif
