// The compact calls of a recorded process come back as they were noted, from memory, from the file
// of a full memory and from another process.
#include "cluster/trace/call_log.hpp"

#include "core/error.hpp"
#include "support/failure.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd::test {
namespace {

constexpr std::uint64_t kCalls = 5000;

// Every third call is a step, whose samples follow; the number of a call is in `bytes`.
void fill(CallLog& log) {
  const std::uint32_t step = log.label({.category = "compute", .name = "step"});
  const std::uint32_t receive = log.label({"communicate", "receive", "/0:1", CallKind::receive, 2});
  EXPECT_EQ(log.label({.category = "compute", .name = "step"}), step);
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    const CallCell call{.begin = Seconds(static_cast<double>(i)),
                        .end = Seconds(static_cast<double>(i) + 0.5),
                        .bytes = i,
                        .number = i / 2,
                        .peer = 1,
                        .cause = {.rank = 1, .calls = i}};
    CallCell labelled = call;
    labelled.label = i % 3 == 0 ? step : receive;
    if (i % 3 == 0) {
      log.add_step(labelled,
                   {.work = {.operations = static_cast<double>(i)}, .charged = Seconds(2)});
    } else {
      log.add(labelled);
    }
    if (i % 3 == 1) log.note_samples(i);
  }
}

void expect_filled(const CallLog& log) {
  EXPECT_EQ(log.calls(), kCalls);
  CallReader reader(log);
  RecordedCall range;
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(reader.next(range));
    const bool is_step = i % 3 == 0;
    EXPECT_EQ(range.name, is_step ? "step" : "receive");
    EXPECT_EQ(range.group, is_step ? "" : "/0:1");
    EXPECT_EQ(range.rank, is_step ? 0 : 2);
    EXPECT_EQ(range.bytes, i);
    EXPECT_EQ(range.number, i / 2);
    EXPECT_EQ(range.begin, Seconds(static_cast<double>(i)));
    EXPECT_EQ(range.cause.calls, i);
    EXPECT_EQ(range.charged, Seconds(is_step ? 2 : 0));
    EXPECT_EQ(range.work.operations, is_step ? static_cast<double>(i) : 0);
    EXPECT_EQ(range.samples, is_step && i + 1 < kCalls ? i + 1 : 0);
  }
  EXPECT_FALSE(reader.next(range));
}

TEST(CallLog, GivesItsCallsBack) {
  CallMemory memory({});
  CallLog log(memory);
  fill(log);
  expect_filled(log);
  EXPECT_FALSE(memory.has_file());
}

TEST(CallLog, BeyondTheBoundOfMemoryItsCallsAreInAFileWithoutAName) {
  const TemporaryFolder folder;
  CallMemory memory({.most_bytes = 0, .folder = folder.string()});
  CallLog log(memory);
  fill(log);
  EXPECT_TRUE(memory.has_file());
  EXPECT_TRUE(std::filesystem::is_empty(folder.string()));
  expect_filled(log);
}

TEST(CallLog, WithoutAFileItsCallsStayInMemory) {
  CallMemory memory({.most_bytes = 0, .folder = "/nonexistent"});
  CallLog log(memory);
  fill(log);
  EXPECT_FALSE(memory.has_file());
  expect_filled(log);
}

// A request that is answered late keeps its chunk in memory until then.
TEST(CallLog, AnOpenCallIsChangedLater) {
  const TemporaryFolder folder;
  CallMemory memory({.most_bytes = 0, .folder = folder.string()});
  CallLog log(memory);
  const std::uint32_t label = log.label({.category = "served"});
  const CallLog::Open first = log.open({.label = label});
  for (std::uint64_t i = 1; i < kCalls; ++i) log.add({.label = label, .bytes = i});
  first.cell->bytes = 42;
  log.close(first);
  CallReader reader(log);
  RecordedCall range;
  ASSERT_TRUE(reader.next(range));
  EXPECT_EQ(range.bytes, 42U);
  ASSERT_TRUE(reader.next(range));
  EXPECT_EQ(range.bytes, 1U);
}

TEST(CallLog, GoesBackToAMark) {
  for (const std::uint64_t before : {0U, 1U, 1000U}) {
    const TemporaryFolder folder;
    CallMemory memory({.most_bytes = 0, .folder = folder.string()});
    CallLog log(memory);
    const std::uint32_t label = log.label({.category = "compute", .name = "set-up"});
    for (std::uint64_t i = 0; i < before; ++i) log.add({.label = label});
    const CallLog::Mark mark = log.mark();
    fill(log);
    log.rewind(mark);
    EXPECT_EQ(log.calls(), before);
    log.add({.label = label, .bytes = 7});
    CallReader reader(log);
    RecordedCall range;
    for (std::uint64_t i = 0; i <= before; ++i) ASSERT_TRUE(reader.next(range));
    EXPECT_EQ(range.bytes, 7U);
    EXPECT_FALSE(reader.next(range));
  }
}

TEST(CallLog, TravelsInParts) {
  CallMemory memory({});
  CallLog sent(memory), taken(memory);
  fill(sent);
  for (const CallLabel& label : sent.labels()) taken.label(label);
  for (std::size_t i = 0; i < sent.chunks(); ++i) taken.append(sent.chunk(i), "the part");
  expect_filled(taken);
}

TEST(CallLog, RefusesDamagedParts) {
  CallMemory memory({});
  CallLog sent(memory), taken(memory);
  fill(sent);
  const std::vector<std::byte> part = sent.chunk(0);
  const auto refusal = [&](std::size_t size) {
    return error_of([&] { taken.append(std::span(part).first(size), "the part"); });
  };
  EXPECT_THAT(refusal(part.size()), HasSubstr("the part: found a call without a label"));
  for (const CallLabel& label : sent.labels()) taken.label(label);
  EXPECT_THAT(refusal(kCallCell), HasSubstr("the part: found a part of a call"));
  EXPECT_THAT(refusal(7), HasSubstr("the part: found a part of a call"));
}

}  // namespace
}  // namespace hetsgd::test
