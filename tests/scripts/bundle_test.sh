#!/usr/bin/env bash
# scripts/bundle.sh BUILD_DIR: makes a bundle of what is built, which checks it; then the check of a bundle that lacks
# a library has to fail.
set -euo pipefail
cd "$(dirname "$0")/../.."
for tool in patchelf file objdump; do
  command -v $tool >/dev/null || { echo "skipped: found no $tool"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

HETSGD_CACHE_DIR=$folder/cache scripts/bundle.sh --build-dir "$1" "$folder/bundle"
[[ -s $folder/bundle/README.txt ]] || { echo "found no README.txt"; exit 1; }
if [[ $(readelf -d "$folder/bundle/bin/hetsgd") != *'RUNPATH'*'[$ORIGIN/../lib]'* ]]; then
  echo "bin/hetsgd does not look into ../lib"
  exit 1
fi

rm "$folder"/bundle/lib/libfmt.so.*
if scripts/bundle.sh --check "$folder/bundle" 2>"$folder/errors"; then
  echo "a bundle without libfmt passed the check"
  exit 1
fi
grep -q 'libfmt.*not from the bundle' "$folder/errors" || { cat "$folder/errors"; exit 1; }
