#include "lookup_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <thread>

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/random.hpp"
#include "core/threads.hpp"
#include "data/source.hpp"
#include "data/zipf.hpp"
#include "linalg/cuda/cuda_device.hpp"
#include "table/stages.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kLine = 64;      // bytes
constexpr std::size_t kSector = 32;    // bytes, of a GPU's memory
constexpr std::uint64_t kBatches = 8;  // distinct batches, so that none stays in the cache

template <class Fn>
double seconds_of(const Fn& fn) {
  const auto begin = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<Index> equal_fields(const LookupBenchOptions& o) {
  if (o.rows < o.fields || o.rows >= (std::uint64_t{1} << 32)) {
    refuse("--rows", std::to_string(o.rows),
           fmt::format("at least one for each of {} fields, and below 2^32", o.fields));
  }
  std::vector<Index> first;
  for (std::uint64_t f = 0; f <= o.fields; ++f) {
    first.push_back(static_cast<Index>(o.rows * f / o.fields));
  }
  return first;
}

// The ids of a field are sorted by popularity, in the order of the table. So hot rows are adjacent,
// as with a vocabulary sorted by frequency.
DatasetPtr random_clicks(const LookupBenchOptions& o, const std::vector<Index>& first,
                         std::uint64_t samples) {
  DatasetBuilder data;
  data.task = Task::binary;
  data.label_count = 1;
  data.fields.first = first;
  data.fields.category.resize(samples * o.fields);
  for (std::uint64_t f = 0; f < o.fields; ++f) {
    std::vector<Index> ids(first[f + 1] - first[f]);
    std::iota(ids.begin(), ids.end(), first[f]);
    const ZipfSampler law(ids, o.zipf);
    RandomStream random(o.seed, Purpose::test, f);
    for (std::uint64_t i = 0; i < samples; ++i) {
      data.fields.category[i * o.fields + f] = law(random.next_u32(), random.next_u32());
    }
  }
  for (std::uint64_t i = 0; i < samples; ++i) data.targets.begin.push_back(0);
  return std::move(data).share();
}

TablePlan one_worker(const LookupBenchOptions& o, const std::vector<Index>& first) {
  const TableShape shape{o.embedding, o.own_weight ? 1U : 0U};
  return {.shape = shape,
          .dense_columns = 0,
          .placement = Placement(first, shape.row(), 1, {Sharding::Kind::row}, {}),
          .initial = {{first, {}}, o.seed, 0.01, o.embedding},
          .optimizer = {},
          .dedup = o.dedup};
}

// Copies the parts of an exchange to itself, in host memory or in device memory.
void exchange_with_itself(Device& device, const CollectiveRequest& request) {
  const AllToAll& parts = request.parts;
  if (device.host_accessible(parts.send)) {
    const void* const part = &parts;
    return move_parts({&part, 1}, 0, 1);
  }
  device.copy(parts.send_bytes() / sizeof(float), static_cast<const float*>(parts.send),
              static_cast<float*>(parts.receive));
}

// Reads and copies the lines of a table in random order.
class RandomLines {
 public:
  RandomLines(std::span<const float> memory, std::uint64_t stream, std::size_t count)
      : memory_(memory), at_(count + kAhead) {
    const std::size_t lines = memory.size() / kNumbers;
    RandomStream random(stream, Purpose::test, 77);
    for (std::uint32_t& line : at_) {
      line = static_cast<std::uint32_t>(std::uint64_t{random.next_u32()} * lines >> 32);
    }
  }

  double seconds_of_reads() const {
    volatile float read = 0;  // keeps the compiler from removing the reads
    const double seconds = seconds_of([&] {
      float sum = 0;
      for_each_line([&](std::size_t, const float* line) { sum += *line; });
      read = sum;
    });
    static_cast<void>(read);
    return seconds;
  }
  // `to` has room for as many lines.
  double seconds_of_copies(float* to) const {
    return seconds_of([&] {
      for_each_line([&](std::size_t i, const float* line) {
        __builtin_memcpy(to + i * kNumbers, line, kLine);
      });
    });
  }

 private:
  // The prefetch distance: slightly more lines than a core can have outstanding at once.
  static constexpr std::size_t kAhead = 64, kNumbers = kLine / sizeof(float);

  // Calls f(number, line) for each line, which is prefetched kAhead lines before.
  template <class F>
  void for_each_line(const F& f) const {
    for (std::size_t i = 0; i + kAhead < at_.size(); ++i) {
      __builtin_prefetch(memory_.data() + at_[i + kAhead] * kNumbers);
      f(i, memory_.data() + at_[i] * kNumbers);
    }
  }

  std::span<const float> memory_;
  std::vector<std::uint32_t> at_;
};

// Bytes read and written per second by copies of the table's size, within limits.
double copied_bytes_per_s(Device& device, std::size_t floats) {
  constexpr std::size_t kLeast = std::size_t{1} << 20, kMost = std::size_t{1} << 26;
  constexpr int kCopies = 10;
  const std::size_t n = std::clamp(floats, kLeast, kMost);
  Buffer from(device, n), to(device, n);
  device.fill(n, 1.0F, from.data());
  device.copy(n, from.data(), to.data());
  device.synchronize();
  const double seconds = seconds_of([&] {
    for (int i = 0; i < kCopies; ++i) device.copy(n, from.data(), to.data());
    device.synchronize();
  });
  return kCopies * 2.0 * static_cast<double>(n * sizeof(float)) / seconds;
}

// Checks the memory for the categories of all batches, and for the rows and gradients of one batch.
void require_room(const LookupBenchOptions& o, std::uint64_t batch_size) {
  const auto lookups = static_cast<double>(batch_size) * static_cast<double>(o.fields);
  const auto row = static_cast<double>(o.embedding) * sizeof(float);
  require_memory(lookups * (kBatches * sizeof(Index) + 2 * row),
                 fmt::format("--batch-size {}", batch_size), "the batches", MemoryLimit::available,
                 "reduce --batch-size, --fields or --embedding-dim");
}

}  // namespace

