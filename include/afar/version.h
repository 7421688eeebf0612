/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Releases of Afar. A program that was built with the headers of one release runs with the library of any later one that
 * has the same soname. Before 1.0 that is libafar.so.0: functions are added, structs grow at their end (afar.h, "Sizes"),
 * and neither goes away. Each function has the version node of the release that first had it. So
 * the dynamic linker refuses a program that needs a later library than there is.
 */
#ifndef AFAR_VERSION_H
#define AFAR_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* The release that these headers are of. */
#define AFAR_VERSION_MAJOR  0
#define AFAR_VERSION_MINOR  1
#define AFAR_VERSION_PATCH  0
#define AFAR_VERSION_STRING "0.1.0"

/* A release as one number, for comparisons: #if AFAR_VERSION >= AFAR_VERSION_NUMBER(0, 2, 0). */
#define AFAR_VERSION_NUMBER(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define AFAR_VERSION				 AFAR_VERSION_NUMBER(AFAR_VERSION_MAJOR, AFAR_VERSION_MINOR, AFAR_VERSION_PATCH)

/* Features of these headers, for #ifdef. Each is defined from the release on that had the thing
 * first. */
#define AFAR_HAVE_BARRIER 1 /* afar/barrier.h */
#define AFAR_HAVE_CACHE	  1 /* afar/cache.h */
#define AFAR_HAVE_COW	  1 /* afar/cow.h */
#define AFAR_HAVE_FILE	  1 /* afar/file.h */
#define AFAR_HAVE_GRAPH	  1 /* afar/graph.h */
#define AFAR_HAVE_VOLUME  1 /* afar/volume.h */

/* The release of the library that the program runs with, as AFAR_VERSION_NUMBER() has it. Does not block. */
unsigned afar_version(void);

#ifdef __cplusplus
}
#endif
#endif
