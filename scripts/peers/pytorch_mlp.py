#!/usr/bin/env python3
"""Times hetsgd's sparse MLP in PyTorch, as the yardstick for `step`.

features -> EmbeddingBag (sum of weighted rows) + bias -> ReLU -> Linear -> softmax over the labels,
target 1/|Y| on each true label, mean over the batch, plain SGD with a row-sparse first layer.

The batches are built before the clock starts, so what is timed is forward, backward and update, as in
hetsgd's model_bench. The loss has three forms, each of which a user might write; `--loss auto` times all
of them briefly and keeps the fastest, so that hetsgd is compared with PyTorch at its best:
  dense   F.cross_entropy against a dense target matrix
  gather  logsumexp minus the mean of the true logits
  manual  an autograd.Function: one softmax, minus the targets in place, the same buffer handed back

Needs Debian's python3-torch: run with /usr/bin/python3. Its products come from OpenBLAS, which picks its
kernels by CPU model; a CPU newer than the library gets generic ones, 2.5 times slower. To name the
kernels by hand set OPENBLAS_CORETYPE=SkylakeX (AVX-512) or Haswell (AVX2), as compare_speed.py does.
samples_per_s counts wall time, samples_per_cpu_s the process's CPU time, which other processes on the
machine disturb less. On a GPU (--device cuda:0) batches lie there before the clock starts, the GPU is waited
for every 16 steps, and --peaks measures what it can do at best: a large product and a large copy.

--compile also times the step with torch.compile, whose figures are `compiled` (null with a `problem` if it cannot
compile). Everything behind the sum of the embedding rows is compiled, in the forms gather and manual, and the faster
one counts. The embedding stays eager because its gradients are sparse. --precision bf16 is autocast: parameters
and losses stay in fp32. peak_memory_bytes is what PyTorch's allocator held at most on a GPU.
"""

import argparse
import json
import os
import sys
import time

import torch  # first: where both are missing, the message names PyTorch
import numpy as np
import torch.nn.functional as F

TARGETS = ("sample", "label", "share", "labelled", "target")  # of a batch: what its loss needs

