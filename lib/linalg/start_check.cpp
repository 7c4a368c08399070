// A processor that lacks instructions of this program ends it with a sentence, not with a signal.
// The check runs before the constructors of all other files, and is itself compiled for every
// processor of x86-64.
#if defined(__x86_64__)
#include <unistd.h>

#include <cstring>

#include "core/error.hpp"

namespace hetsgd {

namespace {

#define HETSGD_BASELINE __attribute__((target("arch=x86-64")))

// The first missing feature; null if there is none.
HETSGD_BASELINE const char* missing_feature() {
  __builtin_cpu_init();
#define HETSGD_NEED(feature) \
  if (!__builtin_cpu_supports(feature)) return feature
#if defined(HETSGD_KERNEL_SETS) || defined(__AVX2__)  // AVX2 has the least of the kernel sets
  HETSGD_NEED("sse4.2");
  HETSGD_NEED("avx2");
  HETSGD_NEED("fma");
  HETSGD_NEED("bmi2");
#endif
#if defined(__AVX512F__)
  HETSGD_NEED("avx512f");
#endif
#if defined(__AVX512BW__)
  HETSGD_NEED("avx512bw");
#endif
#if defined(__AVX512DQ__)
  HETSGD_NEED("avx512dq");
#endif
#if defined(__AVX512VL__)
  HETSGD_NEED("avx512vl");
#endif
#if defined(__AVX512VBMI__)
  HETSGD_NEED("avx512vbmi");
#endif
#if defined(__AVX512VNNI__)
  HETSGD_NEED("avx512vnni");
#endif
#undef HETSGD_NEED
  return nullptr;
}

HETSGD_BASELINE void say(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

[[gnu::constructor(101)]] HETSGD_BASELINE void check_processor() {
  const char* const missing = missing_feature();
  if (missing == nullptr) return;
  say("error: this processor lacks ");
  say(missing);
  say(", for which this program is compiled\nhint: ");
#if defined(HETSGD_KERNEL_SETS)
  say("hetsgd needs AVX2 and FMA, as Intel's processors have since 2013 and AMD's since 2015\n");
#else
  say("build hetsgd without -DHETSGD_MARCH, for all processors with AVX2\n");
#endif
  ::_exit(static_cast<int>(ExitCode::device));
}

}  // namespace

}  // namespace hetsgd
#endif
