// gzip, bzip2 and zstd by their own libraries. Boost.Iostreams would take a zstd stream that is cut
// off for a complete one, and names no place of a damage.
#include <bzlib.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "core/error.hpp"
#include "data/source.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;

[[noreturn]] void fail_stream(const std::string& path, const char* kind, std::size_t place,
                              const char* what) {
  throw with_hint(
      data_error("{}: the {} stream is damaged at byte {}: {}", path, kind, place, what),
      "fetch or compress the file again");
}

// zlib and bzip2 count available bytes in 32 bits.
unsigned feed(std::size_t left) {
  return static_cast<unsigned>(std::min<std::size_t>(left, std::numeric_limits<int>::max()));
}

// Makes room for one more block and returns its place; the caller cuts off what it did not fill. A
// few compressed bytes may stand for more than there is memory.
char* grow(std::string& text, const std::string& path) {
  if (text.size() + kBlock > text.capacity()) {
    require_memory(3.0 * static_cast<double>(text.capacity()), path, "the decompressed text");
  }
  text.resize(text.size() + kBlock);
  return text.data() + text.size() - kBlock;
}

std::string decompress_gzip(std::string_view bytes, const std::string& path) {
  z_stream stream{};
  HETSGD_CHECK_EQ(inflateInit2(&stream, 15 + 16), Z_OK);  // 32 KiB window, gzip header
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  std::string text;
  std::size_t used = 0;
  while (true) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + used));
    stream.avail_in = feed(bytes.size() - used);
    const unsigned offered = stream.avail_in;
    stream.next_out = reinterpret_cast<Bytef*>(grow(text, path));
    stream.avail_out = kBlock;
    const int status = inflate(&stream, Z_NO_FLUSH);
    used += offered - stream.avail_in;
    text.resize(text.size() - stream.avail_out);
    if (status == Z_STREAM_END) {
      // Another stream may follow, or zeros that fill a block.
      if (bytes.substr(used).find_first_not_of('\0') == std::string_view::npos) return text;
      HETSGD_CHECK_EQ(inflateReset(&stream), Z_OK);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail_stream(path, "gzip", used, stream.msg != nullptr ? stream.msg : "not gzip data");
    } else if (used == bytes.size() && stream.avail_out > 0) {
      fail_stream(path, "gzip", used, "it ends too early");
    }
  }
}

std::string decompress_bzip2(std::string_view bytes, const std::string& path) {
  std::string text;
  std::size_t used = 0;
  while (used < bytes.size()) {  // one round per stream
    bz_stream stream{};
    HETSGD_CHECK_EQ(BZ2_bzDecompressInit(&stream, 0, 0), BZ_OK);
    const std::unique_ptr<bz_stream, int (*)(bz_stream*)> guard(&stream, BZ2_bzDecompressEnd);
    int status = BZ_OK;
    while (status != BZ_STREAM_END) {
      stream.next_in = const_cast<char*>(bytes.data() + used);
      stream.avail_in = feed(bytes.size() - used);
      const unsigned offered = stream.avail_in;
      stream.next_out = grow(text, path);
      stream.avail_out = kBlock;
      status = BZ2_bzDecompress(&stream);
      used += offered - stream.avail_in;
      text.resize(text.size() - stream.avail_out);
      if (status != BZ_OK && status != BZ_STREAM_END) {
        fail_stream(path, "bzip2", used,
                    status == BZ_DATA_ERROR ? "wrong checksum or content" : "not bzip2 data");
      }
      if (status == BZ_OK && used == bytes.size() && stream.avail_out > 0) {
        fail_stream(path, "bzip2", used, "it ends too early");
      }
    }
  }
  return text;
}

// `cut`: set to true where the stream is cut off; null: that is an error.
std::string decompress_zstd(std::string_view bytes, const std::string& path, bool* cut = nullptr) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                        ZSTD_freeDCtx);
  HETSGD_CHECK(context != nullptr);
  // Windows of 2 GiB, as `zstd --long=31` writes them. A window is used as far as there is text,
  // which must fit anyway.
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, 31);
  std::string text;
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  while (true) {
    ZSTD_outBuffer out{grow(text, path), kBlock, 0};
    const std::size_t more = ZSTD_decompressStream(context.get(), &out, &in);
    text.resize(text.size() - (kBlock - out.pos));
    if (ZSTD_isError(more) != 0) fail_stream(path, "zstd", in.pos, ZSTD_getErrorName(more));
    if (in.pos < in.size) continue;
    if (more == 0) return text;
    if (out.pos == out.size) continue;
    if (cut == nullptr) fail_stream(path, "zstd", in.pos, "it ends too early");
    *cut = true;
    return text;
  }
}

}  // namespace

std::string decompress(std::string_view bytes, Compression compression, const std::string& path) {
  switch (compression) {
    case Compression::gzip:
      return decompress_gzip(bytes, path);
    case Compression::bzip2:
      return decompress_bzip2(bytes, path);
    case Compression::zstd:
      return decompress_zstd(bytes, path);
    case Compression::none:
      break;
  }
  return std::string(bytes);
}

std::string decompress_start(std::string_view bytes, const std::string& path, bool& cut) {
  const Compression compression = detect_compression(bytes);
  if (compression == Compression::zstd) return decompress_zstd(bytes, path, &cut);
  return decompress(bytes, compression, path);
}

ZstdWriter::ZstdWriter(std::function<void(std::string_view)> sink)
    : sink_(std::move(sink)),
      context_(ZSTD_createCCtx(), ZSTD_freeCCtx),
      out_(ZSTD_CStreamOutSize(), '\0') {
  constexpr int kLevel = 9;
  HETSGD_CHECK(context_ != nullptr);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
}

void ZstdWriter::add(std::string_view text) { compress(text, false); }

void ZstdWriter::finish() { compress({}, true); }

void ZstdWriter::compress(std::string_view text, bool last) {
  ZSTD_inBuffer in{text.data(), text.size(), 0};
  for (;;) {
    ZSTD_outBuffer out{out_.data(), out_.size(), 0};
    const std::size_t more =
        ZSTD_compressStream2(context_.get(), &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
    HETSGD_CHECK(ZSTD_isError(more) == 0);
    if (out.pos > 0) sink_({out_.data(), out.pos});
    if (last ? more == 0 : in.pos == in.size) return;
  }
}

}  // namespace hetsgd
