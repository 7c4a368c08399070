#!/usr/bin/env python3
"""Compares the time per step of click-through models on a GPU with PyTorch in eager mode.

    scripts/peers/compare_ctr_step_time.py build/release/apps/hetsgd/hetsgd --json steps.json

hetsgd trains with plain SGD on synthetic Criteo data whose tables have the 4 million rows of pytorch_ctr.py, with
replicated tables and with sharded ones of one worker; what counts is the training clock between two evaluations,
the median of those after the first. PyTorch runs at its best of three forms of the table, its batches on the GPU
before the clock starts; hetsgd's come from host memory in each step.

Exit code 0; 1 if a run of hetsgd failed; 77 if there is no GPU. Without PyTorch its columns are empty.
"""

import sys

from compare_step_time import finish, hetsgd_steps, missing_gpu, parser_of, pytorch_figures, ratio, shown

ROWS_OF_A_FIELD = 4_000_000 // 26


def hetsgd_step(options, model, tables, batch_size):
    words = ["--train", options.data, "--test", options.data, "--hash-size", str(ROWS_OF_A_FIELD), "--model", model, "--tables", tables,
             "--learning-rate", "0.01"]
    return hetsgd_steps(options, words + (["--hidden", options.hidden] if options.hidden else []), batch_size)[0]


def pytorch_step(options, model, batch_size):
    figures = pytorch_figures(options, "pytorch_ctr.py", batch_size, ["--model", model])
    return {**figures, "step_s": batch_size / figures["samples_per_s"]} if "samples_per_s" in figures else figures


def compare(options, model, batch_size):
    theirs = pytorch_step(options, model, batch_size)
    for tables in ("replicated", "sharded"):
        ours = hetsgd_step(options, model, tables, batch_size)
        yield {"model": model, "tables": tables, "batch_size": batch_size, "hetsgd_step_s": ours["step_s"],
               "pytorch_step_s": theirs["step_s"], "speedup_over_pytorch": ratio(theirs["step_s"], ours["step_s"]),
               "hetsgd": ours, "pytorch": theirs}


def main():
    parser = parser_of(__doc__, [8192, 65536], 40)
    parser.add_argument("--model", nargs="+", default=["wide_deep", "deepfm", "dcn"], help="models (default: wide_deep deepfm dcn)")
    parser.add_argument("--data", default="generate:criteo?scale=0.02",
                        help="training data of hetsgd (default: generate:criteo?scale=0.02)")
    parser.add_argument("--hidden", help="hidden layers of hetsgd's models (default: each model's own)")
    options = parser.parse_args()
    problem = missing_gpu(options)
    if problem:
        print(f"skipped: {problem}")
        return 77
    rows = [row for model in options.model for batch_size in options.batch_size for row in compare(options, model, batch_size)]
    print(f"{'model':10} {'tables':10} {'batch':>6} {'hetsgd ms':>10} {'PyTorch ms':>11} {'speed-up':>9}")
    for row in rows:
        print(f"{row['model']:10} {row['tables']:10} {row['batch_size']:6} {shown(row['hetsgd_step_s'], 1e3):>10}"
              f" {shown(row['pytorch_step_s'], 1e3):>11} {shown(row['speedup_over_pytorch']):>9}")
        for who in ("hetsgd", "pytorch"):
            if "problem" in row[who]:
                print(f"       {who}: {row[who]['problem']}")
    return finish(rows, options)


if __name__ == "__main__":
    sys.exit(main())
