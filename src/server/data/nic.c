/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads sysfs; see nic.h. Nothing is kept: cards come and go. */
#include "server/data/nic.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINE_BYTES    4096
#define WORD_BYTES    4U   /* the unit in which RDMA ports count */
#define NODE_MAX      4095 /* the largest number of a node */
#define LINK_UP_STATE 4	   /* state of a port: IB_PORT_ACTIVE */

/* ---- Files */

/* Reads the first line of a file, whose path is printed, without its end. */
__attribute__((format(printf, 2, 3))) static bool read_line(char line[LINE_BYTES],
							    const char *format, ...)
{
	char path[PATH_MAX];
	va_list arguments;
	bool is_read;
	int length;
	FILE *file;

	va_start(arguments, format);
	length = vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= sizeof(path))
		return false;
	file = fopen(path, "re");
	if (!file)
		return false;
	is_read = fgets(line, LINE_BYTES, file);
	fclose(file);
	if (is_read)
		line[strcspn(line, "\n")] = '\0';
	return is_read;
}

static bool exists(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool exists(const char *format, ...)
{
	char path[PATH_MAX];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	return length > 0 && (size_t)length < sizeof(path) && access(path, F_OK) == 0;
}

/* ---- Which card */

static bool is_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return a->sa_family == AF_INET6 &&
	       memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		      &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static void find_interface(const struct sockaddr *at, char out[IF_NAMESIZE])
{
	struct ifaddrs *all, *one;

	if (getifaddrs(&all) != 0)
		return;
	for (one = all; one; one = one->ifa_next) {
		if (!one->ifa_addr || !is_same_host(one->ifa_addr, at))
			continue;
		snprintf(out, IF_NAMESIZE, "%s", one->ifa_name);
		break;
	}
	freeifaddrs(all);
}

/* A hardware device names its interface below its own folder, a software one its parent. */
static bool is_on_interface(const char *sysfs, const char *device, const char *interface)
{
	char line[LINE_BYTES];

	if (exists("%s/class/infiniband/%s/device/net/%s", sysfs, device, interface))
		return true;
	return read_line(line, "%s/class/infiniband/%s/parent", sysfs, device) &&
	       strcmp(line, interface) == 0;
}

static void find_device(const char *sysfs, struct nic *nic)
{
	char path[PATH_MAX];
	const struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/class/infiniband", sysfs);
	folder = opendir(path);
	if (!folder)
		return;
	while ((entry = readdir(folder))) {
		if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof(nic->device) ||
		    !is_on_interface(sysfs, entry->d_name, nic->interface))
			continue;
		strcpy(nic->device, entry->d_name);
		break;
	}
	closedir(folder);
}

void nic_find(const char *sysfs, const char *address, struct nic *out)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	const char *colon = strrchr(address, ':');
	struct addrinfo *found;
	char host[NI_MAXHOST];
	size_t length;

	*out = (struct nic){0};
	if (!colon)
		return;
	length = (size_t)(colon - address);
	if (length >= 2 && address[0] == '[') {
		address++;
		length -= 2;
	}
	if (length >= sizeof(host))
		return;
	memcpy(host, address, length);
	host[length] = '\0';
	if (getaddrinfo(host, NULL, &hints, &found) != 0)
		return;
	find_interface(found->ai_addr, out->interface);
	freeaddrinfo(found);
	if (out->interface[0])
		find_device(sysfs, out);
}

/* ---- Where it is */

static bool take_number(const char **at, long max, long *out)
{
	char *end;

	if (**at < '0' || **at > '9')
		return false;
	*out = strtol(*at, &end, 10);
	*at = end;
	return *out <= max;
}

/* Parses a list such as "0-3,8" into a set; numbers beyond the set's end are left out. False: it is
 * no list. */
static bool parse_list(const char *at, cpu_set_t *out)
{
	long first, last;

	CPU_ZERO(out);
	while (*at) {
		if (!take_number(&at, INT_MAX, &first))
			return false;
		last = first;
		if (*at == '-') {
			at++;
			if (!take_number(&at, INT_MAX, &last))
				return false;
		}
		for (long i = first; i <= last && i < CPU_SETSIZE; i++)
			CPU_SET((size_t)i, out);
		if (*at == ',')
			at++;
		else if (*at)
			return false;
	}
	return true;
}

static bool has_several_nodes(const char *sysfs)
{
	char line[LINE_BYTES];
	cpu_set_t nodes;

	return read_line(line, "%s/devices/system/node/online", sysfs) &&
	       parse_list(line, &nodes) && CPU_COUNT(&nodes) > 1;
}

int nic_node(const char *sysfs, const struct nic *nic)
{
	char line[LINE_BYTES];
	const char *at = line;
	long node;

	if (!nic->interface[0] || !has_several_nodes(sysfs))
		return NIC_NODE_UNKNOWN;
	if (!read_line(line, "%s/class/net/%s/device/numa_node", sysfs, nic->interface) &&
	    !read_line(line, "%s/class/infiniband/%s/device/numa_node", sysfs, nic->device))
		return NIC_NODE_UNKNOWN;
	/* The kernel says -1 if it does not know. */
	if (!take_number(&at, NODE_MAX, &node) || *at)
		return NIC_NODE_UNKNOWN;
	return (int)node;
}

bool nic_processors(const char *sysfs, int node, cpu_set_t *out)
{
	char line[LINE_BYTES];
	cpu_set_t allowed;

	if (!read_line(line, "%s/devices/system/node/node%d/cpulist", sysfs, node) ||
	    !parse_list(line, out) || sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return false;
	CPU_AND(out, out, &allowed);
	return CPU_COUNT(out) > 0;
}

/* ---- How it is */

enum nic_link nic_link(const char *sysfs, const struct nic *nic)
{
	char line[LINE_BYTES];

	if (nic->device[0] &&
	    read_line(line, "%s/class/infiniband/%s/ports/1/state", sysfs, nic->device))
		return atoi(line) == LINK_UP_STATE ? NIC_LINK_UP : NIC_LINK_DOWN;
	if (!nic->interface[0] ||
	    !read_line(line, "%s/class/net/%s/operstate", sysfs, nic->interface))
		return NIC_LINK_UNKNOWN;
	if (strcmp(line, "up") == 0)
		return NIC_LINK_UP;
	return strcmp(line, "unknown") == 0 ? NIC_LINK_UNKNOWN : NIC_LINK_DOWN;
}

static bool read_counter(const char *sysfs, const struct nic *nic, const char *name, uint64_t *out)
{
	char line[LINE_BYTES];
	char *end;

	if (!read_line(line, "%s/class/infiniband/%s/ports/1/counters/%s", sysfs, nic->device,
		       name) ||
	    line[0] < '0' || line[0] > '9')
		return false;
	*out = strtoull(line, &end, 10);
	return *end == '\0' && !__builtin_mul_overflow(*out, WORD_BYTES, out);
}

bool nic_count(const char *sysfs, const struct nic *nic, uint64_t *bytes_in, uint64_t *bytes_out)
{
	return nic->device[0] && read_counter(sysfs, nic, "port_rcv_data", bytes_in) &&
	       read_counter(sysfs, nic, "port_xmit_data", bytes_out);
}
