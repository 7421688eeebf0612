/* SPDX-License-Identifier: BSD-3-Clause */
/* The terminal; see terminal.h. Owns its settings while it has it. Called by `afar top`; tables are as wide as it is. */
#include "terminal.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "interrupts.h"

#define ENTER	   "\033[?1049h\033[?25l" /* the other screen, no cursor */
#define LEAVE	   "\033[?25h\033[?1049l"
#define HOME	   "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"

static struct {
	bool is_screen;		 /* standard output is ours              */
	bool has_keys;		 /* standard input gives keys one by one */
	struct termios settings; /* of standard input, from before */
	volatile sig_atomic_t signal, is_resized;
	sigset_t caught;
} terminal;

bool terminal_is_there(void)
{
	return isatty(STDOUT_FILENO) == 1;
}

/* Async-signal-safe. */
static void give_back(void)
{
	ssize_t written;

	if (terminal.is_screen) {
		written = write(STDOUT_FILENO, LEAVE, strlen(LEAVE));
		(void)written;
	}
	if (terminal.has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &terminal.settings);
}

static void note_signal(int number)
{
	if (terminal.signal) {
		give_back();
		signal(number, SIG_DFL);
		raise(number);
	}
	terminal.signal = number;
}

static void note_resize(int number)
{
	(void)number;
	terminal.is_resized = 1;
}

static void take_keys(void)
{
	struct termios settings;

	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &terminal.settings))
		return;
	settings = terminal.settings;
	settings.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	/* Disables the key that stops us, because we would leave the screen as it is. */
	settings.c_cc[VSUSP] = _POSIX_VDISABLE;
	settings.c_cc[VQUIT] = _POSIX_VDISABLE;
	settings.c_cc[VMIN] = 0;
	settings.c_cc[VTIME] = 0;
	terminal.has_keys = tcsetattr(STDIN_FILENO, TCSANOW, &settings) == 0;
}

/* Catches signals. Outside of terminal_wait() they only interrupt calls that block. */
static void catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = note_signal};

	sigemptyset(&action.sa_mask);
	sigemptyset(&terminal.caught);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (is_signal_ignored(numbers[i]))
			continue;
		sigaction(numbers[i], &action, NULL);
		sigaddset(&terminal.caught, numbers[i]);
	}
	action.sa_handler = note_resize;
	sigaction(SIGWINCH, &action, NULL);
	sigaddset(&terminal.caught, SIGWINCH);
}

void terminal_begin(bool is_screen)
{
	catch_signals();
	if (!is_screen)
		return;
	take_keys();
	terminal.is_screen = true;
	fputs(ENTER, stdout);
	fflush(stdout);
}

void terminal_end(void)
{
	fflush(stdout);
	give_back();
	terminal.is_screen = terminal.has_keys = false;
}

void terminal_size(size_t *lines, size_t *columns)
{
	struct winsize size;

	*lines = 24;
	*columns = 80;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col) {
		*lines = size.ws_row;
		*columns = size.ws_col;
	}
}

size_t terminal_columns(void)
{
	size_t lines, columns = 0;

	if (terminal_is_there())
		terminal_size(&lines, &columns);
	return columns;
}

void terminal_show(const char *text)
{
	fputs(HOME, stdout);
	for (; *text; text++) {
		if (*text == '\n')
			fputs(CLEAR_LINE, stdout);
		/* Prints no line break after the last line, because it would scroll the screen. */
		if (*text != '\n' || text[1])
			putchar(*text);
	}
	fputs(CLEAR_REST, stdout);
	fflush(stdout);
}

bool terminal_is_quitting(void)
{
	return terminal.signal != 0;
}

/* Returns whether a pressed key ends the command. Input that has ended is not read again. */
static bool has_quit_key(void)
{
	char keys[64];
	ssize_t nr = read(STDIN_FILENO, keys, sizeof(keys));

	if (nr <= 0)
		return nr == 0;
	return memchr(keys, 'q', (size_t)nr) || memchr(keys, 'Q', (size_t)nr);
}

static bool take_resize(void)
{
	bool was_resized = terminal.is_resized;

	terminal.is_resized = 0;
	return was_resized;
}

enum terminal_event terminal_wait(unsigned long long deadline)
{
	struct pollfd input = {.fd = terminal.has_keys ? STDIN_FILENO : -1, .events = POLLIN};
	enum terminal_event event = TERMINAL_TIMEOUT;
	uint64_t now = clock_ns(), left = deadline > now ? deadline - now : 0;
	struct timespec timeout = clock_to_timespec(left);
	sigset_t before;

	/* A signal between the check and the sleep must end the sleep, too. */
	sigprocmask(SIG_BLOCK, &terminal.caught, &before);
	if (terminal.signal)
		event = TERMINAL_QUIT;
	else if (take_resize())
		event = TERMINAL_RESIZED;
	else if (ppoll(&input, 1, &timeout, &before) == 1 && has_quit_key())
		event = TERMINAL_QUIT;
	else if (terminal.signal)
		event = TERMINAL_QUIT;
	else if (take_resize())
		event = TERMINAL_RESIZED;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return event;
}
