#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpiio_killed.sh: a server is killed under collective writes. Every rank gets an error, and none hangs.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mpis.sh
. "$(dirname "$0")/mpis.sh"

start_cluster 512M
"$AFAR" fs create fs
for how in all alone; do
	mpi 4 "$MPI_WRITES" afar:/fs/$how 100000 $how >printed 2>said &
	mpirun=$!
	running="$running $mpirun"
	eventually grep -q 'has begun' printed
	kill_daemon two
	wait "$mpirun" || fail "write $how while a server ends: $?: $(cat said)"
	forget "$mpirun"
	[ "$(grep -c 'rank .: write$' printed)" -eq 4 ] || fail "write $how while a server ends: $(cat printed said)"
	grep -q '^afar: rank .: write ' said || fail "write $how while a server ends: $(cat said)"
	"$AFAR" rm /fs/$how
	start_server two 512M
done
