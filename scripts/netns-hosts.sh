#!/usr/bin/env bash
# Emulates several hosts on one machine: network namespaces, each with a host name, an address and a cable to a common bridge.
# mpirun connects them over TCP, and the cable of the last host is delayed. Needs root, iproute2 and Open MPI; cleans up.
#
#   ./scripts/netns-hosts.sh [options]                     runs ssgd and asgd without and with the delay, and shows how long
#                                                          each rank computed, communicated and waited
#   ./scripts/netns-hosts.sh [options] -- train ...        runs hetsgd with these arguments on all hosts
#   ./scripts/netns-hosts.sh [options] -- PROGRAM train ...  runs PROGRAM likewise, for the key `launch` of a sweep
#
#   --hosts N           number of hosts (default: 2)
#   --ranks N           number of ranks per host (default: 1)
#   --delay 10ms        delay of the last host's cable, in each direction (default: 10ms; 0ms: no delay)
#   --hetsgd PATH       the program (default: build/release/apps/hetsgd/hetsgd)
#   -o FOLDER           folder for the results (default: they are deleted)
#
# The delay comes from the kernel's netem. If the kernel has none, a relay in user space delays messages (scripts/delay_link.py).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/python.sh"

hosts=2 ranks=1 delay=10ms hetsgd=$here/../build/release/apps/hetsgd/hetsgd results="" arguments=()
usage() { echo "netns-hosts.sh: $1" >&2; exit 2; }
while (($#)); do
  case "$1" in
    -h|--help) sed -n '2,18s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --) shift; arguments=("$@"); break ;;
  esac
  [[ $# -ge 2 ]] || usage "$1: found nothing, expected a value; --help lists the options"
  case "$1" in
    --hosts) hosts=$2 ;;
    --ranks) ranks=$2 ;;
    --delay) delay=$2 ;;
    --hetsgd) hetsgd=$2 ;;
    -o) results=$2 ;;
    *) usage "found option \"$1\", expected one of --help" ;;
  esac
  shift 2
