#!/usr/bin/env bash
# Runs hetsgd on the machines of a hostfile. ssh must reach them without a password:
#
#   HOSTFILE=hosts ./scripts/examples/several-nodes.sh --train train.txt --test test.txt --algorithm rna --epochs 5 -o result.json
#
# The hostfile has a line per machine, with its number of ranks:
#
#   node1 slots=4
#   node2 slots=4
#
# Program and data have the same path on every machine (in a shared folder, or in a bundle copied to each machine: bundle.sh).
# NETWORK=10.0.0.0/24 chooses the network if the machines have several. HETSGD names the program.
set -euo pipefail
hetsgd=$(realpath "${HETSGD:-$(dirname "$0")/../../build/release/apps/hetsgd/hetsgd}")
: "${HOSTFILE:?found nothing, expected the name of the hostfile}"

network=()
if [[ -n ${NETWORK:-} ]]; then
  network=(--mca btl_tcp_if_include "$NETWORK" --mca oob_tcp_if_include "$NETWORK")
fi
# As many ranks as the hostfile has slots. HETSGD_ variables travel only when they are named.
exec mpirun --hostfile "$HOSTFILE" --map-by slot --bind-to core "${network[@]}" \
  -x HETSGD_CACHE_DIR="${HETSGD_CACHE_DIR:-/tmp/hetsgd-cache-$USER}" "$hetsgd" train "$@"
