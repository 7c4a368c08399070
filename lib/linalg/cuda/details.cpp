#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>

#include <array>

#include "core/error.hpp"
#include "core/non_copyable.hpp"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/cuda_details.hpp"

namespace hetsgd {

namespace {

// The functions of NVML that are used. Its handles and codes are plain numbers here.
class Nvml : NonCopyable {
 public:
  enum Clock : unsigned { sm = 1, memory = 2 };

  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const auto init = function<int()>("nvmlInit_v2");
    by_bus_id_ = function<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    clock_now_ = function<int(void*, unsigned, unsigned*)>("nvmlDeviceGetClockInfo");
    clock_most_ = function<int(void*, unsigned, unsigned*)>("nvmlDeviceGetMaxClockInfo");
    driver_ = function<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
    const bool whole = init != nullptr && by_bus_id_ != nullptr && clock_now_ != nullptr &&
                       clock_most_ != nullptr && driver_ != nullptr;
    usable_ = whole && init() == 0;
  }
  ~Nvml() {
    if (usable_) {
      if (const auto shutdown = function<int()>("nvmlShutdown")) shutdown();
    }
    if (library_ != nullptr) dlclose(library_);
  }

  // Replaces the parts of `clock` that NVML knows.
  void read(const std::string& bus_id, Clock type, CudaClock& clock) const {
    void* device = nullptr;
    if (!usable_ || by_bus_id_(bus_id.c_str(), &device) != 0) return;
    unsigned mhz = 0;
    if (clock_now_(device, type, &mhz) == 0) clock.now_mhz = mhz;
    if (clock_most_(device, type, &mhz) == 0) clock.most_mhz = mhz;
  }
  std::string driver() const {
    std::array<char, 96> text{};
    return usable_ && driver_(text.data(), text.size()) == 0 ? text.data() : "";
  }

 private:
  template <class Signature>
  Signature* function(const char* name) const {
    return reinterpret_cast<Signature*>(dlsym(library_, name));
  }

  void* library_;
  bool usable_ = false;
  int (*by_bus_id_)(const char*, void**) = nullptr;
  int (*clock_now_)(void*, unsigned, unsigned*) = nullptr;
  int (*clock_most_)(void*, unsigned, unsigned*) = nullptr;
  int (*driver_)(char*, unsigned) = nullptr;
};

double attribute_mhz(cudaDeviceAttr attribute, int ordinal) {
  int khz = 0;
  if (cudaDeviceGetAttribute(&khz, attribute, ordinal) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // newer runtimes may not know it
    return 0;
  }
  return 1e-3 * khz;
}

// Searches as SharedLibrary does.
void find(CudaLibrary& library, const std::string& file) {
  for (const std::string& name : {file, HETSGD_CUDA_LIBRARY_DIR "/" + file}) {
    void* const handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) {
      if (library.problem.empty()) library.problem = dlerror();
      continue;
    }
    link_map* map = nullptr;
    const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && *map->l_name != '\0';
    library.file = known ? map->l_name : name;
    library.problem.clear();
    dlclose(handle);
    return;
  }
}

}  // namespace

std::vector<CudaGpuDetails> cuda_gpu_details(const CudaPlatform& platform) {
  std::vector<CudaGpuDetails> all;
  if (platform.gpus.empty()) return all;
  const Nvml nvml;
  for (const CudaGpu& gpu : platform.gpus) {
    CudaGpuDetails details;
    std::array<char, 32> bus_id{};
    HETSGD_CUDA(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), gpu.ordinal));
    details.pci_bus_id = bus_id.data();
    details.sm.most_mhz = attribute_mhz(cudaDevAttrClockRate, gpu.ordinal);
    details.memory.most_mhz = attribute_mhz(cudaDevAttrMemoryClockRate, gpu.ordinal);
    nvml.read(details.pci_bus_id, Nvml::sm, details.sm);
    nvml.read(details.pci_bus_id, Nvml::memory, details.memory);
    for (const CudaGpu& other : platform.gpus) {
      if (other.ordinal == gpu.ordinal) continue;
      int reaches = 0;
      HETSGD_CUDA(cudaDeviceCanAccessPeer(&reaches, gpu.ordinal, other.ordinal));
      if (reaches != 0) details.peers.push_back(other.ordinal);
    }
    all.push_back(std::move(details));
  }
  return all;
}

std::string cuda_driver_version() { return Nvml().driver(); }

std::vector<CudaLibrary> cuda_libraries() {
  std::vector<CudaLibrary> all = {
      {.name = "cuBLAS", .purpose = "dense products", .needed = true, .file = "", .problem = ""},
      {.name = "NCCL", .purpose = "--all-reduce nccl", .file = "", .problem = ""},
      {.name = "cuDNN", .purpose = "--convolution-library cudnn", .file = "", .problem = ""},
      {.name = "cuSPARSE", .purpose = "a benchmark only", .file = "", .problem = ""},
      {.name = "NVML", .purpose = "current clocks", .file = "", .problem = ""}};
  find(all[0], "libcublas.so." HETSGD_CUBLAS_MAJOR);
  find(all[1], "libnccl.so.2");
  find(all[2], "libcudnn.so.9");
  if (all[2].file.empty()) find(all[2], "libcudnn.so.8");
  find(all[3], "libcusparse.so.12");  // the name in CUDA 12 and in CUDA 13
  find(all[4], "libnvidia-ml.so.1");
  return all;
}

}  // namespace hetsgd
