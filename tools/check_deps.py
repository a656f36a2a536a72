#!/usr/bin/env python3
"""Checks that every #include in src/ obeys the dependency tables of docs/architecture.md.

A folder may include itself, the folders in its row, and what those may include. A folder inside another one, such as
emu/ops, has a row too: it may include what the outer folder may include, but of the outer folder only itself and the
folders in its own row. No folder may depend on itself through others.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| `([\w/]+)` \|.*\| ([^|]*) \|$")


INCLUDE = re.compile(r'\s*#include "([a-z_/]+)/[^/"]+"')


def read_tables():
    """Each folder's row: what it may include directly."""
    direct = {}
    for table in (ROOT / "docs" / "architecture.md").read_text().split("may include |\n")[1:]:
        for line in table.splitlines():
            if match := ROW.match(line):
                direct[match[1]] = match[2].replace("–", "").split()
            elif line and not line.startswith("|"):
                break
    if not direct:
        sys.exit("check_deps: docs/architecture.md has no dependency table")
    return direct


def closure(direct, folder):
    """The folder and all that it may include. Exits if it may include itself through others."""
    seen, todo = {folder}, list(direct.get(folder, []))
    if "all" in todo:
        return {name for name in direct if "/" not in name}
    while todo:
        dep = todo.pop()
        if dep == folder:
            sys.exit(f"check_deps: {folder} may include itself through its row")
        if dep not in seen:
            seen.add(dep)
            todo += direct.get(dep, [])
    return seen


def may_include(direct, folder, included):
    outer = folder.partition("/")[0]
    if included.partition("/")[0] == outer and "/" in folder:
        return included in closure(direct, folder)
    return included.partition("/")[0] in closure(direct, outer)


def main():
    direct = read_tables()
    bad = 0
    for path in sorted((ROOT / "src").rglob("*")):
        where = path.relative_to(ROOT / "src")
        if path.suffix not in {".h", ".cc", ".inc", ".def"} or len(where.parts) < 2:
            continue
        folder = "/".join(where.parts[:-1])
        if folder not in direct:
            folder = where.parts[0]  # test data
        if folder not in direct:
            print(f"src/{folder}: add this folder to the dependency table of docs/architecture.md")
            bad += 1
            continue
        # Tests may use all of their outer folder.
        is_test = path.stem.endswith(("_test", "_testing"))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match or match[1].partition("/")[0] not in direct:
                continue
            if is_test and match[1].partition("/")[0] == folder.partition("/")[0]:
                continue
            if not may_include(direct, folder, match[1]):
                print(f"src/{where}:{number}: {folder} may not include {match[1]}")
                bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
