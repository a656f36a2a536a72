"""The pages of a run of evolution and of a comparison of runs, in a headless Chromium: their content, their
controls, and that they escape text of candidates and models. The runs are made up
(src/report/run_testing.h)."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from browser import PROGRAM, Browser
from support import CUPEL, CupelTest

FIXTURE = os.environ.get("CUPEL_RUN_FIXTURE", "")


@unittest.skipUnless(PROGRAM, "needs Chromium (Debian's chromium, or $CUPEL_CHROMIUM)")
class RunPage(CupelTest):
    @classmethod
    def setUpClass(cls):
        cls.make_cache()
        runs = tempfile.TemporaryDirectory(prefix="cupel-test-")
        cls.addClassCleanup(runs.cleanup)
        cls.runs = pathlib.Path(runs.name)
        subprocess.run([FIXTURE, cls.runs], check=True)
        for name in ("models", "tuner"):
            subprocess.run([CUPEL, "report", cls.runs / name], check=True, stdout=subprocess.DEVNULL)
        cls.page = cls.runs / "models" / "report.html"
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def texts(self, selector):
        return self.browser.evaluate(f"[...document.querySelectorAll({selector!r})].map(e => e.textContent)")

    def count(self, selector):
        return self.browser.evaluate(f"document.querySelectorAll({selector!r}).length")

    def click(self, selector):
        self.browser.evaluate(f"document.querySelector({selector!r}).dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")

    def unfold(self, title, within="#candidate"):
        """Opens the section whose title starts with `title`, and waits for its content."""
        self.browser.evaluate(f"""new Promise(done => {{
            const box = [...document.querySelectorAll({within + ' details'!r})]
                .find(e => e.firstChild.textContent.startsWith({title!r}));
            box.open = true;
            const wait = () => box.dataset.filled ? done() : requestAnimationFrame(wait);
            wait();
        }})""")

    def test_shows_all_results_and_fetches_nothing(self):
        self.browser.open(self.page)
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(self.browser.fetched(), [f"file://{self.page}"])
        tiles = dict(zip(self.texts("#tiles dt"), self.texts("#tiles dd")))
        self.assertIn("3.05 ×", tiles["Gain"])
        self.assertIn("11 of 31", tiles["Accepted"])
        self.assertIn("$0.80", tiles["Cost"])
        self.assertEqual(self.count("#tree .plot .node"), 41)
        self.assertEqual(self.count("#tree .edge:not(.idea)"), 40)
        self.assertEqual(self.count("#tree .edge.idea"), 8)  # two per generation, except the first
        self.assertEqual(self.count("#tree .edge.winning"), 5)
        self.assertEqual(self.count("#progress .dot"), 11)
        self.assertIn("estimates from counted work", self.texts("#remarks p")[0])
        stages = self.texts("#cascade tbody tr td:first-child")
        self.assertEqual(stages, ["novelty", "build", "review", "judge", "measure"])
        self.assertEqual(self.count("#costs table"), 2)
        self.assertIn("mock:a", self.texts("#models td")[0])
        self.assertEqual(self.texts("#hints td")[0], "3")

    def test_a_node_opens_its_candidate(self):
        self.browser.open(self.page)
        self.click("#tree .node[data-id='13']")  # does not compile
        self.assertTrue(self.texts("#candidate-title")[0].startswith("Candidate 13: idea 2.3"))
        self.assertIn("build", self.texts("#candidate .facts dd"))
        self.click("#tree .node[data-id='10']")
        self.assertTrue(self.texts("#candidate-title")[0].startswith("Candidate 10: idea 2.0"))
        self.assertIn("use shared memory", self.texts("#candidate pre")[0])
        self.unfold("Difference to parent 2")
        changed = self.texts("#candidate .diff .added")
        self.assertIn("+ int line_8 = 2;", changed)
        self.assertIn("- int line_4 = 1;", self.texts("#candidate .diff .removed"))
        self.assertEqual(len(changed), 3)  # the parent's line restored, its own line, and the comment
        self.unfold("Source")
        self.assertIn("#include <torch/extension.h>", "".join(self.texts("#candidate pre")))
        self.unfold("Stages")
        self.assertIn("novelty", self.texts("#candidate table td"))
        self.unfold("Feedback for later proposals")
        self.assertIn("as fast as", "".join(self.texts("#candidate pre")))
        self.unfold("Questions to models (2)")
        self.unfold("proposer, mock:a")
        self.assertIn("prompt ", "".join(self.texts("#candidate pre")))
        self.assertIn("answer ", "".join(self.texts("#candidate pre")))
        self.assertEqual(self.browser.complaints(), [])

    def test_shows_a_reviewers_objection(self):
        self.browser.open(self.page)
        self.click("#tree .node[data-id='14']")  # 2.4
        self.assertIn("memory: reads beyond", self.texts("#candidate .body > p")[0])
        self.unfold("Stages")
        self.assertIn("int line_3 = 0;", self.texts("#candidate table td"))

    def test_escapes_untrusted_text(self):
        self.browser.open(self.page)
        for candidate in range(1, 42):
            self.click(f"#tree .node[data-id='{candidate}']")
            self.browser.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
            self.browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.assertEqual(self.browser.evaluate("document.title"), "Run report: mnist_linear forward")
        self.assertEqual(self.browser.evaluate("document.images.length"), 0)
        self.assertEqual(self.browser.evaluate("document.scripts.length"), 2)
        self.assertEqual(self.browser.complaints(), [])
        self.assertIn("<img src=x onerror=alert(1)>", self.texts("#candidate-title")[0])

    def test_shows_the_winners_difference_profile_and_evidence(self):
        self.browser.open(self.page)
        self.assertIn("Candidate 34", self.texts("#winner p")[0])
        self.assertIn("+ int line_20 = 5;", self.texts("#winner .diff .added"))
        cells = self.texts("#winner td")
        for cell in ("50 %", "75 % (registers)", "87 %", "655k", "2560", "35.9k", "22", "8"):
            self.assertIn(cell, cells)
        text = "".join(self.texts("#winner"))
        for part in ("d1ge57", "speed on a GPU", "18446744073709551615 (user)", "2 of 2", "uniform, planted", "2.00 µs"):
            self.assertIn(part, text)

    def rows(self):
        return self.texts("#candidates > tbody > tr > td:first-child")

    def choose(self, name, value):
        self.browser.evaluate(f"document.getElementById({name!r}).value = {value!r};"
                              f"document.getElementById({name!r}).dispatchEvent(new Event('input'))")

    def test_the_table_filters_and_opens_the_candidate(self):
        self.browser.open(self.page)
        self.assertEqual(len(self.rows()), 41)
        self.choose("stage", "review")
        self.assertEqual(self.rows(), ["6", "14", "22", "30", "38"])
        self.choose("generation", "3")
        self.assertEqual(self.rows(), ["22"])
        self.choose("stage", "")
        self.choose("model", "mock:b")
        self.assertEqual(self.rows(), ["19", "21", "23", "25"])
        self.browser.evaluate("document.getElementById('search').focus()")
        self.browser.call("Input.insertText", text="wrong_result")
        self.assertEqual(self.rows(), ["23"])
        self.assertEqual(self.texts("#shown"), ["1 of 41 rows"])
        self.browser.evaluate("document.querySelector('#candidates .more').focus()")
        self.browser.press("Enter", "\r")
        self.assertTrue(self.texts("#candidate-title")[0].startswith("Candidate 23"))
        self.assertEqual(self.browser.evaluate("document.activeElement.id"), "candidate-title")

    def test_the_keyboard_opens_nodes(self):
        self.browser.open(self.page)
        self.browser.evaluate("document.querySelector(\"#tree .node[data-id='34']\").focus()")
        self.browser.press("Enter", "\r")
        self.assertTrue(self.texts("#candidate-title")[0].startswith("Candidate 34"))

    def test_the_axes_of_progress_can_be_switched(self):
        self.browser.open(self.page)
        place = "[...document.querySelectorAll('#progress .dot')].map(e => e.getAttribute('cx') + ' ' + e.getAttribute('cy')).join()"
        seen = {self.browser.evaluate(place)}
        for button in (1, 3):
            self.browser.evaluate(f"document.querySelectorAll('#progress button')[{button}].click()")
            self.browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            seen.add(self.browser.evaluate(place))
        self.assertEqual(len(seen), 3)
        self.click("#progress path.dot")
        self.assertTrue(self.texts("#candidate-title")[0].startswith("Candidate 34"))

    def test_differences_are_minimal_and_complete(self):
        """Compares with a table of longest common subsequences, on random texts."""
        self.browser.open(self.page)
        wrong = self.browser.evaluate("""(() => {
            let seed = 1;
            const draw = n => (seed = (seed * 48271) % 2147483647) % n;
            for (let round = 0; round < 300; ++round) {
                const [a, b] = [0, 0].map(() => Array.from({length: draw(12)}, () => 'abc'[draw(3)]));
                const lines = linesBetween(a, b);
                const side = (skip) => lines.filter(([kind]) => kind !== skip).map(([, line]) => line).join('');
                const best = Array.from({length: a.length + 1}, () => new Array(b.length + 1).fill(0));
                for (let i = 1; i <= a.length; ++i)
                    for (let j = 1; j <= b.length; ++j)
                        best[i][j] = a[i - 1] === b[j - 1] ? best[i - 1][j - 1] + 1 : Math.max(best[i - 1][j], best[i][j - 1]);
                const same = lines.filter(([kind]) => kind === 'same').length;
                if (side('added') !== a.join('') || side('removed') !== b.join('') || same !== best[a.length][b.length])
                    return `${a} | ${b} | ${JSON.stringify(lines)}`;
            }
            return '';
        })()""")
        self.assertEqual(wrong, "")

    def test_shows_a_run_without_models(self):
        self.browser.open(self.runs / "tuner" / "report.html")
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(self.count("#tree .plot .node"), 41)
        hidden = self.browser.evaluate("[...document.querySelectorAll('main > section[hidden]')].map(e => e.id)")
        self.assertEqual(sorted(hidden), ["candidate", "hints", "models", "unusable"])
        self.click("#tree .node[data-id='5']")
        self.assertIn("build_failed", self.texts("#candidate .body > p")[0])

    def test_fits_a_phone_in_light_and_dark(self):
        colours = set()
        for dark in (False, True):
            for width in (360, 768, 1280):
                self.browser.open(self.page, width=width, dark=dark)
                self.click("#tree .node[data-id='10']")
                self.browser.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
                self.browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                wide = self.browser.evaluate("document.documentElement.scrollWidth")
                self.assertLessEqual(wide, width, f"the page scrolls sideways at {width}")
            colours.add(self.browser.evaluate("getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(colours), 2)

    def test_compares_runs(self):
        page, document = self.folder / "comparison.html", self.folder / "comparison.json"
        done = self.cupel("report", "--compare", self.runs / "models", self.runs / "other", "--html", page, "--json", document)
        self.assertEqual(done.status, 0, done)
        self.assertIn("loop.review", done.out)
        comparison = json.loads(document.read_text())
        self.assertEqual(comparison["differences"], ["loop.review"])
        self.assertEqual([row["label"] for row in comparison["configurations"]], ["A", "B"])
        self.browser.open(page)
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(self.browser.fetched(), [f"file://{page}"])
        self.assertEqual(self.texts("#differences td"), ["A", "true", "B", "false"])
        self.assertEqual(self.count("#gains .series"), 2)
        self.assertIn("3.05x", self.texts("#results td"))
        before = self.browser.evaluate("document.querySelector('#gains .series').getAttribute('d')")
        self.browser.evaluate("document.querySelectorAll('#gains button')[1].click()")
        self.browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.assertNotEqual(before, self.browser.evaluate("document.querySelector('#gains .series').getAttribute('d')"))
        for width in (360, 1280):
            self.browser.open(page, width=width)
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)

    def test_several_runs_need_compare(self):
        done = self.cupel("report", self.runs / "models", self.runs / "other")
        self.assertEqual(done.status, 2, done)
        self.assertIn("--compare", done.err)

    def test_writes_the_page_to_the_given_path(self):
        page = self.folder / "page.html"
        done = self.cupel("report", self.runs / "models", "--html", page)
        self.assertEqual(done.status, 0, done)
        self.assertIn("<!doctype html>", page.read_text())
        self.assertEqual(done.json["counts"]["dropped"], 10)
        self.assertEqual(self.cupel("report", self.runs / "models", "--html", self.folder / "no" / "page.html").status, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
