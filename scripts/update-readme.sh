#!/bin/sh
# Puts the table of `hetsgd algorithms --format markdown` between its two markers in README.md.
#
#   scripts/update-readme.sh [HETSGD [FILE]]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
hetsgd=${1:-$root/build/release/apps/hetsgd/hetsgd}
file=${2:-$root/README.md}

TABLE=$("$hetsgd" algorithms --format markdown)
export TABLE
awk '
  /^<!-- algorithms: end -->$/ { inside = 0; ends++ }
  !inside { print }
  /^<!-- algorithms: begin/ { inside = 1; begins++; print ENVIRON["TABLE"] }
  END { exit begins == 1 && ends == 1 ? 0 : 1 }
' "$file" > "$file.new" || {
  rm -f "$file.new"
  echo "$file: expected one pair of the markers <!-- algorithms: begin --> and <!-- algorithms: end -->" >&2
  exit 1
}
mv "$file.new" "$file"
