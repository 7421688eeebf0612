/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_gapbs IMAGE STEPS: PageRank in this process's memory, in the manner of the GAP benchmark suite (S. Beamer, K. Asanović,
 * D. Patterson: "The GAP Benchmark Suite", 2015; its pr_spmv). Each vertex pulls what its sources give, in single precision.
 * There are as many threads as cores, which take 16384 vertices at a time. IMAGE is the region of a graph of `afar graph`, as
 * a file. Says how long the steps took, without reading the file; and the sum of all ranks, which is 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/graph/layout.h"
#include "base/clock.h"

#define DAMPING 0.85F
#define CHUNK	16384

struct matrix {
	uint64_t nr;
	const uint64_t *arriving, *leaving; /* where edges begin */
	const uint32_t *sources;
	unsigned step; /* words from one source to the next */
	float *ranks, *gives;
};

/* Reads the file into memory of this process. */
static char *read_image(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	char *image = NULL;
	off_t done = 0;
	ssize_t n = 1;

	if (fd < 0 || fstat(fd, &status) || status.st_size <= (off_t)GRAPH_OFFSETS)
		goto out;
	image = aligned_alloc(4096, ((size_t)status.st_size + 4095) / 4096 * 4096);
	while (image && done < status.st_size && n > 0) {
		n = read(fd, image + done, (size_t)(status.st_size - done));
		done += n > 0 ? n : 0;
	}
	if (done < status.st_size) {
		free(image);
		image = NULL;
	}
out:
	if (!image)
		fprintf(stderr, "peer_gapbs: read %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return image;
}

static void step(struct matrix *matrix)
{
	const uint64_t nr = matrix->nr;
	float rest = 0, base;

#pragma omp parallel for reduction(+ : rest)
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t degree = matrix->leaving[i + 1] - matrix->leaving[i];

		matrix->gives[i] = degree ? matrix->ranks[i] / (float)degree : 0;
		rest += degree ? 0 : matrix->ranks[i];
	}
	base = (1 - DAMPING + DAMPING * rest) / (float)nr;
#pragma omp parallel for schedule(dynamic, CHUNK)
	for (uint64_t i = 0; i < nr; i++) {
		float sum = 0;

		for (uint64_t edge = matrix->arriving[i]; edge < matrix->arriving[i + 1]; edge++)
			sum += matrix->gives[matrix->sources[edge * matrix->step]];
		matrix->ranks[i] = base + DAMPING * sum;
	}
}

static int run(const char *image, int nr_steps)
{
	const struct graph_header *header = (const struct graph_header *)(const void *)image;
	struct matrix matrix = {
		.nr = header->nr_vertices,
		.arriving = (const void *)(image + graph_offsets_at(header, GRAPH_IN)),
		.leaving = (const void *)(image + graph_offsets_at(header, GRAPH_OUT)),
		.sources = (const void *)(image + graph_edges_at(header, GRAPH_IN)),
		.step = graph_words(header, GRAPH_IN),
		.ranks = calloc(header->nr_vertices, sizeof(float)),
		.gives = calloc(header->nr_vertices, sizeof(float)),
	};
	uint64_t begin = clock_ns();
	double seconds, sum = 0;

	if (header->magic != GRAPH_MAGIC || !matrix.ranks || !matrix.gives)
		return 1;
	for (uint64_t i = 0; i < matrix.nr; i++)
		matrix.ranks[i] = 1 / (float)matrix.nr;
	for (int i = 0; i < nr_steps; i++)
		step(&matrix);
	seconds = (double)(clock_ns() - begin) / 1e9;
	for (uint64_t i = 0; i < matrix.nr; i++)
		sum += (double)matrix.ranks[i];
	printf("pagerank in %.6f s, sum %.4f\n", seconds, sum);
	free(matrix.ranks);
	free(matrix.gives);
	return fabs(sum - 1) < 0.01 ? 0 : 1;
}

int main(int argc, char **argv)
{
	char *image = argc == 3 ? read_image(argv[1]) : NULL;
	int status = image ? run(image, atoi(argv[2])) : 1;

	free(image);
	return status;
}
