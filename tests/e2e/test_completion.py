"""Tests the completion of the command line: share/completion is up to date, and the shells complete with it."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import CUPEL, SOURCE

GENERATOR = SOURCE / "tools" / "completion.py"
FILES = ("cupel.bash", "_cupel", "cupel.fish")
COMPLETION = SOURCE / "share" / "completion"

# Calls the completion as readline does. The arguments are the words as bash splits them.
BASH = r"""
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*"
complete -p cupel >/dev/null || exit 1
_cupel
if (( ${#COMPREPLY[@]} )); then printf '%s\n' "${COMPREPLY[@]}"; fi
"""

# The arguments are the folder of _cupel, the line, and the file of the inner shell.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "source ${(q)3} ${(q)1}"
zpty -r -m shell heard '*ready*'
zpty -w -n shell "$2"$'\t'
zpty -r -m shell heard '*<<<*>>>*'
print -r -- "${${heard##*<<<}%%>>>*}"
zpty -d shell
"""

# Prints the matches instead of showing them.
ZSH_INSIDE = r"""
PROMPT= RPROMPT=
setopt no_beep
fpath=($1 $fpath)
autoload -Uz compinit
compinit -u -D
zstyle ':completion:*' insert-tab false
begin() { print -rn -- '<<<' }
finish() { print -rn -- '>>>'; exit }
compprefuncs=(begin) comppostfuncs=(finish)
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
    builtin compadd "$@"
    return $?
  fi
  local -a hits
  builtin compadd -A hits "$@"
  [[ -n $hits ]] || return 1
  print -rl -- '' $hits
}
print ready
"""


class CompletionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cupel-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "cupel").symlink_to(CUPEL)
        self.work = self.folder / "work"
        (self.work / "runs").mkdir(parents=True)
        for name in ("mine.cu", "my notes.cu", "answer.py", "list.jsonl"):
            (self.work / name).touch()
        self.environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "HOME": str(self.folder),
                            "CUPEL_HOME": str(SOURCE), "LC_ALL": "C.UTF-8"}

    def output_of(self, argv):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=self.work, env=self.environment,
                              stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def offered(self, line):
        """What the shell of the test offers after `line`, sorted."""
        raise NotImplementedError


class Common:
    """Tests of each shell."""

    def test_offers_commands_and_subcommands(self):
        self.assertEqual(self.offered("cupel ch"), ["check"])
        self.assertEqual(self.offered("cupel task "), ["controls", "filter", "import", "list", "show"])
        self.assertEqual(self.offered("cupel suite me"), ["merge"])
        self.assertLessEqual({"check", "bench", "mcp", "suite"}, set(self.offered("cupel ")))

    def test_offers_the_options_of_the_command(self):
        self.assertEqual(self.offered("cupel check --se"), ["--seed", "--settings"])
        self.assertEqual(self.offered("cupel check mine.cu --json x -q --no-sh"), ["--no-shadow"])
        self.assertEqual(self.offered("cupel suite run --case"), ["--cases"])
        self.assertEqual(self.offered("cupel task show --sett"), [])

    def test_offers_the_values_of_closed_sets(self):
        settings = ["all", "heldout", "multi", "single"]
        self.assertEqual(self.offered("cupel check --settings "), settings)
        self.assertEqual(self.offered("cupel suite run --cases c"), ["coordinator"])
        self.assertEqual(self.offered("cupel check --device g"), ["gpu", "gpu:all"])
        self.assertEqual(self.offered("cupel profile mine.cu --arch sm_9"), ["sm_90", "sm_90a"])
        self.assertEqual(self.offered("cupel optimize --without mig"), ["migration"])
        self.assertEqual(self.offered("cupel check --trials "), [])

    def test_values_of_an_option_depend_on_the_command(self):
        self.assertEqual(self.offered("cupel check --model h"), ["h100", "h200"])
        self.assertEqual(self.offered("cupel optimize --model h"), [])

    def test_does_not_take_the_value_of_an_option_for_a_command(self):
        self.assertEqual(self.offered("cupel check --task review --show"), [])
        self.assertEqual(self.offered("cupel review --task calibrate --show"), ["--show-findings"])

    def test_offers_tasks_and_files(self):
        linear = ["mnist_linear", "mnist_linear_relu"]
        self.assertEqual(self.offered("cupel check mine.cu --task mnist_li"), linear)
        self.assertEqual(self.offered("cupel task show mnist_li"), linear)
        self.assertEqual(self.offered("cupel check --task an"), ["answer.py"])
        self.assertEqual(self.offered("cupel check mi"), ["mine.cu"])
        self.assertEqual(self.offered("cupel bench mine.cu an"), ["answer.py"])
        self.assertEqual(self.offered("cupel stream li"), ["list.jsonl"])
        self.assertEqual(self.offered("cupel report r"), ["runs"])
        self.assertEqual(self.offered("cupel suite merge --output r"), ["runs"])

    def test_offers_subcommands_and_arguments_of_one_command(self):
        self.assertEqual(self.offered("cupel review cal"), ["calibrate"])
        self.assertEqual(self.offered("cupel review mi"), ["mine.cu"])
        self.assertEqual(self.offered("cupel review calibrate --label"), ["--labels"])


class Bash(Common, CompletionTest):
    def replies(self, *words):
        heard = self.output_of(["bash", "--norc", "-c", BASH, "bash", COMPLETION / "cupel.bash", *words])
        return sorted(heard.split("\n")[:-1])

    def offered(self, line):
        # Bash splits these lines in the same way.
        return self.replies(*line.split(" "))

    def test_replies_fit_the_word_breaks(self):
        self.assertEqual(self.replies("cupel", "check", "--settings", "=", "si"), ["single"])
        self.assertEqual(len(self.replies("cupel", "check", "--settings", "=")), 4)
        self.assertEqual(self.replies("cupel", "check", "--device", "gpu", ":", "a"), ["all"])
        self.assertEqual(self.replies("cupel", "check", "--device", "gpu", ":"), ["all"])
        self.assertEqual(self.replies("cupel", "check", "--device", "=", "gpu", ":", "a"), ["all"])
        self.assertEqual(self.replies("cupel", "check", "--device=gpu:a"), ["--device=gpu:all"])
        self.assertEqual(self.replies("cupel", "check", "--task", "=", "mnist_po"), ["mnist_pool"])

    def test_stops_after_the_last_argument(self):
        self.assertEqual(self.offered("cupel check mine.cu mi"), [])
        self.assertEqual(self.offered("cupel suite compare runs r"), ["runs"])
        self.assertEqual(self.offered("cupel suite compare runs runs r"), [])

    def test_keeps_names_with_blanks_in_one_reply(self):
        self.assertEqual(self.offered("cupel check my"), ["my notes.cu"])

    def test_does_not_execute_names(self):
        for folder in ("shim", "tasks/$(touch pwned)", "tasks/`touch pwned`", "tasks/plain"):
            (self.folder / "data" / folder).mkdir(parents=True)
        (self.work / "$(touch pwned).cu").touch()
        self.environment["CUPEL_HOME"] = str(self.folder / "data")
        self.assertEqual(self.offered("cupel task show "),
                         ["$(touch pwned)", "`touch pwned`", "answer.py", "plain", "runs"])
        self.assertIn("$(touch pwned).cu", self.offered("cupel check "))
        self.assertFalse((self.work / "pwned").exists())

    def test_finds_tasks_near_the_program(self):
        del self.environment["CUPEL_HOME"]
        for layout, program in (("source", "build/cupel"), ("prefix", "bin/cupel"), ("venv", "bin/cupel")):
            data = {"source": "", "prefix": "share/cupel", "venv": "lib/python3.12/site-packages/cupel/share/cupel"}
            root = self.folder / layout
            for folder in ("shim", f"tasks/of_{layout}"):
                (root / data[layout] / folder).mkdir(parents=True)
            (root / program).parent.mkdir(exist_ok=True)
            (root / program).write_text("#!/bin/sh\nexit 7\n")
            (root / program).chmod(0o755)
            self.assertEqual(self.replies(str(root / program), "task", "show", "of"), [f"of_{layout}"])


class Zsh(Common, CompletionTest):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("zsh"):
            raise unittest.SkipTest("needs zsh (apt-get install zsh)")

    def offered(self, line):
        inside = self.folder / "inside.zsh"
        inside.write_text(ZSH_INSIDE)
        heard = self.output_of(["zsh", "-f", "-c", ZSH, "zsh", COMPLETION, line, inside])
        return sorted({word.strip() for word in heard.split("\n")} - {""})


class Fish(Common, CompletionTest):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("fish"):
            raise unittest.SkipTest("needs fish (apt-get install fish)")

    def offered(self, line):
        script = 'source $argv[1]; complete -C "$argv[2]"'
        found = self.output_of(["fish", "--no-config", "-c", script, COMPLETION / "cupel.fish", line])
        return sorted({word.partition("\t")[0].rstrip("/") for word in found.splitlines()})


class Generated(CompletionTest):
    def generate(self, program):
        return subprocess.run([sys.executable, "-B", GENERATOR, program, "-o", self.folder / "out"],
                              capture_output=True, text=True, timeout=60)

    def test_share_completion_is_up_to_date(self):
        done = self.generate(CUPEL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(path.name for path in COMPLETION.iterdir()), sorted(FILES))
        for name in FILES:
            with self.subTest(file=name):
                self.assertTrue((self.folder / "out" / name).read_text() == (COMPLETION / name).read_text(),
                                f"share/completion/{name} is out of date: run tools/completion.py {CUPEL}")

    def fake(self, options):
        program = self.folder / "fake"
        program.write_text("#!/bin/sh\ncat <<'END'\nA program\nUsage: cupel [OPTIONS]\n\nOptions:\n"
                           f"{options}\nEND\n")
        program.chmod(0o755)
        return program

    def test_rejects_options_that_no_table_covers(self):
        for options, message in [
                ("  --colour TEXT               Colour of the page", "add --colour of `cupel` (value: TEXT)"),
                ("  --device TEXT               Where it runs", "--device of `cupel` has none of the values"),
                ("  device TEXT                 Where it runs", "cannot read the option")]:
            done = self.generate(self.fake(options))
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)
            self.assertFalse((self.folder / "out").exists())

    def test_escapes_help_texts(self):
        hostile = "It's [a] \"b\" `touch pwned` $(touch pwned) \\ : c"
        done = self.generate(self.fake("  -h,--help                   " + hostile))
        self.assertEqual(done.returncode, 0, done.stderr)
        for shell, name in (("bash", "cupel.bash"), ("zsh", "_cupel"), ("fish", "cupel.fish")):
            if shutil.which(shell):
                with self.subTest(shell=shell):
                    self.output_of([shell, "-n", self.folder / "out" / name])
        if shutil.which("fish"):
            found = self.output_of(["fish", "--no-config", "-c", 'source $argv[1]; complete -C "cupel --"',
                                    self.folder / "out" / "cupel.fish"])
            self.assertIn(f"--help\t{hostile}", found)
        self.assertFalse((self.work / "pwned").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
