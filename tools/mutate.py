#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes wrong kernels from correct ones and measures how many of them cupel rejects without a GPU.

  tools/mutate.py run --work DIR [--published ROBUST_KBENCH] [--corpus tests/mustpass] [--each N]
  tools/mutate.py retry --work DIR [--published ROBUST_KBENCH] [--corpus tests/mustpass]
  tools/mutate.py report --work DIR [--by family|operator|parent] [--survivors FILE]
  tools/mutate.py show --work DIR ID

You can stop `run` at any time; the next `run` resumes. DIR/results.jsonl has one line for each mutant.
`retry` tries survivors at all settings of their task, which takes longer. `report --survivors FILE` writes
the remaining survivors to FILE. Label them there by hand: "label" is "equivalent", "outside", "warned" or
"missed" (tools/mutation/report.py), and "reason" is a sentence. A survivor without a label counts as missed.
docs/judging.md has the measured results.
"""

import argparse
import concurrent.futures
import dataclasses
import difflib
import json
import pathlib
import sys
import threading

from mutation import judge, mutants, parents, report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="make mutants and judge the new ones")
    again = commands.add_parser("retry", help="judge survivors again, at their task's own settings")
    for command in (run, again):
        command.add_argument("--cupel", type=pathlib.Path, default=parents.ROOT / "build" / "cupel")
        command.add_argument("--published", type=pathlib.Path, help="a checkout of robust-kbench with more parents")
        command.add_argument("--corpus", type=pathlib.Path, help="a folder of correct kernels with more parents")
        command.add_argument("--seed", type=int, default=1, help="for the mutants and for cupel's inputs (1)")
        command.add_argument("--jobs", type=int, default=2, help="mutants to judge at the same time (2)")
        command.add_argument("--seconds", type=int, default=300, help="deadline of each call of cupel (300)")
    run.add_argument("--each", type=int, default=30, help="mutants to make of each parent (30)")
    run.add_argument("--parent", action="append", help="use only this parent (repeatable)")
    shown = commands.add_parser("report", help="print the table")
    shown.add_argument("--by", choices=("family", "operator", "parent"), default="family")
    for command in (again, shown):
        command.add_argument("--survivors", type=pathlib.Path,
                             help="file of labels; report writes the mutants that were not killed to it")
    show = commands.add_parser("show", help="print a mutant's change and its result")
    show.add_argument("id")
    for command in (run, again, shown, show):
        command.add_argument("--work", type=pathlib.Path, required=True, help="folder for sources and results")
    arguments = parser.parse_args()
    return {"run": run_all, "retry": retry, "report": print_report, "show": show_one}[arguments.command](arguments)


def parents_of(arguments):
    return parents.read(arguments.published) + (parents.read_corpus(arguments.corpus) if arguments.corpus else [])


def prepare(arguments):
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    return work, judge.Tools(arguments.cupel.resolve(), work / "cache", arguments.seed, arguments.seconds)


def run_all(arguments):
    work, tools = prepare(arguments)
    before = read_results(work)
    done = {result["id"] for result in before}
    lock, first = threading.Lock(), True
    with open(work / "results.jsonl", "a", buffering=1) as log, \
            concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for parent in parents_of(arguments):
            if arguments.parent and parent.name not in arguments.parent:
                continue
            drawn = mutants.draw(parent, arguments.seed, arguments.each)
            todo = [mutant for mutant in drawn if mutant.id not in done]
            if not todo:
                continue
            task = parents.small_task(parent, work)
            known = baseline(tools, parent, task, work, checked=first)
            if known is None and parent.root == "corpus" and parent.settings:
                parent = dataclasses.replace(parent, settings={})  # use the settings in the file's head
                task = parent.task
                known = baseline(tools, parent, task, work, checked=False)
            first = False
            if known is None:
                continue
            known.update((r["fingerprint"], r["id"]) for r in before
                         if r["parent"] == parent.name and "fingerprint" in r)

            def one(mutant):
                result = judge_one(tools, parent, task, known, mutant, work, lock)
                with lock:
                    log.write(json.dumps({**mutant.record(), "published": parent.published, **result}) + "\n")
                return result["outcome"]
            outcomes = list(pool.map(one, todo))
            counts = ", ".join(f"{outcomes.count(o)} {o}" for o in sorted(set(outcomes)))
            print(f"{parent.name}: {len(todo)} mutants: {counts}", flush=True)


def baseline(tools, parent, task, work, checked):
    """Returns a dictionary with the parent's fingerprint, or None if cupel does not accept the parent. If
    `checked`, also tests that an additional comment does not change the fingerprint."""
    text = parent.kernel.read_text(errors="replace")
    source = write_source(work, f"{parent.name}-itself", text)
    scratch = work / f"{parent.name}.json"
    result = judge.check(tools, source, task, parent.backward, parent.small, scratch)
    if result["outcome"] != "survived":
        print(f"{parent.name}: skipped, because cupel does not accept it: {result['message']} "
              f"{result.get('codes')}", flush=True)
        return None
    plain, message = judge.build(tools, source, scratch)
    if checked:
        commented, _ = judge.build(tools, write_source(work, "comment", text + "\n// more\n"), scratch)
        if plain is None or plain != commented:
            sys.exit(f"mutate: {parent.name}: a comment changes the fingerprint ({plain}, {commented}) {message}")
    return {plain: "the parent"}


def judge_one(tools, parent, task, known, mutant, work, lock):
    source = write_source(work, mutant.id, mutant.text)
    scratch = source.with_suffix(".json")
    print_, message = judge.build(tools, source, scratch)
    if print_ is None:
        return {"outcome": "not_compiled", "message": message[:200]}
    with lock:
        if print_ in known:
            return {"outcome": "same", "message": f"compiles to the same program as {known[print_]}"}
        known[print_] = mutant.id
    return {**judge.check(tools, source, task, parent.backward, parent.small, scratch),
            "fingerprint": print_}


def retry(arguments):
    """Judges survivors without a label again: at their task's own settings, and at explored sizes."""
    work, tools = prepare(arguments)
    by_name = {parent.name: parent for parent in parents_of(arguments)}
    labels = read_labels(arguments.survivors)
    survivors = [r for r in read_results(work)
                 if r["outcome"] == "survived" and "tried" not in r and r["id"] not in labels]

    def again(result):
        parent = by_name.get(result["parent"])
        source = work / "src" / result["id"] / "kernel.cu"
        if parent is None:
            return
        new = judge.check(tools, source, parent.task, parent.backward, parent.asked, source.with_suffix(".json"))
        if new["outcome"] not in ("survived", "killed"):
            return
        outcome = new if new["outcome"] == "killed" else {"outcome": "survived", "limits": new["limits"]}
        kept = {key: value for key, value in result.items() if key not in ("codes", "message", "by")}
        with open(work / "results.jsonl", "a") as log:
            log.write(json.dumps({**kept, **outcome, "tried": parent.asked}) + "\n")
        print(result["id"], outcome["outcome"], outcome.get("codes", ""), flush=True)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(again, survivors))


