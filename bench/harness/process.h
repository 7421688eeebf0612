/* SPDX-License-Identifier: BSD-3-Clause */
/* Other processes: what they cost, and children that live no longer than this process. */
#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Returns the CPU time of all threads of a process since it began, in nanoseconds. 0: it is
 * gone. */
uint64_t process_cpu_ns(pid_t pid);

/* Returns resident memory in bytes, reserved huge pages included, from smaps_rollup. 0: the process
 * is gone. */
uint64_t process_resident_bytes(pid_t pid);

/* Returns the memory of this machine in bytes. */
uint64_t machine_memory_bytes(void);

/* Returns the bytes of it that could be populated now, as the kernel estimates them. 0: it does not
 * say. */
uint64_t machine_available_bytes(void);

/* Returns the CPU time that this machine spent on anything but this process and the children that
 * it has reaped. */
uint64_t machine_others_cpu_ns(void);

/* A forked child and a message channel to it (SOCK_SEQPACKET). */
struct child {
	pid_t pid;
	int channel;
};

/*
 * Forks a child that runs `main(channel, argument)` and exits with its result. It dies when this
 * process does. Fork before there are threads that the child would miss.
 */
int child_start(struct child *child, int (*main)(int channel, void *argument), void *argument);
/* Receives a message of exactly `size` bytes. -EPIPE: the child is gone; -EPROTO: another size. */
int child_receive(const struct child *child, void *message, size_t size);
int child_send(const struct child *child, const void *message, size_t size);
/* Kills and reaps the child. Does nothing if it was not started (pid 0). */
void child_stop(struct child *child);

#endif
