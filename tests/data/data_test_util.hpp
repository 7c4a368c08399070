// What the tests of lib/data share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/dataset.hpp"
#include "data/load.hpp"
#include "data/text_parser.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {

// All but the name and the hash: what the rows say, to the bit.
inline void expect_same_data(const Dataset& a, const Dataset& b) {
  EXPECT_EQ(a.task, b.task);
  EXPECT_EQ(a.feature_count, b.feature_count);
  EXPECT_EQ(a.label_count, b.label_count);
  EXPECT_TRUE(std::ranges::equal(a.sparse.begin, b.sparse.begin));
  EXPECT_TRUE(std::ranges::equal(a.sparse.index, b.sparse.index));
  ASSERT_EQ(a.sparse.value.size(), b.sparse.value.size());
  EXPECT_TRUE(a.sparse.value.empty() || std::memcmp(a.sparse.value.data(), b.sparse.value.data(),
                                                    a.sparse.value.size() * sizeof(float)) == 0);
  EXPECT_EQ(a.dense.columns, b.dense.columns);
  ASSERT_EQ(a.dense.value.size(), b.dense.value.size());
  EXPECT_TRUE(a.dense.value.empty() || std::memcmp(a.dense.value.data(), b.dense.value.data(),
                                                   a.dense.value.size() * sizeof(float)) == 0);
  EXPECT_TRUE(std::ranges::equal(a.fields.first, b.fields.first));
  EXPECT_TRUE(std::ranges::equal(a.fields.value, b.fields.value));
  EXPECT_TRUE(std::ranges::equal(a.fields.category, b.fields.category));
  EXPECT_TRUE(std::ranges::equal(a.targets.begin, b.targets.begin));
  EXPECT_TRUE(std::ranges::equal(a.targets.index, b.targets.index));
}

// "message | hint" of the Error that `action` throws; fails the test if it throws none.
template <class Action>
std::string error_of(Action&& action, ExitCode code = ExitCode::data) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.hint().empty() ? error.what() : std::string(error.what()) + " | " + error.hint();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

inline LoadedData parse(const std::string& text, const LoadOptions& options = {}) {
  return parse_text(text, "test", options);
}

// Random rows of every kind: empty, without labels, negative and tiny values.
inline DatasetBuilder random_builder(Task task, std::uint64_t seed, std::uint64_t rows) {
  RandomStream random(seed, Purpose::test);
  DatasetBuilder data;
  data.task = task;
  data.feature_count = 50;
  data.label_count = task == Task::binary ? 1 : 7;
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (Index f = 0; f < data.feature_count; ++f) {
      // The last column always occurs once, so that text without a header shows all columns.
      if (random.uniform() < 0.1 || (row == 0 && f + 1 == data.feature_count)) {
        data.sparse.index.push_back(f);
        data.sparse.value.push_back(
            static_cast<float>(random.normal() * std::exp(20 * random.normal())));
      }
    }
    data.sparse.begin.push_back(data.sparse.index.size());
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
    data.targets.begin.push_back(data.targets.index.size());
  }
  return data;
}

inline Dataset random_dataset(Task task, std::uint64_t seed, std::uint64_t rows = 200) {
  return random_builder(task, seed, rows).build();
}

}  // namespace hetsgd
