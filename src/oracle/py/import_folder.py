# Writes the files of an imported task: func_forward.py, config_forward.json, task.json. Its input
# (Facts) comes from import_task.py. Runs no task code. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from collections.abc import Sequence

import import_text
from import_text import Sizes

LOADER = '''
def load_problem():
    """Loads problem.py from this folder, under a unique name: tasks may share one Python."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "problem.py")
    spec = importlib.util.spec_from_file_location("%(module)s", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


problem = load_problem()
'''

STATELESS = '''
_modules = {}  # by the shapes of a call's tensors, which change with the sizes: the module


def shapes(arguments):
    return tuple(tuple(a.shape) if isinstance(a, torch.Tensor) else None for a in arguments)


def tensors_in(value, seen):
    """All tensors in a module, including those in its dicts, lists and tuples."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (nn.Module, dict, list, tuple)) and id(value) not in seen:
        seen.add(id(value))
        parts = vars(value) if isinstance(value, nn.Module) else value
        for part in parts.values() if isinstance(parts, dict) else parts:
            yield from tensors_in(part, seen)


def without_state(module):
    """A copy with None in place of its parameters and buffers."""
    state = module.state_dict(keep_vars=True).values()
    return copy.deepcopy(module, {id(t): None for t in state})


def with_state(module, state):
    """A copy with these tensors as its parameters and buffers, and its other tensors on their device."""
    device = next((t.device for t in state.values()), None)
    own = {id(t): t.to(device or t.device, copy=True)  # forward may change them
           for t in tensors_in(module, set())}
    module = copy.deepcopy(module, own)
    for path, tensor in state.items():
        owner, _, name = path.rpartition(".")
        owner = module.get_submodule(owner)
        owner._parameters.pop(name, None)
        owner._buffers.pop(name, None)
        setattr(owner, name, tensor)
    return module
'''

RULES = [
    "The rules: a kernel gets the inputs, then parameters and buffers in state_dict order, with their",
    "values before the call. The reference draws no random numbers. Numbers and masks that the",
    "constructor makes outside state_dict are the same each time and are not passed.",
]


class Facts:
    """The results of import_task.py about a problem."""
    name = file = title = ""
    construct = "problem.Model()"  # an expression that builds the module
    inputs: Sequence[str] = ()  # names of forward's arguments
    state: Sequence[str] = ()  # paths, in state_dict order
    described: Sequence[str] = ()  # (type and shape) of each argument
    keys: Sequence[str] = ()  # sizes that are arguments
    reduced: Sizes = {}  # key -> smaller size; empty: not needed, or not found
    evaluate = False
    functional: list[str] | None = None  # lines of a forward_fn of plain functions; None: it calls the module
    fixed: Sequence[str] = ()  # numbers of the file that no shape shows
    maker, init = "get_inputs", "get_init_inputs"
    has_init = inputs_are_made = True  # there is a get_init_inputs; a function makes the inputs
    notes: list[str]


def heading(facts: Facts) -> list[str]:
    names = import_text.argument_names(facts.inputs, facts.state)
    lines = ["# " + t for t in folded(facts.title or facts.name)]
    lines += ["#", "# Imported from %s by `cupel task import`; this folder has the file as problem.py." %
             facts.file, "#", "# A kernel's forward gets, in this order:"]
    width = max([len(n) for n in names] + [1])
    lines += ["#   %-*s  %s" % (width, n, d) for n, d in zip(names, facts.described)]
    lines += ["#"] + ["# " + r for r in RULES]
    mode = "eval mode, as requested" if facts.evaluate else "train mode, unless the problem changes it"
    lines.append("# The module is in %s." % mode)
    if facts.fixed:
        lines += ["# " + t for t in folded(
            "No argument shows these numbers of the constructor, so a kernel must contain them%s: %s." %
            (" (forward_fn does)" if facts.functional is not None else "", ", ".join(facts.fixed)))]
    lines += ["# " + n for note in facts.notes for n in folded(note)]
    return lines


