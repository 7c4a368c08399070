#include "cluster/trace/call_log.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"

namespace hetsgd {
namespace {

// The first chunk of a log is small, since a simulated run may have ten thousand workers.
constexpr std::size_t kFirstChunk = 16 * kCallCell;
constexpr std::size_t kLargestChunk = 512 * kCallCell;

template <class Cell>
Cell cell_at(std::span<const std::byte> bytes) {
  Cell cell;
  std::memcpy(&cell, bytes.data(), sizeof cell);
  return cell;
}

}  // namespace

CallLog::~CallLog() {
  for (const Chunk& chunk : chunks_) {
    if (chunk.bytes) memory_.shrink(chunk.room);
  }
}

std::uint32_t CallLog::label(const CallLabel& label) {
  const auto found = std::ranges::find(labels_, label);
  const auto number = static_cast<std::uint32_t>(found - labels_.begin());
  if (found == labels_.end()) labels_.push_back(label);
  return number;
}

void CallLog::add_step(CallCell call, const MoreOfCall& more) {
  call.has_more = 1;
  const std::optional<Open> before = last_step_;
  auto* const cell = reinterpret_cast<CallCell*>(put(call, &more));
  ++last_->open;
  last_step_ = Open{chunks_.size() - 1, cell};
  if (before) close(*before);
}

void CallLog::note_samples(std::uint64_t samples) {
  if (last_step_) last_step_->cell->samples = samples;
}

CallLog::Open CallLog::open(const CallCell& call) {
  auto* const cell = reinterpret_cast<CallCell*>(put(call, nullptr));
  ++last_->open;
  return {chunks_.size() - 1, cell};
}

void CallLog::close(const Open& call) {
  Chunk& chunk = chunks_[call.chunk];
  --chunk.open;
  if (&chunk != last_) spill(chunk);
}

void CallLog::begin_chunk() {
  if (last_ != nullptr) spill(*last_);
  Chunk next;
  next.room = chunks_.empty() ? kFirstChunk : std::min(2 * chunks_.back().room, kLargestChunk);
  if (next.room == kLargestChunk && spare_) {
    next.bytes = std::move(spare_);
  } else {
    next.bytes = std::make_unique_for_overwrite<std::byte[]>(next.room);
  }
  memory_.grow(next.room);
  last_ = &chunks_.emplace_back(std::move(next));
}

void CallLog::spill(Chunk& chunk) {
  if (chunk.open > 0 || !memory_.is_full()) return;
  const auto place = memory_.write({chunk.bytes.get(), chunk.used});
  if (!place) return;
  chunk.place = *place;
  if (chunk.room == kLargestChunk) spare_ = std::move(chunk.bytes);
  chunk.bytes.reset();
  memory_.shrink(chunk.room);
}

CallLog::Mark CallLog::mark() const {
  return {chunks_.size(), last_ != nullptr ? last_->used : 0, calls_};
}

void CallLog::rewind(const Mark& mark) {
  if (last_step_) --chunks_[last_step_->chunk].open;
  last_step_.reset();
  while (chunks_.size() > mark.chunks) {
    if (chunks_.back().bytes) memory_.shrink(chunks_.back().room);
    chunks_.pop_back();
  }
  last_ = nullptr;
  calls_ = mark.calls;
  if (chunks_.empty()) return;
  Chunk& chunk = chunks_.back();
  chunk.used = mark.used;
  if (chunk.bytes) last_ = &chunk;
}

std::vector<std::byte> CallLog::chunk(std::size_t number) const {
  const Chunk& chunk = chunks_[number];
  std::vector<std::byte> bytes(chunk.used);
  if (chunk.bytes) {
    std::memcpy(bytes.data(), chunk.bytes.get(), chunk.used);
  } else {
    memory_.read(chunk.place, bytes);
  }
  return bytes;
}

void CallLog::append(std::span<const std::byte> chunk, std::string_view what) {
  const auto wrong = [what](std::string_view found) {
    throw data_error("{}: found {}, expected whole calls with known labels", what, found);
  };
  for (std::span<const std::byte> rest = chunk; !rest.empty();) {
    if (rest.size() < kCallCell) wrong("a part of a call");
    const auto call = cell_at<CallCell>(rest);
    if (call.label >= labels_.size()) wrong("a call without a label");
    rest = rest.subspan(kCallCell);
    if (call.has_more == 0) {
      put(call, nullptr);
      continue;
    }
    if (rest.size() < kCallCell) wrong("a part of a call");
    const auto more = cell_at<MoreOfCall>(rest);
    put(call, &more);
    rest = rest.subspan(kCallCell);
  }
}

bool CallReader::next_chunk() {
  if (chunk_ == log_.chunks_.size()) return false;
  const CallLog::Chunk& chunk = log_.chunks_[chunk_];
  if (chunk.bytes) {
    rest_ = {chunk.bytes.get(), chunk.used};
  } else {
    from_file_ = log_.chunk(chunk_);
    rest_ = from_file_;
  }
  ++chunk_;
  return true;
}

bool CallReader::next(RecordedCall& range) {
  while (rest_.empty()) {
    if (!next_chunk()) return false;
  }
  const auto call = cell_at<CallCell>(rest_);
  rest_ = rest_.subspan(kCallCell);
  range = {log_.label(call.label), call, {}};
  if (call.has_more == 0) return true;
  static_cast<MoreOfCall&>(range) = cell_at<MoreOfCall>(rest_);
  rest_ = rest_.subspan(kCallCell);
  return true;
}

}  // namespace hetsgd
