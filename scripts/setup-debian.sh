#!/usr/bin/env bash
# Installs the Debian 12 packages that hetsgd needs. It may be run again: installed packages are skipped.
#
#   ./scripts/setup-debian.sh [--list] [GROUP...]
#
#   program      packages for the program itself (quickstart.sh takes program and plots)
#   plots        packages for the commands that judge results, and for plots
#   bundle       packages for bundle.sh
#   tests        packages for test.sh (which also takes program, plots and bundle)
#   all-tests    further packages for test.sh --all: benchmarks, fuzzers, clang-format and clang-tidy
#   peers        packages for the comparison with PyTorch in scripts/peers (large)
#   --list       print the packages and install nothing
#
# Without a group it installs all groups.
set -euo pipefail

declare -A group=(
  [program]="g++ cmake ninja-build ccache git ca-certificates pkg-config
    libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libfmt-dev libspdlog-dev libboost-context-dev
    libboost-dev libxxhash-dev libzstd-dev zlib1g-dev libbz2-dev libssl-dev
    libhwloc-dev libopenmpi-dev openmpi-bin"
  [plots]="python3 python3-matplotlib python3-numpy python3-scipy python3-pandas python3-jsonschema"
  [bundle]="patchelf file"
  [tests]="libgtest-dev libgmock-dev chromium"
  [all-tests]="libbenchmark-dev libopenblas-pthread-dev libdnnl-dev clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 qemu-user"
  [peers]="python3-torch")
every=(program plots bundle tests all-tests peers)

list_only=false
chosen=()
for argument in "$@"; do
  case "$argument" in
    --list) list_only=true ;;
    -h|--help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *)
      if [[ -z ${group[$argument]:-} ]]; then
        echo "setup-debian.sh: found \"$argument\", expected --list or groups: ${every[*]}" >&2
        exit 2
      fi
      chosen+=("$argument") ;;
  esac
done
((${#chosen[@]})) || chosen=("${every[@]}")
mapfile -t packages < <(for name in "${chosen[@]}"; do printf '%s\n' ${group[$name]}; done | sort -u)
if $list_only; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup-debian.sh: found no apt-get, expected Debian 12; on other systems install packages like these:" >&2
  printf '  %s\n' "${packages[@]}" >&2
  exit 1
fi
missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [[ $status == "install ok installed" ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} Debian packages are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup-debian.sh: found neither root rights nor sudo, expected one of them; as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${#missing[@]} Debian packages: ${missing[*]}"
messages=$(mktemp)
install() {
  "${as_root[@]}" apt-get update -qq && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}"
}
if ! install >"$messages" 2>&1; then
  cat "$messages" >&2
  echo "setup-debian.sh: apt-get failed, see above; expected that it installs ${missing[*]}" >&2
  exit 1
fi
rm "$messages"
