/* SPDX-License-Identifier: BSD-3-Clause */
/* The public headers from C++: they must compile as they are, and link. */
#include <cerrno>
#include <cstdio>

#include <sys/mman.h>

#include <afar/afar.h>
#include <afar/array.h>
#include <afar/barrier.h>
#include <afar/graph.h>

int main()
{
	struct afar_session_options options = {};
	struct afar_session *session = nullptr;

	options.size = sizeof(options);
	options.timeout_ms = 1000;
	if (afar_session_open("afar://", &options, &session) != -EINVAL) {
		std::fprintf(stderr, "headers: a URI without a host was taken\n");
		return 1;
	}
	struct afar_barrier *barrier = nullptr;
	if (afar_barrier_open(nullptr, nullptr, 0, &barrier) != -EINVAL ||
	    AFAR_BARRIER_BYTES(2, 8) != 400) {
		std::fprintf(stderr, "headers: a barrier without a region was opened\n");
		return 1;
	}
	struct afar_graph *graph = nullptr;
	const uint32_t words[] = {7, 8};
	const struct afar_graph_edges edges = {words, 2, 0, 1, 0};
	if (afar_graph_open(nullptr, nullptr, &graph) != -EINVAL ||
	    afar_graph_neighbour(&edges, 1) != 8 || afar_graph_weight(&edges, 1) != 1) {
		std::fprintf(stderr, "headers: a graph without a session was opened\n");
		return 1;
	}
	void *addr = nullptr;
	if (afar_region_attach(nullptr, 0, 4096, PROT_READ | PROT_WRITE, &addr) != -EINVAL ||
	    afar_region_detach(nullptr, addr) != -EINVAL) {
		std::fprintf(stderr, "headers: no region was attached\n");
		return 1;
	}
	struct afar_array_shape shape = {};
	uint64_t bytes = 0;
	shape.size = sizeof(shape);
	if (afar_array_bytes(&shape, &bytes) != -EINVAL) {
		std::fprintf(stderr, "headers: an array without dimensions was taken\n");
		return 1;
	}
	std::printf("%s\n", afar_last_error());
	return 0;
}
