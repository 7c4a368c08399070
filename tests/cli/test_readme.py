"""README.md and lib/algorithm/README.md name what the program has."""

import os
import pathlib
import re
import shutil
import subprocess

from program import BINARY, ProgramTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = re.compile(r"^<!-- algorithms: begin.*-->\n(.*)^<!-- algorithms: end -->\n", re.MULTILINE | re.DOTALL)
STRAGGLERS = re.compile(r"^<!-- stragglers: begin.*-->\n(.*)^<!-- stragglers: end -->\n", re.MULTILINE | re.DOTALL)


class Readme(ProgramTest):
    def test_the_table_of_algorithms_is_the_programs(self):
        table = TABLE.search((ROOT / "README.md").read_text())
        self.assertIsNotNone(table, "README.md has lost its markers")
        self.assertEqual(table.group(1), self.run_program("algorithms", "--format", "markdown").stdout,
                         f"README.md is out of date: run scripts/update-readme.sh {BINARY}")

    def test_the_table_of_stragglers_is_the_programs(self):
        table = STRAGGLERS.search((ROOT / "lib" / "cluster" / "stragglers.md").read_text())
        self.assertEqual(table.group(1), self.run_program("stragglers", "--format", "markdown").stdout,
                         f"lib/cluster/stragglers.md is out of date: run scripts/update-readme.sh {BINARY}")
        names = [one["name"] for one in self.json_of("stragglers", "--format", "json")]
        manual = (ROOT / "apps" / "hetsgd" / "README.md").read_text()
        for name in names:
            self.assertIn(f"`{name}`", manual)

    def test_stragglers_are_described_by_their_declarations(self):
        text = self.run_program("stragglers", "uniform").stdout
        self.assertRegex(text, r"\nExample +--straggler 'kind=uniform,min=0ms,max=50ms'\n")
        self.assertRegex(text, r"\n +min=TIME [^=]*[Dd]efault: 0s\n")
        self.assertRegex(text, r"\n +max=TIME [^=]*[Rr]equired: yes\n")
        for one in self.json_of("stragglers", "--format", "json"):
            self.assertIn(one["example"], self.run_program("stragglers").stdout)
            if one["name"] != "trace":  # whose file is not there
                before = ["--straggler", "kind=fail,worker=0,at=1s"] if one["name"] == "return" else []
                self.train(f"{one['name']}.json", "--workers", "4", "--algorithm", "ssgd", *before, "--straggler", one["example"])
        self.refused(["stragglers", "unifrom"], ("", "unifrom"), "uniform")

    def test_the_script_renews_an_old_table(self):
        now = (ROOT / "README.md").read_text()
        old = self.folder / "README.md"
        old.write_text(TABLE.sub("<!-- algorithms: begin, old -->\nold\n<!-- algorithms: end -->\n", now))
        script = [ROOT / "scripts" / "update-readme.sh", shutil.which(BINARY), old, "algorithms"]
        subprocess.run(script, check=True, env={**os.environ, **self.environment()})
        self.assertEqual(TABLE.search(old.read_text()).group(1),
                         self.run_program("algorithms", "--format", "markdown").stdout)
        old.write_text("no markers\n")
        done = subprocess.run(script, check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected one pair of the markers", done.stderr)
        self.assertEqual(old.read_text(), "no markers\n")

    def test_every_file_of_an_algorithm_is_in_the_table(self):
        text = (ROOT / "lib" / "algorithm" / "README.md").read_text()
        for file in (ROOT / "lib" / "algorithm").glob("*.cpp"):
            if "register_algorithm<" in file.read_text():
                self.assertIn(f"| `{file.name}` |", text)

    def test_detail_pages_show_what_is_declared(self):
        for one in self.json_of("algorithms", "--format", "json"):
            text = self.run_program("algorithms", one["name"]).stdout
            page = self.run_program("algorithms", one["name"], "--format", "markdown").stdout
            self.assertTrue(page.startswith(f"# {one['title']} (`{one['name']}`)\n"), page)
            joined = " ".join(text.split())
            for key in ("idea", "paper", "cost", "result", "identities"):
                self.assertTrue(one[key], f"{one['name']} declares no {key}")
                self.assertIn(" ".join(one[key].split()), joined)
                self.assertIn(one[key], page)
            for option in one["options"]:
                self.assertTrue(option["help"], option)
                self.assertIn(f"{option['flag']} ", text)
                row = next(line for line in page.splitlines() if line.startswith(f"| `{option['flag']}` |"))
                for key in ("unit", "symbol", "help", "range"):
                    self.assertIn(option[key].replace("|", "\\|"), row)
