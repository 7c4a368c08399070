"""Statistics over the seeds of an experiment. A missed target counts as infinity and is never dropped.

  intervals       percentile bootstrap (Efron 1979), the ends are order statistics: they may be infinite
  tests           Mann-Whitney U (1947) and Wilcoxon's signed ranks (1945, equal pairs by Pratt 1959), exact with ties
  least effects   what so many seeds would have shown
  scores          areas below performance profiles (Dolan, More 2002; as a score: AlgoPerf, Dahl and others 2023)

Profiles: r(m, p) is the median time of method m on problem p over the best method's, rho(m, tau) the share of the problems with
r(m, p) <= tau, and the score of m the mean of rho over tau from 1 to R, which is the mean over p of max(0, (R - r) / (R - 1)).
Another method can only shorten the best times, so it raises no other score.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

RESAMPLES = 10000
TAIL = RESAMPLES // 40  # 2.5 % on each side
SEED = 1
CHUNK = 1_000_000  # numbers that a bootstrap draws at once
# The largest sizes with exact tests: of the smaller side, of both together, and of the pairs.
EXACT_SIDE, EXACT_SIDES, EXACT_PAIRS = 8, 50, 50
LEVEL = 0.05
POWER_QUANTILE = 2.8  # of the normal distribution: 97.5 % (a two-sided level of 5 %) and 80 % (the power)
PROFILE_END = 4  # R, as AlgoPerf has it


class Interval(NamedTuple):
    """A median or a ratio of medians with the ends of its 95 % bootstrap interval."""
    median: float
    low: float
    high: float


class Test(NamedTuple):
    """A two-sided test: its statistic, its p-value, and whether that counts all orders or signs (else by the normal law)."""
    statistic: float
    p_value: float
    exact: bool


NOTHING = Interval(math.nan, math.nan, math.nan)


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones; may be infinite. Needs one value at least, none NaN."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


@functools.lru_cache(maxsize=8)
def _drawn(count: int, stream: tuple[int, ...], first: int, rows: int) -> np.ndarray:
    return np.random.default_rng([SEED, *stream, first]).integers(count, size=(rows, count))


def _draws(count: int, *stream: int) -> Iterator[np.ndarray]:
    """The places that RESAMPLES resamples of so many values draw, (resamples, count), in parts. A function of the arguments."""
    rows = max(1, min(RESAMPLES, CHUNK // count))
    return (_drawn(count, stream, first, min(rows, RESAMPLES - first)) for first in range(0, RESAMPLES, rows))


def _medians(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The median of each row of values[places]."""
    middle = [(places.shape[1] - 1) // 2, places.shape[1] // 2]
    return np.partition(values[places], middle, axis=1)[:, middle].mean(axis=1)


def _resampled(values: Sequence[float], *stream: int) -> np.ndarray:
    array = np.asarray(values, float)
    return np.concatenate([_medians(array, places) for places in _draws(len(array), *stream)])


def lower_end(values: np.ndarray) -> float:
    """The order statistic with 2.5 % of the resampled values below it."""
    return float(np.partition(values, TAIL)[TAIL])


def upper_end(values: np.ndarray) -> float:
    """The order statistic with 2.5 % of the resampled values above it."""
    return float(np.partition(values, len(values) - 1 - TAIL)[len(values) - 1 - TAIL])


def bootstrap_median(values: Sequence[float]) -> Interval:
    """The median with its interval; all NaN if a value is."""
    if any(map(math.isnan, values)):
        return NOTHING
    medians = _resampled(values, 0)
    return Interval(median(values), lower_end(medians), upper_end(medians))


def ratio_of_times(a: float, b: float) -> float:
    """a / b of times that may be infinite: 1 if both are equal and finite (also 0), NaN if both are infinite."""
    if math.isinf(a) and math.isinf(b):
        return math.nan
    if a == b:
        return 1.0
    return a / b if b != 0 else math.copysign(math.inf, a)


def bootstrap_ratio(above: Sequence[float], below: Sequence[float], paired: bool = False) -> Interval:
    """The ratio of the two medians with its interval; both sides are resampled independently. A resample in which both medians are
    infinite counts as 0 for the lower end and as infinity for the upper one. All NaN if the ratio itself is.

    paired: above[i] and below[i] belong to one seed, and a resample draws seeds, so that what a seed does to both sides does not widen
    the interval. It is the ratio of the medians, which stand beside it, and known while most seeds reach the target."""
    ratio = ratio_of_times(median(above), median(below))
    if math.isnan(ratio):
        return NOTHING
    a, b = (_resampled(side, stream) for side, stream in ((above, 0), (below, 0 if paired else 1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where((a == b) & np.isfinite(a), 1.0, a / b)
    none = np.isnan(ratios)  # both medians are infinite
    return Interval(ratio, lower_end(np.where(none, 0.0, ratios)), upper_end(np.where(none, np.inf, ratios)))


def _double_ranks(values: Sequence[float]) -> np.ndarray:
    """Twice the mean ranks of the values, from 2 on: integers."""
    ordered = np.sort(values)
    return np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") + 1


def _share_of_orders(ranks: np.ndarray, count: int, most: int) -> float:
    """The share of the ways to choose `count` of the ranks whose sum is at most `most`. p[k] has the probabilities of the sums of k
    ranks: if k of the first i ranks are chosen, the next one is with probability (count - k) / (all - i)."""
    p = np.zeros((count + 1, most + 1))
    p[0, 0] = 1
    for i, rank in enumerate(ranks):
        chosen = np.clip((count - np.arange(count + 1)) / (len(ranks) - i), 0, 1)[:, None]
        taken = chosen[:-1] * p[:-1, :max(0, most + 1 - rank)]
        p *= 1 - chosen
        p[1:, rank:] += taken
    return float(p[count].sum())


def mann_whitney(x: Sequence[float], y: Sequence[float]) -> Test:
    """Whether the values of one side tend to be larger; the statistic counts the pairs with x > y, ties as one half. Exact (twice the
    smaller tail of all ways to share the values out) if the smaller side has at most 8 values or both have at most 50 together,
    else by the normal law with corrections for ties and continuity. Both sides need a value, none NaN."""
    if len(x) > len(y):
        u, p_value, exact = mann_whitney(y, x)
        return Test(len(x) * len(y) - u, p_value, exact)
    m, n = len(x), len(y)
    total = m + n
    ranks = _double_ranks([*x, *y])
    found = int(ranks[:m].sum())
    u = found / 2 - m * (m + 1) / 2
    if m <= EXACT_SIDE or total <= EXACT_SIDES:
        both_ends = 2 * total + 2
        # The ranks of the complement are counted from above.
        tails = _share_of_orders(ranks, m, found), _share_of_orders(both_ends - ranks, m, m * both_ends - found)
        return Test(u, min(1.0, 2 * min(tails)), True)
    ties = np.unique(ranks, return_counts=True)[1].astype(float)
    variance = m * n / 12 * (total + 1 - float((ties**3 - ties).sum()) / (total * (total - 1)))
    if variance <= 0:  # all values are equal
        return Test(u, 1.0, False)
    z = max(0.0, m * n / 2 - min(u, m * n - u) - 0.5) / math.sqrt(variance)
    return Test(u, math.erfc(z / math.sqrt(2)), False)


def _log_ratio(a: float, b: float) -> float:
    """log(a / b); 0 if both are equal, infinite if only one of them is positive and finite."""
    if a == b:
        return 0.0
    return math.log(a / b) if 0 < a < math.inf and 0 < b < math.inf else math.inf if a > b else -math.inf


def _share_of_choices(ranks: np.ndarray, most: int) -> float:
    """The share of the 2^n choices of ranks whose sum is at most `most`."""
    p = np.zeros(most + 1)
    p[0] = 1
    for rank in ranks:
        taken = p[:max(0, most + 1 - rank)] / 2
        p /= 2
        p[rank:] += taken
    return float(p.sum())


def signed_rank(x: Sequence[float], y: Sequence[float]) -> Test:
    """Whether log(x[i] / y[i]) of the pairs tends to lie on one side of 0; the statistic sums the ranks of the pairs with x > y.
    Equal pairs, such as two missed targets, are ranked and then left out; one missed target has the largest rank. Exact (all
    signs of the given ranks) up to 50 pairs, else by the normal law with the variance of these ranks. One pair at least, none NaN."""
    differences = np.array([_log_ratio(*pair) for pair in zip(x, y, strict=True)])
    ranks = _double_ranks(np.abs(differences))
    above, total = int(ranks[differences > 0].sum()), int(ranks[differences != 0].sum())
    ranks, smaller, exact = ranks[differences != 0], min(above, total - above), len(x) <= EXACT_PAIRS
    if not len(ranks):
        return Test(0.0, 1.0, exact)
    if exact:
        return Test(above / 2, min(1.0, 2 * _share_of_choices(ranks, smaller)), True)
    z = (total / 2 - smaller) / math.sqrt(float((ranks.astype(float)**2).sum()) / 4)
    return Test(above / 2, math.erfc(z / math.sqrt(2)), False)


@functools.cache
def can_show(x: int, y: int | None = None) -> bool:
    """Whether a two-sided test of so many pairs, or of x against y values, can have a p-value of 0.05 or less."""
    return 2 * 0.5**x <= LEVEL if y is None else mann_whitney([0] * x, [1] * y).p_value <= LEVEL


def _variance_of_mean(values: Sequence[float]) -> float:
    return float(np.var(values, ddof=1)) / len(values) if len(values) > 1 else math.nan


def least_effect(x: Sequence[float], y: Sequence[float], paired: bool = False) -> float:
    """The least true ratio that a normal mean of so many log ratios of pairs, or of two independent sides, would have shown with a
    probability of 80 % at a level of 5 %: exp(2.8 e), e the standard error of the mean. NaN if a value is not positive or not finite,
    infinity for too few values."""
    if not all(0 < value < math.inf for value in [*x, *y]):
        return math.nan
    logs = np.log(x), np.log(y)
    variance = _variance_of_mean(logs[0] - logs[1]) if paired else sum(map(_variance_of_mean, logs))
    shows = can_show(len(x)) if paired else can_show(len(x), len(y))
    return math.exp(POWER_QUANTILE * math.sqrt(variance)) if shows else math.inf


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of a family of tests in their order, corrected by Holm's method (1979). None may be NaN."""
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


@dataclass
class MethodScore:
    """Where a method stands. The intervals hold score and rank, because resampled best medians tend to be below the best median."""
    score: float
    low: float
    high: float
    median_s: list[float]  # by problem, as the ratios to the best
    ratios: list[float]
    solved: int  # problems whose median is finite
    rank: int  # 1: best; equal scores share the best of their ranks
    rank_low: int
    rank_high: int


def _ratios_to_best(medians: np.ndarray) -> np.ndarray:
    """Each median over the best along the second axis from the end (methods): 1 if equal and finite, infinity if infinite."""
    best = medians.min(axis=-2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isinf(medians), np.inf, np.where(medians == best, 1.0, medians / best))


def profile_area(ratios: Sequence[float] | np.ndarray) -> np.ndarray:
    """The area below the profile of ratios to the best (last axis: problems), over R - 1. None may be NaN."""
    return np.maximum(0.0, (PROFILE_END - np.asarray(ratios, float)) / (PROFILE_END - 1)).mean(axis=-1)


def score_methods(times_s: Sequence[Sequence[Sequence[float]]]) -> list[MethodScore]:
    """The scores of methods by times_s[method][problem][seed], infinity where missed. All methods have the same problems and seeds,
    in one order. A resample draws seeds anew for each problem, and the same for all methods."""
    if not times_s:
        return []
    methods, problems = len(times_s), len(times_s[0])
    medians = np.array([[median(seeds) for seeds in each] for each in times_s])
    resampled = np.empty((RESAMPLES, methods, problems))
    for p in range(problems):
        for m in range(methods):
            resampled[:, m, p] = _resampled(times_s[m][p], 2, p)

    def standings(of: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ratios = _ratios_to_best(of)
        scores = profile_area(ratios)
        return ratios, scores, 1 + (scores[..., None, :] > scores[..., :, None]).sum(axis=-1)

    ratios, scores, ranks = standings(medians)
    _, drawn_scores, drawn_ranks = standings(resampled)
    return [MethodScore(float(scores[m]), min(float(scores[m]), lower_end(drawn_scores[:, m])),
                        max(float(scores[m]), upper_end(drawn_scores[:, m])), medians[m].tolist(), ratios[m].tolist(),
                        int(np.isfinite(medians[m]).sum()), int(ranks[m]), min(int(ranks[m]), int(lower_end(drawn_ranks[:, m]))),
                        max(int(ranks[m]), int(upper_end(drawn_ranks[:, m])))) for m in range(methods)]
