#!/usr/bin/env bash
# hetsgd on the machines of a hostfile, which ssh reaches without a password:
#
#   HOSTFILE=hosts ./scripts/examples/several-nodes.sh --train train.txt --test test.txt --algorithm rna --epochs 5 -o result.json
#
# The hostfile has a line per machine, with the number of ranks that it takes:
#
#   node1 slots=4
#   node2 slots=4
#
# Program and data lie under the same path everywhere (a shared folder, or a bundle copied to each machine: bundle.sh).
# NETWORK=10.0.0.0/24 chooses the network when the machines have several; HETSGD names the program.
set -euo pipefail
hetsgd=$(realpath "${HETSGD:-$(dirname "$0")/../../build/release/apps/hetsgd/hetsgd}")
: "${HOSTFILE:?names the hostfile}"

network=()
if [[ -n ${NETWORK:-} ]]; then
  network=(--mca btl_tcp_if_include "$NETWORK" --mca oob_tcp_if_include "$NETWORK")
fi
# As many ranks as the hostfile has slots. HETSGD_ variables travel only when they are named.
exec mpirun --hostfile "$HOSTFILE" --map-by slot --bind-to core "${network[@]}" \
  -x HETSGD_CACHE_DIR="${HETSGD_CACHE_DIR:-/tmp/hetsgd-cache-$USER}" "$hetsgd" train "$@"
