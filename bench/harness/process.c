/* SPDX-License-Identifier: BSD-3-Clause */
/* Other processes, for the suites: reads /proc and CPU clocks, forks and reaps children. */
#include "process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

uint64_t process_cpu_ns(pid_t pid)
{
	clockid_t clock;
	struct timespec used;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
		return 0;
	return (uint64_t)used.tv_sec * 1000000000U + (uint64_t)used.tv_nsec;
}

uint64_t process_resident_bytes(pid_t pid)
{
	char path[64];
	char line[256];
	uint64_t total_kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		unsigned long long kib;

		if (sscanf(line, "Rss: %llu kB", &kib) == 1 ||
		    sscanf(line, "Private_Hugetlb: %llu kB", &kib) == 1 ||
		    sscanf(line, "Shared_Hugetlb: %llu kB", &kib) == 1)
			total_kib += kib;
	}
	fclose(file);
	return total_kib * 1024U;
}

uint64_t machine_memory_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t machine_available_bytes(void)
{
	unsigned long long kib = 0;
	char line[256];
	FILE *file = fopen("/proc/meminfo", "re");

	if (!file)
		return 0;
	while (!kib && fgets(line, sizeof(line), file))
		sscanf(line, "MemAvailable: %llu kB", &kib);
	fclose(file);
	return kib * 1024U;
}

static uint64_t usage_ns(int who)
{
	struct rusage usage;

	if (getrusage(who, &usage))
		return 0;
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000U +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000U;
}

uint64_t machine_others_cpu_ns(void)
{
	unsigned long long user, nice, system, idle, waiting, interrupt, softirq;
	uint64_t own_ns = usage_ns(RUSAGE_SELF) + usage_ns(RUSAGE_CHILDREN);
	uint64_t busy_ns;
	FILE *file = fopen("/proc/stat", "re");
	int nr;

	if (!file)
		return 0;
	nr = fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
		    &waiting, &interrupt, &softirq);
	fclose(file);
	if (nr != 7)
		return 0;
	busy_ns = (user + nice + system + interrupt + softirq) *
		  (1000000000U / (uint64_t)sysconf(_SC_CLK_TCK));
	return busy_ns > own_ns ? busy_ns - own_ns : 0;
}

static _Noreturn void run_child(int channel, pid_t parent,
				int (*child_main)(int channel, void *argument), void *argument)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);	 /* it died before the line above */
	signal(SIGINT, SIG_IGN); /* the parent ends us, in its order */
	_exit(child_main(channel, argument));
}

int child_start(struct child *child, int (*main)(int channel, void *argument), void *argument)
{
	pid_t parent = getpid();
	int channels[2];

	*child = (struct child){.channel = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channels))
		return bench_fail(-errno, "socketpair: %s", strerror(errno));
	fflush(NULL);
	child->pid = fork();
	if (child->pid < 0) {
		int ret = -errno;

		child->pid = 0;
		close(channels[0]);
		close(channels[1]);
		return bench_fail(ret, "fork: %s", strerror(-ret));
	}
	if (!child->pid) {
		close(channels[0]);
		run_child(channels[1], parent, main, argument);
	}
	close(channels[1]);
	child->channel = channels[0];
	return 0;
}

int child_receive(const struct child *child, void *message, size_t size)
{
	ssize_t length;

	do
		length = recv(child->channel, message, size, 0);
	while (length < 0 && errno == EINTR && !bench_is_interrupted());
	if (length < 0)
		return -errno;
	if (length == 0)
		return -EPIPE;
	return (size_t)length == size ? 0 : -EPROTO;
}

int child_send(const struct child *child, const void *message, size_t size)
{
	return send(child->channel, message, size, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

void child_stop(struct child *child)
{
	if (child->pid <= 0)
		return;
	close(child->channel);
	kill(child->pid, SIGKILL);
	while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*child = (struct child){.channel = -1};
}
