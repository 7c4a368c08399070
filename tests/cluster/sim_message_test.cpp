// When messages arrive, in closed form.
#include <array>

#include "cluster/sim_support.hpp"

namespace hetsgd::sim {
namespace {

using Bytes = std::vector<std::byte>;

void send(Node& node, int to, std::size_t bytes, Traffic kind = Traffic::control, int tag = 0) {
  const Bytes data(bytes);
  node.comm().send<std::byte>(to, tag, data, kind);
}
int receive(Node& node, int from, std::size_t bytes, int tag = 0) {
  Bytes data(bytes);
  return node.comm().receive<std::byte>(from, tag, data).source;
}

TEST(SimMessage, TakesLatencyAndTransfer) {
  const auto report = run(slow_machine(2), [](Node& node) {
    if (node.rank() == 0) {
      node.sleep(1s);
      send(node, 1, 64);
      EXPECT_EQ(now(node), 2.0);  // has left the link
    } else {
      receive(node, 0, 64);
      EXPECT_EQ(now(node), 2.25);
    }
  });
  EXPECT_EQ(report.elapsed.count(), 2.25);
  EXPECT_EQ(ledger(report, 0).wait.count(), 1.0);         // asleep
  EXPECT_EQ(ledger(report, 0).communicate.count(), 1.0);  // sending
  EXPECT_EQ(ledger(report, 1).wait.count(), 1.0);         // until the sender began
  EXPECT_EQ(ledger(report, 1).communicate.count(), 1.25);
  EXPECT_EQ(ledger(report, 0).bytes_sent[kControl], 64U);
  EXPECT_EQ(ledger(report, 1).bytes_received[kControl], 64U);
  EXPECT_EQ(ledger(report, 1).bytes_sent[kControl], 0U);
}

TEST(SimMessage, ThatIsThereAlreadyCostsTheReceiverNothing) {
  const auto report = run(slow_machine(2), [](Node& node) {
    if (node.rank() == 0) return send(node, 1, 64);
    node.sleep(5s);
    receive(node, 0, 64);
    EXPECT_EQ(now(node), 5.0);
  });
  EXPECT_EQ(ledger(report, 1).communicate.count(), 0.0);
  EXPECT_EQ(ledger(report, 1).wait.count(), 5.0);
}

TEST(SimMessage, EgressOfOneWorkerSerialises) {
  run(slow_machine(3), [](Node& node) {
    if (node.rank() == 0) {
      node.companion("sender", [](Node& self) {
        send(self, 2, 64);
        EXPECT_EQ(now(self), 2.0);  // after the main process's 64 bytes
      });
      send(node, 1, 64);
      EXPECT_EQ(now(node), 1.0);
    } else {
      receive(node, 0, 64);
      EXPECT_EQ(now(node), node.rank() == 1 ? 1.25 : 2.25);
    }
  });
}

TEST(SimMessage, IngressOfOneWorkerSerialises) {
  run(slow_machine(3), [](Node& node) {
    if (node.rank() > 0) {
      send(node, 0, 64);
      EXPECT_EQ(now(node), 1.0);  // the sender does not wait for the receiver's link
    } else {
      EXPECT_EQ(receive(node, kAnySource, 64), 1);
      EXPECT_EQ(now(node), 1.25);
      EXPECT_EQ(receive(node, kAnySource, 64), 2);
      EXPECT_EQ(now(node), 2.25);
    }
  });
}

TEST(SimMessage, LinksAreFullDuplex) {
  run(slow_machine(2), [](Node& node) {
    send(node, 1 - node.rank(), 64);
    receive(node, 1 - node.rank(), 64);
    EXPECT_EQ(now(node), 1.25);
  });
}

// A message that still waits for its sender's link does not hold the receiver's.
TEST(SimMessage, IngressIsTakenInTheOrderOfHeads) {
  run(slow_machine(3), [](Node& node) {
    if (node.rank() == 1) {
      node.companion("bulk", [](Node& self) { send(self, 2, 640, Traffic::control, 1); });
      node.sleep(1s);
      send(node, 0, 64);  // leaves from 10 to 11
      EXPECT_EQ(now(node), 11.0);
    } else if (node.rank() == 2) {
      node.sleep(5s);
      send(node, 0, 64);
      receive(node, 1, 640, 1);
    } else {
      EXPECT_EQ(receive(node, kAnySource, 64), 2);
      EXPECT_EQ(now(node), 6.25);
      EXPECT_EQ(receive(node, kAnySource, 64), 1);
      EXPECT_EQ(now(node), 11.25);
    }
  });
}

TEST(SimMessage, SharedBusCarriesOneAtATime) {
  ClusterOptions options = slow_machine(4);
  options.network.shared_bus = true;
  run(options, [](Node& node) {
    const int pair = node.rank() / 2;
    if (node.rank() % 2 == 0) {
      send(node, node.rank() + 1, 64);
      EXPECT_EQ(now(node), pair == 0 ? 1.0 : 2.0);
    } else {
      receive(node, node.rank() - 1, 64);
      EXPECT_EQ(now(node), pair == 0 ? 1.25 : 2.25);
    }
  });
}

TEST(SimMessage, ParametersAndGradientsAreChargedAtFullSize) {
  ClusterOptions options = slow_machine(2);
  options.payload_scale = 4;
  const auto report = run(options, [](Node& node) {
    if (node.rank() == 0) {
      send(node, 1, 64, Traffic::gradients);
      EXPECT_EQ(now(node), 4.0);
      send(node, 1, 64, Traffic::parameters);
      EXPECT_EQ(now(node), 8.0);
      send(node, 1, 64, Traffic::control);
      EXPECT_EQ(now(node), 9.0);
    } else {
      for (int i = 0; i < 3; ++i) receive(node, 0, 64);
    }
  });
  EXPECT_EQ(ledger(report, 0).bytes_sent, (std::array<std::uint64_t, 3>{256, 256, 64}));
  EXPECT_EQ(ledger(report, 1).bytes_received, (std::array<std::uint64_t, 3>{256, 256, 64}));
}

TEST(SimMessage, ToOneselfTakesNoTimeAndNoLink) {
  const auto report = run(slow_machine(1), [](Node& node) {
    send(node, 0, 64);
    receive(node, 0, 64);
    EXPECT_EQ(now(node), 0.0);
  });
  EXPECT_EQ(ledger(report, 0).bytes_sent[kControl], 0U);
}

// Empty messages take no transfer time: all arrive together. The senders call in the order 3, 2, 1.
TEST(SimMessage, EqualArrivalsComeLowestRankFirst) {
  std::vector<int> called, received;
  run(slow_machine(4), [&](Node& node) {
    if (node.rank() == 0) {
      for (int i = 0; i < 3; ++i) received.push_back(receive(node, kAnySource, 0));
      EXPECT_EQ(now(node), 2.25);
      return;
    }
    const Seconds first(
        1.0 - 0.25 * node.rank());  // the later the second sleep begins, the later it ends
    node.sleep(first);
    node.sleep(Seconds(2) - first);
    called.push_back(node.rank());
    send(node, 0, 0);
  });
  EXPECT_EQ(called, (std::vector<int>{3, 2, 1}));
  EXPECT_EQ(received, (std::vector<int>{1, 2, 3}));
}

TEST(SimMessage, AnySourceTakesTheEarliestArrival) {
  run(slow_machine(3), [](Node& node) {
    if (node.rank() == 1) return send(node, 0, 640);
    if (node.rank() == 2) {
      node.sleep(Seconds(10.5));
      return send(node, 0, 0, Traffic::control, 1);
    }
    node.sleep(20s);
    EXPECT_EQ(receive(node, kAnySource, 0, 1), 2);
    EXPECT_EQ(receive(node, kAnySource, 640), 1);
  });
}

TEST(SimMessage, PollTurnsTrueOnArrival) {
  run(slow_machine(2), [](Node& node) {
    if (node.rank() == 0) return send(node, 1, 64, Traffic::control, 3);
    node.sleep(Seconds(1.125));
    EXPECT_FALSE(node.comm().poll(0, 3));
    node.sleep(Seconds(0.25));
    EXPECT_FALSE(node.comm().poll(0, 4));
    EXPECT_TRUE(node.comm().poll(0, 3));
    EXPECT_TRUE(node.comm().poll(kAnySource, 3));
    receive(node, 0, 64, 3);
    EXPECT_FALSE(node.comm().poll(0, 3));
  });
}

TEST(SimMessage, PollingWithoutEndIsACheckFailure) {
  EXPECT_EQ(failure_of<CheckFailure>(slow_machine(2),
                                     [](Node& node) {
                                       while (!node.comm().poll(1 - node.rank(), 0)) {
                                       }
                                     }),
            "worker 0 calls poll for the 1000000th time in vain without letting time pass: "
            "receive, or sleep");
}

TEST(SimMessage, OfAnotherSizeThanExpected) {
  EXPECT_EQ(failure_of<CheckFailure>(slow_machine(3),
                                     [](Node& node) {
                                       if (node.rank() == 1) send(node, 2, 80, Traffic::control, 7);
                                       if (node.rank() == 2) receive(node, kAnySource, 40, 7);
                                     }),
            "rank 2 receives 40 bytes from 1, tag 7: the message has 80 bytes");
}

TEST(SimMessage, NamesAreThoseOfTheGroup) {
  run(slow_machine(4), [](Node& node) {
    const auto odd = node.comm().split(node.rank() % 2, -node.rank());  // reversed
    EXPECT_EQ(odd->size(), 2);
    EXPECT_EQ(odd->rank(), node.rank() < 2 ? 1 : 0);
    const Seconds begin = node.now();
    if (odd->rank() == 0) return odd->send<std::byte>(1, 0, Bytes(64));
    Bytes data(64);
    EXPECT_EQ(odd->receive<std::byte>(0, 0, data).source, 0);
    EXPECT_DOUBLE_EQ((node.now() - begin).count(), 1.25);
  });
}

}  // namespace
}  // namespace hetsgd::sim
