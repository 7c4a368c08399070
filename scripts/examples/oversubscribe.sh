#!/usr/bin/env bash
# Runs more ranks than the machine has cores, as a trial. The ranks take turns on the cores, so their times mean nothing.
#
#   RANKS=8 ./scripts/examples/oversubscribe.sh --train generate:tiny --test generate:tiny --algorithm asgd --epochs 2
#
# HETSGD names the program.
set -euo pipefail
hetsgd=${HETSGD:-$(dirname "$0")/../../build/release/apps/hetsgd/hetsgd}
ranks=${RANKS:-8}

# Ranks that wait give up their core (mpi_yield_when_idle); none is bound to one.
exec mpirun -n "$ranks" --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 "$hetsgd" train "$@"
