#!/usr/bin/env bash
# Installs missing packages, builds hetsgd, and runs its tests. The exit code is 0 only if every part passed.
#
#   ./scripts/test.sh [--all] [--no-setup]
#
#   --all        also compile each source alone, run clang-tidy, emulated GPUs, sanitizers and fuzzers, and build CUDA code if nvcc is
#                found (.ci/run uses it). Without it: the release build and its tests, which is what to run after a change
#   --no-setup   neither check nor install Debian packages
#
# Environment: HETSGD_DATA_DIR  folder with delicious_{train,test}.txt, a9a and a9a.t; without it tests on real data are skipped
#              HETSGD_FUZZ_SECONDS  seconds for each fuzzer (default: 5; take more after a change of a parser)
set -euo pipefail
cd "$(dirname "$0")/.."

all=false
setup=true
for argument in "$@"; do
  case "$argument" in
    --all) all=true ;;
    --no-setup) setup=false ;;
    -h|--help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test.sh: found option \"$argument\", expected --all or --no-setup" >&2; exit 2 ;;
  esac
done
source scripts/release_options.sh
cores=$(nproc)
# A twentieth of the timeout of all tests (testPresets in CMakePresets.json).
longest_test_s=60
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

# build PRESET [TARGETS] [-- OPTIONS OF CMAKE]
build() {
  local preset=$1 targets=()
  shift
  while (($#)) && [[ $1 != -- ]]; do targets+=(--target "$1"); shift; done
  cmake --preset "$preset" -DHETSGD_UNITY=ON "${@:2}" && cmake --build --preset "$preset" -j "$cores" "${targets[@]}"
}

# Tests of one preset, so many at once, and which of them are too long for its timeout: under load a test may well take
# twenty times as long.
run_tests() {
  local preset=$1 jobs=$2 code=0 costs=build/$1/Testing/Temporary/CTestCostData.txt
  shift 2
  ctest --preset "$preset" -j "$jobs" "$@" || code=$?
  awk -v limit="$longest_test_s" '/^---/ { exit } $3 > limit { print "note: the test", $1, "took", $3, "s, expected at most", limit, "s; make it shorter" }' "$costs"
  return $code
}

# All comments, and clang-tidy on what differs from the main branch, for half a minute. Not beside tests: ranks that wait for messages yield their
# core, and what is nice takes it.
lint() {
  local code=0
  ./scripts/lint.sh --seconds 30 || code=$?
  ((code == 0 || code == 77))
}

# A program for AVX2 with little optimisation (asan-ubsan) and the kernels for AVX-512 (release) give the same bytes.
same_bytes() {
  if ! grep -qw avx512bw /proc/cpuinfo; then echo "skipped: the processor has no AVX-512"; return; fi
  "$python" scripts/same_results.py build/release/apps/hetsgd/hetsgd build/asan-ubsan/apps/hetsgd/hetsgd --jobs "$cores" --only '/(base|adam|lamb)$'
}

fuzz() {
  local fuzzers=(build/fuzz/tests/fuzz/*_fuzz) logs=build/fuzz/logs
  mkdir -p "$logs"
  # One process per core, each with its own corpus (kept between calls) and log.
  export HETSGD_FUZZ_SECONDS=${HETSGD_FUZZ_SECONDS:-5} logs
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

if $all; then
  echo "This takes about 50 minutes on two cores. Without --all, the release build and its tests take about 15."
  groups=(program plots bundle tests all-tests) cuda=(--cuda) benchmarks=ON
else
  echo "This takes about 15 minutes on two cores. With --all (clang-tidy, emulated GPUs, sanitizers, fuzzers) it takes about 50."
  groups=(program plots bundle tests) cuda=() benchmarks=OFF
fi
if $setup; then part "Debian packages" ./scripts/setup-debian.sh "${groups[@]}" || true; fi
source scripts/python.sh
release_options "${cuda[@]}"
# Where ranks start and stop they mostly wait for each other, so twice as many tests as cores.
if part "release: build" build release -- "${release_options[@]}" -DHETSGD_TESTS=ON -DHETSGD_BENCHMARKS=$benchmarks; then
  part "release: tests" run_tests release $((2 * cores)) || true
fi
avx2=()
if [[ $(uname -m) == x86_64 ]]; then avx2=(-DHETSGD_MARCH=x86-64-v3); fi
if $all; then
  part "comments, clang-tidy" lint || true
  part "command lines" "$python" tests/fuzz/command_lines.py --seconds 60 build/release/apps/hetsgd/hetsgd || true
  # GPU code where no GPU is: the same sources on an emulated CUDA runtime.
  if part "cuda emulation: build" build cuda-emulation -- -DHETSGD_LAYERS_FROM="$PWD/build/release"; then
    part "cuda emulation: tests" run_tests cuda-emulation $((2 * cores)) || true
  fi
  part "each source alone" ./scripts/compile_alone.py build/release build/cuda-emulation || true
  # AddressSanitizer: what works on memory of its own. Left out are strings and JSON of the standard library, whose readers
  # the fuzzers drive under it, and tests that are long because they learn: others take the same ways.
  memory_tests=(core graph linalg memory data model optimizer cluster collective table algorithm training apps)
  if part "asan-ubsan: build" build asan-ubsan hetsgd "${memory_tests[@]/#/test_}" -- "${avx2[@]}"; then
    part "asan-ubsan: tests" run_tests asan-ubsan $((cores + 1)) \
      -E '^(result|experiment)/|^cli/(files|tools|score|usage|report)|^training/(generated_images|defaults|models|estimate)$|^algorithm/schedule$' || true
  fi
  if [[ -x build/asan-ubsan/apps/hetsgd/hetsgd ]]; then part "AVX2 and AVX-512" same_bytes || true; fi
  # ThreadSanitizer: what has threads; the rest runs on one, and would only make the run longer
  # (training/estimate, defaults, generated_images and failures as well, which run in sim).
  if part "tsan: build" build tsan test_{cluster,collective,algorithm,training}; then
    part "tsan: tests" run_tests tsan "$cores" -R '^(cluster|collective|training)/|^algorithm/threads_' -E '^training/(estimate|defaults|generated_images|failures)$' || true
  fi
  if part "fuzzers: build" build fuzz tests/fuzz/all; then
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
