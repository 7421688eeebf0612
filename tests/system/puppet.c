/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of a puppet's strings: the test's, and the process that carries its orders out. */
#include "puppet.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- The test's end */

void puppet_start(struct client_process *puppet, const char *uri, const char *name)
{
	client_start(puppet, name, uri);
}

void puppet_tell(struct client_process *puppet, const struct puppet_command *command)
{
	assert_int_equal(write(puppet->go, command, sizeof(*command)), sizeof(*command));
}

struct puppet_reply puppet_hear(struct client_process *puppet)
{
	struct puppet_reply reply;

	client_hear(puppet, &reply, sizeof(reply));
	return reply;
}

struct puppet_reply puppet_do(struct client_process *puppet, const struct puppet_command *command)
{
	puppet_tell(puppet, command);
	return puppet_hear(puppet);
}

void puppet_end(struct client_process *puppet)
{
	int go = puppet->go, status;

	if (!puppet->pid)
		return;
	puppet->go = dup(puppet->says); /* closed by the reaping */
	close(go);
	status = client_reap(puppet);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

void puppet_kill(struct client_process *puppet)
{
	kill(puppet->pid, SIGKILL);
	client_reap(puppet);
}

/* ---- The puppet */

struct puppet {
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_barrier *barrier;
	uint32_t member;
	uint32_t nr_members;
	uint64_t work_bytes;
};

static int bootstrap(struct puppet *puppet, const struct puppet_command *command, int64_t *value)
{
	int is_first = -1;
	int ret = afar_region_bootstrap(puppet->ns, command->bytes, &puppet->region, &is_first);

	*value = is_first;
	return ret;
}

static int churn(struct puppet *puppet, const struct puppet_command *command, int64_t *value)
{
	int ret = 0;

	for (uint32_t i = 0; i < command->count && !ret; i++) {
		struct afar_region *region;
		int is_first;

		ret = afar_region_bootstrap(puppet->ns, command->bytes, &region, &is_first);
		if (!ret && is_first)
			ret = afar_region_destroy(region);
		if (!ret)
			ret = afar_region_close(region);
		*value += is_first;
	}
	return ret;
}

static int open_barrier(struct puppet *puppet, const struct puppet_command *command)
{
	struct afar_barrier_options options = {
		.size = sizeof(options),
		.offset = command->offset,
		.work_bytes = command->work_bytes,
		.nr_members = command->nr_members,
		.member = command->member,
	};

	puppet->nr_members = command->nr_members;
	puppet->member = command->member;
	puppet->work_bytes = command->work_bytes;
	return afar_barrier_open(puppet->region, &options, command->timeout_ms, &puppet->barrier);
}

static int close_barrier(struct puppet *puppet)
{
	int ret = afar_barrier_close(puppet->barrier);

	puppet->barrier = NULL;
	return ret;
}

static int start_phase(struct puppet *puppet, int64_t value)
{
	char *work = calloc(puppet->nr_members, puppet->work_bytes + 1);
	int ret;

	for (uint32_t i = 0; i < puppet->nr_members && puppet->work_bytes; i++) {
		int64_t mine = value + i;

		for (size_t at = 0; at + sizeof(mine) <= puppet->work_bytes; at += sizeof(mine))
			memcpy(work + i * puppet->work_bytes + at, &mine, sizeof(mine));
	}
	ret = afar_barrier_start(puppet->barrier, puppet->work_bytes ? work : NULL);
	free(work);
	return ret;
}

static int next_phase(struct puppet *puppet, int timeout_ms, int64_t *value)
{
	int64_t work[PUPPET_WORK_BYTES / sizeof(int64_t)] = {0};
	int ret = afar_barrier_next(puppet->barrier, puppet->work_bytes ? work : NULL, timeout_ms);

	*value = work[0];
	for (size_t i = 0; i < puppet->work_bytes / sizeof(int64_t); i++) {
		if (work[i] != work[0])
			*value = -1;
	}
	return ret;
}

/*
 * Each member writes the number of its phase into a byte of its own before it waits. After the wait the
 * others' must be the same number, or the next.
 */
static int run_phases(struct puppet *puppet, const struct puppet_command *command,
		      int64_t *nr_wrong)
{
	uint64_t offset =
		command->offset + AFAR_BARRIER_BYTES(puppet->nr_members, puppet->work_bytes);
	uint8_t phases[PUPPET_MEMBERS_MAX * 64];
	size_t length = puppet->nr_members * (size_t)64;

	for (uint32_t phase = 0; phase < command->count; phase++) {
		uint8_t mine = (uint8_t)phase;
		ssize_t count = afar_region_pwrite(puppet->region, &mine, 1,
						   offset + puppet->member * (uint64_t)64);
		int ret;

		if (count < 0)
			return (int)count;
		ret = afar_barrier_wait(puppet->barrier, command->timeout_ms);
		if (ret)
			return ret;
		count = afar_region_pread(puppet->region, phases, length, offset);
		if (count < 0)
			return (int)count;
		for (uint32_t i = 0; i < puppet->nr_members; i++)
			*nr_wrong += (uint8_t)(phases[(size_t)i * 64] - mine) > 1;
	}
	return 0;
}

static int reopen(struct puppet *puppet, const struct puppet_command *command)
{
	int ret = 0;

	for (uint32_t i = 0; i < command->count && !ret; i++) {
		ret = open_barrier(puppet, command);
		for (int phase = 0; phase < 3 && !ret; phase++)
			ret = afar_barrier_wait(puppet->barrier, command->timeout_ms);
		if (!ret)
			ret = close_barrier(puppet);
	}
	return ret;
}

/* A barrier for a single phase of work: members close it as soon as they have reported, and open the
 * next. */
static int send_off(struct puppet *puppet, const struct puppet_command *command, int64_t *nr_wrong)
{
	int ret = 0;

	for (uint32_t i = 0; i < command->count && !ret; i++) {
		int64_t work;

		ret = open_barrier(puppet, command);
		if (!ret && puppet->member == 0) {
			ret = start_phase(puppet, i);
			if (!ret)
				ret = afar_barrier_collect(puppet->barrier, NULL,
							   command->timeout_ms);
		} else if (!ret) {
			ret = next_phase(puppet, command->timeout_ms, &work);
			*nr_wrong += work != i + puppet->member;
			if (!ret)
				ret = afar_barrier_report(puppet->barrier, 0);
		}
		if (!ret)
			ret = close_barrier(puppet);
	}
	return ret;
}

static int64_t cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * (int64_t)1000000 +
	       usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static int obey(struct puppet *puppet, const struct puppet_command *command,
		struct puppet_reply *reply)
{
	switch (command->order) {
	case PUPPET_BOOTSTRAP:
		return bootstrap(puppet, command, &reply->value);
	case PUPPET_CHURN:
		return churn(puppet, command, &reply->value);
	case PUPPET_OPEN:
		return open_barrier(puppet, command);
	case PUPPET_WAIT:
		return afar_barrier_wait(puppet->barrier, command->timeout_ms);
	case PUPPET_START:
		return start_phase(puppet, command->value);
	case PUPPET_COLLECT:
		return afar_barrier_collect(puppet->barrier, reply->statuses, command->timeout_ms);
	case PUPPET_NEXT:
		return next_phase(puppet, command->timeout_ms, &reply->value);
	case PUPPET_REPORT:
		return afar_barrier_report(puppet->barrier, (int)command->value);
	case PUPPET_CLOSE:
		return close_barrier(puppet);
	case PUPPET_PHASES:
		return run_phases(puppet, command, &reply->value);
	case PUPPET_REOPENS:
		return reopen(puppet, command);
	case PUPPET_SEND_OFF:
		return send_off(puppet, command, &reply->value);
	case PUPPET_CPU:
		reply->value = cpu_us();
		return 0;
	}
	return -EINVAL;
}

static int end(struct puppet *puppet)
{
	if (puppet->barrier && afar_barrier_close(puppet->barrier))
		return 1;
	if (puppet->region && afar_region_close(puppet->region))
		return 1;
	return afar_namespace_close(puppet->ns) || afar_session_close(puppet->session);
}

int puppet_main(char **argv)
{
	struct puppet puppet = {0};
	struct puppet_command command;
	int says = atoi(argv[3]), go = atoi(argv[4]);

	if (afar_session_open(argv[2], NULL, &puppet.session) ||
	    afar_namespace_open(puppet.session, argv[1], &puppet.ns)) {
		fprintf(stderr, "puppet: %s\n", afar_last_error());
		return 1;
	}
	while (read(go, &command, sizeof(command)) == sizeof(command)) {
		struct puppet_reply reply = {0};

		reply.ret = obey(&puppet, &command, &reply);
		snprintf(reply.line, sizeof(reply.line), "%s", afar_last_error());
		if (write(says, &reply, sizeof(reply)) != sizeof(reply))
			return 1;
	}
	return end(&puppet);
}
