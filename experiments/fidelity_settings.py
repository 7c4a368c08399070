"""What fidelity.py runs: setups (a machine, data and a budget), methods (an algorithm with its options), parts (which methods
run under which setups, and what for). Data alone."""
import dataclasses

import common

MACHINES = common.ROOT / "experiments" / "machines"
NETWORKS = common.ROOT / "experiments" / "networks"

# Learning rates from a grid of equal ratios, 1.78 (four values per decade); with momentum 0.9 a step is up to ten times as long.
GRID, GRID_MOMENTUM, GRID_WIDE, GRID_AMAZON = "0.316:17.8:8", "0.0562:3.16:8", "0.1:31.6:11", "1:17.8:6"

# Paper 000's data at 64,000 of 490,449 rows: a mega-batch of 100 batches of 64 is a tenth of an epoch.
AMAZON = "generate:amazon670k?scale=0.1305&rows_train=64000&rows_test=2000&labels=20000&noise=0.05"
MODEL = ["--model", "mlp", "--host-threads", "1"]
# Where replicas are merged, they are measured at merges alone: other methods more often, but for those setups whose subject
# merging is, which measure all methods once per merge of the paper's mega-batch.
EVALUATE = ["--evaluate-every", "4000"]
DELICIOUS = [*MODEL, "--hidden", "128", *EVALUATE]
FULL_SIZE = ["--charge", "amazon670k"]


@dataclasses.dataclass(frozen=True)
class Setup:
    options: list                    # of every run, before the method's
    epochs: float = 12               # of a final run
    tune_epochs: float = 6           # of a trial
    tune_seeds: str = "101,102"      # a third one where it is cheap
    grid: str = GRID
    goal: str = "p1>=0.6"            # of the tuning: the time to it, or the final value of a metric
    target: str = "p1>=0.6"          # of the comparison
    data: str = ""                   # a generate:... specification; Delicious if empty
    rate: str = ""                   # a fixed learning rate: nothing is tuned, only counts and times matter


@dataclasses.dataclass(frozen=True)
class Part:
    about: str
    setups: list
    methods: list
    reference: str
    readings: tuple = ()             # of READINGS in fidelity.py, in the tables beside what is compared


EIGHT = [*common.EIGHT_GPUS, *EVALUATE, "--mega-batch", "104"]
DELAYS = {name: options for name, (_, options) in common.STRAGGLERS.items()}
UNIFORM = DELAYS["b"]
# Paper 004 trains with momentum 0.9 and steps of the rate.
MOMENTUM = ["--optimizer", "momentum", "--momentum", "0.9", "--schedule", "step", "--step-epochs"]
HETEROGPU = ["--config", MACHINES / "heterogpu.json", *FULL_SIZE]
SERVER = [*MODEL, "--hidden", "128", *HETEROGPU]
# With 32 hidden units the clock's model has 26 million parameters, a quarter of the paper's: computing and sending shrink alike.
SERVER_AMAZON = [*MODEL, "--hidden", "32", "--batch-size", "64", "--mega-batch", "100", "--evaluate-every", "6400"]
AMAZON_TARGET = "p1>=0.2"
TITANS = [*DELICIOUS, "--cluster", "sim", "--profile", "titan-x-pascal", "--network", "pcie3", "--batch-size", "16",
          "--mega-batch", "100", *MOMENTUM, "6,10"]
# Paper 003's times of a batch, 0.03 and 3.5 s; 13 million parameters are about ResNet18.
SLOW_SERVER = [*MODEL, "--hidden", "16", *FULL_SIZE, "--config", MACHINES / "esync.json", "--batch-size", "64",
               "--mega-batch", "104", "--straggler", "kind=uniform,workers=0-6,min=28ms,max=28ms",
               "--straggler", "kind=uniform,worker=7,min=3.4s,max=3.4s", *EVALUATE]
ADASUM = [*MODEL, "--hidden", "128", "--evaluate-every", "1024", *FULL_SIZE, "--cluster", "sim",
          "--profile", "v100", "--network", "infiniband-edr", "--batch-size", "32", "--optimizer", "momentum",
          "--momentum", "0.9", "--schedule", "linear", "--warmup-epochs", "0.7", "--decay-epochs", "4"]
