// What the processes of a run say of themselves before they do anything together, and in what they
// differ: ranks that run another program, or with other options, would not understand each other.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace hetsgd {

struct Fact {
  std::string name;   // as a person would write it: "--hidden"
  std::string value;  // as the process has it: "8"
  // Where this one differs, those behind it say nothing: another algorithm has other options.
  bool decides_others = false;
};

// "--hidden is 8 on rank 0, 9 on ranks 1-2; --seed is 1 on ranks 0-1, 2 on rank 2": the first few
// facts in which the processes differ, by rank. Empty: they are alike.
std::string difference(const std::vector<std::vector<Fact>>& by_rank);

// As they travel; a value holds no NUL, as no argument of a program does.
std::vector<std::byte> pack(const std::vector<Fact>& facts);
std::vector<Fact> unpack_facts(std::span<const std::byte> bytes);

}  // namespace hetsgd
