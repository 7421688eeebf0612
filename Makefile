# SPDX-License-Identifier: BSD-3-Clause
# Doors to what meson and scripts/ do. Each target does all of its own set-up.
# OPTIONS=-D...: meson's, for `make check`. TESTS='+SUITE ^SUITE': only those tests of `make check`, `check-asan` and
# `check-tsan` that are in the one suite, and none of the other; tests/meson.build lists them. TESTS=: all.

PREFIX ?= /usr/local
LIBDIR ?= lib
TESTS ?= ^nightly

.PHONY: deps build quickstart check check-verbs check-asan check-tsan check-nightly check-long fuzz bench bench-guest lint format install packages check-packages image uninstall clean

build: deps                     # build/afar and build/afard
	@scripts/build build

deps:                           # what Debian has of what Afar needs
	@scripts/deps

quickstart: deps                # a cluster on this machine, put to use; builds no more than that needs
	@scripts/build build quickstart
	@scripts/quickstart

check: deps                     # the tests
	@scripts/check build $(TESTS) $(OPTIONS)

check-verbs: deps               # those that use a fabric on RDMA verbs too, in an emulated machine
	@scripts/check-verbs || test $$? = 77

check-asan: deps                # all tests, for errors of memory and undefined behaviour
	@scripts/check build-asan ^plain $(TESTS) -Dbench=false -Db_sanitize=address,undefined -Db_lundef=false

check-tsan: deps                # all tests with threads, for data races
	@scripts/check build-tsan ^plain ^one-thread $(TESTS) -Dbench=false -Db_sanitize=thread -Db_lundef=false

check-nightly:                  # all of these, in every mode, and lint of all files: an hour
	@.ci/run --nightly

check-long: deps                # those that search, roll dice and guess, at full length: hours
	@scripts/check-long build

fuzz:                           # every decoder for FUZZ_SECONDS (60) each, guided by coverage
	@scripts/deps lint
	@scripts/fuzz

bench: build                    # the speed of regions, as ratios to the machine's own
	@build/afar bench region

bench-guest: deps               # a volume beside the kernel's NVMe over TCP, in an emulated machine
	@scripts/bench-guest || test $$? = 77

lint:                           # layout, layers, warnings, clang-tidy; of C files those that changed, see scripts/changed
	@scripts/deps lint
	@scripts/lint $(LINT)

format:
	@scripts/deps lint
	@find include src apps bench tests examples -name '*.[ch]' -o -name '*.cc' | xargs clang-format -i

install: deps                   # below PREFIX, and DESTDIR if set; the library in LIBDIR there. Builds no more than that
	@scripts/build build build.ninja
	@meson configure build --prefix '$(PREFIX)' --libdir '$(LIBDIR)'
	@scripts/build build shipped
	@meson install -C build --no-rebuild
	@test -n '$(DESTDIR)' || test "$$(id -u)" != 0 || ldconfig

packages:                       # Debian's, for the release that runs here, into build-packages/
	@scripts/package

check-packages: packages        # installs them in a bare Debian, upgrades and removes them, and boots it; needs root
	@scripts/check-packages || test $$? = 77

image: packages                 # an OCI image of them, build-packages/afar-image.tar; needs root
	@scripts/image || test $$? = 77

uninstall:                      # what the last `make install` in this folder installed
	@test -f build/meson-logs/install-log.txt || { echo 'uninstall: nothing was installed from this folder' >&2; exit 1; }
	@ninja -C build uninstall

clean:
	@rm -rf build build-asan build-tsan build-fuzz build-lint-clang build-packages
