#!/usr/bin/env python3
"""Times hetsgd's click-through models in PyTorch, as the yardstick for ctr_bench and, on a GPU, for hetsgd train.

13 dense columns, 26 fields, one table of 4 million rows of D = 16 (and a weight u each for models with a
linear part), log-uniform categories, plain SGD with sparse gradients of the table. The batches are built
before the clock starts: what is timed is forward, backward and update, or with `--part lookup` those of the
table alone. The table has three forms, each of which a user might write; `--form auto` times all of them
briefly and keeps the fastest:
  one     one EmbeddingBag over all rows, a bag per sample and field
  bags    26 EmbeddingBags
  select  index_select and index_add_ by hand, no sparse tensors
With --compile everything behind the table is compiled, which stays eager because its gradients are sparse.

Runs with Debian's python3-torch, or with a newer PyTorch by another --python of compare_ctr.py.
"""

import argparse
import json
import sys
import time

import torch

import torch_options

DENSE, FIELDS, EMBEDDING, CATEGORIES = 13, 26, 16, 4_000_000
HIDDEN = {"wide_deep": [1024, 1024], "deepfm": [400, 400, 400], "dcn": [1024, 1024]}
CROSS_LAYERS = 6
FORMS = ["one", "bags", "select"]
LEARNING_RATE = 0.01


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=["step", "lookup"], default="step",
                        help="time whole steps, or gather and update of the table alone (default: step)")
    parser.add_argument("--model", choices=sorted(HIDDEN), default="deepfm", help="model (default: deepfm)")
    parser.add_argument("--form", choices=["auto"] + FORMS, default="auto",
                        help="form of the table; auto takes the fastest (default: auto)")
    parser.add_argument("--batch-size", type=int, default=1024, help="batch size (default: 1024)")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: 1)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N (default: cpu)")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of the measurement (default: 5)")
    torch_options.add_to(parser)
    return parser.parse_args()


