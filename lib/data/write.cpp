#include "data/write.hpp"

#include <charconv>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/output_file.hpp"
#include "data/binary.hpp"

namespace hetsgd {

namespace {

// One text line at a time, in a buffer that is used again.
class Line {
 public:
  template <class T>
  void number(T value) {
    const auto [end, error] = std::to_chars(digits_, digits_ + sizeof digits_, value);
    HETSGD_CHECK(error == std::errc{});
    text_.append(digits_, end);
  }
  void text(std::string_view part) { text_ += part; }
  void features(const Dataset& data, std::uint64_t row, unsigned base) {
    const auto indices = data.features(row);
    const auto values = data.values(row);
    for (std::size_t k = 0; k < indices.size(); ++k) {
      text_ += ' ';
      number(std::uint64_t{indices[k]} + base);
      text_ += ':';
      number(values[k]);
    }
    // A row with neither labels nor features is a single blank: an empty line would not be a row.
    if (text_.empty()) text_ += ' ';
    text_ += '\n';
  }
  void write_to(OutputFile& file) {
    file.write(text_);
    text_.clear();
  }

 private:
  std::string text_;
  char digits_[64];
};

// The label texts by column; binary: negative, positive. Made up where the report has none.
std::vector<std::string> label_texts(const Dataset& data, const LoadReport& report) {
  if (data.task == Task::multilabel) return {};
  const std::size_t count = data.task == Task::binary ? 2 : data.label_count;
  if (report.label_names.size() == count) return report.label_names;
  std::vector<std::string> names;
  for (std::size_t k = 0; k < count; ++k) names.push_back(std::to_string(k));
  return names;
}

}  // namespace

void write_xc(const std::string& path, const Dataset& data) {
  OutputFile file(path);
  const bool binary = data.task == Task::binary;
  file.write(
      fmt::format("{} {} {}\n", data.rows(), data.feature_count, binary ? 2 : data.label_count));
  Line line;
  for (std::uint64_t row = 0; row < data.rows(); ++row) {
    const auto labels = data.labels(row);
    if (binary) line.number(labels.empty() ? 0 : 1);
    for (std::size_t k = 0; k < labels.size() && !binary; ++k) {
      if (k > 0) line.text(",");
      line.number(labels[k]);
    }
    line.features(data, row, 0);
    line.write_to(file);
  }
  file.commit();
}

void write_libsvm(const std::string& path, const Dataset& data, const LoadReport& report,
                  IndexBase base) {
  OutputFile file(path);
  const unsigned first = base == IndexBase::zero ? 0 : 1;
  const std::vector<std::string> names = label_texts(data, report);
  Line line;
  for (std::uint64_t row = 0; row < data.rows(); ++row) {
    const auto labels = data.labels(row);
    if (data.task == Task::binary) {
      line.text(names[labels.empty() ? 0 : 1]);
    } else {
      for (std::size_t k = 0; k < labels.size(); ++k) {
        if (k > 0) line.text(",");
        if (names.empty()) {
          line.number(labels[k]);
        } else {
          line.text(names[labels[k]]);
        }
      }
    }
    line.features(data, row, first);
    line.write_to(file);
  }
  file.commit();
}

void save_dataset(const std::string& path, const Dataset& data, const LoadReport& report) {
  OutputFile file(path);
  LoadReport complete = report;
  complete.label_names = label_texts(data, report);
  encode_binary(data, complete, 0, [&](std::string_view piece) { file.write(piece); });
  file.commit();
}

}  // namespace hetsgd
