/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does the same with two files, in random steps: views, datatypes, and calls of all forms. `mpi_views FILE REFERENCE SEED ROUNDS [BYTES [ordered]]`.
 * Ends with 1, and says which step it was, if something that was read, counted or told differs. With BYTES the files are never shorter.
 * Open MPI's two phases count what lies behind the end as read. With "ordered" all calls go by the shared pointer.
 *
 * The reference reads with blocking calls alone. In Open MPI's own component for files, a request that reads behind the end never ends.
 */
#include <mpi.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS_MAX 6
#define ETYPES_MAX 900 /* that a rank moves in a step */
#define ETYPE_MAX  8   /* bytes */
#define MEMORY	   (2 * (ETYPES_MAX + 8) * ETYPE_MAX)

static int rank, nr_ranks;
static unsigned long step_number;
static bool is_ordered;
static uint64_t state;

/* All ranks draw alike. */
static unsigned draw(unsigned below)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(state >> 33) % below;
}

__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "mpi_views: rank %d, step %lu: ", rank, step_number);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int error, const char *what)
{
	char text[MPI_MAX_ERROR_STRING];
	int length;

	if (error == MPI_SUCCESS)
		return;
	MPI_Error_string(error, text, &length);
	fail("%s: %s", what, text);
}

/* A view in which each rank has blocks of its own, which alternate with the others'. */
struct view {
	MPI_Datatype etype, filetype;
	int etype_bytes;
	MPI_Offset begin;
};

static void make_view(struct view *view)
{
	static const int sizes[] = {1, 4, 8};
	const int which = (int)draw(3), nr = 1 + (int)draw(BLOCKS_MAX);
	const MPI_Datatype types[] = {MPI_BYTE, MPI_INT, MPI_DOUBLE};
	int lengths[BLOCKS_MAX];
	MPI_Aint places[BLOCKS_MAX], at = 0;
	MPI_Datatype blocks;

	view->etype = types[which];
	view->etype_bytes = sizes[which];
	view->begin = draw(3) ? (MPI_Offset)draw(10000) : 0;
	for (int i = 0; i < nr; i++) {
		lengths[i] = 1 + (int)draw(draw(4) ? 20 : 800);
		at += (MPI_Aint)draw(3) * view->etype_bytes; /* a hole */
		places[i] = at + (MPI_Aint)rank * lengths[i] * view->etype_bytes;
		at += (MPI_Aint)nr_ranks * lengths[i] * view->etype_bytes;
	}
	MPI_Type_create_hindexed(nr, lengths, places, view->etype, &blocks);
	MPI_Type_create_resized(blocks, 0, at, &view->filetype);
	MPI_Type_commit(&view->filetype);
	MPI_Type_free(&blocks);
}

/* How the bytes lie in memory: all together, or in pieces with gaps. */
static MPI_Datatype make_memory(const struct view *view, int *count, int nr_etypes)
{
	const int piece = 1 + (int)draw(7);
	MPI_Datatype type;

	if (draw(2)) {
		*count = nr_etypes;
		MPI_Type_dup(view->etype, &type);
	} else {
		*count = 1;
		MPI_Type_vector(1 + nr_etypes / piece, piece, piece + 1, view->etype, &type);
	}
	MPI_Type_commit(&type);
	return type;
}

enum form {
	PLAIN,
	ALL,
	AT,
	AT_ALL,
	REQUEST,
	REQUEST_ALL,
	SPLIT,
	ORDERED,
	NR_FORMS,
	ORDERED_BLOCKING
};

/* How the reference reads. MPI_File_read_all() would count what lies behind the end as read, as no request does. */
static enum form blocking_form(enum form form)
{
	switch (form) {
	case REQUEST:
		return AT;
	case REQUEST_ALL:
		return PLAIN;
	case SPLIT:
		return AT_ALL;
	case ORDERED:
		return ORDERED_BLOCKING;
	default:
		return form;
	}
}

static void move(MPI_File file, enum form form, bool is_write, MPI_Offset at, void *data, int count,
		 MPI_Datatype type, MPI_Status *status)
{
	MPI_Request request;
	int error = MPI_SUCCESS;

	switch (form) {
	case PLAIN:
		error = is_write ? MPI_File_write(file, data, count, type, status)
				 : MPI_File_read(file, data, count, type, status);
		break;
	case ALL:
		error = is_write ? MPI_File_write_all(file, data, count, type, status)
				 : MPI_File_read_all(file, data, count, type, status);
		break;
	case AT:
		error = is_write ? MPI_File_write_at(file, at, data, count, type, status)
				 : MPI_File_read_at(file, at, data, count, type, status);
		break;
	case AT_ALL:
		error = is_write ? MPI_File_write_at_all(file, at, data, count, type, status)
				 : MPI_File_read_at_all(file, at, data, count, type, status);
		break;
	case REQUEST:
		error = is_write ? MPI_File_iwrite_at(file, at, data, count, type, &request)
				 : MPI_File_iread_at(file, at, data, count, type, &request);
		check(error, "begin a request");
		error = MPI_Wait(&request, status);
		break;
	case REQUEST_ALL:
		error = is_write ? MPI_File_iwrite_all(file, data, count, type, &request)
				 : MPI_File_iread_all(file, data, count, type, &request);
		check(error, "begin a request of all");
		error = MPI_Wait(&request, status);
		break;
	case SPLIT:
		error = is_write ? MPI_File_write_at_all_begin(file, at, data, count, type)
				 : MPI_File_read_at_all_begin(file, at, data, count, type);
		check(error, "begin a split call");
		error = is_write ? MPI_File_write_at_all_end(file, data, status)
				 : MPI_File_read_at_all_end(file, data, status);
		break;
	case ORDERED:
	case ORDERED_BLOCKING:
		check(MPI_File_seek_shared(file, at, MPI_SEEK_SET), "seek");
		if (form == ORDERED_BLOCKING) {
			check(MPI_File_read_ordered(file, data, count, type, status), "read");
		} else {
			error = is_write ? MPI_File_write_ordered_begin(file, data, count, type)
					 : MPI_File_read_ordered_begin(file, data, count, type);
			check(error, "begin an ordered call");
			error = is_write ? MPI_File_write_ordered_end(file, data, status)
					 : MPI_File_read_ordered_end(file, data, status);
			check(error, "end an ordered call");
		}
		error = is_write ? MPI_File_write_ordered(file, data, count, type, status)
				 : MPI_File_read_ordered(file, data, count, type, status);
		break;
	default:
		break;
	}
	check(error, is_write ? "write" : "read");
}

