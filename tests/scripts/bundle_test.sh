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

# A machine's Open MPI, of which nothing works, does not come between bin/mpirun, its plugins and what they start.
if [[ -x $folder/bundle/bin/mpirun ]] && command -v cc >/dev/null; then
  mkdir "$folder/foreign"
  for library in libopen-rte.so.40 libopen-pal.so.40 libpmix.so.2 libmpi.so.40; do
    cc -shared -x c /dev/null -o "$folder/foreign/$library"
  done
  export LD_LIBRARY_PATH=$folder/foreign OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  if "$folder/bundle/openmpi/bin/orterun" --version >/dev/null 2>&1; then
    echo "the useless Open MPI does not come first: this test shows nothing"
    exit 1
  fi
  TMPDIR=$folder "$folder/bundle/bin/mpirun" --oversubscribe -n 2 "$folder/bundle/bin/hetsgd" train --train generate:tiny \
    --test generate:tiny --hidden 8 --epochs 1 --quiet --no-cache --algorithm ssgd -o "$folder/mpi.json"
  grep -q 'Start an Open RTE Daemon' <<<"$("$folder/bundle/openmpi/bin/orted" --help 2>&1)"
  unset LD_LIBRARY_PATH
fi

rm "$folder"/bundle/lib/libfmt.so.*
if scripts/bundle.sh --check "$folder/bundle" 2>"$folder/errors"; then
  echo "a bundle without libfmt passed the check"
  exit 1
fi
grep -q 'found libfmt.*expected a library of the bundle' "$folder/errors" || { cat "$folder/errors"; exit 1; }