SCALE = [*MODEL, "--hidden", "128", *FULL_SIZE, "--cluster", "sim", "--profile", "gtx-1080ti", "--network", "infiniband-edr",
         "--batch-size", "16", "--mega-batch", "100", *UNIFORM]
PROBES = [*MODEL, "--hidden", "4", "--cluster", "sim", "--workers", "100", "--network", "ideal", "--batch-size", "1",
          "--mega-batch", "1000", "--straggler", "kind=uniform,min=10ms,max=50ms"]
THREE = "101,102,103"
ESYNC_BUDGET = {"epochs": 20, "tune_epochs": 8, "tune_seeds": THREE}


def sixteen(machine, *delays):
    return Setup([*DELICIOUS, *FULL_SIZE, "--config", MACHINES / machine, "--batch-size", "16", "--mega-batch", "100", *delays])


def adasum(workers):
    return Setup([*ADASUM, "--workers", workers], epochs=4, tune_epochs=4, tune_seeds=THREE, grid=GRID_WIDE, goal="p1", target="p1>=0.55")


def amazon(*options):
    return Setup([*SERVER_AMAZON, *options], epochs=2, tune_epochs=1, grid=GRID_AMAZON, goal=AMAZON_TARGET,
                 target=AMAZON_TARGET, data=AMAZON)


def fewer_gpus(speeds):
    return amazon(*FULL_SIZE, "--cluster", "sim", "--profile", "v100-pcie", "--network", "pcie3", "--workers", len(speeds),
                  "--speed", ",".join(speeds))


# What tells long sentences from short ones in paper 004's Transformer is not known: a lognormal delay stands for it.
SENTENCES = ["--straggler", "kind=lognormal,median=20ms,sigma=0.7"]
SETUPS = {
    **{name: Setup([*EIGHT, *delays]) for name, delays in DELAYS.items()},
    **{f"{name}-momentum": Setup([*EIGHT, *DELAYS[name], *MOMENTUM, "8,14"], epochs=20, grid=GRID_MOMENTUM) for name in "bc"},
    "1080ti": Setup([*EIGHT, *UNIFORM, "--profile", "gtx-1080ti"]),
    "1080ti-slow": Setup([*EIGHT, *UNIFORM, "--profile", "gtx-1080ti", "--network", NETWORKS / "infiniband-quarter.json"]),
    "transformer": sixteen("rna-1080ti.json", *SENTENCES),
    "transformer-delays": sixteen("rna-1080ti.json", *SENTENCES, *UNIFORM),
    "mixed": sixteen("rna-mixed.json", *UNIFORM),
    **{f"scale-{p}": Setup([*SCALE, "--workers", p], epochs=4, rate="0.1") for p in (4, 8, 16, 32)},
    "probes": Setup(PROBES, epochs=5, rate="0.01", target="p1>=0.1", data="generate:tiny"),
    "server": Setup([*SERVER, "--batch-size", "256", "--mega-batch", "100", "--evaluate-every", "25600"], epochs=30,
                    tune_epochs=20, tune_seeds=THREE),
    "server-small-batches": Setup([*SERVER, "--batch-size", "32", "--mega-batch", "52", "--evaluate-every", "3328",
                                   "--warmup-epochs", "5", "--schedule", "inverse_time", "--inverse-rate", "0.1"]),
    "amazon": amazon(*HETEROGPU),
    "amazon-fan-in": amazon(*HETEROGPU, "--init", "fan_in"),
    "amazon-1": fewer_gpus(["1"]),
    "amazon-2": fewer_gpus(["1", "0.76"]),
    **{f"crossbow-{g}": Setup([*TITANS, "--workers", g], grid=GRID_MOMENTUM) for g in (1, 8)},
    "esync": Setup(SLOW_SERVER, **ESYNC_BUDGET, goal="p1>=0.5", target="p1>=0.5"),
    "esync-not-iid": Setup([*SLOW_SERVER, "--partition", "label_sorted"], **ESYNC_BUDGET, goal="p1>=0.5", target="p1>=0.5"),
    **{f"adasum-{p}": adasum(p) for p in (1, 8, 32)},
}

