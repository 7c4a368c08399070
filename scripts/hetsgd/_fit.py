"""A straggler scenario from a record (`hetsgd fit`): what makes each worker's steps longer, as specifications of --straggler.

    step time of worker i  =  a(W) c_i  +  excess

a(W) is the time of the step's work on an undisturbed device, c_i >= 1 a constant factor, 1 for the fastest worker. The excess is kept
exactly, as a trace, and described by what fits it best:

    none       it is not larger than rounding
    noise      the steps scatter normally about a(W) c_i; a scenario leaves it out
    periodic   it has two levels, and an autocorrelation above 5 standard errors (Bartlett 1946) at a period
    burst      it has two levels, and a likelihood-ratio test (1 %) prefers a Markov chain of two states to independent draws
    uniform, lognormal, pareto   drawn delays. The smallest AIC; the p-value is that of a Kolmogorov-Smirnov test of the fitted law.
               Its null distribution is that of fits to data drawn from the law (Lilliefors), so that 5 % of right laws are below 0.05
    trace      none of them: fewer than FEWEST_STEPS steps

If the injected delay of a worker is the same multiple of a(W) in every step, it is part of the factor. Real time and other tools' step
times have no exact a(W) c_i: there it belongs to the excess, as what is left below it."""

import dataclasses
import functools
import json
import math

import numpy as np

from . import _errors, _output, _results, _text, _timeline

FEWEST_STEPS = 100
NORMAL_95 = 1.959964
# A fit is rejected below this p-value.
REJECTED = 0.01
# Spread of a factor, or of a delay as a multiple of a(W), below which it is constant; that of exact times is rounding alone.
CONSTANT_SPREAD, ROUNDING = 0.01, 1e-9
# Most steps in a goodness-of-fit test, evenly chosen, and the number of drawn data sets that it compares with.
MOST_TESTED, DRAWN_SETS = 1000, 999


@dataclasses.dataclass
class Parameter:
    """A fitted parameter with its 95 % confidence interval. key: as in a specification. Seconds, or a ratio (is_time=False)."""

    key: str
    value: float
    low: float
    high: float
    is_time: bool = True


@dataclasses.dataclass
class WorkerFit:
    """The cause of longer steps of a worker. step_s: its median undisturbed step a(W) c_i in seconds. factor: c_i; factor_error: its
    relative standard error, 0 where it is exact. p_value: of the fitted law of drawn delays; None for other kinds. excess_s: by step,
    below 0 where a step was faster than a(W) c_i."""

    rank: int
    steps: int
    step_s: float
    factor: float
    factor_error: float = 0.0
    kind: str = "none"
    parameters: list[Parameter] = dataclasses.field(default_factory=list)
    p_value: float | None = None
    excess_s: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))

    @property
    def rejected(self) -> bool:
        """Whether the data contradict the fit."""
        return self.p_value is not None and self.p_value < REJECTED


# --- drawn delays: laws, fitted to each row of an array of positive excesses in ascending order

