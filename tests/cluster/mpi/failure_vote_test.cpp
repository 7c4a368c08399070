// Which calls go on when workers are lost (cluster/mpi/protocol/failure_vote.hpp, check_ins.hpp).
#include "cluster/mpi/protocol/failure_vote.hpp"

#include "cluster/mpi/check_ins.hpp"
#include "cluster/mpi/message_network.hpp"

namespace hetsgd::mpi {
namespace {

class Rank final : public VotingRun {
 public:
  std::vector<Calls> lose(Seconds detected) override {
    known_since = detected;
    return calls.close();
  }
  void decide(const std::vector<Calls>& complete) override { calls.decide(complete); }
  CheckIns calls;
  Seconds known_since{0};
};

struct Ranks {
  explicit Ranks(int size) : network(size) {
    for (int rank = 0; rank < size; ++rank) {
      each.push_back(std::make_unique<Rank>());
      votes.push_back(std::make_unique<FailureVote>(network[rank]));
      votes.back()->attach(each.back().get());
    }
  }
  void vote() {
    network.deliver();
    ASSERT_TRUE(votes[0]->waits());
    votes[0]->tell_all();
    network.deliver();
    for (auto& vote : votes) {
      ASSERT_TRUE(vote->must_halt());
      vote->halt();
    }
    network.deliver();
  }
  Network network;
  std::vector<std::unique_ptr<Rank>> each;
  std::vector<std::unique_ptr<FailureVote>> votes;
};

const CallKey kAll{.group = 0};
const CallKey kPair{.group = 0, .kind = 7, .a = 0, .b = 2};

TEST(FailureVote, ACallGoesOnIfAllMembersHaveCome) {
  Ranks ranks(3);
  for (auto& rank : ranks.each) EXPECT_EQ(rank->calls.come(kAll, 3), 1U);
  EXPECT_EQ(ranks.each[0]->calls.come(kAll, 3), 2U);
  EXPECT_EQ(ranks.each[2]->calls.come(kAll, 3), 2U);
  ranks.votes[1]->tell(Seconds(3));
  ranks.votes[2]->tell(Seconds(4));
  EXPECT_TRUE(ranks.each[0]->calls.goes_on(kAll, 2));  // nobody knows yet
  ranks.vote();
  for (auto& rank : ranks.each) {
    EXPECT_EQ(rank->known_since, Seconds(3));
    EXPECT_TRUE(rank->calls.goes_on(kAll, 1));
    EXPECT_FALSE(rank->calls.goes_on(kAll, 2));
    EXPECT_FALSE(rank->calls.come(kAll, 3));
  }
}

TEST(FailureVote, OthersAreNoMembersOfAnExchange) {
  for (const bool both : {false, true}) {
    Ranks ranks(3);
    ranks.each[0]->calls.come(kPair, 2);
    if (both) ranks.each[2]->calls.come(kPair, 2);
    ranks.votes[1]->tell(Seconds(1));
    ranks.vote();
    EXPECT_EQ(ranks.each[0]->calls.goes_on(kPair, 1), both);
  }
}

TEST(FailureVote, TheNextSegmentBeginsAnew) {
  Ranks ranks(2);
  ranks.votes[0]->tell(Seconds(1));
  ranks.vote();
  for (auto& vote : ranks.votes) vote->reset();
  EXPECT_FALSE(ranks.votes[0]->waits());
  ranks.votes[1]->tell(Seconds(2));
  ranks.vote();
  EXPECT_EQ(ranks.each[0]->known_since, Seconds(2));
}

}  // namespace
}  // namespace hetsgd::mpi