struct LookupBench::Impl {
  explicit Impl(const LookupBenchOptions& o)
      : options(o),
        first(equal_fields(o)),
        device(o.gpu ? make_cuda_device<float>(*o.gpu) : make_cpu_device<float>(o.cores)),
        set(one_worker(o, first), std::array{0}, machine_memory().total_bytes, {},
            std::array{o.gpu.value_or(-1)}),
        tables(set.plan(), set.shard(0), *device) {}

  // The bytes of a row in the table in whole cache lines (GPU: sectors), and those of a row in an
  // array without gaps (GPU; else 0).
  double line_bytes_per_row() const;
  double compact_bytes_per_row() const;
  // Host memory of the table's size, made at the first call.
  std::span<const float> as_much_memory() {
    if (memory.size() == 0) {
      memory.reset(*device, std::max(set.plan().placement.floats(0), kLine));
      device->fill(memory.size(), 1.0F, memory.data());
    }
    return memory.span();
  }
  // Times one core on reading and copying as many lines as the gather of `rows` rows reads.
  void time_lines(std::size_t rows, std::uint64_t stream, LookupTimes& times);

  LookupBenchOptions options;
  std::vector<Index> first;
  std::unique_ptr<Device> device;
  TableSet set;
  TableStages tables;
  Buffer memory, copy;
};

void LookupBench::Impl::time_lines(std::size_t rows, std::uint64_t stream, LookupTimes& times) {
  const double bytes = static_cast<double>(rows) * line_bytes_per_row();
  const std::size_t lines =
      static_cast<std::size_t>(bytes) / kLine / static_cast<std::size_t>(options.cores);
  const std::span<const float> from = as_much_memory();
  copy.reset(*device, lines * kLine / sizeof(float));
  times.random_reads.push_back(RandomLines(from, 2 * stream, lines).seconds_of_reads());
  times.random_copies.push_back(
      RandomLines(from, 2 * stream + 1, lines).seconds_of_copies(copy.data()));
}

