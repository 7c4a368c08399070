#include "data/write.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/output_file.hpp"
#include "data/binary.hpp"
#include "data/clicks.hpp"
#include "data/criteo.hpp"
#include "data/labels.hpp"
#include "data/parallel.hpp"

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

// The label texts by column (binary: negative, positive). Numbers, if the report has none.
std::vector<std::string> label_texts(const Dataset& data, const LoadReport& report) {
  if (data.task == Task::multilabel) return {};
  const std::size_t count = data.task == Task::binary ? 2 : data.label_count;
  return report.label_names.size() == count ? report.label_names : numbered_labels(count);
}

void require_sparse(const Dataset& data, const std::string& path, const char* format) {
  const bool sequences = data.sequences.numbers > 0, images = data.images.size() > 0;
  const bool tokens = data.tokens.vocabulary > 0;
  if (!sequences && !images && !tokens && data.fields.count() == 0) return;
  throw with_hint(
      usage_error("{}: {} cannot be written as {} text, which holds sparse features only", path,
                  sequences ? "sequences"
                  : images  ? "images"
                  : tokens  ? "rows of tokens"
                            : "click data",
                  format),
      sequences ? "" : "write the binary form, an .hsgd file");
}

// Writes all rows, with features counted from `base`. Labels are those of `names` (binary:
// negative, positive), or numbers if it is empty.
void write_rows(OutputFile& file, const Dataset& data, const std::vector<std::string>& names,
                unsigned base) {
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
    line.features(data, row, base);
    line.write_to(file);
  }
  file.commit();
}

}  // namespace

void write_xc(const std::string& path, const Dataset& data) {
  require_sparse(data, path, "XC");
  OutputFile file(path);
  const bool binary = data.task == Task::binary;
  file.write(
      fmt::format("{} {} {}\n", data.rows(), data.feature_count, binary ? 2 : data.label_count));
  write_rows(file, data, binary ? numbered_labels(2) : std::vector<std::string>(), 0);
}

void write_libsvm(const std::string& path, const Dataset& data, const LoadReport& report,
                  IndexBase base) {
  require_sparse(data, path, "libSVM");
  OutputFile file(path);
  write_rows(file, data, label_texts(data, report), base == IndexBase::zero ? 0 : 1);
}

void write_criteo(const std::string& path, const ClickGenerator& clicks, DataPart part,
                  std::optional<int> threads) {
  constexpr std::uint64_t kWaveRows = std::uint64_t{1} << 18, kPieceRows = std::uint64_t{1} << 13;
  if (clicks.laws().fields.size() != kCriteoFields ||
      clicks.laws().numbers.size() != kCriteoDense) {
    refuse(path,
           fmt::format("{} dense columns and {} fields of {}", clicks.laws().numbers.size(),
                       clicks.laws().fields.size(), clicks.options().preset),
           fmt::format("{} and {}, as Criteo's text has", kCriteoDense, kCriteoFields),
           "use it without a file, as generate:" + clicks.options().preset);
  }
  OutputFile file(path);
  const std::uint64_t rows = clicks.options().rows_of(part);
  const std::uint64_t first = part == DataPart::train ? 0 : clicks.options().rows_train;
  std::vector<std::string> texts(kWaveRows / kPieceRows);
  for (std::uint64_t wave = 0; wave < rows; wave += kWaveRows) {
    parallel_tasks(threads, texts.size(), [&](std::size_t piece) {
      ClickGenerator::Memory memory(clicks);
      const std::uint64_t begin = wave + piece * kPieceRows;
      for (std::uint64_t i = begin; i < std::min(rows, begin + kPieceRows); ++i) {
        append_criteo_line(clicks.row(first + i, memory).click, texts[piece]);
      }
    });
    for (std::string& text : texts) {
      file.write(text);
      text.clear();
    }
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
