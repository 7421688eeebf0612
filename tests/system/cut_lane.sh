#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A client in a network namespace of its own, with two wires to a server that has a lane on each: bytes go over both;
# with one wire cut, at the client's end, where it is heard of, or at the server's, where it is not, they go over the other.
set -eu

# The namespaces have no names, and end with what is in them. Daemons are in this script's own.
if [ -z "${AFAR_TEST_WIRES:-}" ]; then
	for tool in ip tc unshare nsenter; do
		command -v "$tool" >/dev/null || { echo "there is no $tool here" && exit 77; }
	done
	unshare -n true 2>/dev/null || { echo 'only root may make network namespaces' && exit 77; }
	AFAR_TEST_WIRES=1 exec unshare -n "$0"
fi
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# The client's: as long as this process is there.
unshare -n sh -c 'echo ready >ready; exec sleep 300' &
client=$!
running="$running $client"
eventually test -s ready

# on_client COMMAND…: over there.
on_client() {
	nsenter -t "$client" -n "$@"
}

# wire NUMBER END: an end of it gets its address; slow, so that a transfer can be met on its way.
wire() {
	cat <<-END
		ip address add 10.77.$1.$2/24 dev wire$1
		ip link set wire$1 up
		tc qdisc add dev wire$1 root tbf rate 200mbit burst 256k limit 4m
	END
}

ip link set lo up
for number in 1 2; do
	ip link add "wire$number" type veth peer name "wire$number" netns "$client"
	wire "$number" 1 | sh -e
	wire "$number" 2 | on_client sh -e
done

# carried NUMBER: bytes that have arrived at the client over it.
carried() {
	on_client ip -s link show "wire$1" | awk 'wanted { print $1; exit } /RX:/ { wanted = 1 }'
}

# gets: the client has the right bytes; $first and $second are what each wire carried for it.
gets() {
	first=$(carried 1) second=$(carried 2)
	on_client "$AFAR" region get pair:in out >/dev/null
	same in out
	first=$(($(carried 1) - first)) second=$(($(carried 2) - second))
}

# shellcheck disable=SC2154 # cluster.sh assigns it
start_daemon manager --role manager --data "$scratch/manager" --listen 10.77.1.1:0
# shellcheck disable=SC2154 # likewise
AFAR_CLUSTER=$uri
export AFAR_CLUSTER
start_daemon both --role server --data "$scratch/both" --name both --data-listen tcp:10.77.1.1:0,tcp:10.77.2.1:0 \
	--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 256M
"$AFAR" ns create pair --width 1
size=20971520
random_file in $size
on_client "$AFAR" region put in pair:in >/dev/null
gets
[ "$first" -gt $((size / 3)) ] || fail "only $first bytes of $size over the first wire"
[ "$second" -gt $((size / 3)) ] || fail "only $second bytes of $size over the second wire"

for end in '' on_client; do
	$end ip link set wire2 down
	gets
	[ "$first" -gt $size ] || fail "only $first bytes of $size over the wire that is left"
	on_client "$AFAR" region put in pair:again >/dev/null
	$end ip link set wire2 up
	on_client "$AFAR" region get pair:again out >/dev/null
	same in out
	on_client "$AFAR" region rm pair:again
	gets
	[ "$second" -gt $((size / 3)) ] || fail "only $second bytes of $size over the wire that is back"
done

# One that is on its way may end with its connection; the next does not.
second=$(carried 2)
on_client "$AFAR" --timeout 4 region get pair:in out >/dev/null 2>line &
get=$!
runs=1
until [ "$(carried 2)" -gt $((second + 1000000)) ]; do
	[ "$runs" = 1 ] || fail "the get ended without the second wire: $(cat line)"
	kill -0 "$get" 2>/dev/null || runs=0 # and what has it carried now?
done
ip link set wire2 down
if wait "$get"; then
	same in out
else
	[ "$(wc -l <line)" -eq 1 ] || fail "it should complain in one line: $(cat line)"
fi
gets

# Where nobody answers is said, with the port: of the memory's lane alone, for the control is reached.
stop_daemon both
ip link set wire2 up
start_daemon far --role server --data "$scratch/far" --name far --control 10.77.1.1:0 --data-listen tcp:10.77.2.1:7413 \
	--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M
"$AFAR" ns create far --width 1
random_file in 1000000
on_client "$AFAR" region put in far:a >/dev/null
ip link set wire2 down
refused 1 'server far at 10\.77\.2\.1:7413: it did not answer in time.*firewall' nsenter -t "$client" -n "$AFAR" --timeout 2 region get far:a out

kill "$client"
wait "$client" || :
