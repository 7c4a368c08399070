"""Tests of hetsgd._stats: identities, closed forms, and scipy.stats where it enumerates."""

import itertools
import math
import unittest

import package  # noqa: F401  # finds the package
import numpy as np
from scipy import stats as scipy_stats
from hetsgd import _stats

INF = math.inf


class Intervals(unittest.TestCase):
    def test_medians(self):
        for values, expected in (([3, 1, 2], 2), ([4, 1, 3, 2], 2.5), ([1, INF, INF], INF), ([1, 2, INF], 2), ([1, INF], INF)):
            self.assertEqual(_stats.median(values), expected)

    def test_ends_are_the_order_statistics_of_the_binomial_law(self):
        # The median of a resample of n (odd) is at most the k-th smallest value with P(Bin(n, k/n) >= (n+1)/2); the lower end is the
        # smallest k for which that is above 2.5 %.
        for n in (1, 3, 5, 7, 11, 21):
            k = next(k for k in range(1, n + 1) if scipy_stats.binom.sf((n - 1) // 2, n, k / n) > 0.025)
            self.assertEqual(_stats.bootstrap_median(range(n, 0, -1)), ((n + 1) / 2, k, n + 1 - k))

    def test_missed_targets_and_unknown_values(self):
        self.assertEqual(_stats.bootstrap_median([1, 2, 3, 4, INF]), (3, 1, INF))
        self.assertTrue(all(map(math.isnan, _stats.bootstrap_median([1, math.nan]))))

    def test_many_values_are_drawn_in_parts(self):
        middle, low, high = _stats.bootstrap_median(range(1000))
        # The standard error of the median of uniform values is about n / (2 sqrt(n)).
        self.assertEqual(middle, 499.5)
        self.assertAlmostEqual((high - low) / 2 / 1.96, 1000 / 2 / math.sqrt(1000), delta=1.5)
        self.assertEqual(_stats.bootstrap_median(range(1000)), (middle, low, high))

    def test_ratios_of_times(self):
        for a, b, expected in ((4, 2, 2), (INF, 2, INF), (2, INF, 0), (0, 0, 1), (2, 0, INF)):
            self.assertEqual(_stats.ratio_of_times(a, b), expected)
        self.assertTrue(math.isnan(_stats.ratio_of_times(INF, INF)))

    def test_ratios_of_two_and_two(self):
        # The extreme ratios have probability 1/16 of independent draws, 1/4 of pairs.
        self.assertEqual(_stats.bootstrap_ratio([6, 10], [1, 4]), (3.2, 1.5, 10))
        self.assertEqual(_stats.bootstrap_ratio([2, 30], [1, 10], paired=True), (16 / 5.5, 2, 3))
        self.assertEqual(_stats.bootstrap_ratio([2, 20, 200, 2000], [1, 10, 100, 1000], paired=True)[1:], (2, 2))

    def test_missed_targets_widen_ratios(self):
        for paired in (False, True):
            self.assertEqual(_stats.bootstrap_ratio([2, 2, 2], [1, 1, INF], paired), (2, 0, 2))
            self.assertEqual(_stats.bootstrap_ratio([2, 2, INF], [1, 1, INF], paired)[1:], (0, INF))  # both infinite at once says nothing
            self.assertTrue(all(map(math.isnan, _stats.bootstrap_ratio([INF], [INF], paired))))


class Tests(unittest.TestCase):
    def samples(self, *different):
        """Seeded samples with ties and missed targets: (x, y)."""
        draw = np.random.default_rng(1)
        for m, n, many in itertools.product((2, 3, 5), (2, 4, 6), different):
            values = draw.integers(many, size=m + n).astype(float)
            values[values == 0] = INF
            yield values[:m], values[m:]

    def test_mann_whitney_is_the_permutation_test(self):
        def u(x, y, axis):
            return ((x[..., :, None] > y[..., None, :]) + 0.5 * (x[..., :, None] == y[..., None, :])).sum((-1, -2))

        for x, y in self.samples(2, 3, 1000):
            found = _stats.mann_whitney(x, y)
            right = scipy_stats.permutation_test((x, y), u, n_resamples=math.inf, vectorized=True, alternative="two-sided")
            self.assertAlmostEqual(found.p_value, min(1, right.pvalue), delta=1e-12)
            self.assertEqual((found.statistic, found.exact), (right.statistic, True))
            self.assertAlmostEqual(_stats.mann_whitney(y, x).p_value, found.p_value, delta=1e-12)

    def test_mann_whitney_beyond_counting(self):
        draw = np.random.default_rng(2)
        x, y = draw.integers(30, size=26), draw.integers(5, 35, size=27)
        found = _stats.mann_whitney(x, y)
        self.assertFalse(found.exact)
        self.assertAlmostEqual(found.p_value, scipy_stats.mannwhitneyu(x, y, method="asymptotic").pvalue, delta=1e-12)
        x, y = draw.normal(size=25), draw.normal(0.5, size=25)  # without ties SciPy counts, too
        self.assertAlmostEqual(_stats.mann_whitney(x, y).p_value, scipy_stats.mannwhitneyu(x, y, method="exact").pvalue, delta=1e-12)
        self.assertTrue(_stats.mann_whitney(x[:8], range(60)).exact)

    def test_ties_show_no_more_than_orders_can(self):
        self.assertAlmostEqual(_stats.mann_whitney([1, 1, 1], [2, 2, 2]).p_value, 0.1)
        self.assertAlmostEqual(_stats.mann_whitney([1, 2, 3], [INF] * 3).p_value, 0.1)
        self.assertEqual(_stats.mann_whitney([INF] * 5, [INF] * 5).p_value, 1)

    def test_signed_rank_is_the_permutation_test(self):
        draw = np.random.default_rng(3)
        for n in range(2, 11):  # powers of two, so that logarithms are exact
            x, y = draw.choice([1, 2, 4, 16, 32], size=(2, n))
            found = _stats.signed_rank(x, y)
            logs = np.log2(x) - np.log2(y)
            ranks = np.where(logs == 0, 0, scipy_stats.rankdata(np.abs(logs))) * np.sign(logs)
            sums = np.array(list(itertools.product((-1, 1), repeat=n))) @ np.abs(ranks)
            self.assertAlmostEqual(found.p_value, np.mean(np.abs(sums) >= abs(ranks.sum()) - 1e-9), delta=1e-12)
            self.assertEqual((found.statistic, found.exact), (ranks[ranks > 0].sum(), True))
            self.assertEqual(_stats.signed_rank(y, x).p_value, found.p_value)
            if (logs != 0).all():
                right = scipy_stats.permutation_test((ranks,), lambda r, axis: r.sum(axis), permutation_type="samples",
                                                     n_resamples=math.inf, vectorized=True)
                self.assertAlmostEqual(found.p_value, min(1, right.pvalue), delta=1e-12)

    def test_signed_rank_of_equal_and_missed_pairs(self):
        self.assertEqual(_stats.signed_rank([5, 2, 4, 8], [5, 1, 1, 1])[:2], (2 + 3 + 4, 0.25))  # the equal pair takes rank 1
        self.assertEqual(_stats.signed_rank([INF, 3], [INF, 3]).p_value, 1)
        self.assertEqual(_stats.signed_rank([2, 4, INF], [1, 1, 1000]).statistic, 6)

    def test_many_pairs_are_normal(self):
        x = np.random.default_rng(4).lognormal(size=60)
        found, right = _stats.signed_rank(x, np.ones(60)), scipy_stats.wilcoxon(np.log(x), mode="approx")
        self.assertAlmostEqual(found.p_value, right.pvalue, delta=1e-12)
        self.assertFalse(found.exact)
        self.assertTrue(_stats.signed_rank(x[:50], np.ones(50)).exact)

    def test_how_few_can_show_something(self):
        self.assertEqual([_stats.can_show(*each) for each in ((5,), (6,), (3, 3), (3, 4), (4, 4), (3, 5), (30, 30))],
                         [False, True, False, False, True, True, True])

    def test_least_effects(self):
        # Log ratios of 1 and 3, three times each: a standard deviation of sqrt(6/5), and of the mean sqrt(1/5).
        y = np.exp(10.0 * np.arange(6))
        x = y * np.exp([1, 3, 1, 3, 1, 3])
        self.assertAlmostEqual(_stats.least_effect(x, y, paired=True), math.exp(2.8 * math.sqrt(0.2)), delta=1e-9)
        self.assertGreater(_stats.least_effect(x, y), 1e6)  # the seeds are far apart
        self.assertAlmostEqual(_stats.least_effect([1, math.e**2] * 2, [1] * 4), math.exp(2.8 * math.sqrt(1 / 3)), delta=1e-9)
        self.assertTrue(math.isnan(_stats.least_effect([INF] * 6, [1] * 6, paired=True)))
        self.assertEqual((_stats.least_effect([2] * 5, [1] * 5, paired=True), _stats.least_effect([2] * 3, [1] * 3)), (INF, INF))

    def test_holm(self):
        np.testing.assert_allclose(_stats.holm([0.04, 0.01, 0.03, 0.02]), [0.06, 0.04, 0.06, 0.06], rtol=1e-12)
        self.assertEqual((_stats.holm([0.5, 0.9]), _stats.holm([])), ([1, 1], []))


class Scores(unittest.TestCase):
    def test_the_area_is_the_integral_of_the_steps(self):
        self.assertAlmostEqual(_stats.profile_area([1, 1.5, 3, INF]), 13 / 24)
        self.assertEqual((_stats.profile_area([1, 1]), _stats.profile_area([4, 5, INF])), (1, 0))

    def test_three_methods_by_hand(self):
        # Problem 1: 2, 4, missed: ratios 1, 2, inf. Problem 2: 6, 3, 3: 2, 1, 1.
        a, b, c = _stats.score_methods([[[2], [6]], [[4], [3]], [[INF], [3]]])
        np.testing.assert_allclose([a.score, b.score, c.score], [5 / 6, 5 / 6, 1 / 2])
        self.assertEqual((a.ratios, c.ratios, c.solved, [a.rank, b.rank, c.rank]), ([1, 2], [INF, 1], 1, [1, 1, 3]))
        for each in (a, b, c):  # of one seed there is one resample
            self.assertEqual((each.low, each.high, each.rank_low, each.rank_high), (each.score, each.score, each.rank, each.rank))

    def test_who_never_reaches_and_who_is_unsolved(self):
        never, fast, slow = _stats.score_methods([[[INF] * 3] * 2, [[1, 2, 3], [1, 1, 1]], [[4, 5, 6], [2, 2, 2]]])
        self.assertEqual((fast.score, fast.low, fast.rank_high, never.score, never.high, never.rank, never.solved), (1, 1, 1, 0, 0, 3, 0))
        self.assertEqual(_stats.score_methods([[[1], [INF]]])[0].score, 0.5)

    def test_the_bootstrap_draws_seeds_for_all_methods_alike(self):
        a, b = _stats.score_methods([[[1, 4]], [[2, 2]]])
        np.testing.assert_allclose([b.low, b.high, a.low, a.high], [2 / 3, 1, 2 / 3, 1])
        _, b = _stats.score_methods([[[1, 5, 9]], [[2, 10, 18]]])
        np.testing.assert_allclose([b.low, b.high], [2 / 3, 2 / 3])

    def test_another_method_raises_nobodys_score(self):
        before = [[[1, 2, 3], [5, 4, 9]], [[2, 2, 2], [3, INF, 3]]]
        first = _stats.score_methods(before)
        same = _stats.score_methods([*before, [[7, 8, 9], [20] * 3]])
        lower = _stats.score_methods([*before, [[0.5] * 3, [20] * 3]])
        for one, two, three in zip(first, same, lower):
            self.assertEqual((one.score, one.low, one.high), (two.score, two.low, two.high))
            self.assertLess(three.score, one.score)

    def test_intervals_hold_their_values(self):
        draw = np.random.default_rng(5)
        for each in _stats.score_methods(draw.integers(1, 14, size=(12, 3, 5)).tolist()):
            self.assertTrue(each.low <= each.score <= each.high and each.rank_low <= each.rank <= each.rank_high)