done
[[ $delay =~ ^[0-9]+(\.[0-9]+)?ms$ ]] || usage "--delay: found $delay, expected milliseconds, for example 10ms"
[[ $hosts =~ ^[1-9][0-9]?$ && $ranks =~ ^[1-9][0-9]*$ ]] || usage "--hosts, --ranks: found $hosts and $ranks, expected whole numbers of at least 1, and at most 99 hosts"
if [[ ${arguments[0]:-} == */* ]]; then
  hetsgd=${arguments[0]}
  arguments=("${arguments[@]:1}")
fi
[[ -x $hetsgd ]] || usage "--hetsgd: found no program $hetsgd, expected one"
hetsgd=$(realpath "$hetsgd")
skip() { echo "skipped: $1"; exit 77; }
((EUID == 0)) || skip "needs root"
for tool in ip tc unshare mpirun python3; do command -v $tool >/dev/null || skip "found no $tool"; done
[[ $("$hetsgd" --version) =~ feature\ mpi\ +on ]] || skip "$hetsgd is built without MPI"

name=hetsgd$$ work=$(mktemp -d) relay=""
stop_relay() {
  [[ -n $relay ]] || return 0
  kill "$relay" 2>/dev/null && wait "$relay" 2>/dev/null || true
  relay=""
}
spaces() { ip netns list | awk -v name="$name-" 'index($1, name) == 1 { print $1 }'; }
pids() { local space; for space in $(spaces); do ip netns pids "$space"; done; }
# While the cables are there: without them mpirun waits for its other hosts for ever. Five seconds for what runs to end by itself.
end_runs() {
  local running attempt
  for attempt in {1..50}; do
    running=$(pids)
    [[ -n $running ]] || return 0
    ((attempt > 1)) || kill $running 2>/dev/null || true
    sleep 0.1
  done
  kill -KILL $running 2>/dev/null || true
}
clean_up() {
  trap - EXIT
  trap '' INT TERM  # a second one, to the whole group, must not leave namespaces behind
  stop_relay
  end_runs
  local space
  for space in $(spaces); do
    ip netns delete "$space" || true  # and its end of the cable, so the other end too
  done
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

inside() { local space=$1; shift; ip netns exec "$name-$space" "$@"; }

# A host's cable: net0 in the host, port$i in the switch.
make_host() {
  local i=$1
  ip netns add "$name-$i" 2>/dev/null || skip "network namespaces are not permitted here"
  ip link add net0 netns "$name-$i" mtu 9000 type veth peer name "port$i" netns "$name-switch" mtu 9000
  inside "$i" ip link set lo up
  inside "$i" ip address add "10.77.0.$((i + 1))/24" dev net0
  inside "$i" ip link set net0 up
  inside switch ip link set "port$i" up
}

make_network() {
  local i last=$((hosts - 1))
  ip netns add "$name-switch" 2>/dev/null || skip "network namespaces are not permitted here"
  inside switch ip link add bridge mtu 9000 type bridge
  inside switch ip link set bridge up
  for ((i = 0; i < hosts; ++i)); do make_host $i; done
  for ((i = 0; i < last; ++i)); do inside switch ip link set "port$i" master bridge; done
  # The last host's cable goes through a second one, between whose ends the delay can sit.
  inside switch ip link add inner mtu 9000 type veth peer name outer mtu 9000
  inside switch ip link set inner master bridge
  inside switch ip link set inner up
  inside switch ip link set outer up
}

# set_delay MS: how the cable of the last host behaves from now on.
set_delay() {
  local port=port$((hosts - 1)) i
  stop_relay
  inside switch tc qdisc delete dev "$port" root 2>/dev/null || true
  inside $((hosts - 1)) tc qdisc delete dev net0 root 2>/dev/null || true
  inside switch ip link set "$port" nomaster
  if [[ $1 == 0ms ]]; then
    how="no delay"
    inside switch ip link set "$port" master bridge
  elif inside switch tc qdisc add dev "$port" root netem delay "$1" 2>/dev/null; then
    how="netem, $1 each way"
    inside $((hosts - 1)) tc qdisc add dev net0 root netem delay "$1"
    inside switch ip link set "$port" master bridge
  else
    how="relay in user space, $1 each way"
    for ((i = 0; i < hosts; ++i)); do inside $i python3 "$here/delay_link.py" plain net0; done
    inside switch python3 "$here/delay_link.py" relay "$port" outer "$(awk -v ms="${1%ms}" 'BEGIN { print ms / 1000 }')" &
    relay=$!
  fi
}

# The remote shell of mpirun: enters the host with this address, under a host name of its own.
cat >"$work/shell" <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done  # options of ssh
host=\$((\${1##*.} - 1)); shift
exec "$work/enter" \$host sh -c "\$*"
END
cat >"$work/enter" <<END
#!/bin/sh
host=\$1; shift
exec ip netns exec $name-\$host unshare --uts sh -c 'hostname "\$0" && exec "\$@"' host\$host "\$@"
END
chmod +x "$work/shell" "$work/enter"

# on_hosts ARGUMENTS: hetsgd on all hosts, mpirun running on host 0.
on_hosts() {
  local list="" i
  for ((i = 0; i < hosts; ++i)); do list+=${list:+,}10.77.0.$((i + 1)):$ranks; done
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$work/enter" 0 mpirun --oversubscribe \
    --host "$list" -n $((hosts * ranks)) --mca plm_rsh_agent "$work/shell" --mca btl tcp,vader,self \
    --mca btl_tcp_if_include net0 --mca oob_tcp_if_include net0 "$hetsgd" "$@"
}

table() {
  python3 - "$@" <<'END'
import json
import sys

print(f"{'algorithm':10} {'link':36} {'rank':>4} {'host':8} {'steps':>6} {'steps/s':>8}"
      f" {'compute_s':>10} {'communicate_s':>14} {'wait_s':>8}")
for path, link in zip(sys.argv[1::2], sys.argv[2::2]):
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    elapsed = result["summary"]["elapsed_s"]
    for worker in result["workers"]:
        print(f"{result['config']['algorithm']:10} {link:36} {worker['rank']:4} {worker.get('host') or '-':8}"
              f" {worker['steps']:6} {worker['steps'] / elapsed:8.1f} {worker['compute_s']:10.3f}"
              f" {worker['communicate_s']:14.3f} {worker['wait_s']:8.3f}")
END
}

# The mean time of a step in a result, in milliseconds.
step_ms() {
  python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
print(1000 * r["summary"]["elapsed_s"] / max(w["steps"] for w in r["workers"]))' "$1"
}

make_network
if ((${#arguments[@]})); then
  set_delay "$delay"
  echo "$hosts hosts; cable of the last one: $how" >&2
  on_hosts "${arguments[@]}" &  # a signal need not wait for its end: what asks for one may soon kill
  wait $!
  exit
fi

[[ -n $results ]] || results=$work
mkdir -p "$results"
shown=()
for each in 0ms "$delay"; do
  set_delay "$each"
  for algorithm in ssgd asgd; do
    on_hosts train --train generate:tiny --test generate:tiny --hidden 16 --batch-size 32 --mega-batch 40 \
      --algorithm $algorithm --epochs 4 --quiet --overwrite -o "$results/$algorithm-$each.json"
    "$hetsgd" validate "$results/$algorithm-$each.json" >/dev/null
    shown+=("$results/$algorithm-$each.json" "$how")
  done
done
table "${shown[@]}"
if ! awk -v step="$(step_ms "$results/ssgd-$delay.json")" -v delay="${delay%ms}" 'BEGIN { exit !(step >= delay) }'; then
  echo "netns-hosts.sh: found a step of ssgd shorter than the delay, expected at least $delay" >&2
  exit 1
fi