LookupBench::LookupBench(const LookupBenchOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
LookupBench::~LookupBench() = default;

LookupTimes LookupBench::measure(std::uint64_t batch_size) const {
  Impl& s = *impl_;
  require_room(s.options, batch_size);
  const DatasetPtr data = random_clicks(s.options, s.first, kBatches * batch_size);
  std::vector<Batch> batches;
  for (std::uint64_t k = 0; k < kBatches; ++k) {
    std::vector<Index> rows(batch_size);
    std::iota(rows.begin(), rows.end(), static_cast<Index>(k * batch_size));
    batches.emplace_back(*data, rows);
  }
  const auto lookup = s.tables.make_lookup();
  Lookup& l = *lookup;
  l.gradient.reset(*s.device, batch_size, s.set.plan().width());
  s.device->fill(l.gradient.x.size(), 1e-3F, l.gradient.x.data());
  s.device->fill(l.gradient.u.size(), 1e-3F, l.gradient.u.data());
  LookupTimes times;
  for (int i = -s.options.warmup; i < s.options.iterations; ++i) {
    const Batch& batch = batches[static_cast<std::size_t>(i + s.options.warmup) % kBatches];
    const auto time = [&](std::vector<double>& list, const auto& stage) {
      s.device->synchronize();
      const double took = seconds_of([&] {
        stage();
        s.device->synchronize();
      });
      if (i >= 0) list.push_back(took);
    };
    time(times.request, [&] { s.tables.request(batch, l); });
    exchange_with_itself(*s.device, s.tables.exchange_counts(l));
    exchange_with_itself(*s.device, s.tables.exchange_ids(l));
    time(times.look_up, [&] { s.tables.gather(l); });
    exchange_with_itself(*s.device, s.tables.exchange_rows(l));
    time(times.spread, [&] { s.tables.spread(l); });
    time(times.sum, [&] { s.tables.sum(l); });
    exchange_with_itself(*s.device, s.tables.exchange_sums(l));
    time(times.update, [&] { s.tables.update(l, 0.01); });
    if (!s.options.gpu && i >= 0) s.time_lines(l.entries(), static_cast<std::uint64_t>(i), times);
    times.lookups = l.lookups();
    if (i >= 0) times.entries += static_cast<double>(l.entries()) / s.options.iterations;
  }
  return times;
}

double LookupBench::memory_bytes_per_s() const {
  constexpr std::size_t kReads = 2'000'000;
  constexpr std::uint64_t kRounds = 5;  // the fastest counts: disturbances only slow down
  Impl& s = *impl_;
  if (s.options.gpu) return copied_bytes_per_s(*s.device, s.set.plan().placement.floats(0));
  const std::span<const float> memory = s.as_much_memory();
  std::vector<double> rate(static_cast<std::size_t>(s.options.cores));
  {
    std::vector<std::jthread> readers;
    for (std::size_t t = 0; t < rate.size(); ++t) {
      readers.push_back(start_thread<std::jthread>("a core that reads", [&, t] {
        for (std::uint64_t round = 0; round < kRounds; ++round) {
          const RandomLines lines(memory, t + round * rate.size(), kReads);
          rate[t] =
              std::max(rate[t], static_cast<double>(kReads * kLine) / lines.seconds_of_reads());
        }
      }));
    }
  }
  return std::accumulate(rate.begin(), rate.end(), 0.0);
}

double LookupBench::Impl::line_bytes_per_row() const {
  const Placement& placement = set.plan().placement;
  const std::size_t line = options.gpu ? kSector : kLine;
  const std::size_t stride = placement.stride(0) * sizeof(float);
  const std::size_t bytes = placement.columns(0).size() * sizeof(float);
  const std::size_t rows = std::min<std::size_t>(placement.rows(0), kLine);
  std::size_t lines = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t begin = row * stride;
    lines += (begin + bytes - 1) / line - begin / line + 1;
  }
  return static_cast<double>(lines * line) / static_cast<double>(rows);
}

double LookupBench::Impl::compact_bytes_per_row() const {
  return options.gpu ? static_cast<double>(set.plan().placement.width() * sizeof(float)) : 0;
}

double LookupBench::gather_bytes_per_row() const {
  return impl_->line_bytes_per_row() + impl_->compact_bytes_per_row();
}
double LookupBench::update_bytes_per_row() const {
  return 2 * impl_->line_bytes_per_row() + impl_->compact_bytes_per_row();
}

double LookupBench::update_bytes(const LookupTimes& times) const {
  // Per lookup, its gradient is read, its row number, the place of its sum, and the content of that
  // place.
  constexpr std::size_t kNumbers = 3 * sizeof(Index);
  const std::size_t gradient = impl_->set.plan().placement.width() * sizeof(float);
  return static_cast<double>(times.lookups * (gradient + kNumbers)) +
         2 * times.entries * impl_->line_bytes_per_row();
}

}  // namespace hetsgd
