/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `peers` against one-sided reads of MPI, by MPICH and by Open MPI, each over shared memory and over tcp.
 * Its two ranks run peer_mpi.c all the while, and sleep when it is not their turn.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "peer.h"
#include "peer_mpi.h"
#include "peers.h"
#include "process.h"

#define START_TIMEOUT_MS 30000
#define NR_COMPUTING	 UINT64_C(64) /* each may take a millisecond and more */
#define ARGUMENTS_MAX	 24U

/* One MPI over one transport. */
struct mpi {
	const char *program; /* peer_mpi.c, built for it */
	const char *launcher;
	const char *const *options;
	const char *const *environment;
	const char *missing;   /* said in place of a reference when it is not here */
	const char *transport; /* Afar's */
	struct bench_row *rows;
	unsigned nr_rows;
};

struct mpi_stage {
	struct transfer_stage ours; /* first: the row functions of transfer.h take it */
	struct peer peer;
	int channels[PEER_MPI_RANKS];
};

/* ---- The two ranks */

/* The programs stay where they were built, below the folder of this one's. */
static int find_program(const char *name, char *out, size_t size)
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length < 0)
		return -ENOENT;
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	if (snprintf(out, size, "%s/../../bench/%s", self, name) >= (int)size)
		return -ENOENT;
	return access(out, X_OK) ? -ENOENT : 0;
}

static int listen_for_ranks(const struct peer *peer, struct sockaddr_un *address)
{
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(address->sun_path, sizeof(address->sun_path), "%s/socket", peer->folder);
	if (listener >= 0 && (bind(listener, (const struct sockaddr *)address, sizeof(*address)) ||
			      listen(listener, PEER_MPI_RANKS))) {
		close(listener);
		listener = -1;
	}
	return listener < 0 ? bench_fail(-errno, "a socket for MPI: %s", strerror(errno))
			    : listener;
}

static int launch(struct mpi_stage *state, const struct mpi *mpi, const char *program,
		  const char *socket_path)
{
	const char *arguments[ARGUMENTS_MAX];
	unsigned nr = 0;
	char bytes[32];

	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)TRANSFER_WINDOW);
	arguments[nr++] = mpi->launcher;
	for (unsigned i = 0; mpi->options[i]; i++)
		arguments[nr++] = mpi->options[i];
	arguments[nr++] = program;
	arguments[nr++] = socket_path;
	arguments[nr++] = bytes;
	arguments[nr] = NULL;
	return peer_run(&state->peer, arguments, mpi->environment);
}

static int take_rank(struct mpi_stage *state, int listener)
{
	struct peer_mpi_hello hello;
	int channel = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (channel < 0)
		return bench_fail(-errno, "a rank of MPI: %s", strerror(errno));
	if (recv(channel, &hello, sizeof(hello), 0) != sizeof(hello) ||
	    hello.rank >= PEER_MPI_RANKS || state->channels[hello.rank] >= 0) {
		close(channel);
		return peer_fail(&state->peer, "a rank of MPI did not start", -EPROTO);
	}
	state->channels[hello.rank] = channel;
	return 0;
}

static int await_ranks(struct mpi_stage *state, int listener)
{
	struct pollfd waited = {.fd = listener, .events = POLLIN};
	uint64_t deadline = clock_deadline_ms(START_TIMEOUT_MS);

	for (unsigned nr = 0; nr < PEER_MPI_RANKS;) {
		int ret;

		if (bench_is_interrupted())
			return -EINTR;
		if (!peer_is_alive(&state->peer) || !clock_remaining_ms(deadline))
			return peer_fail(&state->peer, "MPI did not start", -ETIMEDOUT);
		if (poll(&waited, 1, 100) <= 0)
			continue;
		ret = take_rank(state, listener);
		if (ret)
			return ret;
		nr++;
	}
	return 0;
}

