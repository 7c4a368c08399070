#include "collective/partial.hpp"

#include <array>
#include <bit>

#include "core/error.hpp"

namespace hetsgd {

PartialSum partial_all_reduce(Comm& comm, Device& device, std::span<float> data,
                              const PartialShare& share, Traffic kind) {
  HETSGD_CHECK_GE(data.size(), kPartialTail);
  HETSGD_CHECK_GE(share.items, 0);
  const auto tail = data.last(kPartialTail);
  std::array<float, kPartialTail> shares = {
      share.contributes ? 1.0F : 0.0F, static_cast<float>(share.items), share.last ? 1.0F : 0.0F};
  device.upload(tail.data(), shares.data(), sizeof shares);
  comm.all_reduce(data, ReduceOp::sum, kind);
  device.download(shares.data(), tail.data(), sizeof shares);
  return {.contributors = static_cast<int>(shares[0]),
          .items = static_cast<std::int64_t>(shares[1]),
          .last = shares[2] > 0};
}

int activation_messages(int p) { return std::bit_width(static_cast<unsigned>(p - 1)); }

void pass_on_activation(Comm& comm, int tag) {
  for (int distance = 1; distance < comm.size(); distance <<= 1) {
    comm.send((comm.rank() + distance) % comm.size(), tag, std::span<const std::byte>());
  }
}

void receive_activation(Comm& comm, int tag) { comm.receive<std::byte>(kAnySource, tag, {}); }

}  // namespace hetsgd