/* Both files are compared by this. */
struct outcome {
	unsigned char memory[MEMORY];
	int nr_bytes;
	MPI_Offset bytes, at, shared;
};

static void fill(unsigned char *memory, bool is_write)
{
	for (size_t i = 0; i < MEMORY; i++)
		memory[i] = is_write ? (unsigned char)(step_number * 31 + i * 7 +
						       (size_t)rank * 101 + i / 256)
				     : 0xEE;
}

static void step(MPI_File files[2])
{
	static struct outcome outcomes[2];
	const bool is_write = draw(5) < 3 || step_number == 0;
	enum form form = is_ordered ? ORDERED : (enum form)draw(NR_FORMS);
	/* OMPIO divides by zero in requests of nothing. */
	int nr = 1 + (int)draw(draw(3) ? 64 : ETYPES_MAX), count;
	MPI_Offset at = (MPI_Offset)draw(500);
	struct view view;
	MPI_Datatype memory;

	make_view(&view);
	memory = make_memory(&view, &count, nr);
	/* Shared pointers want the same view everywhere. */
	if (form == ORDERED) {
		MPI_Type_free(&view.filetype);
		MPI_Type_dup(view.etype, &view.filetype);
	}
	for (int i = 0; i < 2; i++) {
		struct outcome *outcome = &outcomes[i];
		MPI_Status status;

		memset(outcome, 0, sizeof(*outcome));
		fill(outcome->memory, is_write);
		check(MPI_File_set_view(files[i], view.begin, view.etype, view.filetype, "native",
					MPI_INFO_NULL),
		      "set a view");
		move(files[i], i == 1 && !is_write ? blocking_form(form) : form, is_write, at,
		     outcome->memory, count, memory, &status);
		MPI_Get_count(&status, MPI_BYTE, &outcome->nr_bytes);
		check(MPI_File_sync(files[i]), "sync");
		MPI_Barrier(MPI_COMM_WORLD);
		check(MPI_File_get_size(files[i], &outcome->bytes), "find the size");
		check(MPI_File_get_position(files[i], &outcome->at), "find the position");
		check(MPI_File_get_position_shared(files[i], &outcome->shared),
		      "find the shared position");
		MPI_Barrier(MPI_COMM_WORLD);
	}
	if (outcomes[0].nr_bytes != outcomes[1].nr_bytes ||
	    outcomes[0].bytes != outcomes[1].bytes || outcomes[0].at != outcomes[1].at ||
	    outcomes[0].shared != outcomes[1].shared)
		fail("form %d, %s: %d bytes, size %lld, at %lld and %lld; the reference: %d, %lld, "
		     "%lld and %lld",
		     (int)form, is_write ? "write" : "read", outcomes[0].nr_bytes,
		     (long long)outcomes[0].bytes, (long long)outcomes[0].at,
		     (long long)outcomes[0].shared, outcomes[1].nr_bytes,
		     (long long)outcomes[1].bytes, (long long)outcomes[1].at,
		     (long long)outcomes[1].shared);
	if (memcmp(outcomes[0].memory, outcomes[1].memory, MEMORY) != 0)
		fail("form %d: what was read differs", (int)form);
	MPI_Type_free(&memory);
	MPI_Type_free(&view.filetype);
}

int main(int argc, char **argv)
{
	MPI_File files[2];
	unsigned long rounds;
	MPI_Offset least;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &nr_ranks);
	if (argc < 5)
		fail("usage: mpi_views FILE REFERENCE SEED ROUNDS [BYTES [ordered]]");
	state = strtoull(argv[3], NULL, 0);
	rounds = strtoul(argv[4], NULL, 0);
	least = argc > 5 ? atoi(argv[5]) : 0;
	is_ordered = argc > 6;
	for (int i = 0; i < 2; i++)
		check(MPI_File_open(MPI_COMM_WORLD, argv[1 + i], MPI_MODE_CREATE | MPI_MODE_RDWR,
				    MPI_INFO_NULL, &files[i]),
		      argv[1 + i]);
	for (step_number = 0; step_number < rounds; step_number++) {
		if (draw(20) == 0 || (step_number == 0 && least != 0)) {
			MPI_Offset size = least + (MPI_Offset)draw(300000);

			check(MPI_File_set_size(files[0], size), "set the size");
			check(MPI_File_set_size(files[1], size), "set the reference's size");
		}
		step(files);
	}
	for (int i = 0; i < 2; i++)
		check(MPI_File_close(&files[i]), "close");
	MPI_Finalize();
	return 0;
}
