// A range in the timeline of NVIDIA's profilers; nothing where NVTX is not built in or no profiler
// listens. Ranges may overlap on one thread: workers of `sim` are fibers. So they are started and
// ended by an id, and not pushed and popped, which the profiler would match by thread.
#pragma once

#ifdef HETSGD_NVTX
#include <nvtx3/nvToolsExt.h>

#include "core/non_copyable.hpp"
#endif

namespace hetsgd {

#ifdef HETSGD_NVTX
class NvtxRange : NonCopyable {
 public:
  explicit NvtxRange(const char* name) : id_(nvtxDomainRangeStartEx(domain(), attributes(name))) {}
  ~NvtxRange() { nvtxDomainRangeEnd(domain(), id_); }

 private:
  static nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t hetsgd = nvtxDomainCreateA("hetsgd");
    return hetsgd;
  }
  // One per thread, filled anew for each call that it is passed to. The name must live as long.
  static const nvtxEventAttributes_t* attributes(const char* name) {
    static thread_local nvtxEventAttributes_t all = {};
    all.version = NVTX_VERSION;
    all.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    all.messageType = NVTX_MESSAGE_TYPE_ASCII;
    all.message.ascii = name;
    return &all;
  }
  nvtxRangeId_t id_;
};
#else
class NvtxRange {
 public:
  explicit NvtxRange(const char*) {}
};
#endif

}  // namespace hetsgd