def write_source(work, name, text):
    path = work / "src" / name / "kernel.cu"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def read_results(work):
    """The latest result of each mutant."""
    path = work / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return list({result["id"]: result for result in map(json.loads, lines)}.values())


def read_labels(path):
    """The labels in the file that `report` wrote, by mutant id."""
    entries = json.loads(path.read_text()) if path and path.exists() else []
    return {entry["id"]: entry for entry in entries if entry["label"] != "unread"}


def print_report(arguments):
    results = read_results(arguments.work)
    labels = read_labels(arguments.survivors)
    print(report.table(results, labels, arguments.by))
    left = report.survivors(results, labels)
    unread = [entry["id"] for entry in left if entry["label"] == "unread"]
    print(f"\n{len(left)} not killed, {len(unread)} unlabelled")
    if arguments.survivors:
        arguments.survivors.write_text(json.dumps(left, indent=1, ensure_ascii=False) + "\n")


def show_one(arguments):
    for result in read_results(arguments.work):
        if result["id"].startswith(arguments.id):
            print(json.dumps({k: v for k, v in result.items() if k not in ("before", "after")}))
            folder = arguments.work / "src"
            before = (folder / f"{result['parent']}-itself" / "kernel.cu").read_text().splitlines()
            after = (folder / result["id"] / "kernel.cu").read_text().splitlines()
            print("\n".join(difflib.unified_diff(before, after, "parent", "mutant", lineterm="")))


if __name__ == "__main__":
    sys.exit(main())