FULL = ["ssgd", "--per-worker-batch", "full"]
FRESH = ["rna", "--trigger", "fresh"]
BY_HAND = ["--hierarchical", "--groups", "0-3:4-7"]
AUTO_GROUPS = [*FRESH, "--local", "sum", "--hierarchical", "--group-by", "gap", "--exchange-every", "8"]
RMS = ["adaptive", "--pert-norm", "rms"]
NO_SCALING = ["--scaling-every", "1000000"]
METHODS = {
    "ssgd": FULL,
    "ssgd split": ["ssgd"],
    "ssgd overlap": [*FULL, "--overlap"],
    "ssgd adasum": [*FULL, "--reduce", "adasum", "--orthogonality-every", "10"],
    "ssgd central": [*FULL, "--storage", "central"],
    "sgd": ["sgd"],
    "local-sgd": ["local-sgd"],
    "asgd": ["asgd"],
    "dc-asgd": ["dc-asgd"],
    "ssp": ["ssp"],
    "adpsgd": ["adpsgd"],
    "esync": ["esync"],
    "esync server": ["esync", "--aggregate", "server"],
    "eager-solo": ["eager-solo"],
    "eager-majority": ["eager-majority"],
    "rna any": ["rna", "--trigger", "any"],
    "rna fresh": FRESH,
    "rna fresh sum": [*FRESH, "--local", "sum"],
    "rna fresh drop": [*FRESH, "--bound", "age", "--eta", "0"],
    "rna fresh local training": [*FRESH, "--local", "sum", "--local-training"],
    "rna fresh no staging": [*FRESH, "--local", "sum", "--no-staging"],
    "rna groups": [*FRESH, "--local", "sum", *BY_HAND, "--exchange-every", "8"],
    "rna groups every round": [*FRESH, "--local", "sum", *BY_HAND, "--exchange-every", "1"],
    "rna groups last": [*FRESH, "--local", "sum", *BY_HAND, "--exchange-every", "8", "--group-server", "last"],
    "rna auto groups": AUTO_GROUPS,
    **{f"rna probes {q}": [*FRESH, "--probes", q] for q in (1, 2, 4, 8)},
    **{f"rna any probes {q}": ["rna", "--trigger", "any", "--probes", q] for q in (1, 2)},
    **{f"rna any at {rate}": ["rna", "--trigger", "any", "--learning-rate", rate] for rate in ("1", "1.78", "3.16", "5.62")},
    **{f"ssgd at {rate}": [*FULL, "--learning-rate", rate] for rate in ("1", "1.78", "3.16", "5.62", "10", "17.8")},
    "elastic": ["elastic"],
    "elastic gamma 0": ["elastic", "--gamma", "0"],
    "elastic mega 25": ["elastic", "--mega-batch", "25"],
    "adaptive": ["adaptive"],
    "adaptive rms": RMS,
    "adaptive rms 0.05": [*RMS, "--pert-threshold", "0.05"],
    "adaptive delta 0": ["adaptive", "--delta", "0"],
    "adaptive delta 0.05": ["adaptive", "--delta", "0.05"],
    "adaptive delta 0.2": ["adaptive", "--delta", "0.2"],
    "adaptive gamma 0": ["adaptive", "--gamma", "0"],
    "adaptive gamma 0 delta 0": ["adaptive", "--gamma", "0", "--delta", "0"],
    "adaptive no scaling": ["adaptive", *NO_SCALING],
    "adaptive scheduling alone": ["adaptive", *NO_SCALING, "--delta", "0"],
    "adaptive clamp": ["adaptive", "--bounds", "clamp"],
    "adaptive warm-up": [*RMS, "--adaptive-warmup-epochs", "0.5"],
    "adaptive whole rounds": ["adaptive", "--whole-rounds"],
    "adaptive mega 4": ["adaptive", "--mega-batch", "4"],
    "adaptive mega 20": ["adaptive", "--mega-batch", "20"],
    "adaptive mega 25": ["adaptive", "--mega-batch", "25"],
    "adaptive beta 2": ["adaptive", "--beta", "2"],
    "adaptive beta 8": ["adaptive", "--beta", "8"],
    **{f"{name} m{m}": [name, "--learners-per-device", m] for name in ("sma", "easgd") for m in (1, 2, 4)},
    "sma": ["sma"],
    "easgd": ["easgd"],
    "sma m2 alpha 0.1": ["sma", "--learners-per-device", "2", "--alpha", "0.1"],
    "easgd m2 alpha 0.1": ["easgd", "--learners-per-device", "2", "--alpha", "0.1"],
    "sma m2 tau 4": ["sma", "--learners-per-device", "2", "--tau", "4"],
    "sma m1 alone": ["sma", "--tau", "1000000"],
}
# name -> (setup, method, factor): at the learning rate that was tuned there times the factor, or times the workers for None.
CARRIED_RATES = {"ssgd carried": ("adasum-1", "sgd", None), "ssgd adasum carried": ("adasum-1", "sgd", 1)}
METHODS |= {name: METHODS[name.removesuffix(" carried")] for name in CARRIED_RATES}
# Figures 9 to 11 of paper 000 change one parameter of a tuned method: those of adaptive run at its rate.
ONE_CHANGED = ["adaptive mega 4", "adaptive mega 20", "adaptive beta 2", "adaptive beta 8 at its rate", "adaptive delta 0.05",
               "adaptive delta 0.2"]
