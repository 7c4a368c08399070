"""experiments/benchmark and scripts/benchmark.{sh,py}: versions stay as they are, entries are made from them by their rules."""
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "experiments" / "benchmark"
V1 = FOLDER / "v1.toml"
HETSGD = os.environ.pop("HETSGD_BINARY", str(ROOT / "build/release/apps/hetsgd/hetsgd"))
# Hashes of the specifications as JSON. A specification with another hash is another version.
HASHES = {"v1": "6625f9e21bc2acdf", "v2": "2f692d53194a94b9", "v3": "b6a4e50da1f64f23"}
PROBLEMS = {"v1": 10, "v2": 14, "v3": 15}


def specification(name):
    return tomllib.loads((FOLDER / f"{name}.toml").read_text())


class Benchmark(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="hetsgd-benchmark-")))
        self.environment = {**os.environ, "HETSGD": HETSGD, "HETSGD_DATA_DIR": str(self.folder)}
        self.v1 = specification("v1")

    def call(self, *command, code=0):
        done = subprocess.run(list(map(str, command)), env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, f"{command}\n{done.stdout}\n{done.stderr}")
        return done

    def entry(self, *words, code=0, spec=V1):
        return self.call(ROOT / "scripts/benchmark.py", "entry", spec, "-o", self.folder / "entry.json", *words, code=code)

    def written(self):
        return json.loads((self.folder / "entry.json").read_text())

    def test_versions_are_frozen(self):
        self.assertEqual({file.stem for file in FOLDER.glob("v*.toml")}, set(HASHES))
        for name, expected in HASHES.items():
            deciding = {key: value for key, value in specification(name).items() if key != "about"}
            text = json.dumps(deciding, sort_keys=True)
            self.assertEqual(hashlib.sha256(text.encode()).hexdigest()[:16], expected, name)

    def test_a_version_is_a_benchmark_of_fifteen_methods_whose_problems_its_page_lists(self):
        page = (FOLDER / "README.md").read_text()
        for name, problems in PROBLEMS.items():
            spec, path = specification(name), FOLDER / f"{name}.toml"
            self.assertEqual((len(spec["cases"]), len(spec["setups"]), spec["seeds"]), (15, problems, "1:5"))
            self.assertIn(f"an entry to {name}", self.call(HETSGD, "score", path, "--check", path).stdout)
            for setup in spec["setups"]:
                metric = {**spec["metric"], **setup.get("metric", {})}
                self.assertIn(f"| {setup['name']} | ", page)
                self.assertRegex(page, rf"\| {setup['name']} \|.*\| {metric['name']} {metric['target']:.2f} \|")

    def test_an_entry_differs_in_its_case_alone(self):
        self.entry("--plugin", "libmine.so", "mine", "--keep", "0.25", "--nesterov", "--mode=a b", "--late", "false")
        entry = self.written()
        self.assertEqual(entry["name"], "v1-mine-keep-0-25-nesterov-true-mode-a-b-late-false")
        case, = entry["cases"]
        self.assertEqual(case["settings"], {"algorithm": "mine", "keep": 0.25, "nesterov": True, "mode": "a b", "late": False})
        self.assertEqual(entry["settings"].pop("plugin"), [str(pathlib.Path("libmine.so").resolve())])
        for key in set(self.v1) - {"name", "cases"}:
            self.assertEqual(entry[key], self.v1[key], key)

    def test_an_entry_is_checked_before_it_runs(self):
        self.entry("adaptive", "--delta", "0.2")
        self.assertIn("an entry to v1", self.call(HETSGD, "score", V1, "--check", self.folder / "entry.json").stdout)
        done = self.call(ROOT / "scripts/benchmark.sh", "--smoke", "adaptive", "--batch-size", "8", code=2)
        self.assertIn("cases[0].settings.batch_size: the benchmark fixes this option", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_mistakes(self):
        self.assertIn('"adaptive" is a method of record; --name', self.entry("adaptive", code=1).stderr)
        self.entry("--name", "mine", "adaptive")
        self.assertEqual(self.written()["cases"][0]["name"], "mine")
        self.assertIn("expected --OPTION VALUE", self.entry("adaptive", "0.2", code=1).stderr)
        self.assertIn("expected the name of an algorithm", self.entry("--delta", "0.2", code=1).stderr)
        script = ROOT / "scripts/benchmark.sh"
        self.assertIn('found option "--quick"', self.call(script, "--quick", code=2).stderr)
        self.assertIn('--version: found "7", expected one of v1.toml v2.toml v3.toml', self.call(script, "--version", "7", code=2).stderr)
        self.assertIn("--plugin: found no algorithm", self.call(script, "--plugin", "x.so", code=2).stderr)

    def test_all_of_it_on_tiny_data(self):
        script, results = ROOT / "scripts/benchmark.sh", self.folder / "results"
        done = self.call(script, "--smoke", "--results", results, "--name", "mine", "elastic", "--gamma", "0.5")
        self.assertRegex(done.stdout, r"(?m)^mine \* +\d+ \[\d+, \d+\] ")
        standing = json.loads((results / "standing.json").read_text())
        self.assertEqual((len(standing["methods"]), len(standing["problems"]), standing["notes"]), (16, 15, []))
        self.assertEqual([each["name"] for each in standing["problems"]], [setup["name"] for setup in specification("v3")["setups"]])
        self.assertIn("mine *", (results / "table.md").read_text())
        picture = results / "profiles.svg"
        self.assertTrue(picture.exists() and picture.stat().st_size > 5000)
