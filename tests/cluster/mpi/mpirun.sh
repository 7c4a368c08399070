#!/bin/sh
# mpirun.sh MPIRUN RANKS PROGRAM ARGUMENTS...: more ranks than cores are fine, root is (in a
# container), and without an mpirun the exit code says "skipped". Its sessions have a folder of their
# own: in a shared one, an mpirun that begins as another ends and removes it may fail.
mpirun=$1
ranks=$2
shift 2
[ -x "$mpirun" ] || mpirun=$(command -v mpirun) || exit 77
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
"$mpirun" -n "$ranks" "$@"
