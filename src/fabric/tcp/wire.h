/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The format of what goes over a connection of the transport tcp; docs/protocol.md describes it for
 * others. All fields are little-endian. The connecting end sends a hello, and the accepting end a
 * welcome. Then both send frames.
 */
#ifndef FABRIC_TCP_WIRE_H
#define FABRIC_TCP_WIRE_H

#include <endian.h>
#include <stdint.h>

#include "base/checksum.h"
#include "fabric/fabric.h"
#include "fabric/paged.h"

#define TCP_CODES	 4095U	     /* this many codes of each kind */
#define TCP_OWN_CODES	 10000U	     /* Afar's own are above this     */
#define TCP_WIRE_MAGIC	 0x64666161U /* "aafd" */
#define TCP_WIRE_VERSION 3U

/* Private data is sent at its real length, not padded. */
struct tcp_hello {
	uint32_t magic;
	uint16_t version;
	uint16_t private_length;
	uint8_t private_data[FABRIC_PRIVATE_MAX];
};
#define TCP_HELLO_HEAD 8U
_Static_assert(offsetof(struct tcp_hello, private_data) == TCP_HELLO_HEAD, "as documented");

struct tcp_welcome {
	uint32_t magic;
	uint16_t version;
	uint16_t reserved; /* 0 */
};
_Static_assert(sizeof(struct tcp_welcome) == 8, "as documented");

enum tcp_frame_type {
	TCP_READ = 1,
	TCP_WRITE,	   /* followed by the bytes to write */
	TCP_READ_REPLY,	   /* followed by the bytes read */
	TCP_WRITE_ACK,	   /* the written bytes are in the memory */
	TCP_MESSAGE,	   /* followed by the message                  */
	TCP_FAILED,	   /* instead of another reply: the request could not be carried out */
	TCP_WRITE_DURABLE, /* as TCP_WRITE; replied to when the bytes survive the loss of power */
	/* Like those without CHECKED, with sums: behind the bytes, a CRC32C of each block of
	 * them. */
	TCP_READ_CHECKED,
	TCP_WRITE_CHECKED,
	TCP_WRITE_CHECKED_DURABLE,
	TCP_CHECKED_REPLY, /* to TCP_READ_CHECKED */
};

struct tcp_frame {
	uint32_t type;
	/* Requests: hints, FABRIC_PAGED_…; TCP_FAILED: the code, without its sign; else 0. */
	uint32_t word;
	uint64_t length; /* in a reply: as in its request */
	/* Frames that are no requests end here. */
	uint64_t key;
	uint64_t offset; /* into the registered memory */
};
#define TCP_FRAME_SHORT 16U
_Static_assert(sizeof(struct tcp_frame) == 32, "as documented");
_Static_assert(offsetof(struct tcp_frame, key) == TCP_FRAME_SHORT, "as documented");

static inline bool tcp_is_checked(uint32_t type)
{
	return type >= TCP_READ_CHECKED && type <= TCP_WRITE_CHECKED_DURABLE;
}

static inline bool tcp_is_request(uint32_t type)
{
	return type == TCP_READ || type == TCP_WRITE || type == TCP_WRITE_DURABLE ||
	       tcp_is_checked(type);
}

static inline bool tcp_is_read(uint32_t type)
{
	return type == TCP_READ || type == TCP_READ_CHECKED;
}

static inline bool tcp_is_durable(uint32_t type)
{
	return type == TCP_WRITE_DURABLE || type == TCP_WRITE_CHECKED_DURABLE;
}

/* The type of a request of paged memory. */
static inline uint32_t tcp_type_of(unsigned flags)
{
	static const uint8_t types[] = {
		[0] = TCP_READ,
		[FABRIC_PAGED_WRITE] = TCP_WRITE,
		[FABRIC_PAGED_WRITE | FABRIC_PAGED_DURABLE] = TCP_WRITE_DURABLE,
		[FABRIC_PAGED_CHECKED] = TCP_READ_CHECKED,
		[FABRIC_PAGED_WRITE | FABRIC_PAGED_CHECKED] = TCP_WRITE_CHECKED,
		[FABRIC_PAGED_WRITE | FABRIC_PAGED_DURABLE | FABRIC_PAGED_CHECKED] =
			TCP_WRITE_CHECKED_DURABLE,
	};

	return types[flags & ~FABRIC_PAGED_HINTS];
}

/* Returns whether a frame of a type may have this word. A code is checked later. */
static inline bool tcp_is_word_good(uint32_t type, uint32_t word)
{
	return word == 0 || type == TCP_FAILED ||
	       (tcp_is_request(type) && fabric_paged_hints_fit(word, !tcp_is_read(type)));
}

/* The bytes of the sums of so many bytes, of which there are FABRIC_PAGED_MAX at most. */
static inline uint64_t tcp_sums_bytes(uint64_t length)
{
	return (length + CHECKSUM_BLOCK - 1) / CHECKSUM_BLOCK * sizeof(uint32_t);
}

static inline uint32_t tcp_frame_bytes(uint32_t type)
{
	return tcp_is_request(type) ? sizeof(struct tcp_frame) : TCP_FRAME_SHORT;
}

/* Codes that TCP_FAILED may carry: errno's, and Afar's own (afar/error.h), which start above
 * 10000. */
static inline bool tcp_is_code(uint32_t code)
{
	return (code >= 1 && code <= TCP_CODES) ||
	       (code > TCP_OWN_CODES && code <= TCP_OWN_CODES + TCP_CODES);
}

#endif