class Table(torch.nn.Module):
    """[n x FIELDS] categories -> [n x FIELDS x width] rows."""

    def __init__(self, form, width, categories=CATEGORIES):
        super().__init__()
        self.form, self.width, rows = form, width, -(-categories // FIELDS)
        count = FIELDS if form == "bags" else 1
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.full((rows * FIELDS // count, width), 0.01)) for _ in range(count))
        self.first = torch.arange(FIELDS) * rows
        self.offsets = {}

    def bag(self, weight, index):
        n = len(index)
        if n not in self.offsets:
            self.offsets[n] = torch.arange(n)
        return torch.nn.functional.embedding_bag(index, weight, self.offsets[n], mode="sum", sparse=True)

    def forward(self, categories):
        if self.form == "bags":
            fields = [self.bag(w, categories[:, f] - self.first[f]) for f, w in enumerate(self.weights)]
            return torch.stack(fields, dim=1)
        index = categories.reshape(-1)
        if self.form == "one":
            return self.bag(self.weights[0], index).view(len(categories), FIELDS, self.width)
        self.rows = self.weights[0].detach().index_select(0, index).requires_grad_()
        self.index = index
        return self.rows.view(len(categories), FIELDS, self.width)

    @torch.no_grad()
    def step(self):
        if self.form == "select":
            self.weights[0].index_add_(0, self.index, self.rows.grad, alpha=-LEARNING_RATE)
            return
        for weight in self.weights:
            weight.add_(weight.grad, alpha=-LEARNING_RATE)
            weight.grad = None


class Ctr(torch.nn.Module):
    """`categories`: rows of the table, rounded up to whole fields."""

    def __init__(self, model, form, hidden=None, categories=CATEGORIES):
        super().__init__()
        self.model, self.wide = model, model != "dcn"
        self.table = Table(form, EMBEDDING + self.wide, categories)
        widths = [DENSE + FIELDS * EMBEDDING] + (HIDDEN[model] if hidden is None else hidden)
        layers = []
        for a, b in zip(widths, widths[1:]):
            layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
        self.deep = torch.nn.Sequential(*layers)
        if self.wide:
            self.omega = torch.nn.Linear(DENSE, 1, bias=False)
        else:
            std = 0.05
            self.cross_w = torch.nn.ParameterList(torch.randn(widths[0]) * std for _ in range(CROSS_LAYERS))
            self.cross_b = torch.nn.ParameterList(torch.zeros(widths[0]) for _ in range(CROSS_LAYERS))
        self.output = torch.nn.Linear(widths[-1] + (0 if self.wide else widths[0]), 1)

    def forward(self, dense, categories):
        return self.scores(dense, self.table(categories))

    def scores(self, dense, rows):
        v = rows[:, :, :EMBEDDING]
        x0 = torch.cat([dense, v.reshape(len(dense), -1)], dim=1)
        h = self.deep(x0)
        if not self.wide:
            x = x0
            for w, b in zip(self.cross_w, self.cross_b):
                x = torch.addcmul(x + b, x0, (x @ w).unsqueeze(1))
            h = torch.cat([x, h], dim=1)
        z = self.output(h).squeeze(1)
        if self.wide:
            z = z + self.omega(dense).squeeze(1) + rows[:, :, EMBEDDING].sum(dim=1)
        if self.model == "deepfm":
            z = z + 0.5 * (v.sum(dim=1) ** 2 - (v ** 2).sum(dim=1)).sum(dim=1)
        return z


def build_batches(options):
    torch.manual_seed(1)
    rows, batches = -(-CATEGORIES // FIELDS), []  # of a field, as Table has them
    for _ in range(min(64, (1 << 17) // options.batch_size)):
        shape = (options.batch_size, FIELDS)
        rank = torch.exp(torch.rand(shape, dtype=torch.float64) * torch.log(torch.tensor(float(rows)))).long() - 1
        categories = rank * 2654435761 % rows + torch.arange(FIELDS) * rows
        labels = (torch.rand(options.batch_size) < 0.25).float()
        batches.append((torch.rand(options.batch_size, DENSE) * 5, categories, labels))
    return batches


def wait_for(device):
    if device != "cpu":
        torch.cuda.synchronize(device)


def measure(form, options, batches, seconds):
    """Samples per second, and the last loss."""
    if options.part == "lookup":
        table = Table(form, EMBEDDING + 1)
        gradient = torch.full((options.batch_size, FIELDS, EMBEDDING + 1), 0.01)

        def step(_, categories, __):
            table(categories).backward(gradient)
            table.step()
            return torch.zeros(())
    else:
        model = Ctr(options.model, form)
        dense = [p for name, p in model.named_parameters() if not name.startswith("table")]
        optimizer = torch.optim.SGD(dense, lr=LEARNING_RATE)
        scores_of = torch_options.compiled(model.scores, options)

        def step(x, categories, labels):
            optimizer.zero_grad(set_to_none=True)
            rows = model.table(categories)
            with torch_options.autocast(options, options.device):
                scores = scores_of(x, rows)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(scores.float(), labels)
            loss.backward()
            optimizer.step()
            model.table.step()
            return loss

    for batch in batches[:2]:
        step(*batch)
    wait_for(options.device)
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        loss = step(*batches[steps % len(batches)])
        steps += 1
    wait_for(options.device)
    elapsed = time.perf_counter() - start
    return {"samples_per_s": steps * options.batch_size / elapsed, "loss": float(loss)}


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    if options.device != "cpu":
        torch.set_default_device(options.device)
    batches = build_batches(options)
    forms = FORMS if options.form == "auto" else [options.form]
    trials = {}
    if len(forms) > 1:
        trials = {form: measure(form, options, batches, max(0.5, 0.2 * options.seconds))["samples_per_s"]
                  for form in forms}
        forms = [max(trials, key=trials.get)]
    result = measure(forms[0], options, batches, options.seconds)
    result.update({"tool": "pytorch", "version": torch.__version__, "form": forms[0], "threads": options.threads,
                   "trials_samples_per_s": trials})
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    sys.exit(main())
