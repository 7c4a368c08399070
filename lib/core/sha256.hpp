// SHA-256 (FIPS 180-4) of bytes that come in pieces, by libcrypto.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace hetsgd {

// Call add() for each piece, then value() once.
class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  // The hash of all so far, as 64 hexadecimal digits; the object is used up.
  std::string value();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

}  // namespace hetsgd
