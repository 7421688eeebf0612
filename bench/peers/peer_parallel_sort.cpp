// SPDX-License-Identifier: BSD-3-Clause
// A peer of suite `apps`: reads a file of records of 100 bytes, sorts them with the parallel mode of the GNU C++ library,
// and writes them to another file.
#include <cstdio>
#include <cstring>
#include <parallel/algorithm>
#include <sys/stat.h>
#include <vector>

namespace {

struct record {
	unsigned char bytes[100];
	bool operator<(const record &other) const
	{
		return memcmp(bytes, other.bytes, sizeof(bytes)) < 0;
	}
};

std::size_t size_of(std::FILE *file)
{
	struct stat stat;

	return fstat(fileno(file), &stat) ? 0 : static_cast<std::size_t>(stat.st_size);
}

} // namespace

int main(int argc, char **argv)
{
	std::FILE *in = argc == 3 ? std::fopen(argv[1], "rb") : nullptr;
	std::FILE *out = in ? std::fopen(argv[2], "wb") : nullptr;

	if (!out) {
		std::fprintf(stderr, "usage: peer_parallel_sort IN OUT\n");
		return 2;
	}
	std::vector<record> records(size_of(in) / sizeof(record));
	if (std::fread(records.data(), sizeof(record), records.size(), in) != records.size())
		return 1;
	__gnu_parallel::sort(records.begin(), records.end());
	if (std::fwrite(records.data(), sizeof(record), records.size(), out) != records.size())
		return 1;
	return std::fclose(out) ? 1 : 0;
}
