#!/usr/bin/env bash
# From a fresh Debian 12 to a first comparison: installs missing packages, builds hetsgd, tunes and trains three methods on four
# simulated GPUs of unequal speed (examples/quickstart.toml), and shows when each of them reaches the target.
#
#   ./scripts/quickstart.sh [--cuda] [--no-setup] [-DNAME=VALUE...]
#
#   --cuda       build the GPU code even if there is no driver (needs nvcc; if there is a driver, it is built anyway)
#   --no-setup   neither check nor install Debian packages
#   -DNAME=VALUE a setting of CMake, for example -DHETSGD_MARCH=native for this machine's processor alone
#
# Results and plots are written to runs/quickstart. The same command resumes an interrupted run.
set -euo pipefail
cd "$(dirname "$0")/.."

setup=true
cuda=()
settings=()
for argument in "$@"; do
  case "$argument" in
    --cuda) cuda=(--cuda) ;;
    --no-setup) setup=false ;;
    -D*=*) settings+=("$argument") ;;
    -h|--help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "quickstart.sh: found option \"$argument\", expected --cuda, --no-setup or -DNAME=VALUE" >&2; exit 2 ;;
  esac
done
source scripts/release_options.sh

folder=runs/quickstart
heading() { printf '\n=== %s\n' "$*"; }

echo "This takes about 5 minutes on two cores, and the download of packages. Most of it is the build; training takes less than a minute."
if $setup; then
  heading "Debian packages"
  ./scripts/setup-debian.sh program plots
fi
source scripts/python.sh

heading "Build (preset release)"
release_options "${cuda[@]}"
cmake --log-level=WARNING --preset release -DHETSGD_UNITY=ON "${release_options[@]}" -DHETSGD_TESTS=OFF -DHETSGD_BENCHMARKS=OFF "${settings[@]}" >/dev/null
# On a terminal the build has one line that changes, elsewhere it is silent unless it fails.
quiet=(); [[ -t 1 ]] || quiet=(-- --quiet)
cmake --build --preset release --target hetsgd -j "$(nproc)" "${quiet[@]}"
hetsgd=build/release/apps/hetsgd/hetsgd
echo "$hetsgd"

heading "Training: 3 methods, each with 7 learning rates on held-out rows, then with the best one and 8 seeds"
"$hetsgd" sweep scripts/examples/quickstart.toml -o "$folder" --jobs auto

heading "Time to accuracy"
"$hetsgd" compare "$folder" --reference ssgd

heading "Plots"
"$python" scripts/plot.py "$folder" -o "$folder/plots" --title "Quickstart" --log-time

heading "Done in $SECONDS s. Files"
cat <<END
  results   $folder/runs/*.json  ($hetsgd validate FILE checks one)
  plots     $folder/plots/*.png and *.svg
To see the progress of one run:
  $hetsgd train --train generate:tiny --test generate:tiny --algorithm adaptive --workers 4 \\
      --speed 1,0.92,0.84,0.76 --epochs 10 --target 'p1>=0.5' -o runs/mine.json
END
