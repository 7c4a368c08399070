// Helpers that the tests of lib/data share.
#pragma once

#include <unistd.h>
#include <zlib.h>

#include <span>

#include "core/random.hpp"
#include "data/binary.hpp"
#include "data/load.hpp"
#include "data/text_parser.hpp"
#include "support/dataset.hpp"
#include "support/failure.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {

using test::error_of;

inline std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string bytes(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<unsigned>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<unsigned>(bytes.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

// The bytes with one of them changed.
inline std::string damaged(std::string bytes, std::size_t place, int bits = 0x10) {
  bytes[place] = static_cast<char>(bytes[place] ^ bits);
  return bytes;
}

inline std::string binary_form(const Dataset& data, const LoadReport& report = {}) {
  std::string bytes;
  encode_binary(data, report, 0, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

// All rows in the order of the file, or the other way round.
inline RowChoice every_row(bool backwards = false) {
  return {.rows =
              [backwards](const Dataset& outline) {
                std::vector<Index> rows(outline.rows());
                std::iota(rows.begin(), rows.end(), 0U);
                if (backwards) std::ranges::reverse(rows);
                return rows;
              },
          .needs_labels = true};
}

// All but the name and the hash: what the rows say, to the bit.
inline void expect_same_data(const Dataset& a, const Dataset& b) {
  const auto expect_same_bits = [](const char* what, const auto& x, const auto& y) {
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(x.data(), x.size())),
                                   std::as_bytes(std::span(y.data(), y.size()))))
        << what;
  };
  EXPECT_EQ(a.task, b.task);
  EXPECT_EQ(a.feature_count, b.feature_count);
  EXPECT_EQ(a.label_count, b.label_count);
  expect_same_bits("sparse.begin", a.sparse.begin, b.sparse.begin);
  expect_same_bits("sparse.index", a.sparse.index, b.sparse.index);
  expect_same_bits("sparse.value", a.sparse.value, b.sparse.value);
  EXPECT_EQ(a.dense.columns, b.dense.columns);
  expect_same_bits("dense", a.dense.value, b.dense.value);
  expect_same_bits("fields.first", a.fields.first, b.fields.first);
  expect_same_bits("fields.value", a.fields.value, b.fields.value);
  expect_same_bits("fields.category", a.fields.category, b.fields.category);
  EXPECT_EQ(a.images.shape(), b.images.shape());
  expect_same_bits("images.pixel", a.images.pixel, b.images.pixel);
  expect_same_bits("images.mean", a.images.mean, b.images.mean);
  expect_same_bits("images.deviation", a.images.deviation, b.images.deviation);
  EXPECT_EQ(a.tokens.vocabulary, b.tokens.vocabulary);
  EXPECT_EQ(a.tokens.room, b.tokens.room);
  expect_same_bits("tokens.token", a.tokens.token, b.tokens.token);
  expect_same_bits("tokens.begin", a.tokens.begin, b.tokens.begin);
  expect_same_bits("tokens.length", a.tokens.length, b.tokens.length);
  expect_same_bits("tokens.bytes", a.tokens.bytes, b.tokens.bytes);
  expect_same_bits("targets.begin", a.targets.begin, b.targets.begin);
  expect_same_bits("targets.index", a.targets.index, b.targets.index);
}

inline LoadedData parse(const std::string& text, const LoadOptions& options = {}) {
  return parse_text(text, "test", options);
}

// Random rows of every kind: empty, without labels, negative and tiny values.
inline DatasetBuilder random_builder(Task task, std::uint64_t seed, std::uint64_t rows) {
  RandomStream random(seed, Purpose::test);
  DatasetBuilder data = test::dataset_of(task, task == Task::binary ? 1 : 7, 50);
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (Index f = 0; f < data.feature_count; ++f) {
      // The last column always occurs once, so that text without a header shows all columns.
      if (random.uniform() < 0.1 || (row == 0 && f + 1 == data.feature_count)) {
        test::add(data, f, random.normal() * std::exp(20 * random.normal()));
      }
    }
    const std::uint64_t first =
        task == Task::binary ? random.below(2) : random.below(data.label_count);
    if (task == Task::binary) {
      if (first == 1) data.targets.index.push_back(0);
    } else if (task == Task::multiclass) {
      data.targets.index.push_back(static_cast<Index>(row < 7 ? row : first));
    } else {
      for (Index l = 0; l < data.label_count; ++l) {
        if (random.uniform() < 0.2 || row == 0) data.targets.index.push_back(l);
      }
    }
    test::end_row(data);
  }
  return data;
}

inline Dataset random_dataset(Task task, std::uint64_t seed, std::uint64_t rows = 200) {
  return random_builder(task, seed, rows).build();
}

}  // namespace hetsgd
