// rna: Randomized Non-blocking AllReduce. A controller probes a few random workers, and the first
// that has a gradient starts the averaging for all; a worker without one contributes nothing and
// still receives. Hierarchical: groups of workers of the same pace do so on their own, and a
// parameter server adds up the groups' progress.
//
// Paper:      RNA (Yang 2022, chapter 5), algorithm 5; sections 5.1.2 (probes), 5.1.3 (local
//             accumulation), 5.2 and 5.4 (hierarchical synchronisation).
// Implements: g_k = W sum_i w_i g'_i, W = 1 / sum_i w_i             (algorithm 5, lines 3, 4)
//             x_{k+1} = x_k - gamma_k g_k, gamma_k = (sum_i w_i / P) lr                    (line 5)
//             g' = sum_t (t - t_0 + 1) g_t / sum_t (t - t_0 + 1)                   (section 5.1.3)
//             groups: zeta > v splits at v, recursively (section 5.2; parts/groups.hpp)
//             server: x <- x + s_g (x_g - p_g), what the group pulls then
//             (parts/rna_hierarchical.hpp)
//             With plain SGD the first two make x - lr (1/P) sum_i w_i g'_i. Momentum, Adam and
//             the like take g_k as their gradient and gamma_k as their learning rate: the number
//             of contributors never scales a gradient (parts/partial_replica.hpp).
// Symbols:    w_i 1 if worker i has a gradient, else 0; gamma lr of one worker's share, so that
//             P gamma = lr, --learning-rate; q --probes; eta --eta; H --exchange-every; zeta, v
//             spread and mean of the workers' iteration times; s_g group g's share of the workers,
//             x_g its model, p_g what it pulled last.
// Cost:       per round one all_reduce of n + 3 elements, in which all (of the group) take part,
//             and 2 P + 4 q control messages with the controller; in sim also 4 n bytes from a
//             GPU to its host at the end of each of its steps, before it asks for a round (5.4,
//             WriteOp), and 4 n back to every GPU per round (--staging; 5.6.5, table 5.5);
//             hierarchical: every H rounds of a group n elements to the server and back, and a
//             broadcast of n + 1 elements in it.
// Records:    histograms "contributors" per round, "staleness" (rounds between the model that a
//             gradient was computed at and its reduction), "dropped" (the same of dropped ones);
//             event "groups" {groups, iteration_s}; under --record-steps events "contribution"
//             {rank, round, iterations, staleness} and "exchange" {group, rank, round}.
// Deviations: a worker computes one gradient per model and waits for the next model unless
//             --ahead allows more (figure 5.1's w_1 at t + 2 is --ahead 2): so full participation
//             equals ssgd.
//             Which gradients answer a probe is read from the text in two ways, --trigger:
//               fresh  one of the newest model ("finish propagation for the current iteration",
//                      "the probe is attached to the iteration identification", 5.1.2; in figure
//                      5.1 w_1 has a leftover and the round waits for w_0). Leftovers contribute
//                      all the same.
//               any    any that waits ("when they have ready gradients", 5.1.2; "when the initiator
//                      has tensors ready", 5.4): leftovers can begin a round in which no gradient
//                      is of the newest model. Nearly all gradients are then stale, also without
//                      delays, and few runs hold the target (results/rna-readings): so fresh is
//                      the default.
//             Local gradients are weighted as in 5.1.3; --local sum adds them up (section 5.4),
//             which is sooner where one worker is far slower (results/rna-readings). The bound
//             keeps the eta newest gradients; --bound age also drops those older than eta rounds
//             (assumption 2), and all stale ones with --eta 0 ("ignoring the staled contribution",
//             5.6.3).
//             While nothing is reduced "local gradients are used to fit the deep learning model"
//             (ReadOp, 5.4): with --local-training a worker continues at its own copy of x_k,
//             which each of its gradients moves by gamma g, as a round of its own would. x_{k+1}
//             replaces the copy, as reduced gradients "replace the local gradients": x changes by
//             lines 3 to 5 alone, with every gradient once, and line 2's x_{k,i} is the copy. (To
//             keep local steps and also take their mean would count gradients twice. Replicas
//             would then differ for good, where line 5 has one x_{k+1}.)
//             Groups come from the first --group-after rounds; a worker that has finished no
//             iteration by then counts with the time since its iteration began. zeta > v cannot
//             split delays of 0 to 50 and of 50 to 100 ms, which the text has in two groups
//             (5.6.1): --groups does by hand, and --group-by gap, a rule of ours.
//             Between groups the text has the averaged gradients "applied to update models using
//             parameter server", a group being a node of it (end of section 5.2): the server adds
//             what a group has gained since its last pull. It also has the parameters "averaged":
//             --group-server last, where a slow group holds back the others. Both weigh a group by
//             its size (the text: not at all). A group of P_g workers makes steps of lr c/P_g, as
//             if it were alone. Groups exchange "periodically" (5.4), every H of their rounds; the
//             text leaves H open, and it is 1 unless set.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/groups.hpp"
#include "algorithm/parts/rna_controller.hpp"
#include "algorithm/parts/rna_hierarchical.hpp"

