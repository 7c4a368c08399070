// Files and folders that live as long as their objects.
#pragma once

#include <stdlib.h>

#include <fstream>
#include <sstream>

#include "core/non_copyable.hpp"

namespace hetsgd::test {

// An empty folder, which is deleted with all its contents.
class TemporaryFolder : NonCopyable {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "hetsgd-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::string string() const { return path_.string(); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  // The path of a file in it, whose folders are there.
  std::string file(const std::string& name) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    return (path_ / name).string();
  }
  // The same, with this text in the file.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

// A JSON file by its name, as profiles, networks and charges are.
class TemporaryFile {
 public:
  TemporaryFile(const char* name, const std::string& text)
      : path_(folder_.write(std::string(name) + ".json", text)) {}
  const std::string& path() const { return path_; }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

}  // namespace hetsgd::test

namespace hetsgd {

using test::TemporaryFolder;

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace hetsgd