def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="XC-repository text file (default: synthetic data)")
    parser.add_argument("--features", type=int, default=13591, help="number of features of synthetic data (default: 13591)")
    parser.add_argument("--labels", type=int, default=67009, help="number of labels of synthetic data (default: 67009)")
    parser.add_argument("--nonzeros", type=int, default=76, help="features per row of synthetic data (default: 76)")
    parser.add_argument("--labels-per-row", type=int, default=5, help="true labels per row of synthetic data (default: 5)")
    parser.add_argument("--hidden", type=int, default=128, help="units of the hidden layer (default: 128)")
    parser.add_argument("--batch-size", type=int, default=256, help="batch size (default: 256)")
    parser.add_argument("--learning-rate", type=float, default=0.1, help="learning rate (default: 0.1)")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: 1)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N (default: cpu)")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="fp32",
                        help="input precision of matrix products; tf32 needs a GPU (default: fp32)")
    parser.add_argument("--peaks", action="store_true", help="also measure a large matrix product and a large copy")
    parser.add_argument("--compile", action="store_true", help="also time the step with torch.compile")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of the measurement after the warm-up (default: 5)")
    parser.add_argument("--loss", choices=["auto", "dense", "gather", "manual"], default="auto",
                        help="form of the loss; auto takes the fastest (default: auto)")
    parser.add_argument("--seed", type=int, default=1, help="seed of all random numbers (default: 1)")
    parser.add_argument("--batches", type=int, default=64, help="number of distinct batches, used in turn (default: 64)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return parser.parse_args(argv)


def read_xc(path):
    """Rows of an XC-repository file as [(labels, features, values)], with the header's counts."""
    rows = []
    with open(path, encoding="ascii") as lines:
        _, features, labels = map(int, lines.readline().split())
        for line in lines:
            head, _, rest = line.rstrip("\n").partition(" ")
            pairs = [pair.split(":") for pair in rest.split()]
            rows.append((np.array([int(label) for label in head.split(",") if label], dtype=np.int64),
                         np.array([int(i) for i, _ in pairs], dtype=np.int64),
                         np.array([float(v) for _, v in pairs], dtype=np.float32)))
    return rows, features, labels


def synthetic_rows(options, count):
    """Rows with Zipf-like features and uniform labels: only the shape matters to the speed."""
    rng = np.random.default_rng(options.seed)
    popularity = 1.0 / np.arange(1, options.features + 1)
    popularity /= popularity.sum()
    rows = []
    for _ in range(count):
        features = np.unique(rng.choice(options.features, size=options.nonzeros, replace=False,
                                        p=popularity))
        labels = np.unique(rng.choice(options.labels, size=options.labels_per_row, replace=False))
        rows.append((labels, features, rng.random(len(features), dtype=np.float32)))
    return rows


def build_batch(rows, label_count, dense_target, device):
    """The tensors of one batch: bag indices, offsets, weights, and the targets as coordinates."""
    offsets = np.cumsum([0] + [len(features) for _, features, _ in rows[:-1]])
    sample = np.concatenate([np.full(len(labels), r) for r, (labels, _, _) in enumerate(rows)])
    label = np.concatenate([labels for labels, _, _ in rows])
    share = np.concatenate([np.full(len(labels), 1.0 / max(len(labels), 1), dtype=np.float32)
                            for labels, _, _ in rows])
    batch = {
        "indices": torch.from_numpy(np.concatenate([features for _, features, _ in rows])),
        "offsets": torch.from_numpy(offsets.astype(np.int64)),
        "weights": torch.from_numpy(np.concatenate([values for _, _, values in rows])),
        "sample": torch.from_numpy(sample.astype(np.int64)),
        "label": torch.from_numpy(label),
        "share": torch.from_numpy(share),
        "labelled": torch.tensor([float(len(labels) > 0) for labels, _, _ in rows]),
    }
    if dense_target:
        target = torch.zeros(len(rows), label_count)
        target[batch["sample"], batch["label"]] = batch["share"]
        batch["target"] = target
    return {name: tensor.to(device) for name, tensor in batch.items()}


class SoftmaxCrossEntropy(torch.autograd.Function):
    """Mean cross-entropy; its gradient is softmax minus target, built in the softmax's own buffer."""

    @staticmethod
    def forward(ctx, logits, sample, label, share, labelled):
        log_softmax = F.log_softmax(logits, dim=1, dtype=torch.float32)
        loss = -(log_softmax[sample, label] * share).sum() / logits.shape[0]
        gradient = log_softmax.exp_().mul_(labelled.unsqueeze(1))
        gradient.index_put_((sample, label), -share, accumulate=True)
        ctx.gradient = gradient.div_(logits.shape[0])
        return loss

    @staticmethod
    def backward(ctx, upstream):
        # upstream is the scalar 1 of loss.backward(): multiplying the whole matrix by it is spared.
        return ctx.gradient, None, None, None, None


def loss_of(kind, logits, batch):
    if kind == "dense":
        return F.cross_entropy(logits, batch["target"])
    if kind == "gather":
        true_logits = (logits[batch["sample"], batch["label"]] * batch["share"]).sum()
        return ((torch.logsumexp(logits.float(), dim=1) * batch["labelled"]).sum() - true_logits) / len(logits)
    return SoftmaxCrossEntropy.apply(logits, batch["sample"], batch["label"], batch["share"],
                                     batch["labelled"])


class SparseMlp(torch.nn.Module):
    def __init__(self, features, hidden, labels):
        super().__init__()
        self.embedding = torch.nn.EmbeddingBag(features, hidden, mode="sum", sparse=True)
        self.bias = torch.nn.Parameter(torch.zeros(hidden))
        self.output = torch.nn.Linear(hidden, labels)
        std = 2.0 / (features + hidden) ** 0.5
        torch.nn.init.trunc_normal_(self.embedding.weight, std=std, a=-2 * std, b=2 * std)
        std = 2.0 / (hidden + labels) ** 0.5
        torch.nn.init.trunc_normal_(self.output.weight, std=std, a=-2 * std, b=2 * std)
        torch.nn.init.zeros_(self.output.bias)

    def sums(self, batch):
        return self.embedding(batch["indices"], batch["offsets"], batch["weights"])

    def loss(self, kind, sums, batch):
        """The loss of the batch by the sums of its embedding rows."""
        return loss_of(kind, self.output(torch.relu(sums + self.bias)), batch)


def padded(batches):
    """The batches with as many pairs of sample and label each: further ones have share 0. Equal shapes compile once."""
    longest = max(len(batch["label"]) for batch in batches)
    return [{**batch, **{name: F.pad(batch[name], (0, longest - len(batch["label"])))
                         for name in ("sample", "label", "share")}} for batch in batches]


def finish(device):
    """Waits for the work that was given to a GPU."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def seconds_of(action, device, seconds=1.0):
    """The shortest time of one call, after a warm-up."""
    action()
    finish(device)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        action()
        finish(device)
        best = min(best, time.perf_counter() - start)
    return best


def peaks(device, precision):
    """The peak of the device: operations of a square product in that precision, bytes read and written by a copy."""
    n = 1024 if device == "cpu" else 8192
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b, c = (torch.randn(n, n, device=device, dtype=kind) for _ in range(3))
    x = torch.zeros(16 * n * n, device=device)
    y = torch.empty_like(x)
    return {"product_size": n,
            "operations_per_s": 2 * n ** 3 / seconds_of(lambda: torch.mm(a, b, out=c), device),
            "copy_bytes": 2 * 4 * x.numel(),
            "bytes_per_s": 2 * 4 * x.numel() / seconds_of(lambda: y.copy_(x), device)}


def measure(kind, options, batches, counts, seconds, compiled=False):
    """Trains for `seconds`; samples per second and the first and last loss. counts: of features and labels."""
    torch.manual_seed(options.seed)
    on_gpu = options.device != "cpu"
    model = SparseMlp(counts[0], options.hidden, counts[1]).to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate)
    loss_from = torch.compile(model.loss) if compiled else model.loss
    autocast = torch.autocast("cuda" if on_gpu else "cpu", torch.bfloat16, enabled=options.precision == "bf16")

    def step(batch):
        optimizer.zero_grad(set_to_none=True)
        with autocast:
            loss = loss_from(kind, model.sums(batch), {name: batch[name] for name in TARGETS if name in batch})
        loss.backward()
        optimizer.step()
        return loss

    first = float(step(batches[0]))
    if compiled:  # the second call may compile again
        step(batches[-1])
    finish(options.device)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(options.device)
    round_of_steps = 1 if options.device == "cpu" else 16
    samples, steps, start, cpu_start = 0, 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        for _ in range(round_of_steps):
            batch = batches[steps % len(batches)]
            loss = step(batch)
            samples += len(batch["offsets"])
            steps += 1
        finish(options.device)
    elapsed = time.perf_counter() - start
    cpu = time.process_time() - cpu_start
    return {"samples_per_s": samples / elapsed, "samples_per_cpu_s": samples / cpu, "steps": steps,
            "elapsed_s": elapsed, "step_s": elapsed / steps,
            "peak_memory_bytes": torch.cuda.max_memory_allocated(options.device) if on_gpu else None,
            "first_loss": first, "last_loss": float(loss)}


def fastest(kinds, options, batches, counts):
    """(the fastest form of the loss, the rates of all by name)."""
    if len(kinds) == 1:
        return kinds[0], {}
    rate = "samples_per_cpu_s" if options.device == "cpu" else "samples_per_s"
    trials = {kind: measure(kind, options, batches, counts, max(0.5, 0.2 * options.seconds))[rate]
              for kind in kinds}
    return max(trials, key=trials.get), trials


def measure_compiled(kinds, options, batches, counts):
    """The figures of torch.compile; step_s is null, with a problem, if it cannot compile."""
    torch.cuda.empty_cache()
    batches, problems, results = padded(batches), [], {}
    for kind in kinds:
        try:
            results[kind] = measure(kind, options, batches, counts, options.seconds, True)
        except Exception as error:  # pylint: disable=broad-except  # the compiler may raise anything: it is the reason
            lines = str(error).strip().splitlines() or ["no message"]
            problems.append(f"{kind}: {type(error).__name__}: {lines[0]}")
    if not results:
        return {"step_s": None, "peak_memory_bytes": None, "problem": "; ".join(problems)}
    kind = min(results, key=lambda name: results[name]["step_s"])
    return {**results[kind], "loss": kind, "problems": problems,
            "step_s_of_losses": {name: result["step_s"] for name, result in results.items()}}


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
    if options.data:
        rows, feature_count, label_count = read_xc(options.data)
        np.random.default_rng(options.seed).shuffle(rows)
    else:
        feature_count, label_count = options.features, options.labels
        rows = synthetic_rows(options, min(options.batches, 8) * options.batch_size)
    kinds = ["dense", "gather", "manual"] if options.loss == "auto" else [options.loss]
    size = options.batch_size
    count = max(1, min(options.batches, len(rows) // size))
    # Dense targets of a large label set are as large as the logits: a few batches do.
    if "dense" in kinds and count * size * label_count > 2 ** 27:
        count = max(2, 2 ** 27 // (size * label_count))
    batches = [build_batch(rows[i * size:(i + 1) * size], label_count, "dense" in kinds, options.device)
               for i in range(count)]
    counts = (feature_count, label_count)
    kind, trials = fastest(kinds, options, batches, counts)
    if kind != "dense":  # its targets take as much memory as the logits
        batches = [{name: tensor for name, tensor in batch.items() if name != "target"} for batch in batches]
    result = measure(kind, options, batches, counts, options.seconds)
    forms = [name for name in kinds if name != "dense"] or ["gather"]
    compiled = measure_compiled(forms, options, batches, counts) if options.compile else None
    result.update({
        "tool": "pytorch", "version": torch.__version__, "threads": options.threads, "loss": kind,
        "device": options.device, "precision": options.precision,
        "peaks": peaks(options.device, options.precision) if options.peaks else None,
        "compiled": compiled,
        "loss_trials_samples_per_s": trials, "batch_size": size, "features": feature_count,
        "labels": label_count, "hidden": options.hidden, "learning_rate": options.learning_rate,
        "openblas_coretype": os.environ.get("OPENBLAS_CORETYPE", ""),
        "data": os.path.basename(options.data) if options.data else "synthetic",
        "nonzeros_per_row": sum(len(b["indices"]) for b in batches) / (size * len(batches)),
        "labels_per_row": sum(len(b["label"]) for b in batches) / (size * len(batches)),
    })
    if options.json:
        json.dump(result, sys.stdout, indent=2)
        print()
    else:
        for key, value in result.items():
            print(f"{key:28} {value}")
        print(torch.__config__.show(), file=sys.stderr)


if __name__ == "__main__":
    main()
