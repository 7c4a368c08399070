#!/usr/bin/env bash
# Runs the missing runs of the benchmark of record and prints the ranking of all methods.
#
#   scripts/benchmark.sh                                               ranks the methods of record
#   scripts/benchmark.sh [--name NAME] adaptive --delta 0.2            adds an entry: an algorithm with its options
#   scripts/benchmark.sh --plugin libaveraging.so averaging --keep 0.25   adds an entry from a plugin
#   scripts/benchmark.sh --smoke [...]                                 runs on tiny data to test the script; its numbers mean nothing
#   scripts/benchmark.sh --jobs N, --results FOLDER                    N runs at the same time; table, JSON and plot go to FOLDER
#   scripts/benchmark.sh --version 1                                   an earlier version of the benchmark (default: 3)
#
# The rules are in experiments/benchmark/README.md. Runs are written to runs/benchmark/v3. The same command resumes an interrupted
# call, and the table also ranks entries of earlier calls. Exit code 2: the entry breaks a rule.
#
# Environment: HETSGD_DATA_DIR  folder with delicious_{train,test}.txt, a9a and a9a.t; not needed with --smoke
#              HETSGD           the program (default: build/release/apps/hetsgd/hetsgd)
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)

source "$here/scripts/python.sh"
HETSGD=$(realpath "${HETSGD:-$here/build/release/apps/hetsgd/hetsgd}")
unset HETSGD_BINARY  # the program takes HETSGD_... for its options
specs=("$python" -B "$here/scripts/benchmark.py")
jobs=$(nproc)
smoke=false version=3 results= chosen=() talk=()
while (($#)); do
  case "$1" in
    --jobs) jobs=${2:?"--jobs: found nothing, expected a number"}; shift ;;
    --results) results=${2:?"--results: found nothing, expected a folder"}; shift ;;
    --name|--plugin) chosen+=("$1" "${2:?"$1: found nothing, expected a value"}"); shift ;;
    --version) version=${2:?"--version: found nothing, expected a number"}; shift ;;
    --smoke) smoke=true ;;
    -h|--help) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "benchmark.sh: found option \"$1\", expected --jobs, --name, --plugin, --results, --smoke, --version or an algorithm" >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
if ((${#chosen[@]} && $# == 0)); then
  echo "benchmark.sh: ${chosen[0]}: found no algorithm, expected the one of the entry" >&2
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
