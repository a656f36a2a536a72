# Records calls of a module's forward: with one request, until enough calls have made the same plan.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from time import monotonic  # a program may replace it in its module
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from recording import Node, tensors_in
from refusal import Refusal
from states import Bound
from storages import HOST, Storage, is_whole

if TYPE_CHECKING:
    from program import Program

ENOUGH, PATIENCE = 8, 5  # calls, and how many times the time is spent to make as many


class Calls:
    def __init__(self, program: Program, bound: Bound, request: dict[str, Any]) -> None:
        self.program, self.bound, self.request = program, bound, request
        self.recording = program.recording
        self.chance = random.Random(request["seed"])
        self.earlier: list[list[Any]] = []  # arguments of earlier calls
        self.tensors = 0  # of the arguments so far
        self.converted: set[int] = set()  # arguments that filled a parameter of another type

    def record(self) -> dict[str, Any]:
        """{"plan", "first" if the first call differs, "recordings", "host_us"}. Raises Refusal."""
        fewest, started, times = 3, monotonic(), []
        first = plan = None
        count, seconds = max(self.request["recordings"], fewest), self.request["seconds"]
        while len(times) < count:
            begun = monotonic()
            again = self.once()
            times.append(monotonic() - begun)
            if first is None:
                first = again
            elif plan is None:
                plan = again
            elif without_lifetimes(again) != without_lifetimes(plan):
                raise Refusal("impure", "call %d requests different work than earlier calls with the same arguments: %s" %
                              (len(times), difference(plan, again)))
            # A loaded machine is no reason to compare few calls: some differ only now and then.
            patience = seconds if len(times) >= ENOUGH else PATIENCE * seconds
            if len(times) >= fewest and monotonic() - started > patience:
                break
        times.sort()
        answer = {"plan": plan, "recordings": len(times), "host_us": times[len(times) // 2] * 1e6}
        return dict(answer, first=first) if without_lifetimes(first) != without_lifetimes(plan) else answer

    # ---- one call ----

    def once(self) -> dict[str, Any]:
        recording, request = self.recording, self.request
        recording.call += 1
        recording.order.wait_for_all()
        begin = len(recording.nodes)
        given = request["arguments"]
        values = self.arguments()
        inputs = [v for v, argument in zip(values, given, strict=True) if argument["kind"] == "input"]
        own = {recording.storage_of(t).index for t in tensors_in(inputs)}
        try:
            with self.program.recorded():
                result = self.bound.model(*inputs)
            recording.check_copied()
        finally:
            self.program.check()
        outputs, is_tuple = self.outputs(result)
        nodes = recording.nodes[begin:]
        results = [recording.storage_of(o) for o in outputs if o is not None]
        self.refuse_old_inputs(nodes, results, own)
        recording.order.check_results(results)
        return self.plan(nodes, outputs, is_tuple)

    def arguments(self) -> list[Any]:
        """New tensors, or in some calls those of an earlier call: a program may remember addresses."""
        if self.earlier and self.chance.randrange(3) == 0:
            return self.chance.choice(self.earlier)
        given = self.request["arguments"]
        self.tensors = 0
        values = [self.value(v, i if given[i]["kind"] == "state" else None, given[i]["kind"] == "input")
                  for i, v in enumerate(self.request["args"])]
        self.earlier.append(values)
        return values

    def value(self, given: Any, state: int | None, is_input: bool) -> Any:
        """An argument. The tensors are numbered in the order in which the engine gets them."""
        if given["kind"] == "tensor":
            number = self.tensors
            self.tensors += 1
            if state is None:
                return self.program.tensor(given, number, is_input)
            return self.state(given, number, state)
        if given["kind"] == "tuple":
            return tuple(self.value(item, None, is_input) for item in given["items"])
        return None if given["kind"] == "none" else given["value"]

    def state(self, given: Any, number: int, argument: int) -> None:
        """Makes the module's storage with the task's values that argument of the task."""
        storage = self.bound.states.get(argument)
        if storage is None:
            return
        tensor = self.bound.named.get(argument)
        is_same = tensor is None or (str(tensor.dtype) == "torch." + given["dtype"] and is_whole(tensor, storage))
        if is_same and is_in_order(given) and given["bytes"] == storage.bytes:
            storage.argument = number
            return
        if argument in self.converted:
            return
        if tensor is None or list(tensor.shape) != given["shape"]:
            raise Refusal("wrong_arguments", "ModelNew's %s has another size or layout than the task's %s %s" % (
                storage.label, given["dtype"], given["shape"]))
        self.converted.add(argument)
        self.convert(self.program.tensor(given, number, False), tensor)

    def convert(self, source: Any, tensor: Any) -> None:
        """Fills a parameter of another type from the task's, as load_state_dict does, before all calls."""
        recording = self.recording
        storage, given = recording.storage_of(tensor), recording.storage_of(source)
        node = Node("copy", {"to": recording.view(tensor), "from": recording.view(source)}, [given], [storage])
        node.overwrites = [storage]
        recording.append(node)
        node.call = 0

    def outputs(self, result: Any) -> tuple[list[Any], bool]:
        is_tuple = isinstance(result, (tuple, list))
        outputs = list(result) if is_tuple else [result]
        for i, output in enumerate(outputs):
            if output is None:
                continue
            if type(output) not in (FakeTensor, torch.nn.Parameter):  # no subclass
                raise Refusal("wrong_return", "forward returned %s instead of a tensor (output %d)" %
                              (type(output).__name__, i))
            if self.recording.storage_of(output).device == HOST:
                raise Refusal("wrong_return", "forward returned a tensor on the CPU (output %d)" % i)
        return outputs, is_tuple

    def refuse_old_inputs(self, nodes: list[Node], results: list[Storage], own: set[int]) -> None:
        """`own`: the storages of the call's own inputs. In a plan, those of an earlier call would be the same arguments."""
        used = [(s, node.fields.get("line")) for node in nodes for s in node.reads + node.writes]
        for storage, line in used + [(s, None) for s in results]:
            if storage.is_input and storage.index not in own:
                raise Refusal("impure", "a call uses an input of an earlier call instead of its own", line=line)

    # ---- the plan of a call ----

    def plan(self, nodes: list[Node], outputs: list[Any], is_tuple: bool) -> dict[str, Any]:
        """Storages and nodes with numbers of this plan alone, so that the plans of equal calls are equal."""
        storages: dict[int, int] = {}
        listed: list[Any] = []  # storages, or their JSON
        views = [None if o is None else self.recording.view(o) for o in outputs]
        results = [self.recording.storage_of(o) for o in outputs if o is not None]
        nodes = self.without_unused_draws(nodes, results)
        needed = self.prepared(nodes, results) + nodes

        def number(index: int) -> int:
            if index not in storages:
                storages[index] = len(listed)
                listed.append(self.recording.storages.all[index])
            return storages[index]

        before = len(needed) - len(nodes)
        copies = self.copies(nodes, number, listed)
        steps = [renumbered(dict(node.fields, kind=node.kind), number) for node in needed]
        # What was prepared may read them, too.
        steps = (copies + steps[:before] if before else []) + copies + steps[before:]
        before += len(copies) if before else 0
        returned = [None if v is None else renumbered(v, number) for v in views]
        return {"storages": [s if isinstance(s, dict) else {"bytes": s.bytes, "argument": s.argument,
                                                             "kept": self.is_kept(s)} for s in listed],
                "steps": steps, "prepared": before, "outputs": returned, "tuple": is_tuple}

    def copies(self, nodes: list[Node], number: Any, listed: list[Any]) -> list[dict[str, Any]]:
        """Copies of the module's own buffers that PyTorch's operators change, such as counters and running means:
        every call begins with the task's values and leaves them as they are."""
        for node in nodes:
            for storage in node.writes if node.kind != "call" else []:
                if storage.is_parameter and storage.argument is not None:
                    raise Refusal("unsupported_api", "a call changes the parameter %s of its module" % storage.label,
                                  unsupported=True, line=node.fields.get("line"))
        steps = []
        changed = {s.index: s for node in nodes if node.kind != "call" for s in node.writes
                   if s.argument is not None and not s.is_input}
        for storage in changed.values():
            own = number(storage.index)
            listed[own] = {"bytes": storage.bytes, "argument": None, "kept": False}
            source = len(listed)
            listed.append({"bytes": storage.bytes, "argument": storage.argument, "kept": False})
            bytes_of = {"dtype": "uint8", "shape": [storage.bytes], "strides": [1]}
            steps.append({"kind": "copy", "to": dict(bytes_of, at=[own, 0]), "from": dict(bytes_of, at=[source, 0])})
        return steps

    def without_unused_draws(self, nodes: list[Node], results: list[Storage]) -> list[Node]:
        """Leaves out random numbers that no result depends on, such as the first values of a layer that a call makes
        and then fills from the task's parameters, and what was computed from them alone."""
        if not any(node.draws for node in nodes):
            return nodes
        needed, live = {s.index for s in results}, []
        for node in reversed(nodes):
            lasts = any(self.is_kept(s) or s.argument is not None for s in node.writes)
            if node.kind in ("call", "launch") or lasts or needed.intersection(s.index for s in node.writes):
                live.append(node)
                needed.difference_update(s.index for s in node.overwrites)
                needed.update(s.index for s in node.reads)
        unused = set(map(id, nodes)).difference(map(id, live))
        drawn: set[int] = set()
        left = []
        for node in nodes:
            if id(node) in unused and (node.draws or drawn.intersection(s.index for s in node.reads)):
                drawn.update(s.index for s in node.writes)
                if node.draws:
                    self.recording.note("random numbers that no result depends on are not drawn (line %s)" %
                                        node.fields.get("line"))
            else:
                left.append(node)
        return left

    def prepared(self, nodes: list[Node], results: list[Storage]) -> list[Node]:
        """The earlier nodes that made what this call finds in memory, if they do not depend on inputs."""
        missing = {s.index for s in results + [s for n in nodes for s in n.reads] if self.is_kept(s)}
        chosen: list[Node] = []
        for node in reversed(self.recording.nodes):
            if not missing:
                break
            if node.call == self.recording.call or node.depends:
                continue
            if not missing.intersection(s.index for s in node.writes):
                continue
            chosen.append(node)
            missing.difference_update(s.index for s in node.overwrites)
            missing.update(s.index for s in node.reads if self.is_kept(s))
        for node in chosen + nodes:
            if node.draws:
                self.refuse_random(node)
        return chosen[::-1]

    def is_kept(self, storage: Storage) -> bool:
        return storage.argument is None and storage.call != self.recording.call

    def refuse_random(self, node: Node) -> None:
        label = next((s.label for s in node.writes + node.reads if s.label), "")
        what = "ModelNew's %s is made of random numbers and is no parameter of the task" % label if label else (
            "the result depends on random numbers (%s)" % node.fields.get("name", node.kind))
        raise Refusal("unsupported_operator", what, unsupported=True, line=node.fields.get("line"))


def without_lifetimes(plan: dict[str, Any]) -> dict[str, Any]:
    """The same work in memory that an earlier call made, or in new memory, is the same work."""
    return dict(plan, storages=[dict(storage, kept=False) for storage in plan["storages"]])


def difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Where two plans differ first, for messages."""
    def steps_of(plan: dict[str, Any]) -> list[str]:
        return [step.get("name") or step["kind"] for step in plan["steps"]]
    old, new = steps_of(before), steps_of(after)
    for i in range(max(len(old), len(new))):
        was = old[i] if i < len(old) else "nothing"
        now = new[i] if i < len(new) else "nothing"
        if was != now:
            return "step %d, %s, became %s" % (i + 1, was, now)
    for i, (was, now) in enumerate(zip(before["steps"], after["steps"], strict=True)):
        if was != now:
            return "details of step %d (%s)" % (i + 1, old[i])
    return "the memory that it uses"


def is_in_order(given: dict[str, Any]) -> bool:
    """Whether a tensor's elements are in row-major order."""
    expected = 1
    for size, stride in zip(reversed(given["shape"]), reversed(given["strides"]), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def renumbered(value: Any, number: Any) -> Any:
    """A copy of a node's or a view's JSON in which storages have the plan's numbers."""
    if isinstance(value, dict):
        done = {}
        for key, item in value.items():
            if key == "at":
                done[key] = [number(item[0]), item[1]]
            elif key == "storages":
                done[key] = [number(i) for i in item]
            elif key == "made":
                done[key] = [[buffer, number(i)] for buffer, i in item]
            elif key != "line":
                done[key] = renumbered(item, number)
        return done
    if isinstance(value, list):
        return [renumbered(item, number) for item in value]
    return value
