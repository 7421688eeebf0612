/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: the window of bytes that is read ahead of a program that reads a file from front to back. The window is up to
 * STREAM_BLOCKS blocks of memory, each a range of the file. Reads say where the program is; from that the stream says which
 * blocks to fill next. The window is small at first, and doubles each time the program comes to another block.
 *
 * A block is good if nobody can have written its range since before it was filled. For other sessions that is a number that
 * afar_fs_quiet_since() gives: the one from before the fill has to be the one of now. Writes of this process drop the blocks
 * of their range when they have arrived, also blocks that are being filled.
 *
 * This knows neither files nor threads: file_stream.c fills blocks. The lock of each stream is held for moments, and no other
 * is taken under it. Bytes are copied without it.
 */
#ifndef CLIENT_STREAM_H
#define CLIENT_STREAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <urcu/list.h>

#define STREAM_BLOCKS 8U

enum stream_state {
	STREAM_EMPTY,
	STREAM_WANTED,	/* nobody has begun to fill it */
	STREAM_FILLING, /* somebody has */
	STREAM_FULL,
};

struct stream_block {
	enum stream_state state;
	bool is_dropped; /* it becomes empty when it is neither being filled nor read */
	bool is_used;	 /* the program has come to it */
	unsigned nr_readers;
	uint64_t offset;
	size_t wanted;	/* bytes; what is FULL has `length` of them */
	size_t length;	/* not 0 */
	uint64_t since; /* see above */
};

/* Those of an inode. */
struct streams {
	pthread_mutex_t lock; /* taken before a stream's */
	struct cds_list_head list;
	atomic_uint nr;
};

struct stream {
	struct cds_list_head node; /* of its inode */
	pthread_mutex_t lock;	   /* guards all below */
	pthread_cond_t changed;
	_Atomic int64_t *budget; /* bytes that windows may take, of all that share it */
	size_t limit;		 /* bytes of memory; a multiple of STREAM_BLOCKS units */
	char *memory;		 /* NULL: the window is closed */
	bool is_closing;	 /* it is as soon as nobody uses its memory */
	unsigned nr_using;	 /* fills and readers */
	uint64_t next;		 /* where the reads so far end */
	uint64_t ahead;		 /* where the next block begins */
	size_t bytes;		 /* how much is to be read ahead now */
	uint64_t rests_until;	 /* after a failure; clock_coarse_ns() */
	uint64_t rest_ns;	 /* how long that was */
	struct stream_block blocks[STREAM_BLOCKS];
};

void stream_init(struct stream *stream, size_t limit, _Atomic int64_t *budget);
/* Nothing is being filled or read any more. */
void stream_free(struct stream *stream);

/* Returns whether a read goes on where reads ended before, or near there: requests of a kernel may come in another order. */
static inline bool stream_is_next(uint64_t next, uint64_t offset, size_t length)
{
	const uint64_t slack = 2 * (uint64_t)length;

	return offset <= next + slack && offset + slack >= next;
}

enum stream_found {
	STREAM_MISS,   /* read it in the ordinary way: nobody has begun to */
	STREAM_COMING, /* stream_wait(), and try again */
	STREAM_HIT,    /* it was read */
};

/* Two reads were one behind the other, the last one up to `next`, of so many bytes. Opens the window if it is closed, unless it
 * rests, or there is no memory. */
void stream_open(struct stream *stream, uint64_t next, size_t length);
/* Reads a range. `since`: the number of now; 0: there is none, and nothing is read. A read elsewhere closes the window. */
enum stream_found stream_read(struct stream *stream, void *data, size_t length, uint64_t offset,
			      uint64_t since);
/* Waits until nothing of a range is coming. False: some was at `deadline`, by clock_ns(); the window is closed, and rests. */
bool stream_wait(struct stream *stream, uint64_t offset, size_t length, uint64_t deadline);
/* Drops what is in a range; wakes those who wait for it. */
void stream_drop(struct stream *stream, uint64_t offset, uint64_t length);
void streams_init(struct streams *streams);
void streams_free(struct streams *streams);
void streams_add(struct streams *streams, struct stream *stream);
void streams_remove(struct streams *streams, struct stream *stream);
/* Drops a range of all. */
void streams_drop(struct streams *streams, uint64_t offset, uint64_t length);
/* Returns whether there are any. */
static inline bool streams_are_there(const struct streams *streams)
{
	return atomic_load(&streams->nr) != 0;
}
/* Closes the window. */
void stream_close(struct stream *stream);

/* Makes blocks wanted, in a file of so many bytes. Returns how many. */
unsigned stream_want(struct stream *stream, uint64_t size);

struct stream_fill {
	struct stream_block *block;
	void *data;
	size_t length;
	uint64_t offset;
};

/* Takes the first wanted block that the program has not passed. False: there is none. */
bool stream_begin_fill(struct stream *stream, struct stream_fill *fill);
/* Ends that. `result`: how many bytes came, perhaps fewer; an error closes the window for a while. `since`: from before. */
void stream_end_fill(struct stream *stream, const struct stream_fill *fill, ssize_t result,
		     uint64_t since);

#endif
