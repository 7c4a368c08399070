#include "data/text_parser.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "data/clicks.hpp"
#include "data/criteo.hpp"
#include "data/huge_pages.hpp"
#include "data/labels.hpp"
#include "data/line_parser.hpp"
#include "data/parallel.hpp"
#include "data/source.hpp"
#include "data/text/read_text.hpp"

namespace hetsgd {

namespace {

constexpr std::uint64_t kMaximumFeatures = std::numeric_limits<Index>::max();
constexpr std::uint64_t kMaximumLabels = std::uint64_t{1} << 31;

// Upper bounds of the numbers of entries in a piece of text.
struct Marks {
  std::uint64_t newlines = 0, colons = 0, commas = 0;
};

// Whole lines, parsed by one task into its own places of the final arrays.
struct Chunk {
  explicit Chunk(std::string_view text) : begin(text.data()), end(text.data() + text.size()) {}

  const char* begin;
  const char* end;
  Marks marks;
  std::uint64_t line = 0;                            // number of the first line, from 1
  std::uint64_t row = 0, feature = 0, label = 0;     // first places
  std::uint64_t rows = 0, features = 0, labels = 0;  // found
  std::uint64_t feature_limit = 0;
  bool has_feature_zero = false;
};

struct Header {
  std::uint64_t rows = 0, features = 0, labels = 0;
  std::uint64_t line = 0;
  std::array<std::uint64_t, 3> column{};
};

struct Body {
  std::string_view text;   // the lines with rows
  std::uint64_t line = 1;  // number of its first line
  std::optional<Header> header;
};

// Every byte of a vector register counts for itself, at most 255 times before the counts are added
// up. This is five times as fast as three calls of std::count.
Marks count_marks(const char* p, const char* end) {
  constexpr std::ptrdiff_t kLanes = 64;
  using Lanes = std::array<std::uint8_t, kLanes>;
  const auto count = [](std::uint8_t& lane, bool hit) {
    lane = static_cast<std::uint8_t>(lane + hit);
  };
  Marks marks;
  while (end - p >= kLanes) {
    Lanes newlines{}, colons{}, commas{};
    const char* const stop = p + std::min<std::ptrdiff_t>(255, (end - p) / kLanes) * kLanes;
    for (; p < stop; p += kLanes) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        count(newlines[i], p[i] == '\n');
        count(colons[i], p[i] == ':');
        count(commas[i], p[i] == ',');
      }
    }
    marks.newlines += std::accumulate(newlines.begin(), newlines.end(), std::uint64_t{0});
    marks.colons += std::accumulate(colons.begin(), colons.end(), std::uint64_t{0});
    marks.commas += std::accumulate(commas.begin(), commas.end(), std::uint64_t{0});
  }
  for (; p < end; ++p) {
    marks.newlines += *p == '\n';
    marks.colons += *p == ':';
    marks.commas += *p == ',';
  }
  return marks;
}

// A header is three unsigned integers alone on a line (a comment may follow).
std::optional<Header> parse_header(std::string_view line, std::uint64_t number) {
  const std::string padded =
      std::string(line.substr(0, line.find('#'))) + std::string(kNumberPadding, '\n');
  Header header;
  header.line = number;
  std::array<std::uint64_t*, 3> fields = {&header.rows, &header.features, &header.labels};
  const char* p = padded.data();
  for (std::size_t k = 0; k < fields.size(); ++k) {
    while (is_blank(*p)) ++p;
    header.column[k] = static_cast<std::uint64_t>(p - padded.data()) + 1;
    const char* const token = p;
    p = parse_unsigned(p, *fields[k]);
    if (p == token || !(is_blank(*p) || *p == '\n')) return std::nullopt;
  }
  while (is_blank(*p)) ++p;
  if (*p != '\n') return std::nullopt;
  return header;
}

void check_header(const Header& header, const std::string& path) {
  const auto check = [&](std::size_t k, std::uint64_t count, std::uint64_t limit,
                         const char* what) {
    const std::string place = fmt::format("{}:{}:{}", path, header.line, header.column[k]);
    const std::string found = fmt::format("{} {} in the header", count, what);
    if (count == 0) refuse(place, found, "at least 1", "", ExitCode::data);
    if (count > limit) refuse(place, found, fmt::format("at most {}", limit), "", ExitCode::data);
  };
  check(0, header.rows, std::numeric_limits<Index>::max(), "rows");
  check(1, header.features, kMaximumFeatures, "features");
  check(2, header.labels, kMaximumLabels, "labels");
}

