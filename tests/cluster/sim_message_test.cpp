// When messages arrive, in closed form.

#include "cluster/sim_support.hpp"

namespace hetsgd::sim {
namespace {

using Bytes = std::vector<std::byte>;

void send(Endpoint& endpoint, int to, std::size_t bytes, Traffic kind = Traffic::control,
          int tag = 0) {
  const Bytes data(bytes);
  endpoint.comm().send(to, tag, data, kind);
}
int receive(Endpoint& endpoint, int from, std::size_t bytes, int tag = 0) {
  Bytes data(bytes);
  return endpoint.comm().receive<std::byte>(from, tag, data).source;
}

TEST(SimMessage, TakesLatencyAndTransfer) {
  const auto report = run(slow_machine(2), [](Endpoint& endpoint) {
    if (endpoint.rank() == 0) {
      endpoint.sleep(1s);
      send(endpoint, 1, 64);
      EXPECT_EQ(now(endpoint), 2.0);  // has left the link
    } else {
      receive(endpoint, 0, 64);
      EXPECT_EQ(now(endpoint), 2.25);
    }
  });
  EXPECT_EQ(report.elapsed.count(), 2.25);
  EXPECT_EQ(breakdown(report, 0).wait.count(), 1.0);         // asleep
  EXPECT_EQ(breakdown(report, 0).communicate.count(), 1.0);  // sending
  EXPECT_EQ(breakdown(report, 1).wait.count(), 1.0);         // until the sender began
  EXPECT_EQ(breakdown(report, 1).communicate.count(), 1.25);
  EXPECT_EQ(breakdown(report, 0).bytes_sent[kControl], 64U);
  EXPECT_EQ(breakdown(report, 1).bytes_received[kControl], 64U);
  EXPECT_EQ(breakdown(report, 1).bytes_sent[kControl], 0U);
}

TEST(SimMessage, ThatIsThereAlreadyCostsTheReceiverNothing) {
  const auto report = run(slow_machine(2), [](Endpoint& endpoint) {
    if (endpoint.rank() == 0) return send(endpoint, 1, 64);
    endpoint.sleep(5s);
    receive(endpoint, 0, 64);
    EXPECT_EQ(now(endpoint), 5.0);
  });
  EXPECT_EQ(breakdown(report, 1).communicate.count(), 0.0);
  EXPECT_EQ(breakdown(report, 1).wait.count(), 5.0);
}

// Two posts and a send, one behind the other on the link: only the send is waited for.
TEST(SimMessage, ThatIsPostedTakesItsTurnOnTheLink) {
  const auto report = run(slow_machine(3), [](Endpoint& endpoint) {
    if (endpoint.rank() == 0) {
      const Bytes data(64);
      endpoint.comm().post(1, 0, data);
      endpoint.comm().post(2, 0, data);
      EXPECT_EQ(now(endpoint), 0.0);
      send(endpoint, 1, 64);
      EXPECT_EQ(now(endpoint), 3.0);
    } else {
      receive(endpoint, 0, 64);
      EXPECT_EQ(now(endpoint), endpoint.rank() == 1 ? 1.25 : 2.25);
      if (endpoint.rank() == 1) receive(endpoint, 0, 64);
    }
  });
  EXPECT_EQ(report.elapsed.count(), 3.25);
  EXPECT_EQ(breakdown(report, 0).communicate.count(), 3.0);
  EXPECT_EQ(breakdown(report, 0).bytes_sent[kControl], 192U);
}

TEST(SimMessage, IngressOfOneWorkerSerialises) {
  run(slow_machine(3), [](Endpoint& endpoint) {
    if (endpoint.rank() > 0) {
      send(endpoint, 0, 64);
      EXPECT_EQ(now(endpoint), 1.0);  // the sender does not wait for the receiver's link
    } else {
      EXPECT_EQ(receive(endpoint, kAnySource, 64), 1);
      EXPECT_EQ(now(endpoint), 1.25);
      EXPECT_EQ(receive(endpoint, kAnySource, 64), 2);
      EXPECT_EQ(now(endpoint), 2.25);
    }
  });
}

TEST(SimMessage, LinksAreFullDuplex) {
  run(slow_machine(2), [](Endpoint& endpoint) {
    send(endpoint, 1 - endpoint.rank(), 64);
    receive(endpoint, 1 - endpoint.rank(), 64);
    EXPECT_EQ(now(endpoint), 1.25);
  });
}

// A message that still waits for its sender's link does not hold the receiver's.
TEST(SimMessage, IngressIsTakenInTheOrderOfHeads) {
  run(slow_machine(3), [](Endpoint& endpoint) {
    if (endpoint.rank() == 1) {
      endpoint.background_task("bulk",
                               [](Endpoint& self) { send(self, 2, 640, Traffic::control, 1); });
      endpoint.sleep(1s);
      send(endpoint, 0, 64);  // leaves from 10 to 11
      EXPECT_EQ(now(endpoint), 11.0);
    } else if (endpoint.rank() == 2) {
      endpoint.sleep(5s);
      send(endpoint, 0, 64);
      receive(endpoint, 1, 640, 1);
    } else {
      EXPECT_EQ(receive(endpoint, kAnySource, 64), 2);
      EXPECT_EQ(now(endpoint), 6.25);
      EXPECT_EQ(receive(endpoint, kAnySource, 64), 1);
      EXPECT_EQ(now(endpoint), 11.25);
    }
  });
}

TEST(SimMessage, SharedBusCarriesOneAtATime) {
  ClusterOptions options = slow_machine(4);
  options.network.shared_bus = true;
  run(options, [](Endpoint& endpoint) {
    const int pair = endpoint.rank() / 2;
    if (endpoint.rank() % 2 == 0) {
      send(endpoint, endpoint.rank() + 1, 64);
      EXPECT_EQ(now(endpoint), pair == 0 ? 1.0 : 2.0);
    } else {
      receive(endpoint, endpoint.rank() - 1, 64);
      EXPECT_EQ(now(endpoint), pair == 0 ? 1.25 : 2.25);
    }
  });
}

TEST(SimMessage, ParametersAndGradientsAreChargedAtFullSize) {
  ClusterOptions options = slow_machine(2);
  options.payload_scale = 4;
  const auto report = run(options, [](Endpoint& endpoint) {
    if (endpoint.rank() == 0) {
      send(endpoint, 1, 64, Traffic::gradients);
      EXPECT_EQ(now(endpoint), 4.0);
      send(endpoint, 1, 64, Traffic::parameters);
      EXPECT_EQ(now(endpoint), 8.0);
      send(endpoint, 1, 64, Traffic::control);
      EXPECT_EQ(now(endpoint), 9.0);
    } else {
      for (int i = 0; i < 3; ++i) receive(endpoint, 0, 64);
    }
  });
  EXPECT_EQ(breakdown(report, 0).bytes_sent, (TrafficBytes{256, 256, 64}));
  EXPECT_EQ(breakdown(report, 1).bytes_received, (TrafficBytes{256, 256, 64}));
}

TEST(SimMessage, ToOneselfTakesNoTimeAndNoLink) {
  const auto report = run(slow_machine(1), [](Endpoint& endpoint) {
    send(endpoint, 0, 64);
    receive(endpoint, 0, 64);
    EXPECT_EQ(now(endpoint), 0.0);
  });
  EXPECT_EQ(breakdown(report, 0).bytes_sent[kControl], 0U);
}

// Empty messages take no transfer time: all arrive together. The senders call in the order 3, 2, 1.
TEST(SimMessage, EqualArrivalsComeLowestRankFirst) {
  std::vector<int> called, received;
  run(slow_machine(4), [&](Endpoint& endpoint) {
    if (endpoint.rank() == 0) {
      for (int i = 0; i < 3; ++i) received.push_back(receive(endpoint, kAnySource, 0));
      EXPECT_EQ(now(endpoint), 2.25);
      return;
    }
    const Seconds first(
        1.0 - 0.25 * endpoint.rank());  // the later the second sleep begins, the later it ends
    endpoint.sleep(first);
    endpoint.sleep(Seconds(2) - first);
    called.push_back(endpoint.rank());
    send(endpoint, 0, 0);
  });
  EXPECT_EQ(called, (std::vector<int>{3, 2, 1}));
  EXPECT_EQ(received, (std::vector<int>{1, 2, 3}));
}

TEST(SimMessage, PollTurnsTrueOnArrival) {
  run(slow_machine(2), [](Endpoint& endpoint) {
    if (endpoint.rank() == 0) return send(endpoint, 1, 64, Traffic::control, 3);
    endpoint.sleep(Seconds(1.125));
    EXPECT_FALSE(endpoint.comm().poll(0, 3));
    endpoint.sleep(Seconds(0.25));
    EXPECT_FALSE(endpoint.comm().poll(0, 4));
    EXPECT_TRUE(endpoint.comm().poll(0, 3));
    EXPECT_TRUE(endpoint.comm().poll(kAnySource, 3));
    receive(endpoint, 0, 64, 3);
    EXPECT_FALSE(endpoint.comm().poll(0, 3));
  });
}

TEST(SimMessage, PollingWithoutEndIsACheckFailure) {
  EXPECT_EQ(failure_of<CheckFailure>(slow_machine(2),
                                     [](Endpoint& endpoint) {
                                       while (!endpoint.comm().poll(1 - endpoint.rank(), 0)) {
                                       }
                                     }),
            "worker 0 calls poll for the 1000000th time in vain without letting time pass: "
            "receive, or sleep");
}

}  // namespace
}  // namespace hetsgd::sim
