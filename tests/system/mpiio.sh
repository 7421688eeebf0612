#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpiio.sh [ROUNDS]: MPI programs that know nothing of Afar. Their files are as on the machine's own file system, and errors reach every rank.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mpis.sh
. "$(dirname "$0")/mpis.sh"

start_cluster
"$AFAR" fs create fs

# ---- The same steps on both

# Many steps take their time, above all where others use the machine.
mpi_seconds=$((mpi_seconds + ${1:-0} / 4))
for seed in 1 2; do
	# In the second turn Open MPI's two phases gather the pieces.
	export OMPI_MCA_fcoll_afar_piece_bytes=$((seed * 65536 - 65536))
	mpi 4 "$MPI_VIEWS" "afar:/fs/views$seed" "$scratch/views" "$seed" "${1:-40}" $((seed * 1000000 - 1000000)) || fail "views, seed $seed: $?"
	"$AFAR" get "/fs/views$seed" got
	same got views
	rm views got
done

unset OMPI_MCA_fcoll_afar_piece_bytes

# Our shared pointers, which ranks on several machines use.
export OMPI_MCA_sharedfp_afar_priority=95
mpi 4 "$MPI_VIEWS" afar:/fs/pointers "$scratch/views" 3 "${1:-40}" 0 ordered || fail "shared pointers: $?"
"$AFAR" get /fs/pointers got
same got views
rm views got
unset OMPI_MCA_sharedfp_afar_priority
mpi_seconds=120

# Sessions end with MPI_Finalize(): nothing has the file system open.
"$AFAR" fs create short
mpi 2 "$MPI_WRITES" afar:/short/x 1 all >printed || fail "a file of a moment: $?"
"$AFAR" fs rm short --force || fail "a session outlives its program"

# ---- Names, and files that go

"$AFAR" mkdir /fs/dir
mpi 2 "$MPI_WRITES" afar:/fs/dir/file 1 all >printed || fail "a file in a directory: $?"
"$AFAR" stat /fs/dir/file | grep -q '^size *2097152 ' || fail "$("$AFAR" stat /fs/dir/file)"
mpi 2 "$MPI_WRITES" afar:/fs/gone 1 gone >printed || fail "a file that goes when it is closed: $?"
refused 1 'no such file' "$AFAR" stat /fs/gone
mpi 2 "$MPI_WRITES" afar:/fs/dir/file 0 delete >printed || fail "delete a file: $?"
refused 1 'no such file' "$AFAR" stat /fs/dir/file

# no_file NAME PATTERN: the program cannot open it, no rank hangs, and one line says why.
no_file() {
	got=0
	mpi 2 "$MPI_WRITES" "$1" 1 all >printed 2>said || got=$?
	[ "$got" -eq 2 ] || fail "open $1: $got: $(cat said)"
	[ "$(grep -c '^afar: ' said)" -eq 1 ] || fail "open $1: $(cat said)"
	grep -Eq "^afar: .*$2" said || fail "open $1: '$2' is not in: $(cat said)"
}
no_file afar:/none/x "there is none"
no_file afar:/fs/none/x "there is no"
no_file afar:/fs "name a file"
no_file afar: "name a file"
no_file afar:/fs/dir "directory"
got=0
AFAR_CLUSTER=afar://127.0.0.1:1 mpi 2 "$MPI_WRITES" afar:/fs/x 1 all >printed 2>said || got=$?
[ "$got" -eq 2 ] || fail "no cluster: $got: $(cat said)"
grep -q '^afar: rank 0: open' said || fail "no cluster: $(cat said)"

# ---- A full file system: every rank hears of it, also those whose own bytes had room

"$AFAR" fs create small --max 8M
for how in all alone; do
	mpi 4 "$MPI_WRITES" afar:/small/x 20 $how >printed 2>said || fail "write $how into a full file system: $?: $(cat said)"
	[ "$(grep -c 'rank .: write$' printed)" -eq 4 ] || fail "write $how into a full file system: $(cat printed said)"
	grep -q '^afar: rank .: write .*it may have 8 MiB' said || fail "write $how into a full file system: $(cat said)"
	"$AFAR" rm /small/x
done
# One rank alone fails: sync tells the others.
mpi 4 "$MPI_WRITES" afar:/small/x 20 last >printed 2>said || fail "write where one rank fails: $?: $(cat said)"
[ "$(grep -c 'rank .: sync$' printed)" -eq 3 ] || fail "write where one rank fails: $(cat printed said)"
grep -q 'rank 3: write$' printed || fail "write where one rank fails: $(cat printed said)"
grep -q 'closed with an error' said && fail "an error that sync has told came again"

# Without a sync the file's error handler hears of it.
mpi 4 "$MPI_WRITES" afar:/small/x 20 unsynced >printed 2>said || fail "close without a sync: $?: $(cat said)"
[ "$(grep -c 'rank .: closed with an error' printed)" -eq 4 ] || fail "close without a sync: $(cat printed said)"
grep -q '^afar: close afar:/small/x: something that was written is lost' said || fail "close without a sync: $(cat said)"

still_works
