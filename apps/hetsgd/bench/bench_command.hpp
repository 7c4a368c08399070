// The base of the commands of `hetsgd bench`. They time an operation several times, make a row for
// each size, and print the rows as a table or as JSON.
#pragma once

#include <string>
#include <vector>

#include "../command.hpp"
#include "../printer.hpp"

namespace hetsgd {

class BenchCommand : public Command {
 public:
  void declare(OptionSet& set) final;
  int run(OptionSet& set, const std::vector<std::string>& operands) final;

 protected:
  // `iterations` and `warmup` are the defaults of these options.
  BenchCommand(std::string name, int iterations, int warmup)
      : name_(std::move(name)), iterations_(iterations), warmup_(warmup) {}

  struct Report {
    std::vector<Row> rows{};
    std::string list;                  // key of the rows in the JSON
    nlohmann::json facts;              // further members of the JSON
    std::vector<std::string> notes{};  // for people: meaning of the columns
    std::uint64_t wrong = 0;           // wrong elements; any make the exit code non-zero
    bool is_root = true;               // this process prints
  };
  virtual void declare_own(OptionSet& set) = 0;
  virtual Report measure() = 0;

  const std::string& name() const { return name_; }
  int iterations() const { return iterations_; }  // timed iterations
  int warmup() const { return warmup_; }          // untimed iterations before

 private:
  std::string name_;
  int iterations_, warmup_;
  Printer printer_;
};

}  // namespace hetsgd
