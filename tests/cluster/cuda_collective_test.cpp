// Collectives between GPUs of one process against the reduction on the host: by group, and through
// the threads cluster. A GPU may have several ranks, so one is enough; an emulated run has eight.

#include <cstring>

#include "cluster/conformance.hpp"
#include "cluster/cuda/gpu_group.hpp"
#include "cluster/reduce.hpp"
#include "core/random.hpp"
#include "support/gpu.hpp"

namespace hetsgd {
namespace {

using cuda::GpuGroup;
using cuda::make_gpu_group;
using Bytes = std::vector<std::byte>;

int gpu_count() {
  static const int count = static_cast<int>(cuda_platform().gpus.size());
  return count;
}

Device& device_of(int gpu) {
  static std::vector<std::unique_ptr<Device>> devices(64);
  auto& device = devices[static_cast<std::size_t>(gpu)];
  if (!device) device = make_cuda_device<float>(gpu);
  return *device;
}

// Assignments of GPUs to `ranks`: one, two or all of the machine's GPUs, in turns.
std::vector<std::vector<int>> placements(int ranks) {
  std::vector<std::vector<int>> all;
  for (const int gpus : std::set<int>{1, std::min(2, gpu_count()), std::min(ranks, gpu_count())}) {
    std::vector<int> place;
    for (int r = 0; r < ranks; ++r) place.push_back(r % gpus);
    all.push_back(place);
  }
  return all;
}

bool distinct(const std::vector<int>& gpus) {
  return std::set<int>(gpus.begin(), gpus.end()).size() == gpus.size();
}

template <class T>
std::vector<T> random_numbers(std::size_t n, std::uint64_t stream) {
  RandomStream random(3, Purpose::test, stream);
  std::vector<T> x(n);
  for (T& number : x) {
    number = std::is_integral_v<T> ? static_cast<T>(random.next_u64()) * 3 - 5
                                   : static_cast<T>(random.uniform(-1, 1));
  }
  return x;
}

template <class T>
Bytes bytes_of(const std::vector<T>& x) {
  Bytes bytes(x.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), x.data(), bytes.size());
  return bytes;
}

// Memory of a rank's GPU.
class OnGpu {
 public:
  OnGpu(int gpu, const Bytes& content) : device_(device_of(gpu)), bytes_(content.size()) {
    memory_ = device_.allocate(bytes_);
    device_.upload(memory_, content.data(), bytes_);
    device_.synchronize();
  }
  ~OnGpu() { device_.release(memory_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  void* data() const { return memory_; }
  Bytes content() const {
    Bytes bytes(bytes_);
    device_.download(bytes.data(), memory_, bytes_);
    return bytes;
  }

 private:
  Device& device_;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

// Every rank's share at the same time; rethrows the first error, after all have returned.
void all_move(GpuGroup& group, int ranks, const CollectiveCall& call,
              const std::vector<const void*>& in, const std::vector<void*>& out) {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        group.move(r, call, in, out);
      } catch (...) {
        errors[static_cast<std::size_t>(r)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

std::vector<Bytes> run(GpuGroup& group, const std::vector<int>& gpus, const CollectiveCall& call,
                       const std::vector<Bytes>& inputs, std::size_t out_bytes) {
  std::vector<std::unique_ptr<OnGpu>> ins, outs;
  std::vector<const void*> in;
  std::vector<void*> out;
  const bool in_place = call.collective != Collective::all_gather;
  for (std::size_t r = 0; r < gpus.size(); ++r) {
    ins.push_back(std::make_unique<OnGpu>(gpus[r], inputs[r]));
    in.push_back(ins.back()->data());
    if (!in_place) outs.push_back(std::make_unique<OnGpu>(gpus[r], Bytes(out_bytes)));
    out.push_back(in_place ? ins.back()->data() : outs.back()->data());
  }
  all_move(group, static_cast<int>(gpus.size()), call, in, out);
  std::vector<Bytes> results;
  for (std::size_t r = 0; r < gpus.size(); ++r) {
    results.push_back((in_place ? ins : outs)[r]->content());
  }
  return results;
}

template <class T>
Bytes reduced(const std::vector<Bytes>& inputs, ReduceOp op) {
  Bytes sum(inputs.front().size());
  std::vector<const void*> in;
  for (const Bytes& x : inputs) in.push_back(x.data());
  void* out = sum.data();
  reduce_in_rank_order(in, {&out, 1}, 0, sum.size() / sizeof(T), element_of<T>(), op);
  return sum;
}

// Bits where the order of adding is that of the ranks or does not matter.
template <class T>
void expect_reduced(const Bytes& result, const Bytes& expected, bool exact) {
  if (exact || std::is_integral_v<T>) {
    EXPECT_TRUE(result == expected);
    return;
  }
  for (std::size_t i = 0; i < expected.size(); i += sizeof(T)) {
    T x, y;
    std::memcpy(&x, result.data() + i, sizeof(T));
    std::memcpy(&y, expected.data() + i, sizeof(T));
    if constexpr (!std::is_integral_v<T>) {
      ASSERT_NEAR(x, y, 16 * std::numeric_limits<T>::epsilon()) << "at byte " << i;
    }
  }
}

std::vector<AllReduce> methods_for(const std::vector<int>& gpus) {
  std::vector<AllReduce> methods{AllReduce::ring, AllReduce::tree};
  if (cuda::nccl_problem(gpus).empty()) methods.push_back(AllReduce::nccl);
  return methods;
}

template <class T>
void check_reductions(GpuGroup& group, const std::vector<int>& gpus, std::size_t n, ReduceOp op) {
  const int p = static_cast<int>(gpus.size());
  std::vector<Bytes> inputs;
  for (std::size_t r = 0; r < gpus.size(); ++r) {
    inputs.push_back(bytes_of(random_numbers<T>(n, r)));
  }
  const Bytes expected = reduced<T>(inputs, op);
  CollectiveCall call{.collective = Collective::all_reduce, .count = n, .element = element_of<T>()};
  call.op = op;
  const bool exact = group.method() == AllReduce::ring || op != ReduceOp::sum || p == 2;
  const std::vector<Bytes> results = run(group, gpus, call, inputs, 0);
  for (const Bytes& result : results) {
    expect_reduced<T>(result, expected, exact);
    EXPECT_TRUE(result == results.front()) << "ranks differ";
  }
  if (n < 1000) {
    EXPECT_TRUE(run(group, gpus, call, inputs, 0) == results) << "not the same twice";
  }

  call.collective = Collective::reduce_scatter;
  const std::vector<Bytes> scattered = run(group, gpus, call, inputs, 0);
  for (int r = 0; r < p; ++r) {
    const Block block = block_of(r, p, n);
    const auto mine = [&](const Bytes& x) {
      return Bytes(x.begin() + static_cast<std::ptrdiff_t>(block.begin * sizeof(T)),
                   x.begin() + static_cast<std::ptrdiff_t>(block.end * sizeof(T)));
    };
    expect_reduced<T>(mine(scattered[static_cast<std::size_t>(r)]), mine(expected),
                      exact || group.method() == AllReduce::tree);
  }
}

void check_copies(GpuGroup& group, const std::vector<int>& gpus, std::size_t bytes) {
  const int p = static_cast<int>(gpus.size());
  std::vector<Bytes> inputs;
  Bytes all;
  for (std::size_t r = 0; r < gpus.size(); ++r) {
    inputs.push_back(bytes_of(random_numbers<std::int64_t>(bytes / 8 + 1, r)));
    inputs.back().resize(bytes);
    all.insert(all.end(), inputs.back().begin(), inputs.back().end());
  }
  for (const int root : {0, p - 1}) {
    const CollectiveCall call{.collective = Collective::broadcast, .count = bytes, .root = root};
    for (const Bytes& result : run(group, gpus, call, inputs, 0)) {
      EXPECT_TRUE(result == inputs[static_cast<std::size_t>(root)]) << "from " << root;
    }
  }
  const CollectiveCall gather{.collective = Collective::all_gather, .count = bytes};
  for (const Bytes& result : run(group, gpus, gather, inputs, all.size())) {
    EXPECT_TRUE(result == all);
  }
}

// Rank r gives (r + 2 s) % 4 times `unit` bytes to rank s.
void check_all_to_all(GpuGroup& group, const std::vector<int>& gpus, std::size_t unit) {
  const std::size_t p = gpus.size();
  std::vector<std::vector<std::size_t>> out(p, std::vector<std::size_t>(p)), in = out;
  std::vector<std::unique_ptr<OnGpu>> sent, received;
  std::vector<AllToAll> all;
  std::vector<Bytes> gets(p);
  for (std::size_t r = 0; r < p; ++r) {
    for (std::size_t s = 0; s < p; ++s) {
      out[r][s] = (r + 2 * s) % 4 * unit;
      in[s][r] = out[r][s];
    }
  }
  for (std::size_t r = 0; r < p; ++r) {
    Bytes gives;
    for (std::size_t s = 0; s < p; ++s) {
      Bytes part = bytes_of(random_numbers<std::int64_t>(out[r][s] / 8 + 1, p * r + s));
      part.resize(out[r][s]);
      gives.insert(gives.end(), part.begin(), part.end());
      gets[s].insert(gets[s].end(), part.begin(), part.end());
    }
    sent.push_back(std::make_unique<OnGpu>(gpus[r], gives));
  }
  for (std::size_t r = 0; r < p; ++r) {
    received.push_back(std::make_unique<OnGpu>(gpus[r], Bytes(gets[r].size())));
    all.push_back({sent[r]->data(), AllToAll::sum(out[r]), out[r], received[r]->data(),
                   gets[r].size(), in[r]});
  }
  std::vector<const void*> parts;
  for (const AllToAll& one : all) parts.push_back(&one);
  all_move(group, static_cast<int>(p), {.collective = Collective::all_to_all, .count = 1}, parts,
           std::vector<void*>(p));
  for (std::size_t r = 0; r < p; ++r)
    EXPECT_TRUE(received[r]->content() == gets[r]) << "rank " << r;
}

// Odd lengths around cache lines, partitions and pieces of 512 bytes; with GPUs that reach each
// other, and through the host.
TEST(GpuGroup, EveryNumberOfRanksOnEveryNumberOfGpus) {
  for (const bool peers : {true, false}) {
    for (const int ranks : {2, 3, 5, 8}) {
      const auto places = placements(ranks);
      for (const std::vector<int>& gpus : std::span(places).last(peers ? places.size() : 1)) {
        for (const AllReduce method : methods_for(gpus)) {
          if (!peers && (method == AllReduce::nccl || ranks == 8)) continue;
          const auto group =
              make_gpu_group(gpus, {.method = method, .piece_bytes = 512, .peers = peers});
          EXPECT_EQ(group->method(), method);
          for (const std::size_t n : {0U, 1U, 17U, 251U, 1025U}) {
            SCOPED_TRACE(testing::Message()
                         << ranks << " ranks on " << gpus.back() + 1 << " GPUs, " << n
                         << " numbers, method " << static_cast<int>(method) << ", peers " << peers);
            check_reductions<float>(*group, gpus, n, ReduceOp::sum);
            check_copies(*group, gpus, n);
            check_all_to_all(*group, gpus, n);
          }
        }
      }
    }
  }
}

TEST(GpuGroup, EveryElementAndOperation) {
  for (const std::vector<int>& gpus : placements(3)) {
    for (const AllReduce method : methods_for(gpus)) {
      const auto group = make_gpu_group(gpus, {.method = method, .piece_bytes = 1024});
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
        check_reductions<float>(*group, gpus, 777, op);
        check_reductions<double>(*group, gpus, 777, op);
        check_reductions<std::int64_t>(*group, gpus, 777, op);
      }
    }
  }
}

// The host's reduction to the bit where numbers are none, or zeros of either sign.
TEST(GpuGroup, TheRingKeepsTiesAndNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<int> gpus = placements(3).back();
  const auto group = make_gpu_group(gpus, {.method = AllReduce::ring});
  const std::vector<Bytes> inputs{bytes_of(std::vector<float>{nan, 1, 0.0F, -0.0F, 1e30F}),
                                  bytes_of(std::vector<float>{2, nan, -0.0F, 0.0F, -1e30F}),
                                  bytes_of(std::vector<float>{3, 2, 0.0F, -0.0F, 1e-3F})};
  for (const ReduceOp op : {ReduceOp::max, ReduceOp::min, ReduceOp::sum}) {
    CollectiveCall call{.collective = Collective::all_reduce, .count = 5};
    call.element = Element::float32;
    call.op = op;
    const Bytes expected = reduced<float>(inputs, op);
    for (const Bytes& result : run(*group, gpus, call, inputs, 0)) {
      for (std::size_t i = 0; i < 5; ++i) {
        float x, y;
        std::memcpy(&x, result.data() + 4 * i, 4);
        std::memcpy(&y, expected.data() + 4 * i, 4);
        EXPECT_TRUE(std::isnan(x) ? std::isnan(y) : std::memcmp(&x, &y, 4) == 0) << i;
      }
    }
  }
}

// Longer than a chunk of the staging memory.
TEST(GpuGroup, LongVectors) {
  const std::vector<int> gpus = placements(2).back();
  for (const bool peers : {true, false}) {
    for (const AllReduce method : {AllReduce::ring, AllReduce::tree}) {
      const auto group = make_gpu_group(gpus, {.method = method, .peers = peers});
      check_reductions<float>(*group, gpus, (std::size_t{3} << 19) + 1, ReduceOp::sum);
    }
  }
}

TEST(GpuGroup, FetchesFromAnotherRank) {
  for (const bool peers : {true, false}) {
    for (const std::vector<int>& gpus : placements(2)) {
      const auto group = make_gpu_group(gpus, {.method = AllReduce::ring, .peers = peers});
      const Bytes content = bytes_of(random_numbers<double>(300'001, 1));
      const OnGpu source(gpus[1], content), target(gpus[0], Bytes(content.size()));
      group->fetch(0, 1, source.data(), target.data(), content.size());
      EXPECT_TRUE(target.content() == content);
      group->fetch(0, 1, nullptr, nullptr, 0);
    }
  }
}

TEST(GpuGroup, ChoosesWhatIsThere) {
  EXPECT_NE(cuda::nccl_problem(std::vector<int>{0, 0}).find("cuda:0"), std::string::npos);
  EXPECT_EQ(make_gpu_group({0, 0}, {})->method(), AllReduce::ring);
  EXPECT_THROW(make_gpu_group({0, 0}, {.method = AllReduce::nccl}), Error);
  const std::vector<int> gpus = placements(2).back();
  const bool nccl = distinct(gpus) && !cuda::nccl_version().empty();
  EXPECT_EQ(cuda::nccl_problem(gpus).empty(), nccl);
  EXPECT_EQ(make_gpu_group(gpus, {})->method(), nccl ? AllReduce::nccl : AllReduce::ring);
}

// One rank's share fails: the others return, whatever their kernels were waiting for.
TEST(GpuGroup, AFailedShareKeepsNobodyWaiting) {
  const std::vector<int> gpus = placements(3).back();
  for (const AllReduce method : methods_for(gpus)) {
    const auto group = make_gpu_group(gpus, {.method = method});
    std::vector<std::unique_ptr<OnGpu>> buffers;
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const int gpu : gpus) {
      buffers.push_back(std::make_unique<OnGpu>(gpu, Bytes(4000)));
      in.push_back(buffers.back()->data());
      out.push_back(buffers.back()->data());
    }
    CollectiveCall good{.collective = Collective::all_reduce, .count = 1000};
    good.element = Element::float32;
    std::vector<std::thread> threads;
    for (const int r : {1, 2}) {
      threads.emplace_back([&, r] {
        try {
          group->move(r, good, in, out);
        } catch (const Error&) {  // NCCL may say it first
        }
      });
    }
    const CollectiveCall bad{.collective = Collective::barrier, .count = 1000};
    EXPECT_THROW(group->move(0, bad, in, out), CheckFailure);
    for (auto& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace hetsgd
