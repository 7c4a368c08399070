#!/usr/bin/env python3
"""Trains PyTorch's wide_deep, deepfm or dcn on click data and prints AUC and log loss on the test part after each epoch.

The same rows, numbers and categories as hetsgd's, in its binary form, and of hetsgd no more than that:

    hetsgd data generate criteo --scale 0.02 clicks
    hetsgd data convert clicks_train.txt train.hsgd
    hetsgd data convert --vocabulary clicks_train.txt clicks_test.txt test.hsgd
    ~/torch/bin/python scripts/peers/pytorch_ctr_quality.py train.hsgd test.hsgd --epochs 3

The models are those of pytorch_ctr.py (D 16), with embeddings that begin at N(0, .01^2), the weights u at 0, and the layers as
PyTorch begins them. Adam for all: of the table SparseAdam, which changes touched rows alone, as hetsgd's does; or with
`--table-adam dense` the usual one, whose moments move every row in every step. Writes a JSON document for each epoch.
"""

import argparse
import json
import pathlib
import struct
import sys
import time

import torch

import pytorch_ctr

SEAL = struct.Struct("<8sIIQQ")            # magic, version, reserved, length, sum
COUNTS = struct.Struct("<10QIIBBBQQQ")     # key ... label_hash, feature_count, label_count, task, format, index_base, columns
MAGIC, VERSION, ALIGNMENT = b"HSGDDATA", 3, 64


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", help="training data in the binary form of hetsgd data convert")
    parser.add_argument("test", help="test data in the same form")
    parser.add_argument("--model", choices=sorted(pytorch_ctr.HIDDEN), default="deepfm", help="model (default: deepfm)")
    parser.add_argument("--hidden", default="256,128", help="units of the hidden layers, separated by commas (default: 256,128)")
    parser.add_argument("--batch-size", type=int, default=1024, help="batch size (default: 1024)")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="learning rate of Adam (default: 0.001)")
    parser.add_argument("--table-adam", choices=["sparse", "dense"], default="sparse",
                        help="Adam of the table: sparse changes only touched rows, dense all rows (default: sparse)")
    parser.add_argument("--epochs", type=int, default=1, help="number of epochs (default: 1)")
    parser.add_argument("--seed", type=int, default=1, help="seed of all random numbers (default: 1)")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: 1)")
    return parser.parse_args()


def aligned(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


class Clicks:
    """dense [rows x 13], categories [rows x 26], labels [rows] of a binary file (lib/data/binary.hpp)."""

    def __init__(self, path):
        data = bytearray(pathlib.Path(path).read_bytes())
        magic, version, _, length, _ = SEAL.unpack_from(data)
        if (magic, version) != (MAGIC, VERSION):
            sys.exit(f"{path}: found {magic} of version {version}, expected {MAGIC} of version {VERSION}\n"
                     "hint: hetsgd data convert writes it")
        place = self.skip_text(data, SEAL.size)
        names, place = struct.unpack_from("<Q", data, place)[0], place + 8
        for _ in range(names):
            place = self.skip_text(data, place)
        _, _, rows, features, positives, *_, dense, fields, values = COUNTS.unpack_from(data, place)
        if (features, dense, fields) != (0, pytorch_ctr.DENSE, pytorch_ctr.FIELDS):
            sys.exit(f"{path}: found {features} sparse features, {dense} dense columns and {fields} fields, expected 0, "
                     f"{pytorch_ctr.DENSE} and {pytorch_ctr.FIELDS}")
        self.place = aligned(SEAL.size + length)
        begin = self.take(data, torch.int64, rows + 1)
        self.take(data, torch.int32, rows)  # sums of rows
        self.categories_in_all = int(self.take(data, torch.int32, fields + 1)[-1])
        self.take(data, torch.int32, values)
        self.take(data, torch.int32, positives)
        self.categories = self.take(data, torch.int32, rows * fields).view(rows, fields)
        self.dense = self.take(data, torch.float32, rows * dense).view(rows, dense)
        self.labels = (begin[1:] - begin[:-1]).float()  # a positive row has one label, another none
        self.rows = rows

    @staticmethod
    def skip_text(data, place):
        return place + 8 + struct.unpack_from("<Q", data, place)[0]

    def take(self, data, kind, count):
        array = torch.frombuffer(data, dtype=kind, count=count, offset=self.place)
        self.place += aligned(count * array.element_size())
        return array

    def batch(self, rows):
        return self.dense[rows], self.categories[rows].long(), self.labels[rows]


def area_under_curve(scores, labels):
    """By mid-ranks: equal scores count half."""
    _, place, counts = torch.unique(scores, return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    ranks = (last - (counts.double() - 1) / 2)[place]
    positives = labels.double().sum()
    won = (ranks * labels).sum() - positives * (positives + 1) / 2
    return float(won / (positives * (len(labels) - positives)))


@torch.no_grad()
def measure(model, test):
    scores = torch.cat([model(*test.batch(rows)[:2]) for rows in torch.arange(test.rows).split(8192)])
    loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, test.labels)
    return {"auc": area_under_curve(scores, test.labels), "test_loss": float(loss)}


def make_model(options, categories):
    hidden = [int(width) for width in options.hidden.split(",")]
    model = pytorch_ctr.Ctr(options.model, "one", hidden, categories)
    rows = model.table.weights[0].data
    rows.zero_()
    torch.nn.init.trunc_normal_(rows[:, :pytorch_ctr.EMBEDDING], std=0.01, a=-0.02, b=0.02)
    return model


def make_optimizers(options, model):
    dense = [p for name, p in model.named_parameters() if not name.startswith("table")]
    tables = list(model.table.parameters())
    if options.table_adam == "dense":
        return [torch.optim.Adam(dense + tables, lr=options.learning_rate)]
    return [torch.optim.Adam(dense, lr=options.learning_rate), torch.optim.SparseAdam(tables, lr=options.learning_rate)]


def train_epoch(options, model, optimizers, train):
    """The mean loss of the samples when they were met."""
    total = 0.0
    for rows in torch.randperm(train.rows).split(options.batch_size):
        dense, categories, labels = train.batch(rows)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(dense, categories), labels)
        loss.backward()
        if options.table_adam == "dense":
            for weight in model.table.weights:
                weight.grad = weight.grad.to_dense()
        for optimizer in optimizers:
            optimizer.step()
        total += float(loss.detach()) * len(rows)
    return total / train.rows


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    train, test = Clicks(options.train), Clicks(options.test)
    model = make_model(options, train.categories_in_all)
    optimizers = make_optimizers(options, model)
    for epoch in range(options.epochs):
        start = time.process_time()
        loss = train_epoch(options, model, optimizers, train)
        print(json.dumps({"tool": "pytorch", "version": torch.__version__, "epoch_num": epoch + 1, "train_loss": loss,
                          "train_cpu_s": time.process_time() - start, **measure(model, test)}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
