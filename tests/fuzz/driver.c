/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target without libFuzzer: replays its corpus, then feeds it mutations of the corpus.
 *
 *	fuzz_NAME CORPUS [RUNS [SEED]]     CORPUS is a folder, or one file to replay
 *
 * Equal arguments give equal inputs, and memory does not grow. An input that breaks the target — a
 * signal, a sanitizer's report, or no end — is left in a file, which is named. Inputs end where an
 * unreadable page begins, so that reading past the end is seen without a sanitizer too.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUNS_DEFAULT  20000
#define SEED_DEFAULT  0x5eed
#define INPUT_MAX     (64U << 10)
#define SEEDS_MAX     512
#define MUTATIONS_MAX 8
#define HANG_SECONDS  60 /* for one input: far beyond any decoder's worst, on any machine */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

struct seed {
	uint8_t *bytes;
	size_t size;
};

static struct seed seeds[SEEDS_MAX];
static size_t nr_seeds;

/* The input under test; a signal handler reads these. */
static uint8_t *input_end;
static volatile size_t input_size;
static char crash_path[PATH_MAX];
static char crash_message[PATH_MAX + 200];

static void die(const char *what)
{
	fprintf(stderr, "fuzz driver: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* ---- Randomness: splitmix64 ------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t random_next(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15U;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
	z = (z ^ z >> 27) * 0x94d049bb133111ebU;
	return z ^ z >> 31;
}

static size_t random_below(size_t bound)
{
	return bound ? (size_t)(random_next() % bound) : 0;
}

/* ---- Leaving the input behind ----------------------------------------------------------------- */

static void save_input(void)
{
	static volatile sig_atomic_t is_saved;
	int fd;

	if (is_saved)
		return;
	is_saved = 1;
	fd = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, input_end - input_size, input_size) != (ssize_t)input_size)
		_exit(1);
	close(fd);
	if (write(STDERR_FILENO, crash_message, strlen(crash_message)) < 0)
		_exit(1);
}

static void on_signal(int number)
{
	save_input();
	raise(number); /* its handler is the default again: ends the process as it should */
}

static void watch_for_crashes(void)
{
	static const int signals[] = {SIGABRT, SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
	struct sigaction action = {.sa_handler = on_signal,
				   .sa_flags = (int)(SA_RESETHAND | SA_ONSTACK)};
	static uint8_t handler_stack[64U << 10]; /* the target may have used up the other */
	const stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof(handler_stack)};
	const size_t nr_signals = sizeof(signals) / sizeof(signals[0]);

	/* A sanitizer has its own handlers for the faults, with a better report, and calls back. */
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(save_input);
	else if (sigaltstack(&stack, NULL))
		die("a stack for the signal handler");
	for (size_t i = 0; i < (__sanitizer_set_death_callback ? 2 : nr_signals); i++)
		sigaction(signals[i], &action, NULL);
}

static void name_crash(const char *program, const char *what, uint64_t seed)
{
	const char *slash = strrchr(program, '/');
	char folder[PATH_MAX / 2];

	program = slash ? slash + 1 : program;
	if (!getcwd(folder, sizeof(folder)))
		strcpy(folder, ".");
	snprintf(crash_path, sizeof(crash_path), "%s/crash-%.60s-%.80s", folder, program, what);
	snprintf(crash_message, sizeof(crash_message),
		 "\n%.60s: broken by the input left in %s (seed %#llx)\n", program, crash_path,
		 (unsigned long long)seed);
}

/* ---- Inputs ----------------------------------------------------------------------------------- */

static void make_input_area(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *area = mmap(NULL, INPUT_MAX + page, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED || mprotect(area + INPUT_MAX, page, PROT_NONE))
		die("mapping memory");
	input_end = area + INPUT_MAX;
}

static void run_target(const uint8_t *bytes, size_t size)
{
	memcpy(input_end - size, bytes, size);
	input_size = size;
	alarm(HANG_SECONDS);
	LLVMFuzzerTestOneInput(input_end - size, size);
	alarm(0);
}

static void load_seed(const char *path)
{
	struct seed *seed = &seeds[nr_seeds];
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat stat;
	ssize_t size;

	if (fd < 0 || fstat(fd, &stat))
		die(path);
	if (S_ISREG(stat.st_mode)) {
		seed->bytes = malloc(INPUT_MAX);
		size = seed->bytes ? read(fd, seed->bytes, INPUT_MAX) : -1;
		if (size < 0)
			die(path);
		seed->size = (size_t)size;
		nr_seeds++;
	}
	close(fd);
}

static void load_folder(const char *folder)
{
	struct dirent **entries;
	const int nr_entries = scandir(folder, &entries, NULL, alphasort);
	char path[PATH_MAX];

	if (nr_entries < 0)
		die(folder);
	for (int i = 0; i < nr_entries; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		if (nr_seeds < SEEDS_MAX)
			load_seed(path);
		free(entries[i]);
	}
	free(entries);
}

/* ---- Mutations: each changes `size` bytes at `at` and returns how many there are then ---------- */

static size_t flip_bit(uint8_t *at, size_t size)
{
	if (size)
		at[random_below(size)] ^= (uint8_t)(1U << random_below(8));
	return size;
}

static size_t set_byte(uint8_t *at, size_t size)
{
	static const uint8_t telling[] = {0, 1, 0x7f, 0x80, 0xff, '\n', ':', '0', '9', ' '};

	if (size)
		at[random_below(size)] = random_below(2) ? telling[random_below(sizeof(telling))]
							 : (uint8_t)random_next();
	return size;
}

