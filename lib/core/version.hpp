// The identity of this binary: for `hetsgd --version`, `doctor` and the `environment` of every
// result.
//
// A library of its own (hetsgd_version): only its users are linked again when the git revision
// changes. The revision is read at every build, everything else when CMake configures.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace hetsgd {

std::string_view version();       // "0.1.0"
std::string_view git_revision();  // 12 digits, or "unknown" outside a git work tree
bool git_dirty();                 // tracked files differed from the revision
// The properties that code must share with this binary to run in its process: revision, headers,
// compiler, standard library, flags, sanitizer, as lines "key: value". Plugins carry their own
// stamp (training/plugins.hpp).
std::string_view build_stamp();
// Version of the result file's schema. Its first number changes when a key changes its meaning or
// vanishes.
std::string_view result_schema_version();

// {version, git_revision, git_dirty, build_type, compiler, compiler_flags, march, schema_version,
//  cuda_architectures, libraries: {blas, cuda, nccl, mpi}, features: {cuda, mpi, sanitizer}};
//  null: not built in.
nlohmann::json version_json();
// The same as text for people, one property per line.
std::string version_text();

}  // namespace hetsgd
