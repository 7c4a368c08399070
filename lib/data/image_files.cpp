#include "data/image_files.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "data/images.hpp"
#include "data/labels.hpp"
#include "data/source.hpp"

namespace hetsgd {

namespace {

constexpr std::string_view kIdxImages("\0\0\x08\x03", 4), kIdxLabels("\0\0\x08\x01", 4);
constexpr std::size_t kIdxWord = 4;

constexpr ImageShape kCifarShape{3, 32, 32};
struct CifarForm {
  std::size_t label_bytes;  // the last of them is the label
  std::array<Index, 2> labels;
  std::size_t record() const { return label_bytes + kCifarShape.size(); }
};
constexpr CifarForm kCifar10{1, {10}}, kCifar100{2, {20, 100}};

const CifarForm& form_of(DataFormat format) {
  return format == DataFormat::cifar10 ? kCifar10 : kCifar100;
}

std::uint8_t byte_at(std::string_view bytes, std::size_t place) {
  return static_cast<std::uint8_t>(bytes[place]);
}

// Whether the bytes are whole records. A text has no zero byte, and records have some.
bool fills(std::string_view bytes, const CifarForm& form) {
  return !bytes.empty() && bytes.size() % form.record() == 0 &&
         bytes.find('\0') != std::string_view::npos;
}

bool is_cifar(std::string_view bytes, const CifarForm& form) {
  if (!fills(bytes, form)) return false;
  for (std::size_t at = 0; at < bytes.size(); at += form.record()) {
    for (std::size_t k = 0; k < form.label_bytes; ++k) {
      if (byte_at(bytes, at + k) >= form.labels[k]) return false;
    }
  }
  return true;
}

// "12 records of 3073 bytes less 5 bytes"
std::string in_records(std::size_t size, const CifarForm& form) {
  const std::size_t rest = size % form.record(), missing = form.record() - rest;
  const bool cut = missing < rest;
  return fmt::format("{} records of {} bytes {} {} bytes", size / form.record() + (cut ? 1 : 0),
                     form.record(), cut ? "less" : "and", cut ? missing : rest);
}

// The number behind the magic bytes at `word`.
std::uint64_t idx_number(std::string_view bytes, std::size_t word) {
  std::uint64_t number = 0;
  for (std::size_t k = 0; k < kIdxWord; ++k) {
    number = number << 8 | byte_at(bytes, kIdxWord * (1 + word) + k);
  }
  return number;
}

// Checks that the header's numbers are there and that the file has the size they state. Returns the
// bytes after the header.
std::string_view idx_content(std::string_view bytes, std::string_view magic, std::size_t words,
                             const std::string& path, const char* what) {
  const std::size_t header = kIdxWord * (1 + words);
  if (bytes.size() < header || !bytes.starts_with(magic)) {
    throw data_error(
        "{}: not an IDX file of {}: expected it to begin with the bytes 0 0 8 {} and {} "
        "numbers of 32 bits",
        path, what, static_cast<int>(magic[3]), words);
  }
  // Each number is below 2^32. A size that does not fit into 64 bits fits no file.
  __extension__ using Wide = unsigned __int128;
  Wide size = 1;
  for (std::size_t word = 0; word < words; ++word) size *= idx_number(bytes, word);
  if (size != bytes.size() - header) {
    throw data_error("{}: cut off or grown: found {} bytes of {}, expected {} by the header", path,
                     bytes.size() - header, what,
                     size > std::numeric_limits<std::uint64_t>::max()
                         ? "more than 2^64"
                         : fmt::format("{}", static_cast<std::uint64_t>(size)));
  }
  return bytes.substr(header);
}

void add_label(DatasetBuilder& data, Index label) {
  data.targets.index.push_back(label);
  data.targets.begin.push_back(data.targets.index.size());
}

}  // namespace

std::optional<DataFormat> image_format(std::string_view bytes, DataFormat stated) {
  if (stated != DataFormat::detect) {
    const bool images = stated == DataFormat::idx || stated == DataFormat::cifar10 ||
                        stated == DataFormat::cifar100;
    return images ? std::optional(stated) : std::nullopt;
  }
  if (bytes.starts_with(kIdxImages)) return DataFormat::idx;
  if (is_cifar(bytes, kCifar10)) return DataFormat::cifar10;
  if (is_cifar(bytes, kCifar100)) return DataFormat::cifar100;
  return std::nullopt;
}

void refuse_other_idx(std::string_view bytes, const std::string& path) {
  constexpr std::array<std::string_view, 7> kTypes = {
      "bytes",           "signed bytes",  "numbers",      "16-bit integers",
      "32-bit integers", "32-bit floats", "64-bit floats"};
  constexpr std::uint8_t kFirstType = 8;
  if (bytes.size() < kIdxWord || !bytes.starts_with(kIdxImages.substr(0, 2))) return;
  const std::size_t type = byte_at(bytes, 2) - std::size_t{kFirstType};
  if (type >= kTypes.size()) return;
  refuse(path, fmt::format("IDX data: {} in {} dimensions", kTypes[type], byte_at(bytes, 3)),
         "IDX images: bytes in 3 dimensions", "the images' file is named, labels lie beside it",
         ExitCode::data);
}

std::string hint_of_cifar(std::string_view bytes) {
  for (const DataFormat format : {DataFormat::cifar10, DataFormat::cifar100}) {
    const CifarForm& form = form_of(format);
    if (fills(bytes, form)) {
      return fmt::format(
          "the file has the size of {0} records; if it holds some, --format {0} "
          "names the label that is out of range",
          to_string(format));
    }
    if (is_cifar(bytes.substr(0, bytes.size() - bytes.size() % form.record()), form)) {
      return fmt::format("as {} it has {}", to_string(format), in_records(bytes.size(), form));
    }
  }
  return "";
}

std::optional<std::string> label_file_of(const std::string& path) {
  const auto replaced = [](std::string text, std::string_view from, std::string_view to) {
    if (const std::size_t at = text.rfind(from); at != std::string::npos) {
      text.replace(at, from.size(), to);
    }
    return text;
  };
  const std::string name = file_name(path);
  if (name.find("images") == std::string::npos) return std::nullopt;
  const std::string labels = path.substr(0, path.size() - name.size()) +
                             replaced(replaced(name, "images", "labels"), "idx3", "idx1");
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(labels, ignored)) return std::nullopt;
  return labels;
}

