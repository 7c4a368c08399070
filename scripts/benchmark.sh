#!/usr/bin/env bash
# Runs what is missing of the benchmark of record and shows where all methods stand.
#
#   scripts/benchmark.sh                                               the methods of record alone
#   scripts/benchmark.sh [--name NAME] adaptive --delta 0.2            and an entry: an algorithm with its options
#   scripts/benchmark.sh --plugin libaveraging.so averaging --keep 0.25   and one from a plugin
#   scripts/benchmark.sh --smoke [...]                                 on tiny data: whether it runs, no number means anything
#   scripts/benchmark.sh --jobs N, --results FOLDER                    runs side by side; FOLDER gets table, JSON and plot
#   scripts/benchmark.sh --version 1                                   an earlier version of the benchmark (2)
#
# The rules are in experiments/benchmark/README.md. Runs go to runs/benchmark/v2, so that a call goes on where another was cut off,
# and entries of earlier calls stand in the table too. Exit code 2: not an entry by the rules.
#
# Environment: HETSGD_DATA_DIR  folder with delicious_{train,test}.txt, a9a and a9a.t; not for --smoke
#              HETSGD           the program (build/release/apps/hetsgd/hetsgd)
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)

HETSGD=$(realpath "${HETSGD:-$here/build/release/apps/hetsgd/hetsgd}")
unset HETSGD_BINARY  # the program takes HETSGD_... for its options
specs=(/usr/bin/python3 -B "$here/scripts/benchmark.py")
jobs=$(nproc)
smoke=false version=2 results= chosen=() talk=()
while (($#)); do
  case "$1" in
    --jobs) jobs=${2:?"--jobs needs a number"}; shift ;;
    --results) results=${2:?"--results needs a folder"}; shift ;;
    --name|--plugin) chosen+=("$1" "${2:?"$1 needs a value"}"); shift ;;
    --version) version=${2:?"--version needs a number"}; shift ;;
    --smoke) smoke=true ;;
    -h|--help) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "benchmark.sh: found option \"$1\", expected --jobs, --name, --plugin, --results, --smoke, --version or an algorithm" >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
if ((${#chosen[@]} && $# == 0)); then
  echo "benchmark.sh: found ${chosen[0]} without an algorithm" >&2
  exit 2
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
spec=$here/experiments/benchmark/v$version.toml runs=$here/runs/benchmark/v$version
if [[ ! -f $spec ]]; then
  echo "benchmark.sh: --version: found \"$version\", expected one of $(cd "$here/experiments/benchmark" && echo v*.toml)" >&2
  exit 2
fi
if $smoke; then
  "${specs[@]}" tiny "$spec" -o "$scratch/tiny.json"
  spec=$scratch/tiny.json runs=$scratch/runs talk=(--quiet)
fi
sweeps=("$spec")
if (($#)); then
  "${specs[@]}" entry "$spec" -o "$scratch/entry.json" "${chosen[@]}" "$@"
  "$HETSGD" score "$spec" --check "$scratch/entry.json" >&2
  sweeps+=("$scratch/entry.json")
fi
for sweep in "${sweeps[@]}"; do
  "$HETSGD" sweep "$sweep" -o "$runs" --jobs "$jobs" --redact "${talk[@]}"
done
"$HETSGD" score "$spec" --runs "$runs"
if [[ $results ]]; then
  mkdir -p "$results"
  "$HETSGD" score "$spec" --runs "$runs" --format markdown > "$results/table.md"
  "$HETSGD" score "$spec" --runs "$runs" --format json > "$results/standing.json"
  "${specs[@]}" plot "$results/standing.json" -o "$results/profiles.svg"
fi
