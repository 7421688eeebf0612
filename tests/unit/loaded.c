/* SPDX-License-Identifier: BSD-3-Clause */
/* The library, loaded with dlopen() as plugins and other languages load it. There it gets little static thread memory, and
 * threads that have used it end after dlclose(). Its argument is the library's path. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <afar/afar.h>

struct calls {
	int (*session_open)(const char *, const struct afar_session_options *,
			    struct afar_session **);
	const char *(*last_error)(void);
	pthread_barrier_t failed, closed;
	int ret;
	char line[256];
};

static void *fail_and_end_late(void *argument)
{
	struct calls *calls = argument;
	struct afar_session *session;

	calls->ret = calls->session_open("nonsense", NULL, &session);
	snprintf(calls->line, sizeof(calls->line), "%s", calls->last_error());
	pthread_barrier_wait(&calls->failed);
	pthread_barrier_wait(&calls->closed);
	return NULL;
}

int main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	struct calls calls = {0};
	pthread_t thread;

	if (!library) {
		fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "give the library's path");
		return 1;
	}
	*(void **)&calls.session_open = dlsym(library, "afar_session_open");
	*(void **)&calls.last_error = dlsym(library, "afar_last_error");
	if (!calls.session_open || !calls.last_error)
		return 1;
	pthread_barrier_init(&calls.failed, NULL, 2);
	pthread_barrier_init(&calls.closed, NULL, 2);
	if (pthread_create(&thread, NULL, fail_and_end_late, &calls))
		return 1;
	pthread_barrier_wait(&calls.failed);
	if (*calls.last_error())
		fprintf(stderr, "a thread without a failure has a line: %s\n", calls.last_error());
	dlclose(library);
	pthread_barrier_wait(&calls.closed);
	pthread_join(thread, NULL);
	if (calls.ret != -EINVAL || !strstr(calls.line, "nonsense")) {
		fprintf(stderr, "%d: %s\n", calls.ret, calls.line);
		return 1;
	}
	return 0;
}
