#include "core/sha256.hpp"

#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <array>

#include "core/error.hpp"

namespace hetsgd {

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  HETSGD_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::add(std::string_view bytes) {
  HETSGD_CHECK_EQ(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()), 1);
}

std::string Sha256::value() {
  std::array<unsigned char, 32> digest{};
  HETSGD_CHECK_EQ(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr), 1);
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

}  // namespace hetsgd
