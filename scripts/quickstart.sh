#!/usr/bin/env bash
# From a fresh Debian 12 to a first comparison: installs missing packages, builds hetsgd, generates a small data set, trains
# three algorithms on four simulated GPUs of unequal speed, and shows when each of them reaches the target.
#
#   ./scripts/quickstart.sh [--cuda] [--no-setup] [-DNAME=VALUE...]
#
#   --cuda       build the GPU code even if there is no driver (needs nvcc; if there is a driver, it is built anyway)
#   --no-setup   neither check nor install Debian packages
#   -DNAME=VALUE a setting of CMake, for example -DHETSGD_MARCH=x86-64-v3 for other machines than this one
#
# Results and plots are written to runs/quickstart. The same command resumes an interrupted run. The environment variable
# HETSGD_SEEDS="1 2 3" chooses the seeds (default: 1 to 6).
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
    -h|--help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "quickstart.sh: found option \"$argument\", expected --cuda, --no-setup or -DNAME=VALUE" >&2; exit 2 ;;
  esac
done
source scripts/release_options.sh

folder=runs/quickstart
read -ra seeds <<<"${HETSGD_SEEDS:-1 2 3 4 5 6}"
heading() { printf '\n=== %s\n' "$*"; }

echo "This takes about 5 minutes on two cores, and the download of packages. Most of it is the build; training takes less than a minute."
if $setup; then
  heading "Debian packages"
  ./scripts/setup-debian.sh program plots
fi

heading "Build (preset release)"
release_options "${cuda[@]}"
cmake --preset release -DHETSGD_UNITY=ON "${release_options[@]}" -DHETSGD_TESTS=OFF -DHETSGD_BENCHMARKS=OFF "${settings[@]}"
cmake --build --preset release --target hetsgd -j "$(nproc)"
hetsgd=build/release/apps/hetsgd/hetsgd
"$hetsgd" --version

heading "Data: synthetic sparse multi-label rows that a model can learn"
mkdir -p "$folder"
if [[ ! -f $folder/tiny_test.txt ]]; then
  "$hetsgd" data generate tiny --scale 5 --overwrite "$folder/tiny"
fi
"$hetsgd" data info "$folder/tiny_train.txt"

# Four V100s, the slowest at 76 % of the fastest (the gap that Adaptive SGD's paper measured), each batch up to 10 ms
# late. --charge makes the simulated clock charge the paper's Amazon-670k model, 103 million parameters, while the
# mathematics runs on the small data: so computing, communicating and waiting keep the proportions of a real run.
job=(--train "$folder/tiny_train.txt" --test "$folder/tiny_test.txt" --model mlp --hidden 128
     --cluster sim --workers 4 --profile v100 --speed 1,0.92,0.84,0.76 --network pcie3 --charge amazon670k
     --straggler kind=uniform,min=0ms,max=10ms
     --batch-size 256 --learning-rate 1 --mega-batch 40 --epochs 30 --target 'p1>=0.6')
heading "Training: 3 algorithms x ${#seeds[@]} seeds"
results=()
for algorithm in adaptive elastic ssgd; do
  for seed in "${seeds[@]}"; do
    result=$folder/$algorithm-$seed.json
    "$hetsgd" train "${job[@]}" --algorithm "$algorithm" --seed "$seed" -o "$result" --resume --quiet
    results+=("$result")
  done
  echo "$algorithm: ${#seeds[@]} runs done"
done

heading "Time to accuracy"
"$hetsgd" compare "${results[@]}" --reference "$folder/ssgd-${seeds[0]}.json"

heading "Plots"
/usr/bin/python3 scripts/plot.py "${results[@]}" -o "$folder/plots" --title "Quickstart" --log-time

heading "Done in $SECONDS s. Files"
cat <<END
  program   $hetsgd  (--help; train --help)
  data      $folder/tiny_train.txt, tiny_test.txt
  results   $folder/ALGORITHM-SEED.json  ($hetsgd validate FILE checks one)
  plots     $folder/plots/*.png and *.svg
To see the progress of one run:
  $hetsgd train --train generate:tiny --test generate:tiny --algorithm adaptive --workers 4 \\
      --speed 1,0.92,0.84,0.76 --epochs 10 --target 'p1>=0.5' -o runs/mine.json
END