namespace hetsgd {
namespace {

enum class Local { weighted, sum };
enum class Bound { count, age };

struct RnaOptions {
  int probes = 2;
  int eta = 4;
  Local local = Local::weighted;
  Bound bound = Bound::count;
  Trigger trigger = Trigger::fresh;
  std::optional<int> ahead;
  bool local_training = false;
  bool hierarchical = false;
  std::string groups;
  GroupBy group_by = GroupBy::spread;
  int group_after = 10;
  int exchange_every = 1;
  GroupRule group_server = GroupRule::increment;
  bool staging = true;
};

// Section 5.1.3: weight of a gradient computed at round t's model, with t_0 the oldest one's.
double linear_weight(std::int64_t t, std::int64_t t_0) { return static_cast<double>(t - t_0 + 1); }

// A worker's state, which its processes share.
struct RnaState {
  RnaState(Worker& self, const LocalRules& rules) : replica(self, rules) {}

  PartialReplica replica;
  // The reducing background task's:
  GroupPlace place;
  std::int64_t unpushed = 0;  // gradients of the group since its last exchange

  void fields(Archive& fields) {
    fields("replica", replica);
    fields("place", place);
    fields("unpushed", unpushed);
  }
};

// The reducing background task.
class Reducer {
 public:
  Reducer(const RnaOptions& options, Worker& self, RnaState& state, Probing& probing)
      : o_(options),
        self_(self),
        state_(state),
        replica_(state.replica),
        probing_(probing),
        group_(&self.comm()) {}

  void run(std::int64_t first_round) {
    const int workers = self_.plan().workers;
    if (state_.place.sizes.empty() && !o_.groups.empty()) {
      state_.place = place_in(Grouping(parse_groups(o_.groups, workers)), self_.id());
    }
    if (self_.goes_on() || self_.size() < workers) state_.place.count_members(self_.comm());
    if (state_.place.sizes.size() > 1) {
      form();
    } else {
      probing_.join(self_, replica_, 0, self_.rank(), self_.size(), o_.probes, "controller");
    }
    if (o_.hierarchical && self_.goes_on()) {
      replica_.catch_up(*group_);
      first_round = replica_.round();
    }
    for (std::int64_t round = first_round;; ++round) {
      const int initiator = probing_.await(replica_, round);
      const PartialSum sum = replica_.reduce(self_, *group_);
      const bool last = sum.last;
      state_.unpushed += sum.items;
      const bool exchange = !last && server_ && (round + 1) % o_.exchange_every == 0;
      if (exchange) this->exchange(initiator, round);
      // Between groups the result is the model that the server has returned.
      if (group_->rank() == initiator && (exchange || !server_)) self_.evaluate_here(replica_.x());
      if (!last && automatic() && round + 1 == o_.group_after) regroup();
      replica_.finish_round(last);
      if (last) return;
    }
  }

