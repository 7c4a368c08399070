#!/usr/bin/env bash
# A signal ends netns-hosts.sh while a run goes on, and leaves no network namespace behind.
#
#   netns_hosts_signal_test.sh NETNS_HOSTS HETSGD
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" --delay 0ms -- "$2" train --train generate:tiny --test generate:tiny --algorithm ssgd --epochs 1000000 --quiet \
  -o "$folder/run.json" &
script=$!
ours() { ip netns list 2>/dev/null | grep "^hetsgd$script-" || true; }
runs() { ip netns pids "hetsgd$script-1" 2>/dev/null | xargs -r ps -o comm= -p | grep -qx hetsgd; }
until runs; do
  kill -0 $script 2>/dev/null || { wait $script; exit; }  # 77: not permitted here
  sleep 0.1
done
kill -TERM $script
code=0
wait $script || code=$?
[[ $code == 143 ]] || { echo "ended with $code, expected 143"; exit 1; }
[[ -z $(ours) ]] || { echo "left behind: $(ours)"; exit 1; }
