// kind=trace: delays from a file.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/straggler_kinds.hpp"
#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

constexpr int kAllRanks = -1;
constexpr std::uint64_t kMostTraceBytes = std::uint64_t{1} << 30;

struct Row {
  int rank = 0;
  std::uint64_t iteration = 0;
  double delay_s = 0;
  std::size_t line = 0;

  bool before(int other_rank, std::uint64_t other_iteration) const {
    return rank != other_rank ? rank < other_rank : iteration < other_iteration;
  }
};

class Trace final : public DelaySource {
 public:
  Trace(std::vector<Row> rows, std::uint64_t length) : rows_(std::move(rows)), length_(length) {}

  double delay_s(int rank, std::uint64_t iteration) const override {
    const std::uint64_t at = iteration % length_;
    if (const Row* row = find(rank, at)) return row->delay_s;
    const Row* row = find(kAllRanks, at);
    return row ? row->delay_s : 0;
  }

 private:
  const Row* find(int rank, std::uint64_t iteration) const {
    const auto row = std::partition_point(rows_.begin(), rows_.end(),
                                          [&](const Row& r) { return r.before(rank, iteration); });
    return row != rows_.end() && row->rank == rank && row->iteration == iteration ? &*row : nullptr;
  }

  std::vector<Row> rows_;  // by rank and iteration
  std::uint64_t length_;
};

// Reads all of `text` as a number.
template <class T>
std::optional<T> whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Row read_row(const std::string& file, std::size_t number, std::string_view line, int workers) {
  const std::vector<std::string_view> fields = split(line, ',');
  const auto fail = [&](std::size_t field, std::string_view expected) -> Error {
    const auto column = static_cast<std::size_t>(fields[field].data() - line.data()) + 1;
    return data_error("{}:{}:{}: found {}, expected {}", file, number, column,
                      quote(trim(fields[field])), expected);
  };
  if (fields.size() != 3) {
    throw data_error("{}:{}:1: found {} fields, expected 3: rank,iteration,delay_s", file, number,
                     fields.size());
  }
  Row row{.line = number};
  if (trim(fields[0]) == "*") {
    row.rank = kAllRanks;
  } else {
    const auto rank = whole<int>(trim(fields[0]));
    if (!rank || *rank < 0 || *rank >= workers) {
      throw fail(0, fmt::format("a rank from 0 to {}, or *", workers - 1));
    }
    row.rank = *rank;
  }
  const auto iteration = whole<std::uint64_t>(trim(fields[1]));
  if (!iteration || *iteration == UINT64_MAX) throw fail(1, "an iteration, counted from 0");
  row.iteration = *iteration;
  const auto delay = whole<double>(trim(fields[2]));
  if (!delay || !(*delay >= 0 && *delay <= kLongestStraggle.count())) {
    throw fail(2, fmt::format("a delay from 0 to {:g} s", kLongestStraggle.count()));
  }
  row.delay_s = *delay;
  return row;
}

}  // namespace

std::unique_ptr<DelaySource> read_delay_trace(const std::string& file, int workers) {
  const std::string all = read_text_file(file, {.noun = "trace of delays"}, kMostTraceBytes);
  std::vector<Row> rows;
  std::uint64_t length = 0;
  std::size_t number = 0;
  for (const std::string_view text : split(all, '\n')) {
    const std::string_view line = trim(text);
    ++number;
    if (line.empty() || line.front() == '#') continue;
    if (rows.empty() && line.starts_with("rank")) continue;
    rows.push_back(read_row(file, number, text, workers));
    length = std::max(length, rows.back().iteration + 1);
  }
  if (rows.empty()) {
    throw data_error("{}: found no rows, expected lines such as 2,0,0.05 (rank,iteration,delay_s)",
                     file);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.before(b.rank, b.iteration); });
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i - 1].before(rows[i].rank, rows[i].iteration)) continue;
    throw data_error("{}:{}:1: found the rank and iteration of line {} again, expected them once",
                     file, rows[i].line, rows[i - 1].line);
  }
  return std::make_unique<Trace>(std::move(rows), length);
}

}  // namespace hetsgd
