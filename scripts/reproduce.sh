#!/usr/bin/env bash
# Runs the experiments behind the papers' figures and compares the findings with the papers' claims.
#
#   scripts/reproduce.sh [--jobs N] ID...|all      runs these experiments, N runs at the same time, e.g. scripts/reproduce.sh a6 r3
#   scripts/reproduce.sh --smoke                   runs all of them on tiny data as a test; their numbers mean nothing
#   scripts/reproduce.sh --list [ID...]           prints IDs with their running times and titles, and the sum of the times
#
# Each ID is a specification, experiments/ID.toml. Runs are written to runs/figures and shared by the figures. The same command
# resumes an interrupted call. It writes results/ID/ (claims, plots, tables), results/fidelity.md and the index in
# results/README.md. The exit code is 1 if a run fails; a claim that does not hold is no failure.
#
# Environment: HETSGD_DATA_DIR  folder with delicious_{train,test}.txt (hetsgd data fetch delicious); not needed with --smoke
#              HETSGD           the program (default: build/release/apps/hetsgd/hetsgd)
set -euo pipefail
cd "$(dirname "$0")/.."

source scripts/python.sh
export HETSGD=${HETSGD:-build/release/apps/hetsgd/hetsgd}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # of what is launched on ranks here
figures=("$python" -B scripts/reproduce.py)
jobs=$(nproc)
smoke=false
ids=()
while (($#)); do
  case "$1" in
    --jobs) jobs=${2:?"--jobs: found nothing, expected a number"}; shift ;;
    --smoke) smoke=true ;;
    --list) exec "${figures[@]}" list "${@:2}" ;;
    -h|--help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "reproduce.sh: found option \"$1\", expected --jobs, --smoke or --list" >&2; exit 2 ;;
    *) ids+=("$1") ;;
  esac
  shift
done

specs=experiments runs=runs/figures results=results
if $smoke; then
  runs=$(mktemp -d)
  trap 'rm -rf "$runs"' EXIT
  specs=$runs/specs results=$runs/results
  "${figures[@]}" smoke "$specs"
  ids=(all)
fi
((${#ids[@]})) || { sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2; }
if [[ ${ids[*]} == all ]]; then mapfile -t ids < <("${figures[@]}" --experiments "$specs" list | cut -d' ' -f1); fi

failed=()
for id in "${ids[@]}"; do
  spec=$(ls "$specs/$id".{toml,json} 2>/dev/null || true)
  [[ $spec ]] || { echo "reproduce.sh: found \"$id\", expected an ID of --list" >&2; exit 2; }
  if grep -q -e '^\[bench\]' -e '^ "bench"' "$spec"; then
    "${figures[@]}" --experiments "$specs" --runs "$runs" bench "$id" || failed+=("$id")
  else
    # Runs that a changed specification shares with the old one are kept.
    "$HETSGD" sweep "$spec" -o "$runs" --jobs "$jobs" --extend --redact || failed+=("$id")
  fi
done
"${figures[@]}" --experiments "$specs" --runs "$runs" --results "$results" show "${ids[@]}"
if $smoke && grep -l '"verdict": "not run"' "$results"/*/verdicts.json; then failed+=("some claims have no runs"); fi
if ((${#failed[@]})); then
  echo "reproduce.sh: failed: ${failed[*]}" >&2
  exit 1
fi