METHODS["adaptive beta 8 at its rate"] = METHODS["adaptive beta 8"]
CARRIED_RATES |= {name: ("amazon", "adaptive", 1) for name in ONE_CHANGED}

STALENESS = ("contributors", "stale_share", "dropped_share")
MERGES = ("perturbed_share", "smallest_batch", "largest_batch")
PARTS = {
    "rna-trigger": Part(
        "Which gradients may answer a probe (RNA, checks 1 and 2).", list("abcd"),
        ["ssgd", "eager-majority", "rna any", "rna fresh", "rna fresh sum", "rna fresh drop", "rna fresh local training"], "ssgd",
        STALENESS),
    "rna-staging": Part("The charge for copies between GPU and host.", ["b"], ["rna fresh sum", "rna fresh no staging"],
                        "rna fresh sum"),
    "rna-delay": Part(
        "What a delay of one round costs at equal learning rates, without stragglers (RNA, check 3).", ["a"],
        [f"ssgd at {rate}" for rate in ("1", "1.78", "3.16", "5.62", "10", "17.8")] +
        [f"rna any at {rate}" for rate in ("1", "1.78", "3.16", "5.62")], "ssgd at 5.62", STALENESS),
    "rna-momentum": Part(
        "Momentum 0.9 and steps of the rate, as in paper 004 (RNA, check 4).", ["b-momentum", "c-momentum"],
        ["ssgd", "eager-majority", "adpsgd", "rna any", "rna fresh sum", "rna groups"], "ssgd", STALENESS),
    "rna-clock": Part(
        "GTX 1080 Ti, and a network of a quarter of the bandwidth (RNA, check 5).", ["1080ti", "1080ti-slow"],
        ["ssgd", "ssgd overlap", "eager-majority", "adpsgd", "rna any", "rna fresh sum"], "ssgd", STALENESS),
    "rna-groups": Part(
        "Groups of workers and a parameter server between them, mixed heterogeneity.", ["c"],
        ["ssgd", "eager-majority", "adpsgd", "rna fresh sum", "rna groups", "rna groups every round", "rna groups last",
         "rna auto groups"], "ssgd", STALENESS),
    "rna-machines": Part(
        "Paper 004's clusters: sixteen GTX 1080 Ti without and with delays, and the mix of table 5.2.",
        ["transformer", "transformer-delays", "mixed"], ["ssgd", "eager-majority", "adpsgd", "rna fresh sum", "rna auto groups"],
        "ssgd", STALENESS),
    "rna-scale": Part("Throughput over the number of workers.", [f"scale-{p}" for p in (4, 8, 16, 32)],
                      ["ssgd", "eager-majority", "adpsgd", "rna fresh sum"], "ssgd"),
    "rna-probes": Part("Rounds of 100 workers, 10 to 50 ms each, over the number of probes.", ["probes"],
                       [*(f"rna probes {q}" for q in (1, 2, 4, 8)), "rna any probes 1", "rna any probes 2"], "rna probes 1"),
    "adaptive-parts": Part(
        "Perturbation, momentum, merging period and step of the scaling (Adaptive SGD, checks 1 and 2).", ["server"],
        ["ssgd split", "elastic", "elastic gamma 0", "adaptive", "adaptive rms", "adaptive rms 0.05", "adaptive delta 0",
         "adaptive gamma 0", "adaptive gamma 0 delta 0", "elastic mega 25", "adaptive mega 25", "adaptive beta 8"], "elastic",
        MERGES),
    "adaptive-small": Part("Small batches, warm-up and a decaying rate (Adaptive SGD, check 3).", ["server-small-batches"],
                           ["ssgd split", "elastic", "adaptive", "adaptive rms", "adaptive warm-up"], "elastic", MERGES),
    "adaptive-stragglers": Part("Straggler scenarios with a mega-batch that eight workers divide (Adaptive SGD, check 4).",
                                list("abcd"), ["elastic", "adaptive", "adaptive rms", "adaptive clamp"], "elastic", MERGES),
    "adaptive-amazon": Part(
        "Paper 000's regime: ten merges an epoch, extreme labels; each ingredient switched off alone.", ["amazon"],
        ["ssgd split", "sma", "elastic", "elastic gamma 0", "adaptive", "adaptive rms", "adaptive delta 0", "adaptive gamma 0",
         "adaptive gamma 0 delta 0", "adaptive no scaling", "adaptive scheduling alone", "adaptive warm-up",
         "adaptive whole rounds", *ONE_CHANGED],
        "elastic", MERGES),
    "adaptive-init": Part("Weights drawn with 1 / sqrt(fan in): the thresholds of the regularity test.", ["amazon-fan-in"],
                          ["elastic", "adaptive", "adaptive rms", "adaptive rms 0.05"], "adaptive rms", MERGES),
    "adaptive-gpus": Part("One and two GPUs.", ["amazon-1", "amazon-2"], ["adaptive", "elastic"], "elastic", MERGES),
    "crossbow": Part(
        "SMA and EA-SGD with one, two and four learners per GPU and local momentum.", ["crossbow-8", "crossbow-1"],
        ["ssgd", "sma m1", "sma m2", "sma m4", "easgd m1", "easgd m2", "easgd m4", "sma m2 alpha 0.1", "easgd m2 alpha 0.1",
         "sma m2 tau 4", "sma m1 alone"], "sma m1"),
    "esync": Part("Paper 003's machine: seven GPUs and one CPU behind a server with 1 Gb/s.", ["esync", "esync-not-iid"],
                  ["ssgd central", "asgd", "dc-asgd", "esync server", "esync"], "ssgd central", ("computing_ratio", "bytes_per_s")),
    "adasum": Part("Adasum beside the mean, 8 and 32 workers, four epochs; tuned, and at rates carried over from one worker.",
                   ["adasum-8", "adasum-32"], ["ssgd", "ssgd adasum", "ssgd carried", "ssgd adasum carried"], "ssgd",
                   ("orthogonality_rise",)),
    "stragglers": Part(
        "Every algorithm in the reading chosen, four straggler scenarios.", list("abcd"),
        ["ssgd", "ssgd adasum", "local-sgd", "elastic", "adaptive", "easgd", "sma", "esync", "adpsgd", "eager-solo",
         "eager-majority", "rna fresh sum", "rna auto groups", "asgd", "dc-asgd", "ssp"], "ssgd",
        ("computing_ratio", "bytes_per_s")),
}
