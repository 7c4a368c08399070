#include "data/text_lines.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

}  // namespace

std::vector<std::string_view> split_lines(std::string_view text, std::string& tail) {
  std::size_t cut = 0;
  if (text.size() > kNumberPadding) {
    const std::size_t newline = text.rfind('\n', text.size() - kNumberPadding - 1);
    cut = newline == std::string_view::npos ? 0 : newline + 1;
  }
  tail.assign(text.substr(cut));
  if (!tail.empty() && tail.back() != '\n') tail += '\n';
  const std::size_t tail_size = tail.size();
  tail.append(kNumberPadding, '\n');
  std::vector<std::string_view> pieces;
  for (std::size_t begin = 0; begin < cut;) {
    std::size_t end = std::min(cut, begin + kChunkBytes);
    end = text.find('\n', end - 1) + 1;  // text[cut - 1] is a newline
    pieces.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  if (tail_size > 0) pieces.push_back(std::string_view(tail).substr(0, tail_size));
  return pieces;
}

void fail_in_line(const LineError& error, const char* piece, std::uint64_t first_line,
                  const std::string& path) {
  const char* line = error.at;
  while (line > piece && line[-1] != '\n') --line;
  const auto number = first_line + static_cast<std::uint64_t>(std::count(piece, line, '\n'));
  throw with_hint(data_error("{}:{}:{}: {}", path, number, error.at - line + 1, error.message),
                  error.hint);
}

}  // namespace hetsgd