def lognormal_fit(rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Mean and standard deviation of the logarithms."""
    logs = np.log(rows)
    return logs.mean(axis=-1), logs.std(axis=-1)


def shifted_lognormal_fit(rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Mean and standard deviation of the logarithms above a shift, and the shift. It is the one with which the smallest value lies
    where the smallest of so many is expected (Cohen and Whitten 1980); nan, where there is none."""
    from scipy import special
    expected = special.ndtri((1 - 0.375) / (rows.shape[-1] + 0.25))
    smallest, above = rows[..., 0], rows - rows[..., :1]
    width = above[..., -1]

    def excess(log_distance: np.ndarray) -> np.ndarray:
        mean, deviation = lognormal_fit(above + np.exp(log_distance)[..., None])
        return log_distance - mean - deviation * expected

    low, high = np.log(1e-9 * width), np.log(10 * width)
    found = (excess(low) < 0) & (excess(high) > 0)
    for _ in range(40):
        middle = (low + high) / 2
        beyond = excess(middle) > 0
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    distance_below = np.exp((low + high) / 2)
    return *lognormal_fit(above + distance_below[..., None]), np.where(found, smallest - distance_below, np.nan)


def pareto_fit(rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Scale and shape of a Pareto law with the scale subtracted (Lomax), density shape / scale (1 + x / scale)^-(shape + 1). For a
    scale the best shape is known, and the scale is found by golden section over its logarithm."""
    count, golden = rows.shape[-1], (math.sqrt(5) - 1) / 2

    def shape_of(log_scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total = np.log1p(rows / np.exp(log_scale)[..., None]).sum(axis=-1)
        return np.clip(count / total, 0.5, 1000), total

    def likelihood(log_scale: np.ndarray) -> np.ndarray:
        shape, total = shape_of(log_scale)
        return count * (np.log(shape) - log_scale) - (shape + 1) * total

    middle = np.log(np.median(rows, axis=-1))
    low, high = middle - 7, middle + 7
    a, b = high - golden * (high - low), low + golden * (high - low)
    of_a, of_b = likelihood(a), likelihood(b)
    for _ in range(45):
        left = of_a > of_b
        low, high = np.where(left, low, a), np.where(left, b, high)
        new = np.where(left, high - golden * (high - low), low + golden * (high - low))
        of_new = likelihood(new)
        a, b, of_a, of_b = (np.where(left, new, b), np.where(left, a, new), np.where(left, of_new, of_b), np.where(left, of_a, of_new))
    log_scale = (low + high) / 2
    return np.exp(log_scale), shape_of(log_scale)[0]


def lognormal_cdf(rows: np.ndarray, mean: np.ndarray, deviation: np.ndarray, shift: np.ndarray | float = 0.0) -> np.ndarray:
    """Probabilities of the rows' values under the laws of their parameters."""
    from scipy import special
    above = np.maximum(rows - np.asarray(shift)[..., None], 1e-300)
    return special.ndtr((np.log(above) - np.asarray(mean)[..., None]) / np.asarray(deviation)[..., None])


def pareto_cdf(rows: np.ndarray, scale: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Probabilities of the rows' values under the laws of their parameters."""
    return -np.expm1(-np.asarray(shape)[..., None] * np.log1p(rows / np.asarray(scale)[..., None]))


def shifted_statistic(rows: np.ndarray, parameters: tuple[np.ndarray, ...]) -> np.ndarray:
    """The distance of each row from its lognormal law with a shift, times a power of sigma, with which it hardly depends on sigma."""
    return distance(lognormal_cdf(rows, *parameters)) * parameters[1] ** 0.05


def distance(probabilities: np.ndarray) -> np.ndarray:
    """The Kolmogorov-Smirnov distance of each row of ascending probabilities."""
    count = probabilities.shape[-1]
    steps = np.arange(count + 1) / count
    return np.maximum(probabilities - steps[:-1], steps[1:] - probabilities).max(axis=-1)


def uniform_p(values: np.ndarray) -> float:
    """p-value of a uniform law with the extremes as bounds: between them, the other values are uniform if the law is right."""
    from scipy import special
    if values[0] == values[-1]:
        return 1.0
    inner, root = (values[1:-1] - values[0]) / (values[-1] - values[0]), math.sqrt(len(values) - 2)
    return float(special.kolmogorov((root + 0.12 + 0.11 / root) * distance(inner)))


# By kind of a law: how it is fitted, and the statistic of its test, of rows and the parameters.
TESTS = {"lognormal": (lognormal_fit, lambda rows, parameters: distance(lognormal_cdf(rows, *parameters))),
         "shifted": (shifted_lognormal_fit, shifted_statistic),
         "pareto": (pareto_fit, lambda rows, parameters: distance(pareto_cdf(rows, *parameters)))}


@functools.lru_cache(maxsize=256)
def drawn_statistics(kind: str, count: int, shape: float) -> np.ndarray:
    """The statistics of laws that were fitted to data drawn from a law of this kind. `shape`: the parameter on which they depend."""
    random, (fit, statistic) = np.random.default_rng(1), TESTS[kind]
    rows = np.sort(np.expm1(-np.log1p(-random.random((DRAWN_SETS, count))) / shape) if kind == "pareto" else
                   np.exp(shape * random.standard_normal((DRAWN_SETS, count))))
    found = statistic(rows, fit(rows))
    return found[~np.isnan(found)]


def p_value_of(kind: str, values: np.ndarray) -> float:
    """p-value of the law of this kind (uniform, lognormal, shifted or pareto) that is fitted to the ascending values."""
    if kind == "uniform":
        return uniform_p(values)
    fit, statistic = TESTS[kind]
    parameters = fit(values)
    drawn = drawn_statistics(kind, len(values), 1.0 if kind == "lognormal" else float(f"{parameters[1]:.2g}"))
    return float((1 + np.count_nonzero(drawn >= statistic(values, parameters))) / (1 + len(drawn)))


@dataclasses.dataclass
class Law:
    """A candidate for the times of the steps: Akaike's criterion, the base that its delays add to, in seconds, its parameters, and
    which test it has on which values (in the order of the steps)."""

    kind: str
    criterion: float
    base: float
    parameters: list[Parameter]
    test: str = ""
    values: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))


def pareto_law(delays: np.ndarray, base: float, free: int) -> Law:
    """The Pareto law of delays above a base, with standard errors of the logarithms of its parameters by the information matrix. `free`:
    the number of parameters."""
    values, count = np.sort(delays), len(delays)
    scale, shape = (float(each) for each in pareto_fit(values))
    likelihood = count * math.log(shape / scale) - (shape + 1) * np.log1p(values / scale).sum()
    shape_error = NORMAL_95 * (shape + 1) / math.sqrt(count)
    scale_error = shape_error * math.sqrt((shape + 2) / shape)
    parameters = [Parameter("scale", scale, scale * math.exp(-scale_error), scale * math.exp(scale_error)),
                  Parameter("shape", shape, shape * math.exp(-shape_error), shape * math.exp(shape_error), False)]
    return Law("pareto", 2 * free - 2 * likelihood, base, parameters, "pareto", delays)


def lognormal_law(delays: np.ndarray, base: float, free: int) -> Law:
    """The lognormal law of delays above a base, with median and sigma. `free`: the number of parameters."""
    from scipy import special
    count, (mean, deviation) = len(delays), (float(each) for each in lognormal_fit(delays))
    likelihood = -count * (math.log(deviation) + 0.5 * math.log(2 * math.pi) + 0.5 + mean)
    squares, s = count * deviation ** 2, deviation * math.sqrt(count / (count - 1))
    error = (NORMAL_95 + 2.4 / count) * s / math.sqrt(count)
    bounds = [math.sqrt(squares / special.chdtri(count - 1, share)) for share in (0.025, 0.975)]
    parameters = [Parameter("median", math.exp(mean), math.exp(mean - error), math.exp(mean + error)), Parameter("sigma", s, *bounds, False)]
    return Law("lognormal", 2 * free - 2 * likelihood, base, parameters, "lognormal", delays)


def uniform_law(delays: np.ndarray, base: float) -> Law:
    """The uniform law of delays above a base. Its bounds lie outside of the extremes by at most t times their distance, with
    (1 + t)^-(n - 1) = 5 %."""
    count, low, high = len(delays), float(delays.min()), float(delays.max())
    beyond, shift = (high - low) * (0.05 ** (-1 / (count - 1)) - 1), (high - low) / (count - 1)
    parameters = [Parameter("min", max(0.0, low - shift), max(0.0, low - beyond), low), Parameter("max", high + shift, high, high + beyond)]
    return Law("uniform", 4 + 2 * count * math.log(max(high - low, 1e-300)), base, parameters, "uniform", delays)


def laws_above(delays: np.ndarray) -> list[Law]:
    """Laws of delays in seconds, where the undisturbed time is known."""
    delays = np.maximum(delays, 0)
    laws = [uniform_law(delays, 0)]
    laws += [lognormal_law(delays, 0, 2)] if delays.min() > 0 and delays.max() > delays.min() else []
    return laws + ([pareto_law(delays, 0, 2)] if np.median(delays) > 0 else [])


def laws_of(times: np.ndarray) -> list[Law]:
    """Laws of step times in seconds, where the undisturbed time is not known. What lies above the smallest value of a Pareto law is
    Pareto again, so that the smallest one gives the base."""
    smallest, deviation, count = float(times.min()), float(times.std()), len(times)
    noise = Law("noise", 4 + 2 * count * (math.log(deviation) + 0.5 * math.log(2 * math.pi) + 0.5), float(times.mean()), [])
    error = NORMAL_95 * deviation / noise.base / math.sqrt(2 * count)
    share = deviation / noise.base
    noise.parameters = [Parameter("deviation", share, share - error, share + error, False)]
    laws = [noise, uniform_law(times - smallest, smallest)]
    above = np.delete(times, np.argmin(times)) - smallest
    if np.median(above) > 0:
        law = pareto_law(above, smallest, 3)
        scale, shape = law.parameters
        laws.append(dataclasses.replace(law, criterion=law.criterion - 2 * math.log(shape.value / scale.value)))  # of the smallest
    shift = float(shifted_lognormal_fit(np.sort(times))[2])
    if shift >= 0:
        law = lognormal_law(times - shift, shift, 3)
        laws.append(dataclasses.replace(law, test="shifted"))
    # A law with a skewness explains normal noise a little better by chance.
    return [dataclasses.replace(law, criterion=law.criterion + (0 if law is noise else 10)) for law in laws]


def choose(laws: list[Law], fit: WorkerFit) -> Law:
    """Sets the kind of the fit to the best of the laws."""
    best = min(laws, key=lambda law: law.criterion)
    fit.kind, fit.parameters = best.kind, best.parameters
    if best.test:
        chosen = np.linspace(0, len(best.values) - 1, min(len(best.values), MOST_TESTED)).astype(int)
        fit.p_value = p_value_of(best.test, np.sort(best.values[chosen]))
    return best


# --- slow phases: times of two levels

@dataclasses.dataclass
class Levels:
    """Step times, relative to a(W), of which most lie at one of two levels. Standard deviations are robust ones; `slow` says which
    steps are nearer to the upper level."""

    low: float
    high: float
    low_deviation: float
    high_deviation: float
    slow: np.ndarray

    @property
    def rise(self) -> float:
        """The excess of a slow step over an undisturbed one."""
        return self.high - self.low


def deviation_of(values: np.ndarray) -> float:
    """A robust standard deviation: by the median absolute deviation, of normal values."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def two_levels(times: np.ndarray) -> Levels | None:
    """The levels, if there are two. Steps in which a phase begins or ends lie between them. The border is where the variance between
    the parts is largest (Otsu 1979); a few very long steps do not move it."""
    most_between, fewest, width, apart = 0.3, 0.02, 0.05, 3
    ordered = np.sort(np.minimum(times, np.quantile(times, 0.995)))
    count = len(ordered)
    below = np.arange(1, count)
    sums = np.cumsum(ordered)
    between = (sums[-1] * below / count - sums[:-1]) ** 2 / (below * (count - below))
    place = int(np.argmax(between))
    border = (ordered[place] + ordered[place + 1]) / 2
    parts = times[times <= border], times[times > border]
    if min(map(len, parts)) < max(3, fewest * count) or np.median(parts[0]) <= 0:
        return None
    (low, high), (low_deviation, high_deviation) = ([float(of(part)) for part in parts] for of in (np.median, deviation_of))
    levels = Levels(low, high, low_deviation, high_deviation, times > (low + high) / 2)
    if levels.rise <= max(apart * (low_deviation + high_deviation), 1e-6 * low):
        return None
    at_low = np.abs(times - low) <= max(width * levels.rise, 4 * low_deviation)
    at_high = np.abs(times - high) <= max(width * levels.rise, 4 * high_deviation)
    if min(at_low.sum(), at_high.sum()) < fewest * count or 1 - (at_low | at_high).mean() > most_between:
        return None
    return levels


def phases_of(begin: np.ndarray, work: np.ndarray, times: np.ndarray, levels: Levels) -> tuple[np.ndarray, np.ndarray, float, float]:
    """When slow phases begin and end, and the time in slow and in normal ones, all in seconds. A step in which a phase begins took the
    rest of its work at the slow rate, one in which it ends the part before. A phase inside of one step is put into its middle. Less of a
    step than the noise is no phase, so that noise neither begins nor ends one."""
    rise, excess = times - levels.low, (times - levels.low) * work
    touched = rise > max(0.02 * levels.rise, 6 * levels.low_deviation)
    partial = rise < levels.rise - max(0.02 * levels.rise, 4 * levels.high_deviation)
    step_end, slow_part = begin + work * times, excess * (1 + levels.low / levels.rise)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], touched, [False]])))
    firsts, lasts = edges[::2], edges[1::2] - 1
    begins = np.where(partial[firsts], step_end[firsts] - slow_part[firsts], begin[firsts])
    ends = np.where(partial[lasts], begin[lasts] + slow_part[lasts], step_end[lasts])
    inside = (firsts == lasts) & partial[firsts]
    middles = (begin[firsts] + step_end[firsts] - slow_part[firsts]) / 2
    begins, ends = np.where(inside, middles, begins), np.where(inside, middles + slow_part[firsts], ends)
    slow_s = float((ends - begins).sum())
    return begins[firsts > 0], ends[lasts + 1 < len(times)], slow_s, float(step_end[-1] - begin[0]) - slow_s


def factor_of(levels: Levels) -> Parameter:
    """How many times as long a slow step takes. The error is that of two medians."""
    shares = [deviation ** 2 / level ** 2 / max(1, part.sum()) for deviation, level, part in
              ((levels.low_deviation, levels.low, ~levels.slow), (levels.high_deviation, levels.high, levels.slow))]
    factor = levels.high / levels.low
    error = max(1e-6, NORMAL_95 * math.sqrt(math.pi / 2 * sum(shares))) * factor
    return Parameter("factor", factor, factor - error, factor + error, False)


def repeats(slow: np.ndarray) -> bool:
    """Whether the series repeats: its autocorrelation falls below 0 and rises again above 5 standard errors at a later lag."""
    count = len(slow)
    centred = slow - slow.mean()
    power = np.abs(np.fft.rfft(centred, 2 * count)) ** 2
    correlation = np.fft.irfft(power)[:count // 3]
    correlation = correlation / correlation[0]
    fallen = np.flatnonzero(correlation[1:] <= 0)
    if not fallen.size:
        return False
    first = int(fallen[0]) + 1
    error = math.sqrt((1 + 2 * (correlation[1:first] ** 2).sum()) / count)
    return bool((correlation[first:] > 5 * error).any())


def periodic(begins: np.ndarray, ends: np.ndarray, levels: Levels) -> list[Parameter]:
    """The parameters of phases at equal distances; none, if they are not. The period is the slope of the begins over their numbers,
    so that a phase that fell between two steps leaves no gap in the count."""
    if len(begins) < 4 or not len(ends) or not repeats(levels.slow):
        return []
    rough = np.median(np.diff(begins))
    number = np.floor((begins - begins[0]) / rough + 0.5)
    x, y = number - number.mean(), begins - begins.mean()
    squares = (x ** 2).sum()
    period = float((x * y).sum() / squares)
    deviation = math.sqrt(((y - period * x) ** 2).sum() / (len(begins) - 2))
    following = np.searchsorted(ends, begins, side="right")
    kept = following < len(ends)
    if deviation > 0.1 * period or not kept.any():  # exponential distances scatter as much as they are
        return []
    duration = float(np.median(ends[following[kept]] - begins[kept]))
    errors = NORMAL_95 * deviation / math.sqrt(squares) + 1e-6 * period, NORMAL_95 * deviation + 1e-6 * period
    return [Parameter("period", period, period - errors[0], period + errors[0]),
            Parameter("duration", duration, duration - errors[1], duration + errors[1]), factor_of(levels)]


def likelihood_ratio(slow: np.ndarray) -> float:
    """Twice the logarithm of the likelihood ratio of a Markov chain of two states to independent draws."""
    from scipy import stats
    moves = stats.contingency.crosstab(slow[:-1], slow[1:])[1]
    return stats.chi2_contingency(moves, correction=False, lambda_="log-likelihood")[0]


def mean_length(key: str, total: float, ended: int) -> Parameter:
    """Mean length of exponential phases that lasted `total` seconds in all, of which so many ended. One that goes on until the end of
    the record counts as if it ended there, if it is the only one."""
    from scipy import special
    return Parameter(key, total / max(ended, 1), 2 * total / special.chdtri(2 * ended + 1, 0.025),
                     2 * total / special.chdtri(2 * ended + 1, 0.975))


def fit_phases(begin: np.ndarray, work: np.ndarray, times: np.ndarray, fit: WorkerFit) -> Levels | None:
    """Sets the kind of the fit to periodic or burst if the times have slow phases, and returns their levels."""
    levels = two_levels(times)
    if levels is None:
        return None
    begins, ends, slow_s, normal_s = phases_of(begin, work, times, levels)
    found = periodic(begins, ends, levels)
    if found:
        fit.kind, fit.parameters = "periodic", found
        return levels
    if not len(begins) + len(ends) or likelihood_ratio(levels.slow) < 6.635:  # 1 % of chi-squared with one degree of freedom
        return None
    fit.kind = "burst"
    fit.parameters = [mean_length("on", slow_s, len(ends)), mean_length("off", normal_s, len(begins)), factor_of(levels)]
    return levels


# --- a worker

def known_base(own: np.ndarray, delay: np.ndarray) -> tuple[float, float]:
    """The factor over a(W) of a worker whose delays are known, and the scatter of its steps, relative to it. A constant straggler delays
    each step by the same multiple of its time, up to noise."""
    delays, usual = delay / own, float(np.median(own))
    middle, scatter = float(np.median(delays)), deviation_of(own) / usual
    if np.sort(np.abs(delays - middle))[len(delays) * 9 // 10] > CONSTANT_SPREAD * (1 + middle):
        return usual, scatter
    return usual * (1 + middle), max(scatter, deviation_of(delays) / (1 + middle))


def fit_steps(steps: dict, rank: int = 0, with_delays: bool = True) -> WorkerFit:
    """The fit of one worker. `steps`: arrays by step as in _timeline.steps_of(). with_delays: injected delays are known, and own times
    are those of an undisturbed device. The factor is not yet relative to the fastest worker; factor_error is relative."""
    begin, own, delay, work = (np.array(steps[key], dtype=float) for key in ("begin_s", "own_s", "delay_s", "work_s"))
    times, middle = (own + delay) / work, float(np.median(work))
    base, scatter = known_base(own / work, delay / work) if with_delays else (float(np.median(times)), 0.0)
    scatter = max(ROUNDING, scatter)
    fit = WorkerFit(rank, len(own), 0.0, base)
    if np.mean(np.abs(times - base) <= 5 * scatter * base) >= 0.99 or not np.any(times > base):
        if scatter > 1e-6:
            fit.kind, error = "noise", NORMAL_95 * scatter / math.sqrt(2 * len(own))
            fit.parameters = [Parameter("deviation", scatter, scatter - error, scatter + error, False)]
    elif len(own) < FEWEST_STEPS:
        fit.kind, fit.factor = "trace", base if with_delays else float(times.min())
    elif levels := fit_phases(begin, work, times, fit):
        if not with_delays or abs(levels.low - base) > max(CONSTANT_SPREAD * base, 3 * levels.low_deviation):
            fit.factor = levels.low
        fit.factor_error = levels.low_deviation / levels.low / math.sqrt(np.count_nonzero(~levels.slow))
    elif with_delays:
        choose(laws_above((times - base) * work), fit)
    else:
        fit.factor = choose(laws_of(times * middle), fit).base / middle
    if fit.kind == "noise":
        fit.factor_error = fit.parameters[0].value / math.sqrt(len(own))
    fit.step_s = fit.factor * middle
    fit.excess_s = own + delay - work * fit.factor
    return fit


def fit_workers(facts: dict) -> list[WorkerFit]:
    """One fit per worker, by rank, of what _timeline.steps_of() gives."""
    with_delays = facts["virtual"] and facts["of_hetsgd"] or any(max(steps["delay_s"]) > 0 for steps in facts["steps"])
    fits = [fit_steps(steps, rank, with_delays) for rank, steps in enumerate(facts["steps"])]
    fastest = min(fits, key=lambda fit: fit.factor)
    least = fastest.factor or 1.0
    for fit in fits:
        fit.factor /= least
        if fit.factor < 1 + max(CONSTANT_SPREAD / 10, 3 * math.hypot(fit.factor_error, fastest.factor_error)):
            fit.factor = 1.0
    return fits


def scenario_of(fits: list[WorkerFit], facts: dict, trace_file: str = "") -> dict:
    """The scenario for `hetsgd train --config`: `straggler`, the specifications. Step times of other tools give `step_time` as well, the
    step that their factors multiply. Workers of the kind trace refer to `trace_file`, which holds trace_csv(). Raises Error (usage) if
    one does and there is none."""
    specifications = []
    for fit in fits:
        if fit.factor > 1:
            specifications.append(f"kind=constant,factor={fit.factor:.9g},workers={fit.rank}")
        if fit.kind == "trace":
            if not trace_file:
                raise _errors.refusal("--trace-csv", "no file", f"one, because worker {fit.rank} has {fit.steps} steps and a kind needs "
                                      f"{FEWEST_STEPS}")
            specifications.append(f"kind=trace,file={trace_file},workers={fit.rank}")
        elif fit.kind not in ("none", "noise"):
            keys = [f"{each.key}={each.value:.9g}{'s' if each.is_time else ''}" for each in fit.parameters]
            specifications.append(",".join([f"kind={fit.kind}", *keys, f"workers={fit.rank}"]))
    base = {} if facts["of_hetsgd"] else {"step_time": f"{min(fit.step_s for fit in fits):.9g}s"}
    return {**base, "straggler": specifications}


def trace_csv(fits: list[WorkerFit]) -> str:
    """Lines rank,iteration,delay_s after that header, as kind=trace reads them. A negative excess is 0."""
    return "rank,iteration,delay_s\n" + "".join(f"{fit.rank},{step},{max(0.0, excess)!r}\n" for fit in fits
                                               for step, excess in enumerate(fit.excess_s.tolist()))


def fit(path: str, columns: str = "") -> tuple[list[WorkerFit], dict]:
    """Fits a record, or a CSV file of another tool's step times whose columns `columns` names. Returns the fits by rank and the facts
    that scenario_of() needs. Raises Error."""
    facts = _timeline.steps_of(path, columns)
    if facts["cut"]:
        _text.warn(f"{path} is cut off: fitted up to the end of its last whole round")
    with np.errstate(all="ignore"):
        return fit_workers(facts), facts


def json_of(fits: list[WorkerFit]) -> list[dict]:
    """The document of `hetsgd fit --json`."""
    return [{"rank": fit.rank, "steps": fit.steps, "step_s": fit.step_s, "factor": fit.factor, "kind": fit.kind, "p_value": fit.p_value,
             "rejected": fit.rejected,
             "parameters": {each.key: {"value": each.value, "low": each.low, "high": each.high} for each in fit.parameters}}
            for fit in fits]


def text_of(fits: list[WorkerFit]) -> str:
    """The fits as a table for people."""
    rows = []
    for fit in fits:
        parts = []
        for each in fit.parameters:
            value, low, high = (_text.format_seconds(number) if each.is_time else f"{number:.4g}"
                                for number in (each.value, each.low, each.high))
            parts.append(f"{each.key} {value} [{low}, {high}]")
        rows.append([str(fit.rank), str(fit.steps), _text.format_seconds(fit.step_s), f"{fit.factor:.4f}", fit.kind, ", ".join(parts) or "-",
                   "-" if fit.p_value is None else f"{fit.p_value:.3g}"])
    return _text.table(["worker", "steps", "step", "factor", "kind", "parameters [95 % interval]", "p of the kind"], rows, "text")


def command(options: object, operands: list[str]) -> int:
    """hetsgd fit"""
    outputs = [(_output.Output(option, path, what), what) for option, path, what in
               (("--trace-csv", options.trace_csv, "the delays"), ("--output", options.output, "the scenario")) if path]
    for output, _ in outputs:
        output.check(options.overwrite, {operands[0]: "fit"})
    if options.output and options.output == options.trace_csv:
        raise _errors.refusal("--trace-csv", f"{options.trace_csv}, which --output writes", "a file of its own")
    fits, facts = fit(operands[0], options.columns)
    if options.json:
        _results.print_json(json_of(fits))
    else:
        _text.say(text_of(fits))
    for each in fits:
        if each.rejected:
            _text.warn(f"worker {each.rank}: no kind explains its delays. The nearest, {each.kind}, is rejected (p {each.p_value:.2g}); "
                       "--trace-csv keeps them as they are")
    for output, what in outputs:
        output.write(trace_csv(fits) if what == "the delays" else
                     json.dumps(scenario_of(fits, facts, options.trace_csv), indent=2) + "\n")
        _text.log("", f"{what.removeprefix('the ')}: {output.path}")
    return 0