 private:
  using Server = ServiceClient<PushGroup, PullGroups>;
  bool automatic() const { return o_.hierarchical && o_.groups.empty(); }

  // The initiator pushes its group's parameters, pulls the server's, and broadcasts them in the
  // group. The count of gradients follows them, because the schedule depends on it.
  void exchange(int initiator, std::int64_t round) {
    const std::span<float> model = replica_.scratch();
    std::int64_t gradients = 0;
    if (group_->rank() == initiator) {
      gradients = server_
                      ->call({state_.place.number, state_.unpushed}, replica_.x().span(), model,
                             Traffic::parameters)
                      .gradients;
      if (self_.plan().record_steps) {
        self_.record({{"type", "exchange"},
                      {"group", state_.place.number},
                      {"rank", self_.rank()},
                      {"round", round}});
      }
    }
    state_.unpushed = 0;
    group_->broadcast(model, initiator, Traffic::parameters);
    group_->broadcast(std::span(&gradients, 1), initiator);
    replica_.replace(self_, model, gradients);
  }

  // All background tasks are in the same round here.
  void regroup() {
    const auto [mean, error] = replica_.iteration_time(self_.now());
    const WorkerPace mine{mean.count(), error.count()};
    state_.place =
        place_in(*self_.comm().agree(mine,
                                     [rule = o_.group_by](std::span<const WorkerPace> paces) {
                                       return Grouping(groups_by_pace(rule, paces), paces);
                                     }),
                 self_.rank());
    if (state_.place.sizes.size() == 1) return;
    form();
    state_.unpushed = 0;
  }

  // member: the worker's rank, or its number in the run, whichever the grouping counts by.
  GroupPlace place_in(const Grouping& grouping, int member) {
    if (self_.rank() == 0) {
      self_.record(
          {{"type", "groups"}, {"groups", grouping.groups}, {"iteration_s", grouping.time_s}});
    }
    return {grouping.number[static_cast<std::size_t>(member)], grouping.sizes};
  }

  // Joins the worker's group, one of several.
  void form() {
    const int number = state_.place.number;
    own_ = self_.comm().split(number, self_.rank());
    group_ = own_.get();
    server_ = self_.serve<GroupServer>("groups", o_.group_server, state_.place.sizes,
                                       self_.on_host(replica_.x()), replica_.gradients());
    probing_.join(self_, replica_, number, group_->rank(), group_->size(), o_.probes,
                  fmt::format("controller of group {}", number));
  }

  const RnaOptions& o_;
  Worker& self_;
  RnaState& state_;
  PartialReplica& replica_;
  Probing& probing_;
  std::unique_ptr<Comm> own_;
  Comm* group_;
  std::optional<Server> server_;
};

class Rna final : public Algorithm {
 public:
  void declare(OptionSet& set) override {
    set.add("probes", o_.probes,
            "Number of random workers that the controller probes in each round, at most all.")
        .symbol("q")
        .unit("workers")
        .at_least(1);
    set.add_choice("trigger", o_.trigger, {{"fresh", Trigger::fresh}, {"any", Trigger::any}},
                   "Gradients with which a probed worker can start a round. fresh: only one of the "
                   "newest model. any: also one of an earlier model.");
    set.add("eta", o_.eta,
            "Largest number of gradients that a worker keeps for its next contribution. With "
            "--bound age, 0 keeps only one of the newest model.")
        .symbol("eta")
        .at_least(0);
    set.add_choice("local", o_.local, {{"weighted", Local::weighted}, {"sum", Local::sum}},
                   "How a worker combines several gradients. weighted: by a mean whose weights "
                   "grow linearly with the iteration. sum: by their sum.");
    set.add_choice("bound", o_.bound, {{"count", Bound::count}, {"age", Bound::age}},
                   "What --eta bounds. count: the number of gradients that a worker keeps. age: "
                   "also their age in rounds.");
    set.add("ahead", o_.ahead,
            "Number of gradients that a worker computes at one model before it waits for the next. "
            "0: it never waits. auto: 1, or 0 with --local-training.")
        .unit("gradients")
        .at_least(0);
    set.add("local_training", o_.local_training,
            "Let a worker without a new model train on its own copy of the last one until the next "
            "model comes.");
    set.add("hierarchical", o_.hierarchical,
            "Put workers of the same pace into groups that average on their own, with a parameter "
            "server between the groups.");
    set.add("groups", o_.groups,
            "Groups of ranks for --hierarchical, for example 0-3:4-7 or 0;2:1;3. Without it, "
            "workers are grouped by iteration time.");
    set.add_choice(
        "group_by", o_.group_by, {{"spread", GroupBy::spread}, {"gap", GroupBy::gap}},
        "How --hierarchical splits workers into groups. spread: where iteration times spread by "
        "more than their mean. gap: at a gap wider than the spread on either side.");
    set.add("group_after", o_.group_after,
            "Number of rounds after which --hierarchical groups the workers by iteration time.")
        .unit("rounds")
        .at_least(1);
    set.add("exchange_every", o_.exchange_every,
            "Number of rounds of a group between two exchanges with the parameter server.")
        .symbol("H")
        .unit("rounds")
        .at_least(1);
    set.add_choice("group_server", o_.group_server,
                   {{"increment", GroupRule::increment}, {"last", GroupRule::last}},
                   "Rule of the server between groups. increment adds each group's progress since "
                   "its last pull. last averages the models that groups pushed last.");
    declare_staging(set, o_.staging);
  }

