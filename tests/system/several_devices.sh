#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Servers on several RDMA devices, and clients that use both at once: each reaches each server by the right one.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

if [ -z "${AFAR_TEST_OTHER_DEVICE:-}" ]; then
	echo "no second device, AFAR_TEST_OTHER_DEVICE"
	exit 77
fi
start_manager
start_server here
AFAR_TEST_HOST=$AFAR_TEST_OTHER_DEVICE start_server there
"$AFAR" status | grep -q "$AFAR_TEST_OTHER_DEVICE:" || fail "no server is at $AFAR_TEST_OTHER_DEVICE"
"$AFAR" ns create both --width 2 --stripe 64K
"$AFAR" ns create single --width 1

# client NUMBER NAMESPACE: puts and gets what is its own.
client() {
	for round in 1 2; do
		random_file "in.$1" 300000
		"$AFAR" region put "in.$1" "$2:$1.$round" >/dev/null
		"$AFAR" region get "$2:$1.$round" "out.$1" >/dev/null
		same "in.$1" "out.$1"
	done
}

client 1 both &
one=$!
client 2 single &
two=$!
client 3 both
wait "$one" || fail "the first client"
wait "$two" || fail "the second client"
"$AFAR" region put in.3 both:nic --nic-atomics >/dev/null
"$AFAR" region stat both:nic | grep -Eq '^atomics +by network cards$' || fail "stat of both:nic"
