#!/usr/bin/env python3
# Turns a KernelBench answer (Python with load_inline) into one .cu file without running it. Reads its
# syntax tree, evaluates ModelNew.__init__ and forward symbolically, and writes an adapter with the task's
# arguments. One JSON request on stdin: "source", "file", and what is known about the task, "arguments" and
# "init" (src/oracle/py/signature.py). One JSON reply on stdout. SPDX-License-Identifier: Apache-2.0
import ast
import json
import os
import re
import resource
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import extract_calls  # noqa: E402
import extract_cpp  # noqa: E402
import extract_follow  # noqa: E402
import extract_rules  # noqa: E402
import extract_text  # noqa: E402
from extract_values import Class, Const, Cpp, Function, Refused, Seq, Unknown  # noqa: E402

MEMORY, SECONDS = 2 << 30, 20


class Answer(extract_follow.Follower):
    def __init__(self, request):
        self.building, self.first_tensor, self.notes = [], "", []
        self.request = request
        self.task_arguments = request.get("arguments")  # None: the answer's own order
        tree = extract_rules.without_main(ast.parse(request["source"]))
        extract_rules.check(tree)
        super().__init__(tree)

    def returns(self, extension, name):
        return extract_text.returned_by(extension.cuda + "\n" + extension.cpp, name)

    def call_function(self, function, args, keywords, node):
        is_building = self.emitted is None and function.node.name == "__init__"
        if is_building:
            self.building.append(function.owner)
        try:
            return super().call_function(function, args, keywords, node)
        finally:
            if is_building:
                self.building.pop()

    def model(self):
        known = self.globals.get("ModelNew")
        if not isinstance(known, Class):
            raise Refused(None, "it defines no class ModelNew")
        args, keywords = self.constructor()
        return extract_calls.construct(self, known, args, keywords, known.node)

    def constructor(self):
        """The arguments of ModelNew: from the task, or else from the answer's own get_init_inputs."""
        given = self.request.get("init")
        if given is not None:
            values = [self.known(v) for v in given["args"]]
            return values, {k: self.known(v) for k, v in given["keywords"].items()}
        own = self.globals.get("get_init_inputs")
        if isinstance(own, Function):
            value = self.call_function(own, [], {}, own.node)
            if isinstance(value, Seq):
                return value.items, {}
        init = self.globals["ModelNew"].method("__init__")
        count = len(init.args.args) - 1 - len(init.args.defaults) if init else 0
        return [Unknown("a constructor's argument is not known: pass --task")] * count, {}

    @staticmethod
    def known(entry):
        if "value" not in entry:
            return Unknown("a constructor's argument that is not a number")
        value, sizes = entry["value"], entry.get("sizes", ())
        if isinstance(value, list):
            return Seq([Const(v, sizes) for v in value])
        return Const(value, sizes)

    def prepare(self, model, forward):
        """Assigns the task's arguments to forward's parameters and to the module's parameters."""
        paths = list(model.state())
        names = [a.arg for a in forward.args.posonlyargs + forward.args.args][1:]
        if self.task_arguments is None:
            self.task_arguments = [{"name": n, "kind": "input", "type": "tensor"} for n in
                                   names[:len(names) - len(forward.args.defaults)]]
            self.task_arguments += [{"name": p.replace(".", "_"), "kind": "state", "type": "tensor",
                                     "path": p} for p in paths]
        inputs = [a for a in self.task_arguments if a["kind"] == "input"]
        states = [a for a in self.task_arguments if a["kind"] == "state"]
        if len(inputs) > len(names) and not forward.args.vararg:
            raise Refused(forward, "forward takes %d inputs, but the task has %d" %
                          (len(names), len(inputs)))
        self.by_path = {a.get("path"): a["name"] for a in states}
        self.ordered = {}
        if len(paths) == len(states):
            self.ordered = {p: a["name"] for p, a in zip(paths, states)}
        tensors = [a["name"] for a in self.task_arguments if a["type"] == "tensor"]
        self.first_tensor = tensors[0] if tensors else ""
        return [Cpp(a["name"], a["type"]) if a["type"] != "none" else Const(None) for a in inputs]

    def parameter(self, state):
        path = state.path
        if path in self.by_path:
            return Cpp(self.by_path[path], "tensor")
        if path in self.ordered:
            note = "the answer's %s is used as the task's %s, based on its position" % (
                path, self.ordered[path])
            if note not in self.notes:
                self.notes.append(note)
            return Cpp(self.ordered[path], "tensor")
        known = ", ".join(sorted(p for p in self.by_path if p)[:8]) or "none"
        raise Refused(None, "the task has no parameter or buffer for the answer's %s (it has: %s)" %
                      (path or "own tensor", known))

    def result(self, value, node):
        value = self.as_tensor(value)
        if isinstance(value, Seq):
            return "std::make_tuple(%s)" % ", ".join(
                extract_cpp.to_cpp(self, v, node, "what forward returns") for v in value.items)
        if isinstance(value, Const):
            raise Refused(node, "forward returns %s" % repr(value.value)[:60])
        return extract_cpp.to_cpp(self, value, node, "what forward returns")

    def extract(self):
        model = self.model()
        forward = model.cls.method("forward")
        if forward is None:
            raise Refused(model.cls.node, "ModelNew has no forward")
        inputs = self.prepare(model, forward)
        self.emitted, self.sizes = [], set()
        value = self.call_function(Function(forward, model), inputs, {}, forward)
        result = self.result(value, forward)
        if not self.used:
            raise Refused(forward, "forward calls no function from load_inline")
        extensions = list({id(f.extension): f.extension for f in self.used}.values())
        flags = [f for e in extensions for f in e.flags]  # in order: a flag and its value may be two words
        text = extract_text.file_of(self.request.get("file", "an answer"),
                                    [(a["name"], a["type"]) for a in self.task_arguments],
                                    self.emitted, result, extensions, self.comments(flags))
        return {"source": text, "notes": self.notes, "flags": flags,
                "calls": sorted({f.name for f in self.used})}

    def comments(self, flags):
        comments = list(self.notes)
        if self.skipped:
            comments.append("Its checks are omitted: lines %s." %
                            ", ".join(map(str, sorted(set(self.skipped))[:20])))
        if flags:
            comments.append("Flags for nvcc: %s" % " ".join(flags))
        known = self.request.get("sizes", {})
        supports = ["%s=%s" % (k, known[k]) for k in sorted(self.sizes) if k in known]
        if supports:
            comments.append("The kernels use these sizes as constants, as passed to the constructor.")
            comments.append("cupel:supports " + " ".join(supports))
        return [re.sub(r"[^\x20-\x7e]|\\$", " ", c)[:300] for c in comments]


def answer(request):
    try:
        return Answer(request).extract()
    except Refused as refused:
        return {"refusal": str(refused)}
    except extract_follow.Raised as raised:
        return {"refusal": str(Refused(raised.node, "it always raises an error"))}
    except SyntaxError as error:
        return {"refusal": "line %s: not valid Python: %s" % (error.lineno or 0, error.msg)}
    except (RecursionError, MemoryError, ValueError) as error:
        return {"refusal": "its Python code cannot be read: %s" %
                (str(error)[:200] or type(error).__name__)}


def main():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    import warnings
    warnings.simplefilter("ignore")  # invalid escapes in CUDA sources
    request = json.load(sys.stdin)
    json.dump(answer(request), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
