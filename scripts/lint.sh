#!/usr/bin/env bash
# Checks the comments of all sources, scripts and specifications (lint_comments.py), then runs clang-tidy (.clang-tidy) on
# the source files of lib/ and apps/ that differ from a revision.
#
#   ./scripts/lint.sh [--build DIR] [--seconds N] [REVISION]
#
#   REVISION      revision to compare the files with (default: the last common one with origin/main, or HEAD~1)
#   --build DIR   build of these sources, whose compiler flags are used (default: build/release)
#   --seconds N   time after which no further file is checked (default: 60); files that were left out are named
#
# A changed header is checked through the .cpp file of its name. Exit code 1: there are findings; 77: no clang-tidy-14, or no revision.
set -euo pipefail
cd "$(dirname "$0")/.."

build=build/release seconds=60 base=""
while (($#)); do
  case "$1" in
    --build|--seconds)
      [[ $# -ge 2 ]] || { echo "lint.sh: $1: found nothing, expected a value" >&2; exit 2; }
      declare "${1#--}=$2"; shift ;;
    -h|--help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "lint.sh: found option \"$1\", expected --build, --seconds or a revision" >&2; exit 2 ;;
    *) base=$1 ;;
  esac
  shift
done
./scripts/lint_comments.py || exit 1
[[ -f $build/compile_commands.json ]] || { echo "lint.sh: found no $build/compile_commands.json, expected a build: cmake --preset release" >&2; exit 2; }

command -v clang-tidy-14 >/dev/null || { echo "lint.sh: skipped, because there is no clang-tidy-14; setup-debian.sh installs it"; exit 77; }
head=$(git rev-parse --verify -q HEAD || true)
if [[ -z $base ]]; then
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  [[ -n $base && $base != "$head" ]] || base=$(git rev-parse --verify -q HEAD~1 || true)
fi
[[ -n $base ]] || { echo "lint.sh: skipped, because there is no revision to compare with"; exit 77; }

mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- 'lib/*.cpp' 'apps/*.cpp' 'lib/*.hpp' 'apps/*.hpp' |
  sed 's/\.hpp$/.cpp/' | sort -u | while read -r file; do [[ -f $file ]] && echo "$file"; done)
echo "clang-tidy on ${#files[@]} files that differ from ${base:0:12}"
((${#files[@]})) || exit 0

# Each file with the command of its folder's first one: a unity build has no command for a file alone.
commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
"${HETSGD_PYTHON:-python3}" - "$build" "${files[@]}" >"$commands/compile_commands.json" <<'END'
import json, os, sys
build, files = sys.argv[1], sys.argv[2:]
with open(f"{build}/compile_commands.json", encoding="utf-8") as file:
    entries = [entry for entry in json.load(file) if not entry["file"].endswith(".cu")]
def entry_of(path):
    folder = "hetsgd" if path.startswith("apps/") else "hetsgd_" + path.split("/")[1]
    known = next(entry for entry in entries if f"/{folder}.dir/" in entry["command"])
    path = os.path.abspath(path)
    return {"directory": known["directory"], "file": path, "command": known["command"].replace(known["file"], path)}
json.dump([entry_of(path) for path in files], sys.stdout)
END

# An error of clang 14 about the ranges of GCC 12's library is no finding.
export commands deadline=$((EPOCHSECONDS + seconds))
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -I{} bash -c '
  if ((EPOCHSECONDS >= deadline)); then echo "$1: left out, because the time is over"; exit 0; fi
  found=$(clang-tidy-14 --quiet -p "$commands" --extra-arg=-Wno-everything "$1" 2>/dev/null |
          grep -A 5 -e ",-warnings-as-errors\]$" | grep -v clang-diagnostic)
  [[ -z $found ]] || { printf "%s\n" "$found"; exit 1; }' _ {} || exit 1
