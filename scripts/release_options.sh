# Sourced by quickstart.sh and test.sh, which share the folder build/release: what both tell CMake, so that none of the
# two makes the other compile again. Tests and benchmarks may be on or off, which changes no object of the program.
#
#   release_options [--cuda]    fills the array release_options and says what is built for GPUs
#
# CUDA code takes a good part of a build and needs a GPU to run, so it is built where a driver is, where it is asked for, and
# where the folder has it already. For this machine's GPU, or for one architecture, which is quick to compile.
release_options() {
  local cache=build/release/CMakeCache.txt cuda=OFF architectures=90
  if nvidia-smi -L >/dev/null 2>&1; then
    cuda=ON architectures=native
    echo "CUDA: this machine has a driver, so code for its GPUs is built if nvcc is found"
  elif [[ ${1:-} == --cuda ]] || grep -qs '^HETSGD_CUDA:STRING=ON$' "$cache"; then
    cuda=ON
    echo "CUDA: this machine has no driver; code for GPUs is built all the same if nvcc is found"
  else
    echo "CUDA: this machine has no driver, so the program is built without GPUs (quickstart.sh --cuda builds it with them)"
  fi
  release_options=("-DHETSGD_CUDA=$cuda")
  if [[ $cuda == ON ]] && ! grep -qs '^CMAKE_CUDA_ARCHITECTURES:' "$cache"; then
    release_options+=("-DCMAKE_CUDA_ARCHITECTURES=$architectures")
  fi
}
