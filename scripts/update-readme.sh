#!/bin/sh
# Writes the tables of `hetsgd algorithms --format markdown` and `hetsgd stragglers --format markdown` between their markers in
# README.md and lib/cluster/stragglers.md.
#
#   scripts/update-readme.sh [HETSGD [FILE BLOCK]]     with FILE and BLOCK (algorithms or stragglers) only this table
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
hetsgd=${1:-$root/build/release/apps/hetsgd/hetsgd}

renew() {  # FILE BLOCK
  TABLE=$("$hetsgd" "$2" --format markdown)
  export TABLE
  awk -v block="$2" '
    $0 == "<!-- " block ": end -->" { inside = 0; ends++ }
    !inside { print }
    index($0, "<!-- " block ": begin") == 1 { inside = 1; begins++; print ENVIRON["TABLE"] }
    END { exit begins == 1 && ends == 1 ? 0 : 1 }
  ' "$1" > "$1.new" || {
    rm -f "$1.new"
    echo "$1: found none or several, expected one pair of the markers <!-- $2: begin --> and <!-- $2: end -->" >&2
    exit 1
  }
  mv "$1.new" "$1"
}

if [ $# -gt 1 ]; then
  renew "$2" "$3"
else
  renew "$root/README.md" algorithms
  renew "$root/lib/cluster/stragglers.md" stragglers
fi
