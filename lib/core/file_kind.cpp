#include "core/file_kind.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kGzip = "\x1F\x8B", kBzip2 = "BZh";

struct Mark {
  std::size_t at;
  std::string_view bytes, what;
};

constexpr Mark kMarks[] = {
    {0, kGzip, "a gzip stream"},
    {0, kBzip2, "a bzip2 stream"},
    {0, "\xFD\x37zXZ", "an xz stream (xz -d)"},
    {0, "\x04\x22\x4D\x18", "an lz4 stream (lz4 -d)"},
    {0, "PK\x03\x04", "a zip archive (.zip, .npz, .pt; unzip)"},
    {257, "ustar", "a tar archive (tar xf)"},
    {0, "PAR1", "a Parquet file"},
    {0, "\x89HDF\r\n", "an HDF5 file"},
    {0, "\x93NUMPY", "a NumPy array (.npy)"},
    {0, "\x80", "a pickle of Python (CIFAR has a binary version, too)"},
    {0, "\x7F\x45LF", "a program (ELF)"},
    {0, "HSGDCKPT", "a checkpoint of hetsgd (--resume-from)"},
    {0, "\xFF\xFE", "text in UTF-16 (iconv -f UTF-16 -t UTF-8)"},
    {0, "\xFE\xFF", "text in UTF-16 (iconv -f UTF-16 -t UTF-8)"},
};

// Whether the beginning has zeros, and more control bytes than any text.
bool is_binary(std::string_view text) {
  const std::string_view head = text.substr(0, 4096);
  const auto controls = std::ranges::count_if(
      head, [](unsigned char c) { return c < ' ' && (c < '\t' || c > '\r'); });
  return 32 * controls > std::ssize(head) && head.find('\0') != std::string_view::npos;
}

std::string_view kind_of(std::string_view text, TextUse use) {
  for (const Mark& mark : kMarks) {
    if (text.size() >= mark.at && text.substr(mark.at).starts_with(mark.bytes)) return mark.what;
  }
  if (detect_compression(text) == Compression::zstd) return "a zstd stream";
  if (use == TextUse::any) return "";
  if (is_binary(text)) return "bytes that are no text in UTF-8";
  const bool one_line = text.find('\n') == std::string_view::npos;
  if (one_line && text.substr(0, text.size() - 1).find('\r') != std::string_view::npos) {
    return "lines that end in a carriage return alone (tr '\\r' '\\n')";
  }
  const std::size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  if (text.substr(first, 1) == "<") return "HTML or XML";
  return text.substr(first, 1) == "{" ? "JSON" : "";
}

}  // namespace

Compression detect_compression(std::string_view bytes) {
  if (bytes.starts_with(kGzip)) return Compression::gzip;
  if (bytes.starts_with(kBzip2)) return Compression::bzip2;
  if (bytes.starts_with("\x28\xB5\x2F\xFD")) return Compression::zstd;
  const bool skippable = (bytes.substr(0, 1) >= "\x50"sv) && bytes.substr(0, 1) <= "\x5F"sv;
  return skippable && bytes.substr(1).starts_with("\x2A\x4D\x18") ? Compression::zstd
                                                                  : Compression::none;
}

std::string_view behind_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

void refuse_other_kinds(std::string_view text, const std::string& path, std::string_view expected,
                        TextUse use) {
  const std::string_view kind = kind_of(text, use);
  if (kind.empty()) return;
  refuse(path, kind, expected, "unpack it, or convert it to text", ExitCode::data);
}

}  // namespace hetsgd
