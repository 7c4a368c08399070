#!/usr/bin/env bash
# Makes a folder with hetsgd and its shared libraries. Copy it to any machine, without installing packages, and run bin/hetsgd.
# That machine needs Linux's C library (README.txt names the oldest version) and, for GPUs, the driver and cuBLAS.
#
#   ./scripts/bundle.sh [options] FOLDER    builds hetsgd, makes FOLDER and checks it
#   ./scripts/bundle.sh --check FOLDER      checks an existing bundle
#
#   --cuda-architectures LIST  GPU architectures to build code for, as CMAKE_CUDA_ARCHITECTURES (default: all; 90 alone builds faster)
#   --without-cuda, --without-mpi  build without support for GPUs, or without MPI
#   --with-libc                add the C library, for target machines whose C library is older than this one's
#   --tests                    add the GPU tests, the benchmarks and scripts/gpu-check.sh
#   --build-dir DIR            take the programs from the build in DIR (default: build them in build/bundle)
#   --jobs N                   number of compilers at the same time (default: the number of cores)
#
# The bundle has its own Open MPI (bin/mpirun). If LD_LIBRARY_PATH names a cluster's Open MPI 4 or 5, that one is used instead.
# The check runs the bundle in an empty root folder if it has the right to change the root folder.
set -euo pipefail
cd "$(dirname "$0")/.."

architectures="" cuda=ON mpi=ON build="" jobs=$(nproc) folder=""
tests=false with_libc=false check_only=false
usage() { echo "bundle.sh: $1" >&2; exit 2; }
need() { [[ $# -ge 2 ]] || usage "$1: found nothing, expected a value"; }
while (($#)); do
  case "$1" in
    --cuda-architectures) need "$@"; architectures=$2; shift ;;
    --build-dir) need "$@"; build=$2; shift ;;
    --jobs) need "$@"; jobs=$2; shift ;;
    --without-cuda) cuda=OFF ;;
    --without-mpi) mpi=OFF ;;
    --with-libc) with_libc=true ;;
    --tests) tests=true ;;
    --check) check_only=true ;;
    -h|--help) sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) usage "found option \"$1\", expected one of --help" ;;
    *) [[ -z $folder ]] || usage "found a second folder \"$1\", expected one"; folder=$1 ;;
  esac
  shift
done
[[ -n $folder ]] || usage "found no folder, expected the folder to make; --help lists the options"

# The C library, which every Linux has.
readonly of_the_machine='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil)\.so'
# CUDA libraries that only a benchmark uses. Like cuBLAS they are on a machine with a GPU, and they are large.
readonly of_cuda='^(libcusparse|libnvJitLink)\.so'
# Fabrics that want libraries of their makers, and OpenSHMEM: a cluster that has them has its own Open MPI.
readonly left_out='_(ofi|ucx|psm|psm2|openib|flux|simulator|gridengine)\.so$|mca_(memheap|scoll|spml|sshmem)_|monitoring|msgq'

elf_files() {
  find "$1" -type f -print0 | xargs -0 file --mime-type |
    sed -nE 's/: +application\/x-(pie-executable|executable|sharedlib)$//p'
}

# configure_and_build: sets `build`.
configure_and_build() {
  build=build/bundle
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DHETSGD_CUDA=$cuda -DHETSGD_MPI=$mpi \
    -DHETSGD_TESTS=$($tests && echo ON || echo OFF) -DHETSGD_BENCHMARKS=$($tests && echo ON || echo OFF) \
    ${architectures:+-DCMAKE_CUDA_ARCHITECTURES="$architectures"}
  local targets=(hetsgd)
  if $tests; then
    mapfile -t -O 1 targets < <(ninja -C $build -t targets all | grep -v '^cmake_' |
      sed -nE 's/^([a-z_]*cuda[a-z_]*_tests?|(kernels|model|cuda|gpu)[a-z_]*_bench): .*/\1/p')
  fi
  cmake --build $build --target "${targets[@]}" -j "$jobs"
}

