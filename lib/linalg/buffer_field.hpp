// Device memory as a field of a state that is saved and loaded (core/archive.hpp).
#pragma once

#include "core/archive.hpp"
#include "linalg/device.hpp"

namespace hetsgd {

// Saves `memory` of `device` to host memory, or loads it. Its size must be that of the field.
template <class Real>
void visit_memory(Archive& archive, std::string_view name, BasicDevice<Real>& device,
                  std::span<Real> memory) {
  archive.bytes(
      name, memory.size_bytes(),
      [&](std::span<std::byte> to) {
        if (!to.empty()) device.download(to.data(), memory.data(), to.size());
      },
      [&](std::span<const std::byte> from) {
        if (!from.empty()) device.upload(memory.data(), from.data(), from.size());
      });
}

// A buffer is loaded into memory of the size that it had when it was saved. One that never had
// memory is a field without bytes.
template <class Real>
struct FieldForm<BasicBuffer<Real>> {
  static void visit(Archive& archive, std::string_view name, BasicBuffer<Real>& buffer) {
    if (buffer.size() > 0) return visit_memory(archive, name, *buffer.device(), buffer.span());
    archive.bytes(
        name, 0, [](std::span<std::byte>) {}, [](std::span<const std::byte>) {});
  }
};

}  // namespace hetsgd
