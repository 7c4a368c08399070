#include "data/select.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "core/byte_stream.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "data/images.hpp"
#include "data/sequences.hpp"
#include "data/source.hpp"

namespace hetsgd {

namespace {

// The seed of every validation split. Samplers deal shards from round 0 of the purpose `partition`,
// so round 1 shares no draw with them, even under the same seed.
constexpr std::uint64_t kSplitSeed = 0x76616c6964617465ULL;
constexpr std::uint32_t kSplitRound = 1;

std::uint64_t part_hash(const Dataset& data, std::span<const Index> rows) {
  ByteWriter bytes;
  bytes.put(data.content_hash).append(std::as_bytes(rows));
  return content_hash(text_of(bytes.bytes()));
}

template <class T>
void append(std::vector<T>& to, std::span<const T> from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Copies rows of a group in CSR.
void copy_sparse(const CsrRows<View>& from, std::span<const Index> rows, CsrRows<Owned>& to) {
  if (from.rows() == 0) return;  // the data lack this group
  std::size_t entries = 0;
  for (const Index row : rows) entries += from.indices(row).size();
  to.begin.reserve(rows.size() + 1);
  to.index.reserve(entries);
  if (!from.value.empty()) to.value.reserve(entries);
  for (const Index row : rows) {
    append(to.index, from.indices(row));
    if (!from.value.empty()) append(to.value, from.values(row));
    to.begin.push_back(to.index.size());
  }
}

// Frames of some rows of another source.
class ChosenFrames final : public FrameSource {
 public:
  ChosenFrames(std::shared_ptr<const FrameSource> all, std::span<const Index> rows)
      : all_(std::move(all)), rows_(rows.begin(), rows.end()) {}
  void draw(std::uint64_t row, std::span<float> to) const override { all_->draw(rows_[row], to); }

 private:
  std::shared_ptr<const FrameSource> all_;
  std::vector<Index> rows_;
};

void copy_frames(const Dataset& data, std::span<const Index> rows, DatasetBuilder& part) {
  const Sequences<View>& from = data.sequences;
  if (from.numbers == 0) return;  // the data lack this group
  Sequences<Owned>& to = part.sequences;
  to.numbers = from.numbers;
  to.begin.reserve(rows.size() + 1);
  to.begin.push_back(0);
  for (const Index row : rows) to.begin.push_back(to.begin.back() + from.length(row));
  if (data.drawn) {
    part.drawn = std::make_shared<ChosenFrames>(data.drawn, rows);
    return;
  }
  const std::uint64_t numbers = to.frames() * to.numbers;
  require_memory(sizeof(float) * static_cast<double>(numbers), data.name, "a copy of its frames");
  to.value.reserve(numbers);
  for (const Index row : rows) append(to.value, from.row(row));
}

// Copies the tokens that each of the rows can show. Rows that overlap take them several times.
void copy_tokens(const TokenRows<View>& from, std::span<const Index> rows, TokenRows<Owned>& to) {
  if (from.vocabulary == 0) return;  // the data lack this group
  to.vocabulary = from.vocabulary;
  to.room = from.room;
  place_tokens(from, from.token.size(), rows, to);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::ranges::copy(from.reach(rows[i]),
                      to.token.begin() + static_cast<std::ptrdiff_t>(to.begin[i]));
  }
}

// The header and these rows of every group.
DatasetBuilder copy_rows(const Dataset& data, std::span<const Index> rows) {
  HETSGD_CHECK(!rows.empty());
  DatasetBuilder part;
  static_cast<DatasetHeader&>(part) = data;
  for (const Index row : rows) HETSGD_CHECK_LT(row, data.rows());
  copy_sparse(data.sparse, rows, part.sparse);
  copy_sparse(data.targets, rows, part.targets);
  copy_frames(data, rows, part);
  copy_tokens(data.tokens, rows, part.tokens);
  part.dense.columns = data.dense.columns;
  append(part.fields.first, data.fields.first);
  append(part.fields.value, data.fields.value);
  part.images.channels = data.images.channels;
  part.images.height = data.images.height;
  part.images.width = data.images.width;
  append(part.images.mean, data.images.mean);
  append(part.images.deviation, data.images.deviation);
  part.dense.value.reserve(rows.size() * data.dense.columns);
  part.fields.category.reserve(rows.size() * data.fields.count());
  part.images.pixel.reserve(rows.size() * data.images.size());
  for (const Index row : rows) {
    append(part.dense.value, data.dense.row(row));
    append(part.fields.category, data.fields.row(row));
    append(part.images.pixel, data.images.row(row));
  }
  return part;
}

// The first `count` rows.
CsrRows<View> head_of(const CsrRows<View>& rows, std::uint64_t count) {
  if (rows.rows() == 0) return rows;  // the data lack this group
  const std::uint64_t entries = rows.begin[count];
  return {rows.begin.first(count + 1), rows.index.first(entries),
          rows.value.empty() ? rows.value : rows.value.first(entries)};
}

Sequences<View> head_of(const Sequences<View>& rows, std::uint64_t count) {
  if (rows.numbers == 0) return rows;  // the data lack this group
  return {rows.numbers, rows.begin.first(count + 1),
          rows.value.empty() ? rows.value : rows.value.first(rows.begin[count] * rows.numbers)};
}

// The place behind the last target of these rows.
std::uint64_t end_of_text(const TokenRows<View>& tokens, std::span<const Index> rows) {
  std::uint64_t end = 0;
  for (const Index row : rows) end = std::max(end, tokens.begin[row] + tokens.length[row] + 1);
  return end;
}

// select_rows() for neighbouring rows, which copies nothing but labels, so that the two parts of a
// click log take no more memory than the whole. The rows must be the first ones, or all rows must
// have the same size.
DatasetPtr view_rows(const Dataset& data, std::span<const Index> rows) {
  const std::uint64_t first = rows.front(), count = rows.size();
  const auto cut = [&](auto values, std::uint64_t width) {
    return values.subspan(first * width, count * width);
  };
  Dataset part = data;
  part.content_hash = part_hash(data, rows);
  part.whole.reset();
  part.dense.value = cut(data.dense.value, data.dense.columns);
  part.fields.category = cut(data.fields.category, data.fields.count());
  part.images.pixel = cut(data.images.pixel, data.images.size());
  if (data.tokens.vocabulary > 0) {
    part.tokens.begin = cut(data.tokens.begin, 1);
    part.tokens.length = cut(data.tokens.length, 1);
    part.tokens.bytes = cut(data.tokens.bytes, 1);
    // No row moves into the rows behind these.
    part.tokens.token = data.tokens.token.first(end_of_text(data.tokens, rows));
  }
  if (first == 0) {
    part.sparse = head_of(data.sparse, count);
    part.sequences = head_of(data.sequences, count);
    part.targets = head_of(data.targets, count);
  } else {
    CsrRows<Owned> targets;
    copy_sparse(data.targets, rows, targets);
    set_targets(part, std::move(targets));
  }
  return std::make_shared<const Dataset>(std::move(part));
}

std::uint64_t held_out_count(std::uint64_t rows, double share, std::string_view option) {
  const auto count = static_cast<std::uint64_t>(std::llround(share * static_cast<double>(rows)));
  if (count > 0 && count < rows) return count;
  throw usage_error(
      "{}: found {}, which holds out {} of {} rows, expected at least one and not all", option,
      share, count, rows);
}

LoadedData part_of(const LoadedData& all, std::span<const Index> rows) {
  const bool neighbours = rows.back() - rows.front() + 1 == rows.size();
  const bool one_size = all.data->sparse.rows() == 0 && all.data->sequences.numbers == 0;
  const bool viewed = neighbours && (rows.front() == 0 || one_size);
  LoadedData part{viewed ? view_rows(*all.data, rows) : select_rows(*all.data, rows), all.report};
  part.report.rows_without_labels = part.report.rows_without_features = 0;
  for (std::uint64_t row = 0; row < part.data->rows(); ++row) {
    part.report.rows_without_labels +=
        part.data->task != Task::tokens && part.data->labels(row).empty();
    part.report.rows_without_features +=
        part.data->sparse.rows() > 0 && part.data->features(row).empty();
  }
  return part;
}

}  // namespace

DatasetPtr select_rows(const Dataset& data, std::span<const Index> rows) {
  DatasetBuilder part = copy_rows(data, rows);
  part.content_hash = part_hash(data, rows);
  part.whole.reset();
  return std::move(part).share();
}

DatasetPtr shard_of(const Dataset& data, std::span<const Index> rows) {
  DatasetBuilder shard = copy_rows(data, rows);
  shard.whole = data.totals();
  return std::move(shard).share();
}

Dataset outline_of(const Dataset& data, bool labels) {
  DatasetBuilder empty;
  empty.sparse.begin.assign(data.rows() + 1, 0);
  if (!labels) empty.targets.begin = empty.sparse.begin;
  Dataset outline = std::move(empty).build();
  static_cast<DatasetHeader&>(outline) = data;
  if (labels) {
    set_targets(outline, {{data.targets.begin.begin(), data.targets.begin.end()},
                          {data.targets.index.begin(), data.targets.index.end()},
                          {}});
  }
  return outline;
}

std::optional<double> tail_share(std::string_view test) {
  constexpr std::string_view kPrefix = "tail:";
  if (!test.starts_with(kPrefix)) return std::nullopt;
  const std::string_view text = test.substr(kPrefix.size());
  const std::string_view above = text.substr(0, text.find('/'));
  const std::string_view below = above.size() == text.size() ? "1" : text.substr(above.size() + 1);
  const auto number = [](std::string_view digits) {
    double value = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
    return error == std::errc() && end == digits.end() ? value : -1.0;
  };
  const double share = number(above) / number(below);
  if (share > 0 && share < 1) return share;
  refuse(fmt::format("--test {}", test), fmt::format("\"{}\"", text),
         "a share above 0 and below 1 such as tail:1/7");
}

RowSplit split_rows(std::uint64_t rows, double share) {
  const std::uint64_t count = held_out_count(rows, share, "--validation");
  const Permutation permutation(rows, kSplitSeed, Purpose::partition, kSplitRound);
  std::vector<bool> is_held_out(rows);
  for (std::uint64_t i = 0; i < count; ++i) is_held_out[permutation(i)] = true;
  RowSplit split;
  split.held_out.reserve(count);
  split.kept.reserve(rows - count);
  for (std::uint64_t row = 0; row < rows; ++row) {
    (is_held_out[row] ? split.held_out : split.kept).push_back(static_cast<Index>(row));
  }
  return split;
}

RowSplit split_rows(std::uint64_t rows, const HeldOut& held_out) {
  HETSGD_CHECK(held_out.which != HeldOut::Which::none);
  if (held_out.which == HeldOut::Which::random) return split_rows(rows, held_out.share);
  RowSplit split;
  split.kept.resize(rows - held_out_count(rows, held_out.share, "--test tail"));
  split.held_out.resize(rows - split.kept.size());
  std::iota(split.kept.begin(), split.kept.end(), Index{0});
  std::iota(split.held_out.begin(), split.held_out.end(), static_cast<Index>(split.kept.size()));
  return split;
}

std::vector<bool> held_out_rows(std::uint64_t rows, const HeldOut& held_out) {
  if (held_out.which == HeldOut::Which::none) return {};
  std::vector<bool> is_held_out(rows);
  for (const Index row : split_rows(rows, held_out).held_out) is_held_out[row] = true;
  return is_held_out;
}

LoadedPair hold_out(const LoadedData& all, const HeldOut& held_out) {
  const RowSplit split = split_rows(all.data->rows(), held_out);
  LoadedPair pair{part_of(all, split.kept), part_of(all, split.held_out)};
  pair.test.report.text = {};  // the counts are those of the whole text
  if (all.data->images.size() == 0) return pair;
  // Statistics come from the kept rows alone, so that held-out rows do not influence them.
  Dataset kept = *pair.train.data, measured = *pair.test.data;
  set_image_statistics(kept);
  match_images(measured, kept, all.report.path);
  pair.train.data = std::make_shared<const Dataset>(std::move(kept));
  pair.test.data = std::make_shared<const Dataset>(std::move(measured));
  return pair;
}

}  // namespace hetsgd
