# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the tests of MPI programs, after cluster.sh: Open MPI with our components, on this machine alone.
# shellcheck shell=sh disable=SC2154 # cluster.sh has the rest

[ -n "${MPIIO:-}" ] || {
	echo "the components of Open MPI were not built: there are no headers of 4.1 (apt install libopenmpi-dev), or there is a sanitizer"
	exit 77
}
command -v mpirun.openmpi >/dev/null || {
	echo "mpirun.openmpi is not there (apt install openmpi-bin)"
	exit 77
}

# Ranks are more than there are cores, and Open MPI's own folder is to go with the test's.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl_vader_backing_directory="$scratch" OMPI_MCA_orte_tmpdir_base="$scratch"
export OMPI_MCA_io=ompio OMPI_MCA_mca_base_component_path="$MPIIO:SYSTEM_DEFAULT"
# Its own component for files of the machine writes back what others have written meanwhile.
export OMPI_MCA_fbtl_posix_read_datasieving=0 OMPI_MCA_fbtl_posix_write_datasieving=0

# On other files each rank moves its own pieces, too.
export OMPI_MCA_fcoll_individual_priority=60

# mpi RANKS PROGRAM…: ends with the program's status; 124: it takes longer than $mpi_seconds. No rank stays.
mpi_seconds=120
mpi() {
	nr=$1
	shift
	timeout -k 5 $((mpi_seconds * slowness)) mpirun.openmpi -n "$nr" "$@" </dev/null
}
