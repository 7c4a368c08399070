// A file that lives as long as the object.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace hetsgd::test {

// JSON by its name, as profiles, networks and charges are; `name` is unique within a test.
class TemporaryFile {
 public:
  TemporaryFile(const char* name, const std::string& text)
      : path_((std::filesystem::temp_directory_path() /
               fmt::format("hetsgd_{}_{}.json", name, getpid()))
                  .string()) {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace hetsgd::test
