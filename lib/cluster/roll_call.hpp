// What the processes of a run say of themselves before they do anything together, and in what they
// differ: ranks that run another program, or with other options, would not understand each other.
#pragma once

#include <string>
#include <tuple>
#include <vector>

namespace hetsgd {

// One thing that must be the same on all processes, in the form in which an error shows it. Sent
// between processes as the bytes of its members.
struct Fact {
  std::string name;   // as a person would write it: "--hidden"
  std::string value;  // as the process has it: "8"
  // Where this one differs, those behind it say nothing: another algorithm has other options.
  bool decides_others = false;

  static constexpr auto members() {
    return std::tuple(&Fact::name, &Fact::value, &Fact::decides_others);
  }
};

// "--hidden is 8 on rank 0, 9 on ranks 1-2; --seed is 1 on ranks 0-1, 2 on rank 2": the first few
// facts in which the processes differ, by rank. Empty: they are alike. by_rank is not empty; rank
// 0's facts say what is compared, and a fact that another rank lacks is "unknown" there.
std::string difference(const std::vector<std::vector<Fact>>& by_rank);

}  // namespace hetsgd