// Skips empty lines and comments before the first content and takes the header, if there is one.
Body find_body(std::string_view text, const std::string& path, const LoadOptions& options) {
  Body body;
  std::string_view line;
  while (true) {
    if (text.empty()) {
      refuse(path, "an empty file, or comments only", "lines such as '1 3:0.5 7:1'", "",
             ExitCode::data);
    }
    line = first_line(text);
    const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    if (is_row((std::string(line) + '\n').c_str(), false) &&
        !(blank && options.format == DataFormat::xc)) {
      break;
    }
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++body.line;
  }
  body.text = text;
  if (options.format == DataFormat::libsvm) return body;
  body.header = parse_header(line, body.line);
  if (body.header) {
    check_header(*body.header, path);
    body.text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++body.line;
  } else if (options.format == DataFormat::xc) {
    refuse(fmt::format("{}:{}:1", path, body.line), quoted(line),
           "the header 'points features labels'", "libSVM text has no header: --format libsvm",
           ExitCode::data);
  }
  return body;
}

void parse_chunk(Chunk& chunk, const LineRules& rules, const std::string& path,
                 DatasetBuilder& data) {
  const RowSink sink{
      data.sparse.index.data() + chunk.feature, data.sparse.value.data() + chunk.feature,
      data.targets.index.data() + chunk.label, data.sparse.begin.data() + 1 + chunk.row,
      data.targets.begin.data() + 1 + chunk.row};
  LineParser parser(rules, sink);
  parse_lines({chunk.begin, chunk.end}, chunk.line, path, parser);
  chunk.rows = parser.rows();
  chunk.features = parser.features();
  chunk.labels = parser.labels();
  chunk.feature_limit = parser.feature_limit();
  chunk.has_feature_zero = parser.has_feature_zero();
}

// Touching new memory is half the work of filling it, so all threads do it.
void make_room(const Marks& total, std::optional<int> threads, const std::string& path,
               DatasetBuilder& data) {
  const std::uint64_t labels = total.newlines + total.commas;
  require_memory(16.0 * static_cast<double>(total.newlines) +
                     8.0 * static_cast<double>(total.colons) + 4.0 * static_cast<double>(labels),
                 path, "the data set");
  parallel_tasks(threads, 4, [&](std::size_t task) {
    switch (task) {
      case 0:
        return resize_on_huge_pages(data.sparse.index, total.colons);
      case 1:
        return resize_on_huge_pages(data.sparse.value, total.colons);
      case 2:
        return resize_on_huge_pages(data.targets.index, labels);
      default:
        resize_on_huge_pages(data.sparse.begin, total.newlines + 1);
        resize_on_huge_pages(data.targets.begin, total.newlines + 1);
    }
  });
}

// Counts the entries of every chunk, gives it its places and parses it there.
void parse_chunks(std::vector<Chunk>& chunks, const LineRules& rules,
                  std::uint64_t first_line_number, std::optional<int> threads,
                  const std::string& path, DatasetBuilder& data) {
  parallel_tasks(threads, chunks.size(), [&](std::size_t c) {
    chunks[c].marks = count_marks(chunks[c].begin, chunks[c].end);
  });
  Marks total;
  for (Chunk& chunk : chunks) {
    chunk.line = first_line_number + total.newlines;
    chunk.row = total.newlines;
    chunk.feature = total.colons;
    chunk.label = total.newlines + total.commas;
    total.newlines += chunk.marks.newlines;
    total.colons += chunk.marks.colons;
    total.commas += chunk.marks.commas;
  }
  make_room(total, threads, path, data);
  parallel_tasks(threads, chunks.size(),
                 [&](std::size_t c) { parse_chunk(chunks[c], rules, path, data); });
}

template <class T>
void move_down(std::vector<T>& array, std::uint64_t from, std::uint64_t to, std::uint64_t count) {
  if (from != to) std::memmove(array.data() + to, array.data() + from, count * sizeof(T));
}

// Closes the gaps that comments, empty lines and rows without labels left between the chunks, and
// makes the chunks' row ends count from the start of the data.
void close_gaps(const std::vector<Chunk>& chunks, DatasetBuilder& data) {
  std::uint64_t rows = 0, features = 0, labels = 0;
  for (const Chunk& chunk : chunks) {
    move_down(data.sparse.index, chunk.feature, features, chunk.features);
    move_down(data.sparse.value, chunk.feature, features, chunk.features);
    move_down(data.targets.index, chunk.label, labels, chunk.labels);
    for (std::uint64_t row = 0; row < chunk.rows; ++row) {
      data.sparse.begin[rows + row + 1] = data.sparse.begin[chunk.row + row + 1] + features;
      data.targets.begin[rows + row + 1] = data.targets.begin[chunk.row + row + 1] + labels;
    }
    rows += chunk.rows;
    features += chunk.features;
    labels += chunk.labels;
  }
  data.sparse.begin.resize(rows + 1);
  data.targets.begin.resize(rows + 1);
  data.sparse.index.resize(features);
  data.sparse.value.resize(features);
  data.targets.index.resize(labels);
}