static int start_ranks(struct mpi_stage *state, const struct mpi *mpi, const char *program)
{
	struct sockaddr_un address;
	int ret = peer_open(&state->peer);
	int listener;

	if (ret)
		return ret;
	listener = listen_for_ranks(&state->peer, &address);
	if (listener < 0)
		return listener;
	ret = launch(state, mpi, program, address.sun_path);
	if (!ret)
		ret = await_ranks(state, listener);
	close(listener);
	return ret;
}

static int order_read(struct mpi_stage *state, const struct transfer *transfer, bool is_computing,
		      uint64_t *elapsed_ns)
{
	const struct peer_mpi_order order = {
		.size = transfer->size, .nr = transfer->nr, .is_target_computing = is_computing};
	struct peer_mpi_result result;
	ssize_t length = -1;

	for (unsigned i = 0; i < PEER_MPI_RANKS; i++) {
		if (send(state->channels[i], &order, sizeof(order), MSG_NOSIGNAL) < 0)
			return peer_fail(&state->peer, "MPI ended", -EPIPE);
	}
	do
		length = recv(state->channels[PEER_MPI_ORIGIN], &result, sizeof(result), 0);
	while (length < 0 && errno == EINTR && !bench_is_interrupted());
	if (bench_is_interrupted())
		return -EINTR;
	if (length != sizeof(result))
		return peer_fail(&state->peer, "MPI ended", -EPIPE);
	*elapsed_ns = result.elapsed_ns;
	return 0;
}

/* ---- Rows */

static int run_mpi(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	uint64_t elapsed_ns = 0;
	int ret = order_read(stage, row->parameters, false, &elapsed_ns);

	(void)repetition;
	if (!ret)
		*value = transfer_value(row, elapsed_ns);
	return ret;
}

static int run_mpi_computing(void *stage, const struct bench_row *row, unsigned repetition,
			     double *value)
{
	uint64_t elapsed_ns = 0;
	int ret = order_read(stage, row->parameters, true, &elapsed_ns);

	(void)repetition;
	if (!ret)
		*value = transfer_value(row, elapsed_ns);
	return ret;
}

static int compute_main(int channel, void *argument)
{
	char word = 0;

	(void)argument;
	if (send(channel, &word, sizeof(word), MSG_NOSIGNAL) < 0)
		return 1;
	for (;;)
		clock_pause_ns(UINT64_C(1000000));
}

/* A third process, as Afar's server is none that computes. */
static int run_ours_computing(void *stage, const struct bench_row *row, unsigned repetition,
			      double *value)
{
	struct child computing = {0};
	char word;
	int ret = child_start(&computing, compute_main, NULL);

	if (!ret)
		ret = child_receive(&computing, &word, sizeof(word));
	if (!ret)
		ret = transfer_run_mapping(stage, row, repetition, value);
	child_stop(&computing);
	return ret;
}

/* clang-format off */
#define MPI_ROWS(name, reference)                                                           \
	{                                                                                   \
		PEERS_READS(name, reference, run_mpi),                                      \
		{"read 4 KiB / " name ", target computing", "µs", BENCH_LOWER, reference,   \
		 BENCH_REPORTED, PEERS_READ(NR_COMPUTING, 4 * KIB), run_ours_computing,     \
		 run_mpi_computing},                                                        \
	}
/* clang-format on */

#define REFERENCE(name, way) name " " way ": MPI_Get and MPI_Win_flush_local, target in MPI_Wait"

/* Not constant: peers_skip(). */
static struct bench_row mpich_memory_rows[] =
	MPI_ROWS("MPICH memory", REFERENCE("MPICH", "over shared memory"));
static struct bench_row mpich_tcp_rows[] =
	MPI_ROWS("MPICH tcp", REFERENCE("MPICH", "over UCX's tcp"));
static struct bench_row open_mpi_memory_rows[] =
	MPI_ROWS("Open MPI memory", REFERENCE("Open MPI", "over shared memory (osc sm)"));
