#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The programs that the README and afar(7) show, each run twice against the same cluster.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
for run in first second; do
	[ "$("$HELLO")" = "hello, other machine's memory" ] || fail "examples/hello.c, $run run"
	"$MANUAL_EXAMPLE" || fail "afar(7), $run run"
	"$AFAR" region get demo:greeting - | head -c 5 >greeting
	[ "$(cat greeting)" = hello ] || fail "afar(7), $run run: $(cat greeting)"
done

# They are installed, with the documentation that speaks of them.
if [ -n "${MESON_BUILD_ROOT:-}" ] && command -v meson >/dev/null; then
	meson introspect --installed "$MESON_BUILD_ROOT" | python3 -c '
import json, sys
installed = json.load(sys.stdin).values()
for name in ("README.md", "docs/files.md", "docs/pictures", "examples/hello.c", "examples/queue.c"):
    assert any(path.endswith("/share/doc/afar/" + name) for path in installed), name' || fail "not all is installed"
fi
