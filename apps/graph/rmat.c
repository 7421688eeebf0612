/* SPDX-License-Identifier: BSD-3-Clause */
/* R-MAT graphs, with the probabilities of the Graph500 benchmark (D. Chakrabarti, Y. Zhan, C. Faloutsos: "R-MAT: A Recursive
 * Model for Graph Mining", 2004): few vertices have many edges, and many have few. */
#include <errno.h>

#include "gather.h"
#include "random.h"
#include "tools/copy/failure.h"

#define ASK_EVERY 65536U

/* Chances, of 2^32, of an edge for the upper left, upper right and lower left quarter of the matrix. All others are in
 * the lower right. */
#define UPPER_LEFT  ((uint64_t)(0.57 * 4294967296))
#define UPPER_RIGHT ((uint64_t)(0.19 * 4294967296))
#define LOWER_LEFT  ((uint64_t)(0.19 * 4294967296))

/* Chooses a quarter of the matrix, then a quarter of that, and so on. */
static struct graph_edge invent(const struct graph_source *source, uint64_t number)
{
	struct graph_edge edge = {.weight = 1};

	for (unsigned level = 0; level < source->scale; level++) {
		uint64_t chance =
			random_at(source->seed, number * (source->scale + 1) + level) >> 32;
		bool is_lower = chance >= UPPER_LEFT + UPPER_RIGHT;
		bool is_right = is_lower ? chance >= UPPER_LEFT + UPPER_RIGHT + LOWER_LEFT
					 : chance >= UPPER_LEFT;

		edge.from = edge.from << 1 | is_lower;
		edge.to = edge.to << 1 | is_right;
	}
	if (source->weight_max)
		edge.weight = 1 + (uint32_t)(random_at(source->seed, number * (source->scale + 1) +
									     source->scale) %
					     source->weight_max);
	return edge;
}

int edges_invent(const struct graph_source *source, struct graph_edges *edges)
{
	uint64_t nr = (uint64_t)source->edge_factor << source->scale;
	int ret = 0;

	edges->nr_vertices = (uint64_t)1 << source->scale;
	for (uint64_t i = 0; i < nr && !ret; i++) {
		const struct graph_edge edge = invent(source, i);

		if (i % ASK_EVERY == 0 && source->is_ended && source->is_ended(source->context))
			return -ECANCELED;
		ret = edges_add(edges, source, "R-MAT", &edge);
	}
	return ret;
}
