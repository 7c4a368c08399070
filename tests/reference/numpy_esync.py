#!/usr/bin/env python3
"""Independent NumPy references for esync: losses of algorithm 1 and decisions of algorithm 2 of ESync.

    numpy_esync.py HETSGD

The reference takes from the record only what depends on time: c, t_e and the time of each query. It decides itself who is
ready, makes as many local iterations as that gives, and averages.
"""
import collections


from reference_support import Reference, axpy, main, weighted_sum

P, B, LR = 3, 16, 0.3


class StateServer:
    """Algorithm 2, from the paper; plus the rule for queries that a delayed READY has made void."""

    def __init__(self, slack):
        self.records = {r: dict(round=-1, k=0, c=float("inf"), t_e=0.0, ready=False) for r in range(P)}
        self.slack = slack

    def query(self, now, rank, round_, k, c, t_e):
        me = self.records[rank]
        if me["round"] == round_ and me["ready"]:
            return True
        me.update(round=round_, k=k, c=c, t_e=t_e, ready=False)
        slowest = min(self.records, key=lambda r: (-self.records[r]["c"], r))
        slow = self.records[slowest]
        if k == 0 or slow["round"] < round_:
            return False
        rest = slow["c"] - now + slow["t_e"]
        me["ready"] = slowest == rank or slow["ready"] or c + self.slack > rest
        return me["ready"]


class Esync(Reference):
    def check(self, *options, epsilon=1.0, by_steps=False, slack=0.0, speed="1,0.5,0.1"):
        mlp, events = self.run_events("--algorithm", "esync", "--workers", str(P), "--batch-size", str(B), "--learning-rate",
                                      str(LR), "--rounds", "8", "--max-samples", "1000000", "--speed", speed, "--straggler",
                                      "kind=uniform,min=0ms,max=1ms", *options)
        # The order in which workers were ready is decided again, as the server took the queries.
        server, n = StateServer(slack), collections.Counter()
        queries = sorted(events["query"], key=lambda q: (q["decided_s"], q["rank"]))
        for q in queries:
            ready = server.query(q["decided_s"], q["rank"], q["round"], q["k"], q["c_s"], q["finished_s"])
            self.assertEqual(q["ready"], ready, q)
            n[q["round"], q["rank"]] = max(n[q["round"], q["rank"]], q["k"])

        losses, w, calls = {}, mlp.w0, [0] * P
        for t in range(8):
            replicas = []
            for r in range(P):
                replica = w
                for _ in range(n[t, r]):
                    loss, g = mlp.loss_and_gradient(replica, self.rows((calls[r] * P + r) * B, B))
                    losses[r, calls[r]] = loss
                    calls[r] += 1
                    replica = axpy(-LR, g, replica)
                replicas.append(replica)
            steps = [n[t, r] for r in range(P)]
            weights = [x / sum(steps) for x in steps] if by_steps else [1 / P] * P
            delta = [m - x for m, x in zip(weighted_sum(weights, replicas), w)]
            w = axpy(epsilon, delta, w)
        got = {(s["rank"], s["iteration"]): s["loss"] for s in events["step"]}
        self.assertEqual(sorted(got), sorted(losses))
        self.assert_losses([got[key] for key in sorted(got)], [losses[key] for key in sorted(losses)])
        self.assertGreater(max(n.values()), 3, "fast workers must have made several local iterations")
        return n

    def test_immediate(self):
        n = self.check()
        self.assertEqual([n[t, 2] for t in range(8)], [1] * 8, "the slowest makes exactly one")

    def test_scaled_update_and_slack(self):
        self.check("--update-scale", "0.7", "--time-slack", "0.5ms", epsilon=0.7, slack=0.0005)

    def test_weight_by_steps(self):
        self.check("--weight", "steps", by_steps=True)

    def test_delayed(self):
        self.check("--ack", "delayed")


if __name__ == "__main__":
    main()
