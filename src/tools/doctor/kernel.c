/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks what the kernel offers: the clock, TCP's congestion control, huge pages, io_uring, FUSE. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

#include "doctor.h"

#define IPV4	    "/proc/sys/net/ipv4/"
#define HUGE	    "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define HUGE_SETS   "set vm.nr_hugepages, or 'madvise' in " TRANSPARENT
#define TRANSPARENT "/sys/kernel/mm/transparent_hugepage/enabled"

/* ---- The clock */

static bool is_synchronised(const struct doctor *doctor)
{
	struct timex state = {0};

	if (doctor_exists(doctor, "/run/systemd/timesync/synchronized"))
		return true;
	return !*doctor->root && adjtimex(&state) != TIME_ERROR && !(state.status & STA_UNSYNC);
}

static void check_clock(struct doctor *doctor)
{
	if (is_synchronised(doctor))
		doctor_say(doctor, VERDICT_OK, "clock", NULL, "synchronised");
	else
		doctor_say(doctor, VERDICT_WARN, "clock", "run chrony or systemd-timesyncd",
			   "nothing synchronises it, so times of files and of logs differ between "
			   "machines");
}

/* Clocks that cost a trip to a device, or to the kernel, at each look. */
static void check_clock_source(struct doctor *doctor)
{
	static const char *const slow[] = {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"};
	char name[64];

	if (!doctor_read(doctor, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
			 name, sizeof(name)))
		return;
	for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++) {
		if (!strcmp(name, slow[i])) {
			doctor_say(doctor, VERDICT_WARN, "clock-source",
				   "boot with clocksource=tsc, if the processor has a stable one",
				   "%s, which is slow to read, and each operation reads it a few "
				   "times",
				   name);
			return;
		}
	}
	doctor_say(doctor, VERDICT_OK, "clock-source", NULL, "%s", name);
}

/* ---- The kernel's version */

static void check_version(struct doctor *doctor)
{
	char release[128];
	unsigned major, minor;

	if (!doctor_read(doctor, "/proc/sys/kernel/osrelease", release, sizeof(release)) ||
	    sscanf(release, "%u.%u", &major, &minor) != 2)
		return;
	if (major < 6 || (major == 6 && minor < 1))
		doctor_say(doctor, VERDICT_WARN, "kernel", "use that of Debian 12, or a newer one",
			   "%s, which is older than the 6.1 that Afar is tested with", release);
	else if (major == 6 && minor < 2)
		doctor_say(doctor, VERDICT_OK, "kernel", NULL,
			   "%s; direct writes of a mounted file take turns before 6.2", release);
	else
		doctor_say(doctor, VERDICT_OK, "kernel", NULL, "%s", release);
}

/* ---- TCP */

/* Over loopback a bbr is too slow, and `auto` takes another one in its place. */
static void check_congestion(struct doctor *doctor)
{
	char control[64], allowed[512];

	if (!doctor_read(doctor, IPV4 "tcp_congestion_control", control, sizeof(control)))
		return;
	doctor_read(doctor, IPV4 "tcp_allowed_congestion_control", allowed, sizeof(allowed));
	if (strncmp(control, "bbr", 3) != 0 || doctor_has_word(allowed, "cubic") ||
	    doctor_has_word(allowed, "reno"))
		doctor_say(doctor, VERDICT_OK, "congestion", NULL, "%s", control);
	else
		doctor_say(doctor, VERDICT_WARN, "congestion",
			   "add cubic to net.ipv4.tcp_allowed_congestion_control",
			   "%s, which halves the rate between processes of one machine over tcp; "
			   "neither cubic nor reno is allowed in its place",
			   control);
}

/* ---- Huge pages */

static void check_huge_pages(struct doctor *doctor)
{
	uint64_t nr = 0, nr_free = 0;
	char enabled[64];

	doctor_number(doctor, HUGE "nr_hugepages", &nr);
	doctor_number(doctor, HUGE "free_hugepages", &nr_free);
	doctor_read(doctor, TRANSPARENT, enabled, sizeof(enabled));
	if (nr > 0)
		doctor_say(doctor, VERDICT_OK, "huge-pages", NULL, "%llu of 2 MiB, %llu free",
			   (unsigned long long)nr, (unsigned long long)nr_free);
	else if (strstr(enabled, "[always]") || strstr(enabled, "[madvise]"))
		doctor_say(doctor, VERDICT_OK, "huge-pages", NULL, "transparent ones");
	else
		doctor_say(doctor, VERDICT_WARN, "huge-pages", HUGE_SETS,
			   "none are reserved, and transparent ones are off, so large memory is "
			   "slower to reach and to register");
}

/* ---- io_uring */

/* Returns whether the kernel, or a filter around us, refuses it. A ring without parameters is never made. */
static bool is_refused(const struct doctor *doctor)
{
	if (*doctor->root)
		return false;
	return syscall(SYS_io_uring_setup, 1, NULL) < 0 && (errno == EPERM || errno == ENOSYS);
}

static void check_io_uring(struct doctor *doctor)
{
	enum verdict verdict = VERDICT_WARN;
	uint64_t disabled = 0;

	for (unsigned i = 0; i < doctor->nr_configs; i++) {
		if (doctor->configs[i].nr_flash > 0)
			verdict = VERDICT_BAD;
	}
	doctor_number(doctor, "/proc/sys/kernel/io_uring_disabled", &disabled);
	if (disabled != 0)
		doctor_say(doctor, verdict, "io_uring", "set kernel.io_uring_disabled to 0",
			   "the kernel allows it to %s, and stores of flash need it",
			   disabled == 1 ? "one group and to root alone" : "nobody");
	else if (is_refused(doctor))
		doctor_say(doctor, verdict, "io_uring",
			   "allow io_uring_setup in the container's or the unit's filter of system "
			   "calls",
			   "it is refused here, and stores of flash need it");
	else
		doctor_say(doctor, VERDICT_OK, "io_uring", NULL, "allowed");
}

/* ---- FUSE */

static void check_fuse(struct doctor *doctor)
{
	if (doctor_exists(doctor, "/dev/fuse"))
		doctor_say(doctor, VERDICT_OK, "fuse", NULL, "/dev/fuse is there");
	else
		doctor_say(doctor, VERDICT_WARN, "fuse", "modprobe fuse",
			   "no /dev/fuse, so nothing can be mounted");
}

void doctor_kernel(struct doctor *doctor)
{
	check_clock(doctor);
	check_clock_source(doctor);
	check_version(doctor);
	check_congestion(doctor);
	check_huge_pages(doctor);
	check_io_uring(doctor);
	check_fuse(doctor);
}
