#!/usr/bin/env bash
# Installs the Debian 12 packages that hetsgd needs. Safe to run again: what is there is skipped.
#
#   ./scripts/setup-debian.sh [--no-torch] [--no-fuzz] [--list]
#
#   --no-torch   without python3-torch (only the comparison in scripts/peers needs it; it is large)
#   --no-fuzz    without clang (only the fuzzers, clang-format and lint.sh need it)
#   --list       print the packages and install nothing
set -euo pipefail

build=(g++ cmake ninja-build ccache git ca-certificates pkg-config
       libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libfmt-dev libspdlog-dev libvalijson-dev libboost-context-dev
       libboost-dev
       libtbb-dev librandom123-dev libxxhash-dev libzstd-dev zlib1g-dev libbz2-dev libopenmpi-dev openmpi-bin)
tests=(patchelf file libgtest-dev libgmock-dev libbenchmark-dev libopenblas-pthread-dev libdnnl-dev python3 python3-numpy python3-scipy python3-jsonschema chromium)
plots=(python3-matplotlib python3-pandas)
fuzz=(clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14)
peers=(python3-torch)

list_only=false
for argument in "$@"; do
  case "$argument" in
    --no-torch) peers=() ;;
    --no-fuzz) fuzz=() ;;
    --list) list_only=true ;;
    -h|--help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "setup-debian.sh: found option \"$argument\", expected --no-torch, --no-fuzz or --list" >&2; exit 2 ;;
  esac
done
packages=("${build[@]}" "${tests[@]}" "${plots[@]}" "${fuzz[@]}" "${peers[@]}")
if $list_only; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup-debian.sh: found no apt-get, expected Debian 12; install the equivalents of:" >&2
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
    echo "setup-debian.sh: not root and found no sudo; as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${#missing[@]} Debian packages: ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
