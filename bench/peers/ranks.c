/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts ranks of MPICH and of Open MPI, over shared memory or over tcp, and gives them orders. */
#include "ranks.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/harness.h"

#define START_TIMEOUT_MS 30000

/* ---- What there is */

#define MPICH_MISSING \
	"not installed: apt install mpich libmpich-dev, and build Afar again in a new folder"
#define OPEN_MPI_MISSING                                              \
	"not installed: apt install openmpi-bin libopenmpi-dev, and " \
	"build Afar again in a new folder"

static const char *const mpich_options[] = {NULL};
static const char *const mpich_memory_environment[] = {NULL};
static const char *const mpich_tcp_environment[] = {"MPIR_CVAR_NOLOCAL=1", "UCX_TLS=tcp,self",
						    "UCX_NET_DEVICES=lo", NULL};

#define OPEN_MPI_OPTIONS "--bind-to", "none", "--mca", "pml", "ob1"
static const char *const open_mpi_memory_options[] = {
	OPEN_MPI_OPTIONS, "--mca", "osc", "sm", "--mca", "btl", "vader,self", NULL};
static const char *const open_mpi_tcp_options[] = {
	OPEN_MPI_OPTIONS,     "--mca", "osc", "pt2pt", "--mca", "btl", "tcp,self", "--mca",
	"btl_tcp_if_include", "lo",    NULL};
static const char *const open_mpi_environment[] = {"OMPI_ALLOW_RUN_AS_ROOT=1",
						   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL};

const struct mpi mpi_mpich_memory = {"peer_mpich",  "mpiexec.mpich",	      false,
				     mpich_options, mpich_memory_environment, MPICH_MISSING};
const struct mpi mpi_mpich_tcp = {"peer_mpich",	 "mpiexec.mpich",	false,
				  mpich_options, mpich_tcp_environment, MPICH_MISSING};
const struct mpi mpi_open_mpi_memory = {
	"peer_open_mpi",	 "mpiexec.openmpi",    true,
	open_mpi_memory_options, open_mpi_environment, OPEN_MPI_MISSING};
const struct mpi mpi_open_mpi_tcp = {"peer_open_mpi",	   "mpiexec.openmpi",	 true,
				     open_mpi_tcp_options, open_mpi_environment, OPEN_MPI_MISSING};

bool mpi_is_here(const struct mpi *mpi)
{
	char program[PATH_MAX];

	return peer_find_built(mpi->program, program) == 0 && peer_is_installed(mpi->launcher);
}

/* ---- Starting */

static int listen_for_ranks(const struct peer *peer, struct sockaddr_un *address)
{
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(address->sun_path, sizeof(address->sun_path), "%s/socket", peer->folder);
	if (listener >= 0 && (bind(listener, (const struct sockaddr *)address, sizeof(*address)) ||
			      listen(listener, PEER_MPI_RANKS_MAX))) {
		close(listener);
		listener = -1;
	}
	return listener < 0 ? bench_fail(-errno, "a socket for MPI: %s", strerror(errno))
			    : listener;
}

/* No more slots than cores: Open MPI's ranks spin only if each has a slot of its own. */
static unsigned slots_for(unsigned nr)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	return cores > 0 && nr > (unsigned long)cores ? (unsigned)cores : nr;
}

static void add(struct mpi_command *command, const char *word)
{
	command->words[command->nr++] = word;
	command->words[command->nr] = NULL;
}

void mpi_command_begin(struct mpi_command *command, const struct mpi *mpi, unsigned nr)
{
	command->nr = 0;
	snprintf(command->count, sizeof(command->count), "%u", nr);
	snprintf(command->host, sizeof(command->host), "localhost:%u", slots_for(nr));
	add(command, mpi->launcher);
	add(command, "-n");
	add(command, command->count);
	if (mpi->has_slots) {
		add(command, "--host");
		add(command, command->host);
		if (slots_for(nr) < nr)
			add(command, "--oversubscribe");
	}
	for (unsigned i = 0; mpi->options[i]; i++)
		add(command, mpi->options[i]);
}

