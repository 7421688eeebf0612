#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpiio_killed.sh: a server is killed under collective writes. Every rank gets an error, and none hangs.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mpis.sh
. "$(dirname "$0")/mpis.sh"

start_cluster 512M
for how in all alone; do
	# One of its own, because what is left of a file system goes on without the server.
	"$AFAR" fs create $how
	# It is mpirun itself that would be killed, and its ranks end with it.
	mpirun.openmpi -n 4 "$MPI_WRITES" afar:/$how/x 100000 $how </dev/null >printed 2>said &
	mpirun=$!
	running="$running $mpirun"
	eventually grep -q 'has begun' printed
	kill_daemon two
	eventually has_ended "$mpirun"
	wait "$mpirun" || fail "write $how while a server ends: $?: $(cat said)"
	forget "$mpirun"
	[ "$(grep -c 'rank .: write$' printed)" -eq 4 ] || fail "write $how while a server ends: $(cat printed said)"
	! grep -q ': reserve ' said || fail "the memory was full before the server ended"
	grep -q '^afar: rank .: write ' said || fail "write $how while a server ends: $(cat said)"
	start_server two 512M
done