  void check(const Plan& plan) const override {
    if (o_.eta == 0 && o_.bound == Bound::count) {
      refuse("--eta", "0 with --bound count", "1 or more",
             "--bound age --eta 0 drops every gradient that missed its round");
    }
    if (o_.groups.empty()) return;
    if (!o_.hierarchical) {
      refuse("--groups", quote(o_.groups) + " without --hierarchical", "both, or neither");
    }
    parse_groups(o_.groups, plan.workers);
  }

  double model_vectors(const Plan&) const override { return PartialReplica::vectors(rules()); }

  void worker(Worker& self) const override {
    const auto state = self.shared_state([&] { return RnaState(self, rules()); });
    const auto probing = std::make_shared<Probing>(o_.trigger);
    self.background_task("reduce", [=, this, round = state->replica.round()](Worker& reducer) {
      Reducer(o_, reducer, *state, *probing).run(round);
    });
    state->replica.compute(self, *probing);
  }

 private:
  LocalRules rules() const {
    const int ahead = o_.ahead.value_or(o_.local_training ? 0 : 1);
    return {.weight = o_.local == Local::weighted ? linear_weight : nullptr,
            .keep = std::max(o_.eta, 1),
            .max_age = o_.bound == Bound::age ? o_.eta : kNoBound,
            .ahead = ahead > 0 ? ahead : kNoBound,
            .local_training = o_.local_training,
            .share = Share::rate,
            .groups = o_.hierarchical,
            .staging = o_.staging};
  }

  RnaOptions o_;
};

const bool rna_registered = register_algorithm<Rna>({
    .name = "rna",
    .title = "RNA",
    .idea = "A controller probes a few random workers, and the first that has its gradient starts "
            "the averaging; a worker without one contributes zero. Workers of similar pace can "
            "form groups. Each group then averages on its own, and a parameter server adds up the "
            "progress of the groups.",
    .paper = "RNA (Yang 2022, chapter 5), algorithm 5",
    .cost =
        "one all_reduce of n elements, 2 n elements between GPU and host, and 2 P + 4 q control "
        "messages per round; hierarchical: also n elements to the server and back and a broadcast "
        "per exchange of a group",
    .result =
        "the replicas' common model; hierarchical: the server's, as a group has just received it",
    .identities = "all gradients ready = ssgd with full per-worker batches of equally many "
                  "targets, up to rounding; so is one worker sgd; one group = flat",
    .synchronous = false,
});

}  // namespace
}  // namespace hetsgd
