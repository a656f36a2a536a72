#!/usr/bin/env python3
"""Checks that every #include in src/ obeys the dependency table of docs/architecture.md.

A folder may include itself, the folders in its row, and what those may include.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| `(\w+)` \|.*\| ([^|]*) \|$")


def read_table():
    direct = {}
    text = (ROOT / "docs" / "architecture.md").read_text()
    for line in text.partition("may include\n")[2].splitlines():
        if match := ROW.match(line):
            direct[match[1]] = match[2].replace("–", "").split()
    if not direct:
        sys.exit("check_deps: docs/architecture.md has no dependency table")
    return direct


def closure(direct, folder):
    seen, todo = {folder}, list(direct.get(folder, []))
    if "all" in todo:
        return set(direct)
    while todo:
        dep = todo.pop()
        if dep not in seen:
            seen.add(dep)
            todo += direct.get(dep, [])
    return seen


def main():
    direct = read_table()
    bad = 0
    for folder in sorted(p for p in (ROOT / "src").iterdir() if p.is_dir()):
        if folder.name not in direct:
            print(f"src/{folder.name}: add this folder to the dependency table of docs/architecture.md")
            bad += 1
            continue
        allowed = closure(direct, folder.name)
        for path in sorted(folder.rglob("*")):
            if path.suffix not in {".h", ".cc", ".inc"}:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = re.match(r'\s*#include "([a-z_]+)/', line)
                if match and match[1] in direct and match[1] not in allowed:
                    where = path.relative_to(ROOT)
                    print(f"{where}:{number}: {folder.name} may not include {match[1]}")
                    bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