static int launch(struct mpi_ranks *ranks, const struct mpi *mpi, unsigned nr,
		  uint64_t window_bytes, const char *socket_path)
{
	struct mpi_command command;
	char program[PATH_MAX], bytes[32];
	int status = peer_find_built(mpi->program, program);

	if (status)
		return bench_fail(status, "MPI: %s", mpi->missing);
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)window_bytes);
	mpi_command_begin(&command, mpi, nr);
	add(&command, program);
	add(&command, socket_path);
	add(&command, bytes);
	return peer_run(&ranks->peer, command.words, mpi->environment);
}

static int take_rank(struct mpi_ranks *ranks, unsigned nr, int listener)
{
	struct peer_mpi_hello hello;
	int channel = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (channel < 0)
		return bench_fail(-errno, "a rank of MPI: %s", strerror(errno));
	if (recv(channel, &hello, sizeof(hello), 0) != sizeof(hello) || hello.rank >= nr ||
	    ranks->channels[hello.rank] >= 0) {
		close(channel);
		return peer_fail(&ranks->peer, "a rank of MPI did not start", -EPROTO);
	}
	ranks->channels[hello.rank] = channel;
	return 0;
}

static int await_ranks(struct mpi_ranks *ranks, unsigned nr, int listener)
{
	struct pollfd waited = {.fd = listener, .events = POLLIN};
	uint64_t deadline = clock_deadline_ms(START_TIMEOUT_MS);

	while (ranks->nr < nr) {
		int status;

		if (bench_is_interrupted())
			return -EINTR;
		if (!peer_is_alive(&ranks->peer) || !clock_remaining_ms(deadline))
			return peer_fail(&ranks->peer, "MPI did not start", -ETIMEDOUT);
		if (poll(&waited, 1, 100) <= 0)
			continue;
		status = take_rank(ranks, nr, listener);
		if (status)
			return status;
		ranks->nr++;
	}
	return 0;
}

int mpi_start(struct mpi_ranks *ranks, const struct mpi *mpi, unsigned nr, uint64_t window_bytes)
{
	struct sockaddr_un address;
	int status, listener;

	*ranks = (struct mpi_ranks){0};
	for (unsigned i = 0; i < PEER_MPI_RANKS_MAX; i++)
		ranks->channels[i] = -1;
	status = peer_open(&ranks->peer);
	if (status)
		return status;
	listener = listen_for_ranks(&ranks->peer, &address);
	if (listener < 0)
		return listener;
	status = launch(ranks, mpi, nr, window_bytes, address.sun_path);
	if (!status)
		status = await_ranks(ranks, nr, listener);
	close(listener);
	return status;
}

/* ---- Running */

int mpi_order(struct mpi_ranks *ranks, const struct peer_mpi_order *order, uint64_t *elapsed_ns)
{
	struct peer_mpi_result result;
	ssize_t length = -1;

	for (unsigned i = 0; i < ranks->nr; i++) {
		if (send(ranks->channels[i], order, sizeof(*order), MSG_NOSIGNAL) < 0)
			return peer_fail(&ranks->peer, "MPI ended", -EPIPE);
	}
	do
		length = recv(ranks->channels[PEER_MPI_ORIGIN], &result, sizeof(result), 0);
	while (length < 0 && errno == EINTR && !bench_is_interrupted());
	if (bench_is_interrupted())
		return -EINTR;
	if (length != sizeof(result))
		return peer_fail(&ranks->peer, "MPI ended", -EPIPE);
	*elapsed_ns = result.elapsed_ns;
	return 0;
}

void mpi_stop(struct mpi_ranks *ranks)
{
	for (unsigned i = 0; ranks->peer.folder[0] && i < PEER_MPI_RANKS_MAX; i++) {
		if (ranks->channels[i] >= 0)
			close(ranks->channels[i]);
	}
	peer_close(&ranks->peer);
	ranks->nr = 0;
}
