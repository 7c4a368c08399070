// Small click data that can be learnt, and the settings of algorithms that need sharded tables.
#pragma once

#include <fstream>

#include "support/run.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd::test {

// 1,000 samples in the Criteo format, made once per process; the first field's value tells the
// label, the others' are noise with few values. Gone when the process ends.
inline const std::string& click_file() {
  static const TemporaryFolder folder;
  static const std::string path = [] {
    const std::string name = folder.file("clicks.txt");
    std::ofstream file(name);
    for (std::uint32_t row = 0; row < 1000; ++row) {
      const auto draw = [&](std::uint32_t column, std::uint32_t values) {
        return ((row + 1) * 2654435761U + column * 40503U * (row + 7)) / 65536 % values;
      };
      const std::uint32_t first = draw(0, 6);
      file << (first < 2 ? 1 : 0);
      for (std::uint32_t i = 0; i < 13; ++i) file << '\t' << draw(50 + i, 9);
      file << fmt::format("\t{:08x}", first);
      for (std::uint32_t f = 1; f < 26; ++f) file << fmt::format("\t{:08x}", draw(f, 3 + 2 * f));
      file << '\n';
    }
    return name;
  }();
  return path;
}

// In place of the data and model of other algorithms.
inline Settings sharded_clicks(const Settings& more = {}) {
  return with(fmt::format("--train {0} --test {0} --min-frequency 2 --model deepfm --hidden 4 "
                          "--embedding-dim 4 --tables sharded",
                          click_file()),
              more);
}

}  // namespace hetsgd::test
