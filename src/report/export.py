#!/usr/bin/env python3
# Writes a kernel and its task as an installable Python package: see `cupel export`. Reads the facts from
# a JSON file that cupel wrote. Does not run code of the task or the kernel.
# Usage: export.py SPECIFICATION.json FOLDER
# SPDX-License-Identifier: Apache-2.0
import ast
import json
import keyword
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import export_readme  # noqa: E402
import export_text  # noqa: E402
from export_signature import (  # noqa: E402
    Unsupported, backward_signature, forward_signature, reference_function)

TAKEN = {"torch", "numpy", "triton", "setuptools", "pip", "aten", "prim", "prims", "quantized", "test"}
# PyTorch's extension builder adds these flags itself, in the form that its headers need.
GIVEN_FLAGS = re.compile(r"--?std=c\+\+17$|-D__CUDA_NO_|--expt-relaxed-constexpr$|-lineinfo$")


def package_name(wanted):
    """An identifier that does not shadow a name of Python or PyTorch."""
    name = re.sub(r"\W", "_", wanted, flags=re.ASCII)[:80].strip("_").lower() or "kernel"
    if name[0].isdigit():
        name = "kernel_" + name
    if (keyword.iskeyword(name) or name in TAKEN
            or name in getattr(sys, "stdlib_module_names", sys.builtin_module_names)):
        name += "_op"
    return name


def generate(spec):
    """{path: text} of all generated files. Other files are copied."""
    name = spec["name"]
    tree = ast.parse(spec["forward"]["code"])
    forward, defaults = forward_signature(spec, tree)
    backward = gradients = None
    if spec["backward"]:
        backward, gradients = backward_signature(spec, forward)
    settings = {"format": spec["task"]["format"], "forward": tested(spec["forward"]["settings"],
                                                                    forward.keep, forward.count),
                "backward": [], "gradients": []}
    if backward:
        settings["backward"] = tested(spec["backward"]["settings"], backward.keep, None)
        settings["gradients"] = [gradients[i]["input"] for i in backward.keep]
        settings["given"] = len(forward.kinds)
    package = os.path.join("src", name)
    return {
        os.path.join(package, "__init__.py"): export_text.init(spec),
        os.path.join(package, "ops.py"): export_text.ops(
            spec, forward, defaults, backward, gradients, reference_function(tree)[1]),
        os.path.join(package, "settings.json"): json.dumps(settings, indent=1) + "\n",
        os.path.join("tests", "test_%s.py" % name): export_text.pytest_file(name),
        "setup.py": export_text.setup(spec, GIVEN_FLAGS),
        "pyproject.toml": export_text.pyproject(spec),
        "MANIFEST.in": "graft csrc\ngraft tests\n",
        "README.md": export_readme.readme(spec, forward, defaults, backward),
    }


def tested(settings, keep, count):
    """The settings that the package's test needs; scales are in the order of the compared results."""
    result = []
    for s in settings:
        scales = s["scales"] if count is not None else [s["scales"][i] for i in keep]
        result.append({"id": s["id"], "init": s["init"], "inputs": s["inputs"], "scales": scales,
                       "reduced": s["reduced"]})
    return result


def refuse_neighbours(path, code):
    """Rejects a reference that imports modules from its own folder: only the reference is copied."""
    folder = os.path.dirname(path)
    for node in ast.walk(ast.parse(code)):
        names = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "."] if node.level == 0 else ["."]
        for name in names:
            first = name.split(".")[0]
            neighbour = os.path.join(folder, first)
            if not first or os.path.exists(neighbour + ".py") or os.path.isdir(neighbour):
                raise Unsupported("the reference imports %s from its own folder" % (first or "a module"))


def write(spec, folder):
    spec["name"] = package_name(spec["name"])
    for direction in ("forward", "backward"):
        part = spec[direction]
        if not part:
            continue
        with open(part["reference"], encoding="utf-8") as file:
            part["code"] = file.read()
        refuse_neighbours(part["reference"], part["code"])
    for direction, part in spec["wiring"].items():
        if "failure" in part:
            raise Unsupported("%s: %s" % (direction, part["failure"]))
    texts = generate(spec)
    package = os.path.join(folder, "src", spec["name"])
    for path in (package, os.path.join(folder, "csrc"), os.path.join(folder, "tests")):
        os.makedirs(path)
    for path, text in texts.items():
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            file.write(text)
    names = ["support.py", "test.py"] + (["problem.py"] if spec["task"]["format"] == "kernelbench" else [])
    runtime = os.path.join(os.path.dirname(os.path.abspath(__file__)), "package")
    for name in names:
        shutil.copyfile(os.path.join(runtime, name), os.path.join(package, name))
    for direction, target in (("forward", "reference.py"), ("backward", "reference_backward.py")):
        if spec[direction]:
            shutil.copyfile(spec[direction]["reference"], os.path.join(package, target))
            shutil.copyfile(spec[direction]["kernel"],
                            os.path.join(folder, "csrc", direction + ".cu"))
    if spec["record"] is not None:
        with open(os.path.join(folder, "record.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(spec["record"], indent=1) + "\n")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    try:
        write(spec, sys.argv[2])
    except Unsupported as error:
        print(json.dumps({"unsupported": str(error)}))
        return 0
    except (SyntaxError, UnicodeDecodeError, RecursionError) as error:
        print(json.dumps({"unsupported": "the reference cannot be read: %s" % error}))
        return 0
    print(json.dumps({"name": spec["name"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