def folded(text: str, width: int = 96) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def makers(source: import_text.Source, facts: Facts) -> list[str]:
    """get_inputs and get_init_inputs, with the sizes as arguments if their text allows it."""
    known = set()
    lines = []
    for maker in (facts.maker, facts.init):
        for line in source.globals_of(maker, facts.keys):
            if line not in known:
                known.add(line)
                lines.append(line)
    lines = ([""] + lines + [""] if lines else [""]) + [""]
    for maker, name in ((facts.maker, "get_inputs"), (facts.init, "get_init_inputs")):
        if maker in source.makers:
            lines += source.function(maker, name, facts.keys) + ["", ""]
        elif name == "get_inputs" and facts.inputs_are_made:
            lines += ["get_inputs = problem.%s" % maker, "", ""]
        elif name == "get_inputs":
            lines += ["def get_inputs():", "    return problem.%s" % maker, "", ""]
        elif facts.has_init:
            lines += ["%s = problem.%s" % (name, maker), "", ""]
    return lines


def reference(facts: Facts) -> list[str]:
    names = import_text.argument_names(facts.inputs, facts.state)
    inputs, state = names[:len(facts.inputs)], names[len(facts.inputs):]
    lines = import_text.wrapped("STATE = (", [json.dumps(p) for p in facts.state] + [""], ")")
    lines[-1] = lines[-1].replace(", )", ",)").replace("(, )", "()")
    if not facts.state:
        lines = ["STATE = ()"]
    if facts.functional is not None:
        return lines + ["", ""] + facts.functional
    lines += STATELESS.rstrip("\n").split("\n")
    lines += ["", ""] + import_text.wrapped("def forward_fn(", names, "):")
    lines.append('    """The module\'s own forward, with its parameters and buffers as arguments."""')
    lines += import_text.wrapped("    state = (", state + [""], ")")
    lines[-1] = lines[-1].replace(", )", ",)")
    if not state:
        lines[-1] = "    state = ()"
    lines.append("    module = _modules[shapes((%s,) + state)]" % ", ".join(inputs)
                 if inputs else "    module = _modules[shapes(state)]")
    lines.append("    return with_state(module, dict(zip(STATE, state)))(%s)" % ", ".join(inputs))
    return lines


def model(source: import_text.Source, facts: Facts) -> list[str]:
    keys = source.keywords_of(facts.init, facts.keys)
    lines = ["class Model(nn.Module):"]
    lines += import_text.wrapped("    def __init__(self%s" % (", " if keys else ""),
                                 ["%s=%r" % (k, source.numbers[k]) for k in keys], "):")
    call = "get_init_inputs(%s)" % ", ".join(keys)
    lines += ["        super().__init__()",
              "        self.problem = " + facts.construct.replace("get_init_inputs()", call)]
    if facts.evaluate:
        lines.append("        self.problem.eval()")
    lines += ["", "    def forward(self, *inputs, fn=forward_fn):",
              "        state = self.problem.state_dict()",
              "        arguments = inputs + tuple(state[path] for path in STATE)"]
    if facts.functional is None:
        lines.append("        _modules[shapes(arguments)] = without_state(self.problem)")
    return lines + ["        return fn(*arguments)"]


def func_forward(source: import_text.Source, facts: Facts) -> str:
    functional = facts.functional is not None
    imports = ["import importlib.util", "import os", "import sys"]
    imports = imports if functional else ["import copy"] + imports
    lines = heading(facts) + imports + ["", "import torch", "import torch.nn as nn"]
    lines += ["import torch.nn.functional as F"] if functional else []
    lines += [""] + (LOADER % {"module": "problem_of_" + re.sub(r"\W", "_", facts.name)}).rstrip("\n").split("\n")
    lines += makers(source, facts) + reference(facts) + ["", ""] + model(source, facts)
    return "\n".join(lines) + "\n"


def config(source: import_text.Source, facts: Facts) -> str:
    """The sizes of the file as the single setting."""
    mine = set(source.keywords_of(facts.maker, facts.keys))
    constructor = set(source.keywords_of(facts.init, facts.keys))
    parts = (("input", mine - constructor), ("init", constructor - mine),
             ("shared", mine & constructor))
    written = {}
    sizes = {k: source.numbers[k] for k in facts.keys}
    for part, keys in parts if sizes else ():
        if keys:
            written["single_%s_configs" % part] = [{k: sizes[k] for k in sizes if k in keys}]
    return json.dumps(written, indent=2) + "\n"


def task_json(facts: Facts, digest: str) -> str:
    written = {"title": facts.title or facts.name, "imported_from": facts.file, "sha256": digest,
               "operators": "allowed"}  # as for the problem itself
    if facts.reduced:
        caps = {k: import_text.largest(v) for k, v in facts.reduced.items()}
        written["emulator_forward"] = {"at_most": caps}
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"
