#!/bin/sh
# Everything that only a GPU can tell, in one JSON: tests, compute-sanitizer, time per step beside PyTorch and the
# floor, all_reduce and kernel benchmarks. Works in a build tree and in a bundle (bundle.sh --tests).
#
#   ./scripts/gpu-check.sh [-o gpu-check.json]     ./scripts/gpu-check.sh --help
#
# Needs python3 and nothing of it but its standard library. Exit code: 0 passed, 1 a part failed, 77 no GPU.
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v python3 >/dev/null; then
  echo "gpu-check.sh: found no python3" >&2
  exit 1
fi
exec python3 -B "$here/gpu_check.py" "$@"
