/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading ahead of programs that read files from front to back, if they have said so: afar_file_advise(). Threads of the
 * file system, at most STREAM_THREADS_MAX, fill windows (stream.h). There are none until a file is read so. Blocking reads
 * alone are served from windows.
 */
#ifndef CLIENT_FILE_STREAM_H
#define CLIENT_FILE_STREAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <urcu/list.h>

#define STREAM_THREADS_MAX 4U

struct afar_file;
struct afar_fs;
struct file_inode;
struct file_stream;

/* A file system has this. */
struct fs_streams {
	pthread_mutex_t lock; /* guards all but the budget; held for moments */
	pthread_cond_t more, done;
	unsigned nr_left;	      /* streams of closed files that are being filled still */
	struct cds_list_head waiting; /* struct file_stream: blocks of it are wanted */
	pthread_t threads[STREAM_THREADS_MAX];
	unsigned nr_threads, nr_idle;
	bool is_ending;
	_Atomic int64_t budget; /* bytes that windows may yet take */
};

/* An open file has this. */
struct file_reading {
	atomic_bool is_sequential;	    /* the program has said so */
	_Atomic uint64_t next;		    /* where its last read ended */
	struct file_stream *_Atomic stream; /* NULL: no two reads were one behind the other yet */
};

void fs_streams_init(struct fs_streams *streams);
/* Waits until nothing is being filled any more, of a file system that has no files. */
void fs_streams_await(struct fs_streams *streams);
/* Ends the threads of a file system that has no files. */
void fs_streams_end(struct fs_streams *streams);

/* Reads for a window: asks the manager nothing, tries once, and does not wait while the gate is shut. 0: the ordinary way is
 * needed. */
typedef ssize_t file_read_ahead(struct file_inode *inode, void *data, size_t length,
				uint64_t offset);
/* Reads out of the file's window. False: read in the ordinary way. The file is open to read. */
bool file_stream_read(struct afar_file *file, void *data, size_t length, uint64_t offset,
		      file_read_ahead *read);
/* Nobody reads any more. Waits for nothing: what is being filled stays until that has ended. */
void file_stream_end(struct afar_file *file);

#endif