ParsedData parse_idx(std::string_view images, std::string_view labels, const std::string& path) {
  const std::string_view pixels = idx_content(images, kIdxImages, 3, path, "images");
  const std::string label_path = "the labels of " + path;
  const std::string_view classes = idx_content(labels, kIdxLabels, 1, label_path, "labels");
  const std::uint64_t rows = idx_number(images, 0);
  const std::uint64_t height = idx_number(images, 1), width = idx_number(images, 2);
  if (rows == 0 || rows > std::numeric_limits<Index>::max() || std::min(height, width) == 0 ||
      std::max(height, width) > kLargestSide) {
    throw data_error("{}: found {} images of {}x{}, expected at least one, with sides from 1 to {}",
                     path, rows, height, width, kLargestSide);
  }
  if (classes.size() != rows) {
    throw data_error("{}: found {} labels, expected {}", label_path, classes.size(), rows);
  }
  DatasetBuilder data;
  data.images.channels = 1;
  data.images.height = static_cast<Index>(height);
  data.images.width = static_cast<Index>(width);
  data.images.pixel.resize(pixels.size());
  std::memcpy(data.images.pixel.data(), pixels.data(), pixels.size());
  Index most = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const Index label = byte_at(classes, row);
    most = std::max(most, label);
    add_label(data, label);
  }
  set_image_statistics(data);
  return with_numbered_labels(std::move(data), most + 1, DataFormat::idx);
}

ParsedData parse_cifar(std::string_view bytes, DataFormat format, const std::string& path) {
  const CifarForm& form = form_of(format);
  if (bytes.empty() || bytes.size() % form.record() != 0) {
    refuse_other_kinds(bytes, path, fmt::format("{} records", to_string(format)), TextUse::any);
    throw data_error("{}: found {}, expected whole records of {}", path,
                     in_records(bytes.size(), form), to_string(format));
  }
  const std::size_t rows = bytes.size() / form.record();
  DatasetBuilder data;
  data.images.channels = kCifarShape.channels;
  data.images.height = kCifarShape.height;
  data.images.width = kCifarShape.width;
  data.images.pixel.resize(rows * kCifarShape.size());
  const Index labels = form.labels[form.label_bytes - 1];
  for (std::size_t row = 0; row < rows; ++row) {
    const std::string_view record = bytes.substr(row * form.record(), form.record());
    const Index label = byte_at(record, form.label_bytes - 1);
    if (label >= labels) {
      throw data_error("{}: image {}: found label {}, expected 0 to {}", path, row + 1, label,
                       labels - 1);
    }
    add_label(data, label);
    std::memcpy(data.images.pixel.data() + row * kCifarShape.size(),
                record.data() + form.label_bytes, kCifarShape.size());
  }
  set_image_statistics(data);
  return with_numbered_labels(std::move(data), labels, format);
}

}  // namespace hetsgd