/* Numbers that lengths and offsets go wrong at, of 2, 4 or 8 bytes, in either order. */
static size_t set_number(uint8_t *at, size_t size)
{
	static const uint64_t telling[] = {
		0,	    1,		0x7f,	    0x80,	    0xff,	0x100,
		0xfff,	    0x1000,	0x7fff,	    0x8000,	    0xffff,	0x10000,
		1U << 20,   0x7fffffff, 0x80000000, 0xfffffffc,	    0xffffffff, 1ULL << 32,
		1ULL << 63, INT64_MAX,	UINT64_MAX, UINT64_MAX - 7,
	};
	const size_t width = (size_t)2 << random_below(3);
	uint64_t number = telling[random_below(sizeof(telling) / sizeof(telling[0]))];
	size_t offset;

	if (size < width)
		return size;
	if (!random_below(4))
		number = size + random_below(5) - 2; /* about the input's own length */
	if (random_below(2))
		number = __builtin_bswap64(number) >> (64 - 8 * width);
	offset = random_below(size - width + 1);
	memcpy(at + offset, &number, width);
	return size;
}

static size_t truncate_end(uint8_t *at, size_t size)
{
	(void)at;
	return random_below(size + 1);
}

static size_t remove_part(uint8_t *at, size_t size)
{
	const size_t from = random_below(size), length = random_below(size - from + 1);

	memmove(at + from, at + from + length, size - from - length);
	return size - length;
}

static size_t insert(uint8_t *at, size_t size, const uint8_t *bytes, size_t length)
{
	const size_t where = random_below(size + 1);

	if (length > INPUT_MAX - size)
		length = INPUT_MAX - size;
	memmove(at + where + length, at + where, size - where);
	memcpy(at + where, bytes, length);
	return size + length;
}

static size_t insert_noise(uint8_t *at, size_t size)
{
	uint8_t noise[64];

	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)random_next();
	return insert(at, size, noise, 1 + random_below(sizeof(noise)));
}

static size_t repeat_byte(uint8_t *at, size_t size)
{
	uint8_t same[1024];

	memset(same, size ? at[random_below(size)] : 0, sizeof(same));
	return insert(at, size, same, 1 + random_below(sizeof(same)));
}

/* Puts a part of another input of the corpus into this one. */
static size_t splice_in(uint8_t *at, size_t size)
{
	const struct seed *other = &seeds[random_below(nr_seeds)];
	const size_t from = random_below(other->size);

	return insert(at, size, other->bytes + from, random_below(other->size - from + 1));
}

static size_t mutate(uint8_t *at, size_t size)
{
	static size_t (*const mutations[])(uint8_t *, size_t) = {
		flip_bit,    flip_bit,	   set_byte,	set_byte,  set_number,
		set_number,  splice_in,	   splice_in,	splice_in, truncate_end,
		remove_part, insert_noise, repeat_byte,
	};
	const size_t nr_mutations = sizeof(mutations) / sizeof(mutations[0]);

	for (size_t left = 1 + random_below(MUTATIONS_MAX); left; left--)
		size = mutations[random_below(nr_mutations)](at, size);
	return size;
}

/* ---- The run ---------------------------------------------------------------------------------- */

static void replay(const char *program)
{
	char what[40];

	for (size_t i = 0; i < nr_seeds; i++) {
		snprintf(what, sizeof(what), "replay-%zu", i);
		name_crash(program, what, 0);
		run_target(seeds[i].bytes, seeds[i].size);
	}
}

static void run_mutations(const char *program, uint64_t runs, uint64_t seed)
{
	uint8_t *scratch = malloc(INPUT_MAX);
	char what[60];

	if (!scratch)
		die("memory");
	for (uint64_t run = 0; run < runs; run++) {
		const struct seed *base;
		size_t size;

		/* Each run by itself depends on nothing but the seed and its number. */
		random_state = seed + run * 0xd1342543de82ef95U;
		base = &seeds[random_below(nr_seeds)];
		memcpy(scratch, base->bytes, base->size);
		size = mutate(scratch, base->size);
		snprintf(what, sizeof(what), "%llx-%llu", (unsigned long long)seed,
			 (unsigned long long)run);
		name_crash(program, what, seed);
		run_target(scratch, size);
	}
	free(scratch);
}

int main(int argc, char **argv)
{
	const uint64_t runs = argc > 2 ? strtoull(argv[2], NULL, 0) : RUNS_DEFAULT;
	const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : SEED_DEFAULT;
	struct stat stat_of_corpus;

	if (argc < 2 || argc > 4) {
		fprintf(stderr, "usage: %s CORPUS [RUNS [SEED]]\n", argv[0]);
		return 2;
	}
	if (stat(argv[1], &stat_of_corpus))
		die(argv[1]);
	make_input_area();
	watch_for_crashes();
	if (!S_ISDIR(stat_of_corpus.st_mode)) {
		load_seed(argv[1]);
		replay(argv[0]);
		return 0;
	}
	load_folder(argv[1]);
	if (!nr_seeds) {
		fprintf(stderr, "%s: the corpus %s is empty\n", argv[0], argv[1]);
		return 2;
	}
	replay(argv[0]);
	run_mutations(argv[0], runs, seed);
	printf("%zu inputs replayed, %llu mutations, seed %#llx\n", nr_seeds,
	       (unsigned long long)runs, (unsigned long long)seed);
	return 0;
}
