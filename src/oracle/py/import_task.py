#!/usr/bin/env python3
# Imports problems: finds how to call a Python file with an nn.Module, and writes a task folder
# (import_folder.py). A child process with the user's PyTorch, since it runs the file's code. It runs
# mostly on tensors without data, so that large problems are fast. Protocol: one JSON object per line,
# as in oracle.py; requests import, signature (signature.py). SPDX-License-Identifier: Apache-2.0
import contextlib
import hashlib
import inspect
import math
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # missing with PYTHONSAFEPATH
import import_sizes  # noqa: E402
import memory_limit  # noqa: E402
import oracle  # noqa: E402


LARGEST_GPU = 300e9  # bytes


class Call:
    """One call: its arguments, its outputs and its cost."""

    def __init__(self, arguments, outputs, is_tuple, cost, seconds):
        self.arguments, self.outputs, self.is_tuple = arguments, outputs, is_tuple
        self.cost, self.seconds = cost, seconds

    def shapes(self):
        return [tuple(a.shape) for a in self.arguments if isinstance(a, oracle.torch.Tensor)]

    def argument_elements(self):
        return sum(math.prod(s) for s in self.shapes())


class Import:
    def __init__(self, request, report, devices):
        import import_folder
        import import_text
        self.folder, self.request, self.report, self.devices = import_folder, request, report, devices
        self.deadline = time.monotonic() + request.get("seconds", 60)
        with open(request["path"], encoding="utf-8", errors="strict") as file:
            text = file.read()
        import import_problem
        self.problem = import_problem.Problem(request)
        self.source = import_text.Source(text, self.problem.inputs_name, self.problem.init_name)
        self.facts = facts = import_folder.Facts()
        facts.name = request["name"]
        facts.file = "".join(c for c in os.path.basename(request["path"]) if c.isprintable())
        facts.inputs_are_made = callable(self.problem.inputs)
        facts.maker, facts.init = self.problem.inputs_name, self.problem.init_name
        facts.has_init = self.problem.init is not None
        facts.evaluate = bool(request.get("evaluate"))
        facts.construct = self.problem.construct_expression()
        facts.title = self.title()
        facts.notes = []
        facts.keys = list(self.source.sizes())
        self.digest = hashlib.sha256(text.encode()).hexdigest()
        self.is_fake = True  # the constructor and get_inputs work on tensors without data
        self.fake_forward = True  # forward does, too

    def title(self):
        doc = inspect.getdoc(self.problem.makes) if inspect.isclass(self.problem.makes) else None
        line = " ".join((doc or "").strip().split("\n\n")[0].split()).split(". ")[0]
        own = self.problem.makes.__dict__.get("__doc__") if doc else None
        line = "".join(c for c in line if c.isprintable())
        return line.rstrip(".")[:200] if own and line else ""

    def generated(self):
        """func_forward.py as a module that uses the already loaded problem."""
        text = self.folder.func_forward(self.source, self.facts)
        module = type(sys)("cupel_import")
        module.__file__ = os.path.join(os.path.dirname(self.request["path"]), "func_forward.py")
        text = text.replace("\nproblem = load_problem()\n", "\n")
        module.problem = self.problem.module
        exec(compile(text, module.__file__, "exec"), module.__dict__)
        return module

    def split(self, sizes):
        keys = self.source.keywords_of
        return ({k: v for k, v in sizes.items() if k in keys(self.facts.maker, self.facts.keys)},
                {k: v for k, v in sizes.items() if k in keys(self.facts.init, self.facts.keys)})

    def make(self, generated, sizes):
        """(module, inputs), made in the same order as for cases."""
        for_inputs, for_init = self.split(sizes)
        made = generated.get_inputs
        inputs = made(**for_inputs) if callable(made) else made
        if isinstance(inputs, dict):
            raise oracle.TaskError("%s returns a dict; it must return a list of positional arguments"
                                   % self.facts.maker)
        inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        return generated.Model(**for_init).problem, inputs

    def call(self, generated, sizes, forward=True, is_fake=None):
        """Calls the module itself, on tensors without data if that works."""
        torch, started = oracle.torch, time.monotonic()
        import import_watch
        is_fake = self.is_fake if is_fake is None else is_fake
        fake = import_watch.fake_tensors() if is_fake else None
        forward = forward and (self.fake_forward or not is_fake)
        with fake or contextlib.nullcontext(), torch.no_grad():
            model, inputs = self.make(generated, sizes)
            state = [v for v in model.state_dict().values() if isinstance(v, torch.Tensor)]
            outputs, is_tuple, cost = [], False, import_watch.Cost()
            if forward:
                before = None if is_fake else oracle.randomness()
                with import_watch.watching(
                        import_watch.MAX_OPERATIONS if is_fake else math.inf) as cost:
                    result = model(*oracle.tree_map(oracle.cloned, tuple(inputs)))
                self.refuse_random(cost, before)
                outputs, is_tuple = oracle.output_list(result)
        self.model, self.inputs = model, inputs
        return Call(list(inputs) + state, outputs, is_tuple, cost, time.monotonic() - started)

    def refuse_random(self, cost, before):
        if not cost.random and (before is None or oracle.randomness() == before):
            return
        what = " (%s)" % cost.random[0] if cost.random else ""
        dropout = any("dropout" in n or "bernoulli" in n for n in cost.random)
        raise oracle.TaskError(
            "forward draws random numbers%s, so it has no single correct result%s" %
            (what, "; use --eval to import it without its dropout" if dropout else
             "; pass them as an input"))

    def first_call(self):
        """Calls without data if possible: first everything, then everything except forward."""
        generated, sizes = self.generated(), self.sizes()
        for self.is_fake, self.fake_forward in ((True, True), (True, False)):
            try:
                return self.call(generated, sizes)
            except oracle.TaskError:
                raise
            except Exception:  # the code reads data, or PyTorch cannot infer shapes of an operation
                pass
        self.is_fake, self.fake_forward = False, True
        return self.call(generated, sizes)

    def sizes(self):
        return {k: self.source.numbers[k] for k in self.facts.keys}

    def run(self):
        self.report("running it on tensors without data")
        base = self.first_call()
        self.describe(base)
        import_sizes.keep_visible_sizes(self, base)
        base_sizes = self.sizes()
        if self.too_large(base):
            self.report("looking for smaller sizes")
            self.facts.reduced = import_sizes.reduce(self, base)
        if not self.fake_forward:
            self.run_forward(base)
        if time.monotonic() > self.deadline:
            self.facts.notes.append("Not all sizes were examined within %d s (raise --seconds)." %
                                    self.request.get("seconds", 60))
        import import_functional
        self.call(self.generated(), base_sizes, False)  # the module at its own sizes
        self.facts.functional = import_functional.rewrite(self)
        compared = self.compare_best(self.facts.reduced or base_sizes, base)
        source, facts = self.source, self.facts
        if self.devices.used:
            facts.notes.append("The file names CUDA devices. As for every task, inputs and weights are made "
                               "on the CPU and copied to the device that judges.")
        elements = max(base.cost.elements, base.argument_elements())
        if elements * 4 > LARGEST_GPU:
            facts.notes.append("A call at these sizes needs about %.3g TB, more than any GPU has: reduce the "
                               "sizes in config_forward.json." % (elements * 4 / 1e12))
        return {"files": {"func_forward.py": self.folder.func_forward(source, facts),
                          "config_forward.json": self.folder.config(source, facts),
                          "task.json": self.folder.task_json(facts, self.digest)},
                "title": facts.title or facts.name, "sizes": base_sizes, "reduced": facts.reduced,
                "arguments": list(facts.described), "functional": facts.functional is not None,
                "compared": compared, "notes": facts.notes,
                "elements": elements, "flops": base.cost.flops, "warnings": [],
                "torch": oracle.torch.__version__}

    def describe(self, base):
        import import_text
        facts, torch = self.facts, oracle.torch
        parameters = [p for p in inspect.signature(self.model.forward).parameters.values()
                      if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        facts.inputs = [parameters[i].name if i < len(parameters) else "input_%d" % i
                        for i in range(len(self.inputs))]
        facts.state = [k for k, v in self.model.state_dict().items() if isinstance(v, torch.Tensor)]
        facts.described = [self.shape_text(a) for a in base.arguments]
        for path in facts.state:
            if not all(piece for piece in path.split(".")):
                raise oracle.TaskError("a parameter has the invalid name %r" % path)
        import_text.argument_names(facts.inputs, facts.state)

    @staticmethod
    def shape_text(value):
        if isinstance(value, oracle.torch.Tensor):
            return "%s %s" % (oracle.dtype_name(value.dtype), list(value.shape))
        if isinstance(value, (list, tuple)):
            return "(%s)" % ", ".join(Import.shape_text(v) for v in value)
        if value is None or isinstance(value, (bool, int, float, str)):
            return repr(value)[:60]
        raise oracle.TaskError("an input is a %s; a kernel can only get tensors, None, numbers, strings "
                               "and tuples" % type(value).__name__)


    def run_forward(self, base):
        """Runs forward with data, if it does not work without."""
        if not self.facts.reduced and self.too_large(base):
            self.facts.notes.append("forward is too large to run here and was not examined.")
            return
        self.report("running it with data")
        try:
            self.call(self.generated(), self.facts.reduced or self.sizes(), True, False)
        except oracle.TaskError:
            raise
        except Exception:
            if not self.facts.reduced:
                raise
            self.facts.reduced = {}  # these sizes do not work together
            self.run_forward(base)

    def is_for_init(self, key):
        return key in self.source.closure(self.source.reads.get(self.facts.init, ()))


    def too_large(self, call):
        return import_sizes.excess_of(self, call) > 1


    def compare_best(self, sizes, base):
        """Keeps the forward_fn of plain functions only if it gives the file's results."""
        if self.facts.functional is not None:
            notes = list(self.facts.notes)
            try:
                compared = self.compare(sizes, base)
            except Exception:
                compared = ""
            if compared:
                return compared
            self.facts.functional, self.facts.notes = None, notes
        return self.compare(sizes, base)

    def compare(self, sizes, base):
        """Compares the folder with the file bit for bit. Returns the sizes of the comparison, or ""."""
        import import_compare
        if not self.facts.reduced and self.too_large(base):
            self.facts.notes.append("The task is too large to compare it with the file here.")
            return ""
        self.report("comparing both")
        import_compare.compare(self, self.generated(), sizes)
        return "reduced sizes" if self.facts.reduced else "its own sizes"


class ImportServer(oracle.Server):
    def answer(self, request, report):
        if request.get("memory"):
            memory_limit.limit_memory(more=request["memory"])
        try:
            with oracle.cuda_on_cpu.OnCpu() as devices:
                if request["op"] == "import":
                    return Import(request, report, devices).run()
                if request["op"] == "signature":
                    import signature
                    return signature.signature(request)
        except (MemoryError, RuntimeError) as error:
            if not memory_limit.is_exceeded(error):
                raise
            return {"failure": "too large for the memory limit (raise --memory)"}
        return {"failure": "unknown request %r" % request["op"]}


if __name__ == "__main__":
    sys.modules["import_task"] = sys.modules["__main__"]
    sys.exit(oracle.serve(ImportServer))
