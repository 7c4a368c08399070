#include "algorithm/parts/partial_replica.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>

namespace hetsgd {

using Guard = std::lock_guard<Monitor>;

PartialReplica::PartialReplica(Worker& self, const LocalRules& rules)
    : rules_(rules),
      make_gradient_([&self] { return self.make_gradient(); }),
      monitor_(self.make_monitor()),
      x_(self.replica()),
      sum_(self.device(), x_.w.size() + kPartialTail),
      members_(self.size()) {}

// Replicas of several groups differ, so one that joins has that of any group until it catches up.
void PartialReplica::fields(Archive& fields) {
  rules_.groups ? fields.or_first("x", x_) : fields.common("x", x_);
  rules_.groups ? fields.or_first("gradients", gradients_) : fields.common("gradients", gradients_);
  rules_.groups ? fields.or_first("round", round_) : fields.common("round", round_);
  std::uint64_t pending = pending_.size();
  fields("pending", pending);
  for (std::size_t i = 0; i < pending; ++i) {
    if (fields.is_loading()) pending_.push_back({.g = make_gradient_()});
    fields(fmt::format("pending{}", i), pending_[i]);
  }
  fields("unaccounted", unaccounted_);
  fields("computing", computing_);
  fields("computing_squares", computing_squares_);
  fields("iterations", iterations_);
  fields("behind", behind_);
  if (!fields.is_loading() || !rules_.groups) return;
  behind_ = behind_ || fields.joins();
  updating_ = behind_;
}

// If all have joined, the one with most rounds speaks for all. The optimizer's state goes with x.
void PartialReplica::catch_up(Comm& group) {
  struct Standing {
    std::int64_t round;
    std::int32_t rank, behind;
  };
  struct Source {
    std::int32_t rank, is_needed;
  };
  const Standing mine{round(), group.rank(), behind_};
  const auto source = *group.agree(mine, [](std::span<const Standing> all) {
    const auto key = [](const Standing& each) { return std::pair(each.behind, -each.round); };
    const auto is_behind = [](const Standing& each) { return each.behind != 0; };
    return Source{std::ranges::min_element(all, {}, key)->rank,
                  std::ranges::any_of(all, is_behind)};
  });
  if (source.is_needed == 0) return;
  const auto describe = [&](Archive& fields) {
    fields("x", x_);
    fields("gradients", gradients_);
    fields("round", round_);
  };
  std::vector<std::byte> bytes;
  if (group.rank() == source.rank) {
    SavedFields state;
    Archive fields = Archive::saving(state, state);
    describe(fields);
    bytes = to_bytes(state);
  }
  std::uint64_t size = bytes.size();
  group.broadcast(std::span(&size, 1), source.rank);
  bytes.resize(size);
  group.broadcast(std::span(bytes), source.rank, Traffic::parameters);
  if (!behind_) return;
  const std::string what = "the state of a group";
  const SavedFields state = from_bytes<SavedFields>(bytes, what);
  Archive fields = Archive::loading(state, state, what);
  const Guard guard(*monitor_);
  x_.optimizer.reset();
  describe(fields);
  behind_ = updating_ = false;
  monitor_->notify_all();
}

double PartialReplica::vectors(const LocalRules& rules) {
  return 3 +
         std::min(2 * static_cast<double>(rules.ahead), 2 * static_cast<double>(rules.keep) + 1);
}

void declare_staging(OptionSet& set, bool& staging) {
  set.add("staging", staging,
          "Charge for reductions in host memory with --cluster sim. Contributions and sums then "
          "cross the host link of the device profile, if it has one.");
}

void PartialReplica::compute(Worker& self, Activation& activation) {
  const std::uint64_t b = self.plan().batch_size;
  Buffer w = self.vector();   // the snapshot, with the local steps since
  std::int64_t at = -1;       // its round
  std::int64_t computed = 0;  // gradients at it
  for (std::uint64_t iteration = iterations_; self.running(); ++iteration) {
    Pending next;
    next.iteration = iteration;
    {
      const Guard guard(*monitor_);
      monitor_->wait([&] { return !updating_; }, "the update of the model");
      if (at != round_) {
        self.copy(x_.w, w);
        at = round_;
        computed = 0;
      }
      if (!free_.empty()) {
        next.g = std::move(free_.back());
        free_.pop_back();
      }
      started_ = self.now();
      in_iteration_ = true;
    }
    if (next.g.flat.size() == 0) next.g = self.make_gradient();
    next.round = at;
    const Seconds start = self.now();
    self.gradient(w, self.batches().next(b), next.g);
    if (rules_.staging) self.charge_host_copy();
    ++computed;
    const std::span<const float> g = next.g.flat.span();
    const bool fresh = deposit(self, std::move(next), self.now() - start);
    activation.offer(self, *this, fresh);
    if (const auto lr = await_model(self, at, computed)) {
      self.compute_vectors(3, [&] {
        self.device().axpby(w.size(), static_cast<float>(-*lr), g.data(), 1.0F, w.data());
      });
    }
  }
  {
    const Guard guard(*monitor_);
    leaving_ = true;
  }
  activation.leave(self, *this);
  const Guard guard(*monitor_);
  monitor_->wait([&] { return ended_; }, "the last round");
}

// Main process: waits until it may continue to compute. Returns the learning rate of the local step
// that it must make first; none if it makes no local step, because a new model is there or about to
// be.
std::optional<double> PartialReplica::await_model(Worker& self, std::int64_t at,
                                                  std::int64_t computed) {
  const Guard guard(*monitor_);
  monitor_->wait([&] { return round_ != at || computed < rules_.ahead || ended_; },
                 "the next model");
  if (!rules_.local_training || round_ != at || updating_) return std::nullopt;
  return learning_rate(self) / members_;
}

// Returns whether the gradient was computed at the newest model.
bool PartialReplica::deposit(Worker& self, Pending done, Seconds took) {
  const Guard guard(*monitor_);
  const bool fresh = done.round == round_;
  computing_ += took;
  computing_squares_ += took.count() * took.count();
  ++iterations_;
  in_iteration_ = false;
  pending_.push_back(std::move(done));
  ++unaccounted_;
  drop_old(self);
  return fresh;
}

// The newest gradient, which comes last, decides.
bool PartialReplica::ready(Trigger trigger) const {
  if (pending_.empty()) return false;
  const std::int64_t age = round_ - pending_.back().round;
  return age <= (trigger == Trigger::fresh ? 0 : rules_.max_age);
}

void PartialReplica::drop_old(Worker& self) {
  const auto too_old = [&] {
    return static_cast<std::int64_t>(pending_.size()) > rules_.keep ||
           round_ - pending_.front().round > rules_.max_age;
  };
  while (!pending_.empty() && too_old()) {
    self.observe("dropped", round_ - pending_.front().round);
    free_.push_back(std::move(pending_.front().g));
    pending_.pop_front();
  }
}

std::vector<PartialReplica::Pending> PartialReplica::take(Worker& self, PartialShare& share) {
  const Guard guard(*monitor_);
  drop_old(self);
  std::vector<Pending> ready(std::make_move_iterator(pending_.begin()),
                             std::make_move_iterator(pending_.end()));
  pending_.clear();
  share = {.contributes = !ready.empty(), .items = unaccounted_, .last = leaving_};
  unaccounted_ = 0;
  for (const Pending& g : ready) self.observe("staleness", round_ - g.round);
  if (self.plan().record_steps && !ready.empty()) record_event(self, ready);
  return ready;
}

void PartialReplica::record_event(Worker& self, std::span<const Pending> ready) const {
  nlohmann::json iterations = nlohmann::json::array(), staleness = nlohmann::json::array();
  for (const Pending& g : ready) {
    iterations.push_back(g.iteration);
    staleness.push_back(round_ - g.round);
  }
  self.record({{"type", "contribution"},
               {"rank", self.rank()},
               {"round", round_},
               {"iterations", iterations},
               {"staleness", staleness}});
}

// sum <- g' / p.
void PartialReplica::combine(Worker& self, std::span<const Pending> ready, int p) {
  const auto weight = [&](const Pending& g) {
    return rules_.weight ? rules_.weight(g.round, ready.front().round) : 1.0;
  };
  double total = rules_.weight ? 0 : 1;
  for (const Pending& g : ready) total += rules_.weight ? weight(g) : 0;
  const std::span<float> sum = scratch();
  const double passes = ready.empty() ? 1 : 3 * static_cast<double>(ready.size()) - 1;
  self.compute_vectors(passes, [&] {
    if (ready.empty()) return self.device().fill(sum.size(), 0.0F, sum.data());
    float old = 0;
    for (const Pending& g : ready) {
      const double a = weight(g) / (total * p);
      self.device().axpby(sum.size(), static_cast<float>(a), g.g.flat.data(), old, sum.data());
      old = 1;
    }
  });
}

// The schedule follows the gradients that all workers have accounted for before this round: the
// learning rate must be the same everywhere.
double PartialReplica::learning_rate(Worker& self) const {
  const Plan& plan = self.plan();
  const double epoch = static_cast<double>(gradients_) * static_cast<double>(plan.batch_size) /
                       static_cast<double>(plan.rows);
  return plan.learning_rate * plan.schedule.factor(epoch);
}

PartialSum PartialReplica::reduce(Worker& self, Comm& group) {
  PartialShare share;
  std::vector<Pending> ready = take(self, share);
  combine(self, ready, group.size());
  {
    const Guard guard(*monitor_);
    for (Pending& used : ready) free_.push_back(std::move(used.g));
  }
  const PartialSum result =
      partial_all_reduce(group, self.device(), sum_.span(), share, Traffic::gradients);
  if (rules_.staging) self.charge_host_copy();
  const double lr = learning_rate(self);
  if (group.rank() == 0) self.observe("contributors", result.contributors);
  {
    const Guard guard(*monitor_);
    updating_ = true;
    members_ = group.size();
    gradients_ += result.items;  // replace() adds the gradients of other groups
  }
  if (result.contributors > 0) {
    update(self, static_cast<double>(result.contributors) / group.size(), lr);
  }
  return result;
}

// `share`: c/P. The sum has the factor 1/P already; the mean of the contributions has 1/c. Plain
// SGD is linear in the gradient, so there the factor need not move from one to the other.
void PartialReplica::update(Worker& self, double share, double lr) {
  if (rules_.share == Share::rate && share < 1 && !self.plan().optimizer.plain()) {
    const std::span<float> sum = scratch();
    self.compute_vectors(2, [&] {
      const auto inverse = static_cast<float>(1 / share);
      self.device().axpby(sum.size(), inverse, sum.data(), 0.0F, sum.data());
    });
    lr *= share;
  }
  self.apply(x_, scratch(), lr);
}

void PartialReplica::replace(Worker& self, std::span<const float> model, std::int64_t gradients) {
  gradients_ = gradients;
  self.compute_vectors(2, [&] { self.device().copy(x_.w.size(), model.data(), x_.w.data()); });
}

void PartialReplica::finish_round(bool last) {
  const Guard guard(*monitor_);
  ++round_;
  updating_ = false;
  ended_ = last;
  monitor_->notify_all();
}

PartialReplica::IterationTime PartialReplica::iteration_time(Seconds now) {
  const Guard guard(*monitor_);
  const auto n = static_cast<double>(iterations_);
  const double mean = n > 0 ? computing_.count() / n : 0;
  const double squares = std::max(0.0, computing_squares_ - n * mean * mean);
  const Seconds error(n > 1 ? std::sqrt(squares / (n - 1) / n) : 0);
  return {in_iteration_ ? std::max(Seconds(mean), now - started_) : Seconds(mean), error};
}

}  // namespace hetsgd
