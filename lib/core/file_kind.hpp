// The kind of a file by its first bytes, whatever its name. The first bytes of foreign formats
// stand here alone, apart from those of the images that are read.
#pragma once

#include <string>
#include <string_view>

namespace hetsgd {

enum class Compression { none, gzip, bzip2, zstd };

// A zstd file may begin with skippable frames (RFC 8878, 3.1.2), as pzstd writes them.
Compression detect_compression(std::string_view bytes);

// UTF-8 text without the byte order mark at its beginning, if it has one.
std::string_view behind_mark(std::string_view text);

// rows: a line for each row, so neither control bytes, HTML, XML and JSON nor lines that end in a
// carriage return alone.
enum class TextUse { any, rows };

// Refuses bytes that are no such text: archives, compressed streams, binary files of other tools,
// UTF-16. Error(data) says what they are, what was expected, and what to do. `text` is the whole
// content, decompressed.
void refuse_other_kinds(std::string_view text, const std::string& path, std::string_view expected,
                        TextUse use);

}  // namespace hetsgd