// Compares the rows with the header's number; surplus empty rows at the end were blank lines.
void check_row_count(DatasetBuilder& data, const Body& body, const std::string& path) {
  if (!body.header) return;
  const Header& header = *body.header;
  std::uint64_t rows = data.rows();
  while (rows > header.rows && data.features(rows - 1).empty() && data.labels(rows - 1).empty())
    --rows;
  data.sparse.begin.resize(rows + 1);
  data.targets.begin.resize(rows + 1);
  if (rows == header.rows) return;
  refuse(fmt::format("{}:{}:{}", path, header.line, header.column[0]), fmt::format("{} rows", rows),
         fmt::format("{} by the header", header.rows),
         rows < header.rows ? "the file may be cut off" : "correct the header's first number",
         ExitCode::data);
}

// Shifts indices to base 0, sets the number of features, and returns the base that is used.
IndexBase apply_index_base(const std::vector<Chunk>& chunks, IndexBase wanted,
                           DatasetBuilder& data) {
  const bool any_zero = std::any_of(chunks.begin(), chunks.end(),
                                    [](const Chunk& chunk) { return chunk.has_feature_zero; });
  if (wanted == IndexBase::detect) wanted = any_zero ? IndexBase::zero : IndexBase::one;
  std::uint64_t limit = 0;
  for (const Chunk& chunk : chunks) limit = std::max(limit, chunk.feature_limit);
  if (wanted == IndexBase::one) {
    for (Index& index : data.sparse.index) --index;
    if (limit > 0) --limit;
  }
  data.feature_count = static_cast<Index>(limit);
  return wanted;
}

// The line of a row, found by reading the lines again: for messages only.
std::string place_of_row(const Body& body, const std::string& path, std::uint64_t row) {
  std::string_view text = body.text;
  std::uint64_t number = body.line;
  for (;; ++number) {
    const std::string line(first_line(text));
    if (is_row((line + "\n").c_str(), body.header.has_value()) && row-- == 0) break;
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return fmt::format("{}:{}:1", path, number);
}

}  // namespace

ParsedData parse_text_alone(std::string_view content, const std::string& path,
                            const LoadOptions& options) {
  if (options.format == DataFormat::text) return read_text(content, path, options);
  refuse_other_kinds(content, path, "XC, libSVM or Criteo text, or IDX or CIFAR images",
                     TextUse::rows);
  const std::string_view bytes = behind_mark(content);
  if (options.format == DataFormat::criteo ||
      (options.format == DataFormat::detect && is_criteo_text(bytes))) {
    ParsedData parsed = with_vocabulary(parse_criteo(bytes, path, options.threads), path, options);
    parsed.report.format = DataFormat::criteo;
    return parsed;
  }
  const Body body = find_body(bytes, path, options);
  LineRules rules;
  rules.xc = body.header.has_value();
  rules.first_feature = !rules.xc && options.index_base == IndexBase::one ? 1 : 0;
  rules.features = rules.xc ? body.header->features : kMaximumFeatures;
  rules.labels = rules.xc ? body.header->labels : kMaximumLabels;

  DatasetBuilder data;
  LoadReport report;
  std::string tail;
  const std::vector<std::string_view> pieces = split_lines(body.text, tail);
  std::vector<Chunk> chunks(pieces.begin(), pieces.end());
  parse_chunks(chunks, rules, body.line, options.threads, path, data);
  close_gaps(chunks, data);
  check_row_count(data, body, path);
  if (data.rows() > std::numeric_limits<Index>::max()) {
    throw data_error("{}: found {} rows, expected less than 2^32", path, data.rows());
  }
  report.format = rules.xc ? DataFormat::xc : DataFormat::libsvm;
  report.index_base =
      apply_index_base(chunks, rules.xc ? IndexBase::zero : options.index_base, data);
  encode_labels(data, report.label_names, rules.xc ? Task::multilabel : options.task,
                [&](std::uint64_t row) { return place_of_row(body, path, row); });
  if (rules.xc) {
    data.feature_count = static_cast<Index>(body.header->features);
    data.label_count = static_cast<Index>(body.header->labels);
  }
  for (std::uint64_t row = 0; row < data.rows(); ++row) {
    report.rows_without_features += data.features(row).empty();
    report.rows_without_labels += data.task != Task::binary && data.labels(row).empty();
  }
  return {std::move(data).build(), std::move(report)};
}

LoadedData parse_text(std::string_view bytes, const std::string& path, const LoadOptions& options) {
  ParsedData parsed = parse_text_alone(bytes, path, options);
  parsed.report.path = path;
  parsed.report.file_bytes = bytes.size();
  parsed.data.name = file_name(path);
  parsed.data.content_hash = content_hash(bytes);
  fit_to_training(parsed.data, parsed.report, options);
  return {std::make_shared<const Dataset>(std::move(parsed.data)), std::move(parsed.report)};
}

}  // namespace hetsgd
