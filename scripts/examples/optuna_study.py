"""An Optuna study of a method's options: learning rate and period of averaging, on held-out training rows; then one test of the best.

    pip install optuna
    PYTHONPATH=scripts python3 scripts/examples/optuna_study.py [TRIALS]      # default: 20

HETSGD_BINARY names the program where it is neither built here nor in PATH. A trial runs in simulated time, so that the study finds the
same on any machine."""

import sys

import hetsgd
import optuna

TARGET = 0.45
RUN = {"train": "generate:tiny", "hidden": 16, "batch_size": 32, "epochs": 4, "evaluate_every": 160,
       "cluster": "sim", "workers": 4, "algorithm": "elastic", "target": [f"p1>={TARGET}"]}


def seconds_to_target(options, **more):
    """Simulated seconds until the target is held; a run that misses it is worse than all that hold it, the more so the farther it ends."""
    result = hetsgd.run(**RUN, **options, **more)
    reached_s = result["time_to_accuracy"][0]["time_s"]
    best = result["summary"]["best"]["p1"]["value"]
    return reached_s if reached_s is not None else result["summary"]["elapsed_s"] * (2 + TARGET - best)


def objective(trial):
    options = {"learning_rate": trial.suggest_float("learning_rate", 0.03, 30, log=True),
               "mega_batch": trial.suggest_int("mega_batch", 4, 64, log=True)}
    return seconds_to_target(options, validation=0.1)


study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
study.optimize(objective, n_trials=int(sys.argv[1]) if len(sys.argv) > 1 else 20)
times = [seconds_to_target(study.best_params, test="generate:tiny", seed=seed) for seed in (2, 3, 4)]
print(f"best: {study.best_params}; on test data {', '.join(f'{time:.3g}' for time in times)} s")
