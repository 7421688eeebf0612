/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes network namespaces, by ip and tc of iproute2. */
#include "network.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "peers/peer.h"

#define OWN_NAMESPACE "/proc/thread-self/ns/net"

struct network {
	int before; /* the namespace that the thread came from */
	int sides[NETWORK_SIDES];
};

/* The devices of both ends are made from the server's side; $1 is a process on the client's. A bucket of 256 KiB
 * takes the largest segments that the kernel hands over at once. */
static const char make_wires[] = "for i in 1 2; do\n"
				 "  ip link add wire$i type veth peer name wire$i netns $1\n"
				 "done\n";
static const char raise_wires[] =
	"ip link set lo up\n"
	"for i in 1 2; do\n"
	"  ip address add 10.77.$i.$1/24 dev wire$i\n"
	"  ip link set wire$i up\n"
	"  tc qdisc add dev wire$i root tbf rate " NETWORK_RATE " burst 256k limit 4m\n"
	"done\n";

/* $1: what the routes say that connections use. A namespace's own default may not be one that takes privilege. */
static const char set_routes[] =
	"exec 2>/dev/null\n"
	"ip link set lo up\n"
	"for to in 127.0.0.0/8 127.0.0.1; do\n"
	"  ip route change table local local $to dev lo scope host src 127.0.0.1 congctl $1\n"
	"done\n";

const char *network_obstacle(void)
{
	if (geteuid() != 0)
		return "skipped: only root may make network namespaces";
	if (!peer_is_installed("ip") || !peer_is_installed("tc"))
		return "not installed: apt install iproute2";
	return NULL;
}

/* A namespace of its own for this thread. */
static int make_side(int *out)
{
	if (unshare(CLONE_NEWNET))
		return bench_fail(-errno, "a network namespace: %s", strerror(errno));
	*out = open(OWN_NAMESPACE, O_RDONLY | O_CLOEXEC);
	return *out < 0 ? bench_fail(-errno, OWN_NAMESPACE ": %s", strerror(errno)) : 0;
}

/* Runs a script of the shell in a namespace with one argument, and waits for it. */
static int run_in(int namespace, const char *script, const char *argument)
{
	int result;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		if (!setns(namespace, CLONE_NEWNET))
			execlp("sh", "sh", "-ec", script, "sh", argument, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &result, 0) != pid)
		return -errno;
	return result ? -EIO : 0;
}

static int run_on(const struct network *network, enum network_side side, const char *script,
		  int argument)
{
	char text[16];
	int ret;

	snprintf(text, sizeof(text), "%d", argument);
	ret = run_in(network->sides[side], script, text);
	return ret ? bench_fail(ret, "ip or tc could not set up a network, see above") : 0;
}

int network_be_alone(const char *congestion)
{
	int before = open(OWN_NAMESPACE, O_RDONLY | O_CLOEXEC), alone;
	int ret;

	if (before < 0 || unshare(CLONE_NEWNET)) {
		ret = -errno;
		goto out_close;
	}
	alone = open(OWN_NAMESPACE, O_RDONLY | O_CLOEXEC);
	ret = alone < 0 ? -errno : run_in(alone, set_routes, congestion);
	if (alone >= 0)
		close(alone);
	if (ret && setns(before, CLONE_NEWNET))
		ret = bench_fail(-errno, "leave a network namespace: %s", strerror(errno));
out_close:
	if (before >= 0)
		close(before);
	return ret;
}

int network_open(struct network **out)
{
	struct network *network = malloc(sizeof(*network));
	int ret = 0;

	if (!network)
		return bench_fail(-ENOMEM, "no memory for a network");
	*network = (struct network){.sides = {-1, -1}};
	network->before = open(OWN_NAMESPACE, O_RDONLY | O_CLOEXEC);
	if (network->before < 0)
		ret = bench_fail(-errno, OWN_NAMESPACE ": %s", strerror(errno));
	for (unsigned i = 0; i < NETWORK_SIDES && !ret; i++)
		ret = make_side(&network->sides[i]);
	if (!ret)
		ret = run_on(network, NETWORK_SERVER, make_wires, (int)getpid());
	for (unsigned i = 0; i < NETWORK_SIDES && !ret; i++)
		ret = run_on(network, (enum network_side)i, raise_wires, (int)i + 1);
	if (ret) {
		network_close(network);
		return ret;
	}
	*out = network;
	return 0;
}

int network_enter(const struct network *network, enum network_side side)
{
	if (setns(network->sides[side], CLONE_NEWNET))
		return bench_fail(-errno, "enter a network namespace: %s", strerror(errno));
	return 0;
}

void network_close(struct network *network)
{
	if (!network)
		return;
	if (network->before >= 0) {
		if (setns(network->before, CLONE_NEWNET))
			bench_fail(-errno, "leave a network namespace: %s", strerror(errno));
		close(network->before);
	}
	for (unsigned i = 0; i < NETWORK_SIDES; i++) {
		if (network->sides[i] >= 0)
			close(network->sides[i]);
	}
	free(network);
}
