#!/usr/bin/env bash
# Runs hetsgd on one machine, with one process per core (or per GPU), each bound to its own cores:
#
#   ./scripts/examples/one-node.sh --train train.txt --test test.txt --algorithm esync --epochs 5 -o result.json
#
# RANKS=4 starts four processes. --devices cuda:auto gives each a GPU. HETSGD names the program.
set -euo pipefail
hetsgd=${HETSGD:-$(dirname "$0")/../../build/release/apps/hetsgd/hetsgd}
ranks=${RANKS:-$(nproc)}

# --bind-to core keeps a rank where it is: a rank that moves looks like a straggler.
exec mpirun -n "$ranks" --map-by core --bind-to core "$hetsgd" train "$@"