# copy_libraries: what the programs of the bundle need, and what that needs, into lib/.
copy_libraries() {
  local name path
  elf_files "$folder" | xargs -d '\n' ldd 2>/dev/null | awk '$2 == "=>" { print $1, $3 }' | sort -u |
    while read -r name path; do
      [[ $name =~ $of_cuda ]] && continue
      [[ $name =~ $of_the_machine ]] && ! { $with_libc && [[ $name == lib[cmdpr]* && $path == /* ]]; } && continue
      [[ $path == /* ]] || { echo "bundle.sh: found no $name on this machine, expected it because the program needs it" >&2; exit 1; }
      [[ $path == "$(realpath "$folder")"/* ]] || cp -nL "$path" "$folder/lib/$name"
    done
}

# copy_open_mpi: launcher, daemon and plugins. They look for each other below OPAL_PREFIX.
copy_open_mpi() {
  local root=$folder/openmpi libraries data pmix
  libraries=$(ompi_info --path pkglibdir --parsable | cut -d: -f3)
  data=$(ompi_info --path pkgdatadir --parsable | cut -d: -f3)
  mkdir -p "$root"/{bin,plugins,share,etc}
  cp -L "$(command -v orterun)" "$root/bin/orterun"
  cp -L "$(command -v orted)" "$root/bin/orted.real"
  cp -rL "$data" "$root/share/openmpi"
  local plugin
  for plugin in "$libraries"/mca_*.so; do
    [[ $plugin =~ $left_out ]] || cp -L "$plugin" "$root/plugins/"
  done
  pmix=$(ldd "$root"/plugins/mca_pmix_ext*.so 2>/dev/null | awk '$1 == "libpmix.so.2" { print $3; exit }')
  if [[ -n $pmix ]]; then
    pmix=$(dirname "$(realpath "$pmix")")/pmix
    mkdir -p "$root/pmix/lib/pmix"
    cp -L "$pmix"/pmix_mca_*.so "$root/pmix/lib/pmix/"
  fi
  cat >"$root/environment" <<'END'
# Sourced by mpirun and orted with $root set: where this Open MPI finds its parts.
export OPAL_PREFIX=$root OPAL_BINDIR=$root/bin OPAL_PKGLIBDIR=$root/plugins OPAL_PKGDATADIR=$root/share/openmpi
export OPAL_SYSCONFDIR=$root/etc PMIX_INSTALL_PREFIX=$root/pmix PMIX_LIBDIR=$root/pmix/lib
export PMIX_PKGLIBDIR=$root/pmix/lib/pmix OMPI_MCA_orte_launch_agent=$root/bin/orted
# Its own libraries first, for the programs that it starts too: a machine's Open MPI would not go with these plugins.
# (HETSGD_OUTER_LIBRARY_PATH is what hetsgd gives back to the Python that it starts.)
export HETSGD_OUTER_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH=$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# Without ssh and rsh there is one node, or Slurm; Open MPI would refuse to start anything.
if [ -z "${OMPI_MCA_plm_rsh_agent:-}" ] && ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
  export OMPI_MCA_plm=^rsh
fi
END
  cat >"$folder/bin/mpirun" <<'END'
#!/bin/sh
# The Open MPI of this bundle.
root=$(cd "$(dirname "$0")/../openmpi" && pwd)
. "$root/environment"
exec "$root/bin/orterun" "$@"
END
  cat >"$root/bin/orted" <<'END'
#!/bin/sh
# Its daemon on the other nodes, which mpirun starts.
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/environment"
exec "$root/bin/orted.real" "$@"
END
  chmod +x "$folder/bin/mpirun" "$root/bin/orted"
}

# link_open_mpi: openmpi/lib, with what launcher, daemon, plugins and libmpi need and nothing else. lib/ itself may hold
# a C library, and goes before no machine's for programs that are not of the bundle.
link_open_mpi() {
  local name
  mkdir "$folder/openmpi/lib"
  { elf_files "$folder/openmpi"; ls "$folder"/lib/libmpi.so*; } | xargs -d '\n' ldd 2>/dev/null |
    awk '$2 == "=>" { print $1 } END { print "libmpi.so.40" }' | sort -u |
    while read -r name; do
      [[ $name =~ $of_the_machine || $name =~ ^lib(stdc\+\+|gcc_s)\.so || ! -e $folder/lib/$name ]] ||
        ln -s "../../lib/$name" "$folder/openmpi/lib/$name"
    done
}

copy_tests() {
  local program
  mkdir -p "$folder/tests" "$folder/scripts/peers"
  find "$build/tests" -type f -executable -regextype egrep \
    -regex '.*/([a-z_]*cuda[a-z_]*_tests?|(kernels|model|cuda|gpu)[a-z_]*_bench)' |
    while read -r program; do cp "$program" "$folder/tests/"; done
  cp scripts/gpu-check.sh scripts/gpu_check*.py scripts/check_resume.py "$folder/scripts/"
  cp scripts/peers/*.py "$folder/scripts/peers/"
}

# set_search_path: every program and library looks into lib/ of the bundle, wherever it lies, after LD_LIBRARY_PATH.
set_search_path() {
  local file
  elf_files "$folder" | while read -r file; do
    chmod u+w "$file"
    strip --strip-unneeded "$file"
    patchelf --set-rpath "\$ORIGIN/$(realpath --relative-to="$(dirname "$file")" "$folder/lib")" "$file"
  done
}

# start_with_own_libc: the linker of the bundle, not the machine's, starts every program.
start_with_own_libc() {
  local program up
  local part
  cp -L "$(patchelf --print-interpreter "$folder/bin/hetsgd")" "$folder/lib/ld.so"
  # The driver's libraries name these; the machine's own would not go with this C library.
  for part in libdl.so.2 libpthread.so.0 librt.so.1; do
    cp -L "$(dirname "$(ldd "$build/apps/hetsgd/hetsgd" | awk '$1 == "libc.so.6" { print $3 }')")/$part" "$folder/lib/"
    patchelf --add-needed $part "$folder/bin/hetsgd"
  done
  elf_files "$folder" | grep -E '/(bin|tests)/[^/]*$' | while read -r program; do
    up=$(realpath --relative-to="$(dirname "$program")" "$folder/lib")
    mv "$program" "$program.elf"
    cat >"$program" <<END
#!/bin/sh
# Starts the program beside this file with the C library of the bundle.
here=\$(dirname "\$(readlink -f "\$0")")
exec "\$here/$up/ld.so" "\$here/$(basename "$program").elf" "\$@"
END
    chmod +x "$program"
  done
}

oldest_libc() {
  elf_files "$folder" | xargs -d '\n' objdump -T 2>/dev/null | grep -oE 'GLIBC_[0-9]+\.[0-9]+' | sort -Vu | tail -n 1 | cut -d_ -f2
}

write_readme() {
  cat >"$folder/README.txt" <<END
hetsgd and the shared libraries that it needs. Copy the folder anywhere; bin/hetsgd finds lib/ beside it.

  bin/hetsgd doctor
  bin/hetsgd train --train generate:tiny --test generate:tiny --epochs 3 -o result.json

The machine needs a processor of the kind "march" below: with "kernels v3 v4" any one with AVX2 and FMA, as Intel's have been since
2013 and AMD's since 2015$($with_libc || echo ". It needs the C library $(oldest_libc) or newer (ldd --version)"). For GPUs it needs NVIDIA's driver
and cuBLAS of CUDA's major version below, in the linker's path or in LD_LIBRARY_PATH. The commands that judge results (compare,
report, score, validate, replay, fit) need Python 3.11 with numpy, scipy, pandas and jsonschema; HETSGD_PYTHON names it.
END
  if [[ -x $folder/bin/mpirun ]]; then
    cat >>"$folder/README.txt" <<'END'

Several processes: bin/mpirun -n 4 bin/hetsgd train ... is a complete Open MPI over TCP and shared memory; on several
nodes the folder has to lie under the same path. A cluster's own Open MPI 4 or 5 comes first when its folder stands in
LD_LIBRARY_PATH (module load openmpi), together with its own mpirun or srun; bin/mpirun takes the bundle's. Any other MPI: build hetsgd there.
END
  fi
  if [[ -d $folder/tests ]]; then
    cat >>"$folder/README.txt" <<'END'

scripts/gpu-check.sh -o gpu.json runs the GPU tests and benchmarks. Its part "kernels" needs cuSPARSE and nvJitLink of
CUDA's major version too, found as cuBLAS is.
END
  fi
  { echo; "$folder/bin/hetsgd" --version; } >>"$folder/README.txt"
}

# Every library of every file comes from the bundle or is the machine's.
check_libraries() {
  local file line name path bad=0 root
  root=$(realpath "$folder")
  while read -r file; do
    while read -r line; do
      read -r name _ path _ <<<"$line"
      [[ $(basename "$name") =~ $of_the_machine || $name =~ $of_cuda || $path == "$root"/* ]] && continue
      echo "bundle.sh: $file: found $line, expected a library of the bundle" >&2
      bad=1
    done < <(env -u LD_LIBRARY_PATH ldd "$(realpath "$file")" | sed 's/^[[:space:]]*//' | grep -v 'statically linked')
  done < <(elf_files "$folder")
  return $bad
}

# Runs in a root folder that has nothing but the C library, a shell and the kernel's folders.
run_in_empty_root() {
  local root=$1 library
  for library in ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libutil.so.1 libresolv.so.2; do
    library=$(ldconfig -p | awk -v name=$library '$1 == name && /x86-64/ { print $NF; exit }')
    if [[ -n $library ]]; then mkdir -p "$root/lib/x86_64-linux-gnu" && cp -L "$library" "$root/lib/x86_64-linux-gnu/"; fi
  done
  mkdir -p "$root"/{bin,tmp,proc,sys,dev,usr/bin} && ln -s lib "$root/lib64" && cp "$root"/lib/x86_64-linux-gnu/ld-linux* "$root/lib/"
  cp -L /bin/sh "$root/bin/sh" && cp -L "$(command -v dirname)" "$(command -v readlink)" "$root/usr/bin/"
  cp -r "$folder" "$root/bundle"
  cat >"$root/check.sh" <<'END'
set -e
run="/bundle/bin/hetsgd train --train generate:tiny --test generate:tiny --hidden 8 --epochs 1 --quiet --no-cache"
/bundle/bin/hetsgd --version >/dev/null
$run --algorithm adaptive --workers 2 -o /tmp/sim.json
$run --algorithm ssgd --cluster threads --devices cpu:1,cpu:1 -o /tmp/threads.json
if [ -x /bundle/bin/mpirun ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  /bundle/bin/mpirun --oversubscribe -n 2 $run --algorithm ssgd -o /tmp/mpi.json
fi
END
  local in_root=(unshare --mount)
  ((EUID == 0)) || in_root+=(--map-root-user)
  "${in_root[@]}" "$(command -v chroot)" "$root" /bin/sh -c : 2>/dev/null || return 77
  "${in_root[@]}" sh -ec '
    for each in proc sys dev; do mount --rbind "/$each" "$1/$each"; done
    unset LD_LIBRARY_PATH
    HOME=/tmp TMPDIR=/tmp PATH=$PATH exec chroot "$1" /bin/sh /check.sh' sh "$root"
}

# Where Python has the modules, the bundle's package judges a result of the bundle's program.
check_package() {
  local place code=0
  source scripts/python.sh
  has_modules "$python" || return 0
  place=$(mktemp -d)
  "$folder/bin/hetsgd" train --train generate:tiny --test generate:tiny --hidden 8 --epochs 1 --quiet --no-cache -o "$place/r.json" &&
    HETSGD_PYTHON=$python "$folder/bin/hetsgd" validate "$place/r.json" >/dev/null || code=$?
  rm -r "$place"
  return $code
}

check() {
  [[ -x $folder/bin/hetsgd ]] || { echo "bundle.sh: $folder: found no bin/hetsgd, expected a bundle" >&2; return 1; }
  check_libraries && check_package || return 1
  local root code=0
  root=$(mktemp -d)
  run_in_empty_root "$root" || code=$?
  rm -rf "$root"
  case $code in
    0) echo "bundle: $folder runs in an empty root folder" ;;
    77) echo "bundle: $folder contains every library; it was not run in an empty root folder, because this needs root" ;;
    *) echo "bundle.sh: $folder: does not run in an empty root folder (exit code $code)" >&2; return 1 ;;
  esac
}

for tool in patchelf file objdump strip ldd; do
  command -v $tool >/dev/null || { echo "bundle.sh: found no $tool; scripts/setup-debian.sh installs it" >&2; exit 1; }
done
if $check_only; then
  check
  exit
fi
[[ ! -e $folder ]] || usage "$folder: found an existing folder, expected a new one"
[[ -n $build ]] || configure_and_build
[[ -x $build/apps/hetsgd/hetsgd ]] || usage "--build-dir: found no apps/hetsgd/hetsgd in $build, expected a build of hetsgd"
mkdir -p "$folder"/{bin,lib}
cp "$build/apps/hetsgd/hetsgd" "$folder/bin/"
# The Python package behind the commands that judge results.
mkdir -p "$folder/share/hetsgd/python"
cp -r scripts/hetsgd "$folder/share/hetsgd/python/"
find "$folder/share" -name __pycache__ -prune -exec rm -r {} +
if $tests; then copy_tests; fi
if [[ $(ldd "$folder/bin/hetsgd") == *libmpi.so* ]] && command -v ompi_info orterun orted >/dev/null; then copy_open_mpi; fi
copy_libraries
if [[ -d $folder/openmpi ]]; then link_open_mpi; fi
set_search_path
if $with_libc; then start_with_own_libc; fi
write_readme
check
echo "bundle: $folder, $(du -sh "$folder" | cut -f1); README.txt explains its use"
