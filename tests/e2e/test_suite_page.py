"""The page of a suite's results, in a headless Chromium: its content, its controls, and that it escapes text
of tasks and kernels. The runs are made up, as if a GPU had timed them."""
import pathlib
import tempfile
import unittest

import suite_fixture
from browser import PROGRAM, Browser
from suite_fixture import Kernel
from support import CupelTest, SOURCE

KERNELS = [
    Kernel("mnist_linear", times=[(10, 20, 15), (20, 30, 25)]),
    Kernel("mnist_linear", direction="backward", kernel="backward.cu", times=[(40, 30, 20)]),
    Kernel("llama_rmsnorm", times=[(5, 25, 10), (9, 30, 20), (50, 90, 60)], work=(4e6, 1e6)),
    Kernel("mnist_cross_entropy", decision="rejected", times=[(1, 1, 1)],
           reason={"code": "wrong_result", "message": "3 of 4 elements are wrong", "where": "single-0"}),
    Kernel(suite_fixture.HOSTILE, kernel="x.cu", decision="rejected",
           reason={"code": "build_failed", "message": suite_fixture.HOSTILE, "where": ""}),
]


@unittest.skipUnless(PROGRAM, "needs Chromium (Debian's chromium, or $CUPEL_CHROMIUM)")
class SuitePage(CupelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.runs = tempfile.TemporaryDirectory(prefix="cupel-test-")
        cls.addClassCleanup(cls.runs.cleanup)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        super().setUp()
        self.run_folder = pathlib.Path(self.runs.name) / "run"
        if not self.run_folder.exists():
            suite_fixture.write_run(self.run_folder, SOURCE, KERNELS, [("group_norm", "forward")],
                                    [Kernel("later")], status="stopped")
            done = self.cupel("suite", "report", self.run_folder)
            self.assertEqual(done.status, 0, done)
        self.page = self.run_folder / "results.html"

    def texts(self, selector):
        return self.browser.evaluate(f"[...document.querySelectorAll({selector!r})].map(e => e.textContent)")

    def kernels(self):
        return self.texts("#kernels > tbody > tr:not(.detail) > td:first-child")

    def test_shows_all_results_and_fetches_nothing(self):
        self.browser.open(self.page)
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(self.browser.fetched(), [f"file://{self.page}"])
        tiles = dict(zip(self.texts("#tiles dt"), self.texts("#tiles dd")))
        self.assertEqual(tiles["Problems solved"], "43 %3 of 7")
        self.assertIn("Speed-up over eager", tiles)
        self.assertEqual(len(self.kernels()), 7)
        self.assertEqual(len(self.texts("#speed circle")), 6)  # one for each timed setting
        self.assertEqual(len(self.texts("#fast .curve")), 3)  # eager, compile and the best
        self.assertEqual(len(self.texts("#roofline circle")), 6)
        self.assertEqual(len(self.texts("#roofline .roof")), 1)
        self.assertIn("1 of 6 kernels are not judged yet.", self.texts("#remarks p"))

    def test_names_the_merged_runs(self):
        whole = pathlib.Path(self.runs.name) / "whole"
        self.assertEqual(self.cupel("suite", "merge", self.run_folder, self.run_folder, "-o", whole).status, 0)
        self.browser.open(whole / "results.html")
        self.assertEqual(self.browser.complaints(), [])
        self.assertIn("Judged in 2 runs: run, run (2).", self.browser.evaluate("document.body.textContent"))
        self.assertEqual(len(self.kernels()), 7)

    def test_estimates_are_called_estimates(self):
        kernel = Kernel("llama_rmsnorm", times=[(5, 25, 10)], reduced="tokens=8 (of 4096)", device="emu (h100)")
        run = suite_fixture.write_run(self.folder / "emu", SOURCE, [kernel], engine="emu")
        self.assertEqual(self.cupel("suite", "report", run).status, 0)
        self.browser.open(run / "results.html")
        self.assertEqual(self.browser.complaints(), [])
        self.assertIn("estimates from counted work", self.texts("#remarks p")[0])
        self.assertIn("smaller sizes", self.texts("#remarks p")[1])
        self.assertFalse([title for title in self.texts("#tiles dt") if "Speed-up" in title])
        self.assertEqual(self.texts("#fast svg"), [])
        self.assertEqual(len(self.texts("#speed circle")), 1)
        self.browser.evaluate("document.querySelector('.more').click()")
        self.assertIn("reduced: tokens=8 (of 4096)", self.texts(".detail")[0])
        self.assertIn("1.00 µs (estimate)", self.texts(".detail")[0])

    def test_escapes_untrusted_text(self):
        self.browser.open(self.page)
        self.assertIn("Suite results", self.browser.evaluate("document.title"))
        self.assertEqual(self.browser.evaluate("document.images.length"), 0)
        self.assertEqual(self.browser.evaluate("document.scripts.length"), 2)
        self.assertIn(suite_fixture.HOSTILE, self.kernels())

    def test_sorts_filters_and_opens_by_keyboard(self):
        self.browser.open(self.page)
        self.browser.evaluate("[...document.querySelectorAll('th button')].find(b => b.textContent === 'vs eager').focus()")
        self.browser.press("Enter", "\r")
        self.assertEqual(self.kernels()[:3], ["mnist_linear", "mnist_linear", "llama_rmsnorm"])
        self.browser.press(" ", " ")
        self.assertEqual(self.kernels()[:3], ["llama_rmsnorm", "mnist_linear", "mnist_linear"])
        self.assertEqual(self.browser.evaluate("document.querySelector('[aria-sort]').textContent"), "vs eager")
        self.browser.evaluate("document.getElementById('search').focus()")
        self.browser.call("Input.insertText", text="elements are")
        self.assertEqual(self.kernels(), ["mnist_cross_entropy"])
        self.assertEqual(self.texts("#shown"), ["1 of 7 rows"])
        self.browser.evaluate("document.querySelector('.more').focus()")
        self.browser.press("Enter", "\r")
        self.assertEqual(self.browser.evaluate("document.querySelector('.more').getAttribute('aria-expanded')"), "true")
        self.assertTrue(self.browser.evaluate("document.querySelector('.detail').checkVisibility()"))
        self.assertIn("wrong_result", self.texts(".detail")[0])

    def test_filters_by_decision_and_chooses_the_baseline(self):
        self.browser.open(self.page)
        choose = "document.getElementById('decision').value = 'rejected';" \
                 "document.getElementById('decision').dispatchEvent(new Event('input'))"
        self.browser.evaluate(choose)
        self.assertEqual(len(self.kernels()), 2)
        before = self.browser.evaluate("document.querySelector('#speed circle').getAttribute('cx')")
        self.browser.evaluate("document.querySelectorAll('#speed button')[1].click()")
        self.browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.assertNotEqual(before, self.browser.evaluate("document.querySelector('#speed circle').getAttribute('cx')"))

    def test_fits_a_phone_in_light_and_dark(self):
        colours = set()
        for dark in (False, True):
            for width in (360, 768, 1056, 1280):
                self.browser.open(self.page, width=width, dark=dark)
                wide = self.browser.evaluate("document.documentElement.scrollWidth")
                self.assertLessEqual(wide, width, f"the page scrolls sideways at {width}")
            colours.add(self.browser.evaluate("getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(colours), 2)
        self.browser.open(self.page, width=360)
        self.browser.evaluate("document.querySelectorAll('.more').forEach(button => button.click())")
        self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), 360)


if __name__ == "__main__":
    unittest.main(verbosity=2)
