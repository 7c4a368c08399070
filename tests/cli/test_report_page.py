"""The page of hetsgd report in headless Chromium: it renders, toggles, exports, and asks the network for nothing."""

import copy
import json
import re
import sys
import tempfile
import time
import xml.dom.minidom

from browser import Browser, find_browser
from program import ProgramTest

EVIL = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"


def setUpModule():
    if find_browser() is None:
        print("skipped: no chromium here", file=sys.stderr)
        sys.exit(77)


class Page(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="hetsgd-chromium-", ignore_cleanup_errors=True)))
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        super().setUp()
        (self.folder / "runs").mkdir()

    def write(self, name, result):
        (self.folder / "runs" / name).write_text(json.dumps(result))

    def make_runs(self):
        """Two workloads, two algorithms, two seeds."""
        for delay in ("0ms", "5ms"):
            for algorithm in ("ssgd", "adaptive"):
                for seed in "12":
                    self.train(f"runs/{algorithm}-{delay}-{seed}.json", "--algorithm", algorithm, "--workers", "2",
                               "--seed", seed, "--epochs", "3", "--mega-batch", "5", "--target", "p1>=0.2",
                               "--straggler", f"kind=uniform,min=0ms,max={delay},workers=1")

    def open(self, *arguments):
        self.run_program("report", "runs", "-o", "report.html", "--overwrite", *arguments)
        self.browser.open(self.folder / "report.html")
        self.browser.evaluate("1")

    def js(self, expression):
        return self.browser.evaluate(expression)

    def check_silent(self):
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(self.browser.requests(), [(self.folder / "report.html").resolve().as_uri()])

    def test_every_section_is_drawn(self):
        self.make_runs()
        self.open()
        self.assertEqual(self.js("document.querySelectorAll('h2').length"), 3)  # overview, workload, environment
        names = self.js("[...document.querySelectorAll('figure')].map(each => each.id)")
        for name in ("profile", "w0-curves", "w0-target", "w0-workers", "w0-batches"):
            self.assertIn(name, names)
            self.assertGreater(self.js(f"document.querySelectorAll('#{name} .plot .series').length"), 0, name)
        self.assertNotIn("w0-waits", names)  # no result says it
        self.assertEqual(self.js("document.querySelectorAll('#w0 .plot svg[aria-label]').length"), len(names) - 1)
        rows = self.js("[...document.querySelectorAll('#w0 tbody')][0].rows.length")
        self.assertEqual(rows, 2)
        self.js("(() => { const select = document.querySelector('.bar select'); select.value = 'all';"
                " select.dispatchEvent(new Event('change')); })()")
        self.assertEqual(self.js("document.querySelectorAll('#w0, #w1').length"), 2)
        for width in (390, 820, 1400):
            self.browser.view(width)
            self.assertLessEqual(self.js("document.documentElement.scrollWidth"), width)
        self.check_silent()

    def test_series_are_switched_off_by_click_and_by_key(self):
        self.make_runs()
        self.open()
        shown = "[...document.querySelectorAll('#w0-curves .plot .series')].map(each => each.dataset.key)"
        pressed = "document.querySelector('#w0 .toolbar .legend button').getAttribute('aria-pressed')"
        both = self.js(shown)
        self.assertEqual(len(both), 2)
        self.js("document.querySelector('#w0 .toolbar .legend button').click()")
        self.assertEqual(self.js(shown), both[1:])
        self.assertEqual(self.js(pressed), "false")
        # The other charts of the workload follow.
        self.assertEqual(self.js(shown.replace("curves", "target")), both[1:])
        self.js("document.querySelector('#w0 .toolbar .legend button').focus()")
        self.browser.press(" ", 32, " ")
        self.assertEqual(self.js(shown), both)
        self.assertEqual(self.js(pressed), "true")
        self.assertTrue(self.js("document.activeElement.matches('#w0 .toolbar .legend button')"))
        self.check_silent()

    def test_the_summary_is_whole_and_has_every_column(self):
        for algorithm in ("ssgd", "asgd", "adaptive", "elastic"):
            for seed in "12":
                self.train(f"runs/{algorithm}-{seed}.json", "--algorithm", algorithm, "--workers", "2", "--seed", seed,
                           "--epochs", "3", "--mega-batch", "5", "--target", "p1>=0.2", "--learning-rate", "0.35")
        self.open()
        heads = self.js("[...document.querySelectorAll('#w0 table')][0].tHead.innerText")
        self.assertIn("p (Holm)", heads)
        self.assertEqual(self.js("document.querySelectorAll('#w0 .toolbar').length"), 1)
        self.assertEqual(self.js("document.querySelectorAll('#w0-curves .legend, #w0-target .legend').length"), 0)
        for width in (1280, 1600):
            self.browser.view(width)
            self.assertLessEqual(self.js("document.querySelector('#w0 .scroll').scrollWidth"),
                                 self.js("document.querySelector('#w0 .scroll').clientWidth"))
        series = "[...new Set([...document.querySelectorAll('#w0-{} .plot rect.series')].map(each => each.getAttribute('fill')))]"
        states, methods = self.js(series.format("workers")), self.js(series.format("staleness"))
        self.assertEqual(len(states), 3)
        self.assertEqual(set(states) & set(methods), set())
        for link in self.js("[...document.querySelectorAll('#w0 nav a')].map(each => each.innerText)"):
            self.assertEqual(link[0], link[0].upper())
        self.check_silent()

    def test_a_sweep_gives_the_page_its_title(self):
        (self.folder / "s.toml").write_text(
            'name = "two-rates"\nabout = "Which rate is faster?"\n[settings]\ntrain = "generate:tiny"\nepochs = 1\n'
            "[parameters.learning_rate]\nvalues = [0.1, 1]\n")
        self.run_program("sweep", "s.toml", "-o", "runs", "--quiet")
        self.open()
        self.assertEqual(self.js("document.title"), "two-rates")
        self.assertIn("Which rate is faster?", self.js("document.querySelector('header').innerText"))

    def test_charts_have_their_numbers_and_pictures(self):
        self.make_runs()
        self.open()
        self.js("document.querySelector('#w0-curves details').open = true")
        cells = self.js("[...document.querySelectorAll('#w0-curves tbody tr')].slice(-1)[0].innerText")
        data = json.loads(self.run_program("report", "runs", "--format", "json", "-o", "-").stdout)
        groups = sorted(data["workloads"][0]["groups"], key=lambda group: group["place"])
        last = groups[-1]["curves"]["y"]["p1"]["time_s"]["median"][-1]
        self.assertEqual(float(cells.split("\t")[2]), last)
        # Files that the buttons would save are caught here.
        self.js("(() => { window.saved = []; const old = URL.createObjectURL.bind(URL);"
                " URL.createObjectURL = blob => { saved.push(blob); return old(blob); }; })()")
        self.browser.call("Browser.setDownloadBehavior", behavior="deny")
        self.js("document.querySelectorAll('#w0 .toolbar .actions button').forEach(each => each.click())")
        self.js("(async () => { for (let i = 0; i < 200 && saved.length < 3; ++i) "
                "await new Promise(done => setTimeout(done, 50)); })()")
        kinds = self.js("saved.map(blob => blob.type).sort()")
        self.assertEqual(kinds, ["image/png", "image/svg+xml", "text/csv"])
        source = self.js("saved.find(blob => blob.type === 'image/svg+xml').text()")
        xml.dom.minidom.parseString(source)
        self.assertIn("ssgd", source)  # the legend is in the picture
        self.assertGreater(self.js("saved.find(blob => blob.type === 'image/png').size"), 1000)

    def test_tables_sort(self):
        self.make_runs()
        self.open()
        column = "[...document.querySelectorAll('#w0 table')][0]"
        first = f"{column}.tBodies[0].rows[0].cells[0].innerText"
        names = {self.js(first)}
        for _ in range(2):
            self.js(f"{column}.tHead.rows[0].cells[0].querySelector('button').click()")
            names.add(self.js(first))
        self.assertEqual(len(names), 2)
        self.assertEqual(self.js(f"{column}.tHead.rows[0].cells[0].getAttribute('aria-sort')"), "descending")

    def test_texts_of_results_are_texts(self):
        self.train("runs/a.json", "--target", "p1>=0.2")
        result = self.result("runs/a.json")
        result["environment"]["hostname"] = result["environment"]["cpu_model"] = EVIL
        result["workers"][0]["device"] = EVIL
        result["stragglers"] = [EVIL]
        result["histograms"] = {EVIL: {"1": 2}}
        self.write("a.json", result)
        other = copy.deepcopy(result)
        other["config"]["learning_rate"] = EVIL
        self.write("<img src=x onerror=alert(1)>.json", other)
        self.open("--title", EVIL)
        self.assertEqual(self.js("document.title"), EVIL)
        self.assertEqual(self.js("document.querySelector('h1').textContent"), EVIL)
        self.assertEqual(self.js("document.querySelectorAll('img').length"), 0)
        self.assertEqual(self.js("document.querySelectorAll('script').length"), 2)
        self.check_silent()

    def test_the_policy_lets_nothing_out(self):
        self.train("runs/a.json")
        self.open()
        policy = self.js("document.querySelector('meta[http-equiv]').content")
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        page = (self.folder / "report.html").read_text()
        self.assertEqual(re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]*\"", page), [])
        self.check_silent()
        caught = self.js("fetch('http://127.0.0.1:9/').then(() => 'went out', () => 'refused')")
        self.assertEqual(caught, "refused")
        self.assertTrue(any("Content Security Policy" in each for each in self.browser.complaints()))

    def test_the_theme_follows_the_system_and_the_button(self):
        self.train("runs/a.json")
        background = "getComputedStyle(document.body).backgroundColor"
        picture = "document.querySelector('.plot svg rect').getAttribute('fill')"
        self.browser.view(820, scheme="dark")
        self.open()
        dark = self.js(background)
        self.assertEqual(self.js(picture), "#14171c")
        self.browser.view(820)
        self.assertEqual(self.js(picture), "#ffffff")
        self.assertNotEqual(self.js(background), dark)
        for _ in range(2):
            self.js("document.getElementById('theme').click()")
        self.assertEqual(self.js(background), dark)
        self.assertEqual(self.js(picture), "#14171c")

    def test_five_hundred_runs_stay_small(self):
        """Ten workloads of ten groups of five seeds, with curves of fifty points; the times are only reported."""
        self.train("r.json", "--algorithm", "adaptive", "--workers", "4", "--target", "p1>=0.2")
        result = self.result("r.json")
        first, last = result["curve"][0], result["curve"][-1]
        for i in range(500):
            one = json.loads(json.dumps(result))
            workload, group, seed = i // 50, i // 5 % 10, i % 5
            one["config"].update(seed=seed + 1, learning_rate=0.1 + group / 7, remark="a_long_one" * 20 + str(group))
            one["stragglers"] = [f"kind=constant,worker=0,factor={workload}"]
            one["curve"] = []
            for k in range(51):
                rise = k / 50
                one["curve"].append({**last, "time_s": last["time_s"] * rise * (1 + (group + seed / 9) / 10),
                                     "samples_count": int(last["samples_count"] * rise), "epoch_num": rise,
                                     "updates": int(last["updates"] * rise), "test_loss": 3 - rise - i / 1e4,
                                     "train_loss": 3 - rise - i / 9e3, "p1": 0.8 * rise * (1 - i / 9e3)})
            one["curve"][0] = {**first, "test_loss": 3.0 - i / 1e4}
            one["summary"].update(best={}, evaluations=51)
            one["time_to_accuracy"] = []
            self.write(f"{i}.json", one)
        start = time.monotonic()
        self.run_program("report", "runs", "--target", "p1>=0.4", "-o", "report.html")
        made = time.monotonic()
        self.browser.open(self.folder / "report.html")
        self.js("1")
        size = (self.folder / "report.html").stat().st_size
        print(f"500 runs: {made - start:.1f} s, {size / 1e6:.2f} MB, opened in {time.monotonic() - made:.1f} s",
              file=sys.stderr)
        self.assertLess(size, 5_000_000)
        self.assertEqual(self.js("document.querySelectorAll('.bar option').length"), 11)
        self.browser.view(390)
        self.assertLessEqual(self.js("document.documentElement.scrollWidth"), 390)
        self.check_silent()
