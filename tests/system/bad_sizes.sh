#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Amounts that are nothing, nonsense, beyond 64 bits or beyond the cluster.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster 64M
"$AFAR" ns create small
refused 2 'at least 1 byte' "$AFAR" ns reserve small 0
refused 2 'not fit 64 bits' "$AFAR" ns reserve small 18446744073709551616
refused 2 'not fit 64 bits' "$AFAR" ns reserve small 20E
refused 2 'not fit 64 bits' "$AFAR" ns reserve small 99999999999999999999999999
refused 2 'not a size' "$AFAR" ns reserve small -- -1
refused 2 'not a size' "$AFAR" ns reserve small 1X
refused 2 'not a size' "$AFAR" ns reserve small 1MM
refused 2 'not a size' "$AFAR" ns reserve small ''
refused 1 '' "$AFAR" ns reserve small 18446744073709551615
refused 1 '' "$AFAR" ns reserve small 15E
refused 1 '' "$AFAR" ns reserve small 1T
refused 1 '' "$AFAR" ns reserve small 129M
refused 2 'at least 1 byte' "$AFAR" ns release small 0
refused 2 'number up to' "$AFAR" ns create wide --width 65
refused 2 'power of two' "$AFAR" ns create odd --stripe 5000
refused 2 'power of two' "$AFAR" ns create odd --stripe 2G
refused 2 'no tier' "$AFAR" ns create odd --tier gold

# What does not fit fails whole, and what was reserved for it is given back.
random_file big 140000000
refused 1 '' "$AFAR" region put big small:big
[ "$(reserved small)" = "0 B" ] || fail "still reserved: $(reserved small)"
[ "$("$AFAR" region ls small | wc -l)" -eq 1 ] || fail "a part of the region stayed"

# The same memory reserved, released, reserved again.
"$AFAR" ns reserve small 40M
"$AFAR" ns release small | grep -Eq '^released ' || fail "release"
"$AFAR" ns reserve small 40M
"$AFAR" ns rm small
still_works
