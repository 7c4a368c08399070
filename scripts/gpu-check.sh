#!/bin/sh
# Runs everything that needs a GPU and writes one JSON file: tests, compute-sanitizer, time per step compared with PyTorch and with
# the floor, all_reduce and kernel benchmarks. It works in a build tree and in a bundle (bundle.sh --tests).
#
#   ./scripts/gpu-check.sh [-o gpu-check.json]     ./scripts/gpu-check.sh --help
#
# It needs python3 with its standard library. Exit code: 0 all parts passed, 1 a part failed, 77 there is no GPU.
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v python3 >/dev/null; then
  echo "gpu-check.sh: found no python3, expected it in PATH" >&2
  exit 1
fi
exec python3 -B "$here/gpu_check.py" "$@"