static struct bench_row open_mpi_tcp_rows[] =
	MPI_ROWS("Open MPI tcp", REFERENCE("Open MPI", "over tcp (osc pt2pt, btl tcp)"));

#define MPICH_MISSING \
	"not installed: apt install mpich libmpich-dev, and build Afar again in a new folder"
#define OPEN_MPI_MISSING                                              \
	"not installed: apt install openmpi-bin libopenmpi-dev, and " \
	"build Afar again in a new folder"

static const char *const mpich_options[] = {"-n", "2", NULL};
static const char *const mpich_memory_environment[] = {NULL};
static const char *const mpich_tcp_environment[] = {"MPIR_CVAR_NOLOCAL=1", "UCX_TLS=tcp,self",
						    "UCX_NET_DEVICES=lo", NULL};

#define OPEN_MPI_OPTIONS \
	"-n", "2", "--host", "localhost:2", "--bind-to", "none", "--mca", "pml", "ob1"
static const char *const open_mpi_memory_options[] = {
	OPEN_MPI_OPTIONS, "--mca", "osc", "sm", "--mca", "btl", "vader,self", NULL};
static const char *const open_mpi_tcp_options[] = {
	OPEN_MPI_OPTIONS,     "--mca", "osc", "pt2pt", "--mca", "btl", "tcp,self", "--mca",
	"btl_tcp_if_include", "lo",    NULL};
static const char *const open_mpi_environment[] = {"OMPI_ALLOW_RUN_AS_ROOT=1",
						   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL};

static const struct mpi mpich_memory = {
	"peer_mpich",  "mpiexec.mpich", mpich_options,	   mpich_memory_environment,
	MPICH_MISSING, "local",		mpich_memory_rows, NR_ROWS(mpich_memory_rows)};
static const struct mpi mpich_tcp = {"peer_mpich",	    "mpiexec.mpich",	    mpich_options,
				     mpich_tcp_environment, MPICH_MISSING,	    "tcp",
				     mpich_tcp_rows,	    NR_ROWS(mpich_tcp_rows)};
static const struct mpi open_mpi_memory = {"peer_open_mpi",	    "mpiexec.openmpi",
					   open_mpi_memory_options, open_mpi_environment,
					   OPEN_MPI_MISSING,	    "local",
					   open_mpi_memory_rows,    NR_ROWS(open_mpi_memory_rows)};
static const struct mpi open_mpi_tcp = {"peer_open_mpi",      "mpiexec.openmpi",
					open_mpi_tcp_options, open_mpi_environment,
					OPEN_MPI_MISSING,     "tcp",
					open_mpi_tcp_rows,    NR_ROWS(open_mpi_tcp_rows)};

/* ---- The stages */

static void teardown(void *stage)
{
	struct mpi_stage *state = stage;

	if (!state)
		return;
	transfer_close_ours(&state->ours);
	for (unsigned i = 0; i < PEER_MPI_RANKS; i++) {
		if (state->channels[i] >= 0)
			close(state->channels[i]);
	}
	peer_close(&state->peer);
	free(state);
}

static int setup(const struct mpi *mpi, void **stage)
{
	char program[PATH_MAX];
	struct mpi_stage *state;
	int ret;

	if (find_program(mpi->program, program, sizeof(program)) ||
	    !peer_is_installed(mpi->launcher)) {
		peers_skip(mpi->rows, mpi->nr_rows, mpi->missing);
		return 0;
	}
	state = calloc(1, sizeof(*state));
	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	for (unsigned i = 0; i < PEER_MPI_RANKS; i++)
		state->channels[i] = -1;
	ret = start_ranks(state, mpi, program);
	if (!ret)
		ret = transfer_open_ours(&state->ours, mpi->transport, 0);
	if (ret)
		teardown(state);
	else
		*stage = state;
	return ret;
}

PEERS_STAGE(mpich_memory)
PEERS_STAGE(mpich_tcp)
PEERS_STAGE(open_mpi_memory)
PEERS_STAGE(open_mpi_tcp)
