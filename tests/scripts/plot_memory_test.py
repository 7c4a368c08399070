"""Tests of the pictures of plans (scripts/plot_memory.py)."""

import json
import os
import tempfile

from plot_support import PictureTest, drawn  # first: it finds the modules

import plot
import plot_memory
from plot_memory import MIB


def entry(policy, peak, fits=True, **more):
    if not fits:
        return {"policy": policy, "status": "fails", "minimum_bytes": None, "largest_batch": None}
    steps = [{"step": k, "pass": "forward" if k < 3 else "backward", "used_bytes": used * MIB}
             for k, used in enumerate([peak / 2, peak, peak / 4, peak / 8], start=1)]
    times = {"compute_only_s": 1.0, "overlap_s": 2.0, "transfer_only_s": 0.5, "idle_s": 0.25, "iteration_s": 3.75}
    return {"policy": policy, "status": "fits", "peak_bytes": peak * MIB, "minimum_bytes": peak / 2 * MIB, "images_per_s": 64 / peak,
            "steps": steps, **times, **more}


def document(*cases):
    """(network, batch, entries) each."""
    return {"tool": "hetsgd memory",
            "networks": [{"network": {"name": name}, "batch": batch, "policies": entries} for name, batch, entries in cases]}


class Pictures(PictureTest):
    def test_used_bytes_over_steps(self):
        plans = plot_memory.plans_of(document(("net", 8, [entry("dymem", 16), entry("none", 64), entry("shared", 9, fits=False)])))
        axes = plot_memory.used_over_steps(plans).axes[0]
        lines = drawn(axes)
        self.assertEqual(set(lines), {"dymem", "none"})
        self.assertEqual(list(lines["dymem"].get_xdata()), [1, 2, 3, 4])
        self.assertEqual(list(lines["dymem"].get_ydata()), [8, 16, 4, 2])
        self.assertEqual(axes.get_ylim()[0], 0)
        self.assertGreater(axes.get_ylim()[1], 64)

    def test_bars_of_peak_and_minimum_leave_failures_out(self):
        plans = plot_memory.plans_of(document(("a", 8, [entry("dymem", 16), entry("none", 64)]),
                                              ("b", 8, [entry("dymem", 20), entry("none", 1, fits=False)])))
        peak, minimum = plot_memory.peak_and_minimum(plans).axes[:2]
        self.assertEqual([bar.get_height() for bar in peak.patches], [16, 20, 64, 0])
        self.assertEqual([bar.get_height() for bar in minimum.patches], [8, 10, 32, 0])
        self.assertEqual([text.get_text().strip() for text in peak.texts], ["fails"])

    def test_images_over_batches_end_where_a_plan_fails(self):
        plans = plot_memory.plans_of(document(("net", 8, [entry("dymem", 16)]), ("net", 4, [entry("dymem", 8)]),
                                              ("net", 16, [entry("dymem", 1, fits=False)])))
        line = drawn(plot_memory.images_over_batch(plans).axes[0])["dymem"]
        self.assertEqual(list(line.get_xdata()), [4, 8])
        self.assertEqual(list(line.get_ydata()), [8, 4])
        self.assertIsNone(plot_memory.images_over_batch(plans[:1]))

    def test_parts_add_up_to_the_iteration(self):
        plans = plot_memory.plans_of(document(("net", 8, [entry("dymem", 16)])))
        bars = plot_memory.stacked_times(plans).axes[0].patches
        self.assertEqual([bar.get_height() for bar in bars], [1, 2, 0.5, 0.25])
        self.assertEqual(bars[-1].get_y() + bars[-1].get_height(), 3.75)

    def test_capacities_that_fail_have_no_point(self):
        curve = [{"capacity_bytes": 8 * MIB, "status": "fails"}, {"capacity_bytes": 12 * MIB, "status": "fits", "iteration_s": 5},
                 {"capacity_bytes": 16 * MIB, "status": "fits", "iteration_s": 4}]
        plans = plot_memory.plans_of(document(("net", 8, [entry("dymem", 16, curve=curve)])))
        line = drawn(plot_memory.iteration_over_capacity(plans).axes[0])["dymem"]
        self.assertEqual(list(line.get_xdata()), [12, 16])
        self.assertEqual(list(line.get_ydata()), [5, 4])

    def test_addresses_of_a_trace(self):
        def event(name, step, offset, size, group):
            return {"ph": "i", "name": name, "args": {"step": step, "offset_bytes": offset * MIB, "bytes": size * MIB, "group": group}}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"traceEvents": [event("allocate a", 1, 0, 4, "movable"), event("allocate b", 2, 4, 2, "temporary"),
                                           event("release a", 3, 0, 4, "movable"), event("allocate c", 3, 0, 3, "movable"),
                                           event("release b", 4, 4, 2, "temporary"), event("release c", 4, 0, 3, "movable")]}, file)
            self.assertEqual(plot_memory.kind_of(path), "trace")
            bars = plot_memory.address_map(path).axes[0].patches
            self.assertEqual([(bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height()) for bar in bars],
                             [(0.5, 0, 3, 4), (1.5, 4, 3, 2), (2.5, 0, 2, 3)])
            self.assertEqual(plot.main([path, "-o", folder, "--format", "svg"]), 0)
            self.assertTrue(os.path.exists(os.path.join(folder, "address_map.svg")))

    def test_plot_knows_the_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(document(("net", 8, [entry("dymem", 16)])), file)
            self.assertEqual(plot.main([path, "-o", folder, "--format", "svg"]), 0)
            self.assertTrue(os.path.exists(os.path.join(folder, "used_over_steps.svg")))
            self.assertFalse(os.path.exists(os.path.join(folder, "iteration_over_capacity.svg")))
