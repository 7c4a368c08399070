// Replaces NVIDIA's profilers (NVTX_INJECTION64_PATH): counts the ranges that a program begins and
// ends, by name, and writes `name begun` lines and `ended` to the file NVTX_COUNTS at exit.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace {

struct Counts {
  ~Counts() {
    std::FILE* const file = std::fopen(std::getenv("NVTX_COUNTS"), "w");
    if (file == nullptr) return;
    for (const auto& [name, count] : begun) std::fprintf(file, "%s %d\n", name.c_str(), count);
    std::fprintf(file, "ended %d\n", ended);
    std::fclose(file);
  }
  std::mutex mutex;
  std::map<std::string, int> begun;
  int ended = 0;
  nvtxRangeId_t next = 0;
};
Counts& counts() {
  static Counts all;
  return all;
}

nvtxRangeId_t begin(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  Counts& all = counts();
  const std::lock_guard lock(all.mutex);
  ++all.begun[event->message.ascii];
  return ++all.next;
}
void end(nvtxDomainHandle_t, nvtxRangeId_t) {
  Counts& all = counts();
  const std::lock_guard lock(all.mutex);
  ++all.ended;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0 ||
      size <= NVTX_CBID_CORE2_DomainRangeEnd) {
    return 0;
  }
  counts();
  *table[NVTX_CBID_CORE2_DomainRangeStartEx] = reinterpret_cast<NvtxFunctionPointer>(begin);
  *table[NVTX_CBID_CORE2_DomainRangeEnd] = reinterpret_cast<NvtxFunctionPointer>(end);
  return 1;
}
