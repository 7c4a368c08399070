#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests. The exit code is 0 only if every part passed.
#
#   ./scripts/test.sh [--quick] [--no-setup]
#
#   --quick      the release build and its tests only (no clang-tidy, emulated GPUs, sanitizers and fuzzers)
#   --no-setup   do not look at the Debian packages
#
# Environment: HETSGD_DATA_DIR  folder with delicious_{train,test}.txt, a9a, a9a.t: tests on real data (else skipped)
#              HETSGD_FUZZ_SECONDS  seconds for each fuzzer (10; longer runs are for who changes a parser)
set -euo pipefail
cd "$(dirname "$0")/.."

quick=false
setup=true
for argument in "$@"; do
  case "$argument" in
    --quick) quick=true ;;
    --no-setup) setup=false ;;
    -h|--help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test.sh: found option \"$argument\", expected --quick or --no-setup" >&2; exit 2 ;;
  esac
done
cores=$(nproc)
summary=()
failed=0

# part NAME COMMAND...: runs it, notes the outcome and goes on.
part() {
  local name=$1 start=$SECONDS outcome=passed
  shift
  printf '\n=== %s\n' "$name"
  if ! "$@"; then
    outcome=FAILED
    failed=1
  fi
  summary+=("$(printf '%-28s %-7s %5d s' "$name" "$outcome" $((SECONDS - start)))")
  [[ $outcome == passed ]]
}

# Where CUDA is found, one architecture is enough to see that the kernels compile.
build() {
  cmake --preset "$1" -DCMAKE_CUDA_ARCHITECTURES=90 -DHETSGD_UNITY=ON && cmake --build --preset "$1" -j "$cores" "${@:2}"
}

# Layers without code of GPUs are those of the release build.
build_emulation() {
  cmake --preset cuda-emulation -DHETSGD_UNITY=ON -DHETSGD_LAYERS_FROM="$PWD/build/release" && cmake --build --preset cuda-emulation -j "$cores"
}

# Tests of one preset, so many at once; without the build there is nothing to run.
build_and_test() {
  if part "$1: build" build "$1"; then
    part "$1: tests" ctest --preset "$1" -j "$2" || true
  fi
}

# What differs from the main branch, for a minute at most. Not beside tests: ranks that wait for messages yield their
# core, and what is nice takes it.
lint() {
  local code=0
  ./scripts/lint.sh || code=$?
  ((code == 0 || code == 77))
}

fuzz() {
  local fuzzers=(build/fuzz/tests/fuzz/*_fuzz) logs=build/fuzz/logs
  mkdir -p "$logs"
  # One process per core, each with its own corpus (kept between calls) and log.
  export HETSGD_FUZZ_SECONDS=${HETSGD_FUZZ_SECONDS:-10} logs
  printf '%s\n' "${fuzzers[@]}" | xargs -P "$cores" -I{} bash -c '
    name=$(basename "$1"); corpus=build/fuzz/corpus/$name; mkdir -p "$corpus"
    seeds=tests/fuzz/corpus/$name; [[ -d $seeds ]] || seeds=
    if "$1" -max_total_time="$HETSGD_FUZZ_SECONDS" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
         -artifact_prefix="$logs/$name-" "$corpus" $seeds >"$logs/$name.log" 2>&1; then
      echo "$name: $(sed -n "s/^stat::number_of_executed_units: *//p" "$logs/$name.log") inputs, no crash"
    else
      echo "$name: FAILED"; tail -n 40 "$logs/$name.log"; exit 1
    fi' _ {}
}

if $setup; then part "Debian packages" ./scripts/setup-debian.sh --no-torch || true; fi
# Where ranks start and stop they mostly wait for each other, so twice as many tests as cores.
build_and_test release $((2 * cores))
if ! $quick; then
  part "clang-tidy on what changed" lint || true
  # GPU code where no GPU is: the same sources on an emulated CUDA runtime.
  if part "cuda emulation: build" build_emulation; then
    part "cuda emulation: tests" ctest --preset cuda-emulation -j $((2 * cores)) || true
  fi
  build_and_test asan-ubsan $((cores + 1))
  # ThreadSanitizer: what has threads; the rest runs on one, and would only make the run longer
  # (training/estimate and generated_images as well, which try out models in sim; graph_models takes many minutes).
  if part "tsan: build" build tsan --target test_{cluster,collective,algorithm,training}; then
    part "tsan: tests" ctest --preset tsan -j "$cores" -R '^(cluster|collective|training)/|^algorithm/threads_' -E '^training/(estimate|generated_images|graph_models)$' || true
  fi
  if part "fuzzers: build" build fuzz --target tests/fuzz/all; then
    part "fuzzers" fuzz || true
  fi
fi

printf '\n=== Summary (%d s)\n' "$SECONDS"
printf '%s\n' "${summary[@]}"
if ((failed)); then
  echo "FAILED"
else
  echo "all passed"
fi
exit "$failed"
