# Measures the quality of a task on one setting: how its outputs vary, and which tensors and operations
# they depend on. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import time

import torch

import filter_ablation
import filter_reference
import filter_variation
import float8
from draw_base import Draw
from filter_reference import SplitTask
from oracle_types import Json, Report
from task_error import TaskError
from tensor_values import Outputs, is_float

CONSTANT_SPREAD = 0.25  # parameters that start as ones or zeros are changed by at most this
TINY, HUGE = 2.0 ** -10, 2.0 ** 8
MAX_LEAVES = 1000  # tensors of a setting that are changed one by one
Samples = list[filter_reference.Sample]


class OutOfTime(Exception):
    """str() is the next step, which was not started."""


class TooSlow(Exception):
    """There is not enough time for the checks themselves. str() says why."""


class Clock:
    def __init__(self, seconds: float, report: Report) -> None:
        self.started, self.seconds, self.report = time.monotonic(), seconds, report

    def step(self, text: str) -> None:
        """Call it before each piece of work."""
        if time.monotonic() - self.started > self.seconds:
            raise OutOfTime(text)
        self.report(text)


class Measurement:
    def __init__(self, task: SplitTask, request: Json, report: Report) -> None:
        self.task, self.init, self.inputs = task, request["init"], request["inputs"]
        self.seeds = request["seeds"]
        self.clock = Clock(request["seconds"], report)
        self.outputs, self.tolerances = [], None
        self.draws, self.draw_seconds, self.wanted = 0, 0.0, 3 * len(self.seeds) - 2

    def draw(self, input_seed: int, weight_seed: int, text: str) -> tuple[Draw, Outputs]:
        """(draw, its outputs). Raises TooSlow if the earlier draws show that the time is too short for all
        of them."""
        if self.draws:
            each = self.draw_seconds / self.draws
            if each * self.wanted > self.clock.seconds:
                raise TooSlow("one run of the reference takes %.3g s, %d would take %.3g s" %
                              (each, self.wanted, each * self.wanted))
        self.clock.step(text)
        started = time.monotonic()
        draw = self.task.draw_apart(input_seed, weight_seed, self.init, self.inputs)
        answer = draw.reference()
        self.draws += 1
        self.draw_seconds += time.monotonic() - started
        return draw, answer

    def run(self) -> Json:
        """Returns the reply. If the time runs out, "unfinished" names the next step."""
        try:
            self.vary_all()
            self.find_roles()
            self.vary_apart()
        except OutOfTime as error:
            raise TooSlow("the time ran out before: %s" % error) from error
        reply = {"outputs": [o.describe() for o in self.outputs], "arguments": [],
                 "operations": {"total": None, "tried": 0, "redundant": []}, "unfinished": "",
                 "has_weights": any(self.is_weight),
                 "weights_vary": self.weights_vary()}
        try:
            self.look_at_arguments(reply["arguments"])
            if not all(o.constant for o in self.outputs):
                self.look_at_operations(reply["operations"])
                self.look_at_halves(reply["arguments"])
        except OutOfTime as error:
            reply["unfinished"] = str(error)
        return reply

    # Variation.

    def vary_all(self) -> None:
        for i, seed in enumerate(self.seeds):
            draw, answer = self.draw(seed, seed, "draw %d of %d" % (i + 1, len(self.seeds)))
            # What the call changes in its arguments (running statistics) is no result here.
            returned = len(answer) - len(draw.changed)
            results = [(n, o) for n, o in list(zip(draw.names, answer))[:returned] if o is not None]
            here = filter_reference.reference_of(draw)
            plain = [o for _, o in results]
            if i == 0:
                self.base, self.given, self.first = here, self.task.given, plain
                self.outputs = [filter_variation.OutputVariation(n) for n, _ in results]
                self.clock.step("the same on inputs changed by their rounding")
                self.tolerances = filter_reference.tolerances(here, here.values, plain, seed)
                if not self.may_have_weights():
                    self.wanted = len(self.seeds)
            elif i == 1:
                self.second = here
            if len(results) != len(self.outputs):
                raise TaskError("the number of outputs varies between draws")
            for o, out, first, tolerance in zip(self.outputs, plain, self.first, self.tolerances):
                o.add(out)
                o.constant = o.constant and tolerance.same(first, out)
                alike = {n for n, v in zip(here.names, here.values) if tolerance.same(v, out)}
                o.candidates = alike if i == 0 else o.candidates & alike
        for o in self.outputs:
            o.equals = min(o.candidates) if o.candidates and not o.constant else None

    def may_have_weights(self) -> bool:
        """False if get_inputs made all input tensors. The weights are then the same in every draw."""
        return not all(w is False or v.data_ptr() in self.given
                       for v, w in zip(self.base.values, self.base.is_weight))

    def find_roles(self) -> None:
        """Finds which tensors are weights, and which are the same at every seed."""
        seeds, base = self.seeds, self.base
        if not self.may_have_weights():
            self.is_weight = [False] * len(base.values)
            self.fixed = [self.equal(a, b) for a, b in zip(base.values, self.second.values)]
            return
        inputs, self.other_inputs = self.draw(seeds[1], seeds[0], "the same weights, other inputs")
        weights, self.other_weights = self.draw(seeds[0], seeds[1], "the same inputs, other weights")
        self.is_weight, self.fixed = [], []
        moved_inputs = filter_reference.reference_of(inputs).values
        moved_weights = filter_reference.reference_of(weights).values
        for i, value in enumerate(base.values):
            by_inputs = not self.equal(value, moved_inputs[i])
            by_weights = not self.equal(value, moved_weights[i])
            known = base.is_weight[i]
            if known is None:
                known = not by_inputs and value.data_ptr() not in self.given
            self.is_weight.append(known)
            self.fixed.append(not by_inputs and not by_weights)

    @staticmethod
    def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
        return a.shape == b.shape and float8.equal(a, b)

    def vary_apart(self) -> None:
        """Measures the effect of only the inputs, then of only the weights."""
        if not self.may_have_weights():
            for o in self.outputs:
                o.inputs = o.seeds
            return
        self.add_apart("inputs", self.other_inputs)
        self.add_apart("weights", self.other_weights)
        del self.other_inputs, self.other_weights
        for seed in self.seeds[2:]:
            answer = self.draw(seed, self.seeds[0], "the same weights, other inputs")[1]
            self.add_apart("inputs", answer)
            if self.weights_vary():
                answer = self.draw(self.seeds[0], seed, "the same inputs, other weights")[1]
                self.add_apart("weights", answer)

    def weights_vary(self) -> bool:
        return any(w and not f for w, f in zip(self.is_weight, self.fixed))

    def add_apart(self, which: str, answer: Outputs) -> None:
        for o, first, output in zip(self.outputs, self.first, [a for a in answer if a is not None]):
            moments = getattr(o, which)
            if moments.count == 0:
                moments.add(o.plain(first)[0])
            moments.add(o.plain(output)[0])

    # What the output depends on.

    def values_of(self, reference: filter_reference.Reference, seed: int) -> list[torch.Tensor]:
        """The tensors of a reference. Parameters that start as ones or zeros are changed, as training
        would change them."""
        generator = torch.Generator()
        generator.manual_seed(seed)
        values = []
        for value, weight in zip(reference.values, self.is_weight):
            if weight and is_float(value) and self.is_uniform(value):
                noise = torch.rand(value.shape, generator=generator).to(float8.wide(value).dtype)
                value = float8.like(value, float8.wide(value) + CONSTANT_SPREAD * (2 * noise - 1))
            values.append(value)
        return values

    @staticmethod
    def is_uniform(value: torch.Tensor) -> bool:
        """True if all elements are the same finite number."""
        value = float8.wide(value)
        return value.numel() > 0 and bool(torch.isfinite(value).all()) and \
            bool((value == value.reshape(-1)[0]).all())

    def sample(self, which: int) -> filter_reference.Sample:
        reference = self.base if which == 0 else self.second
        return filter_reference.Sample(reference, self.values_of(reference, self.seeds[which]),
                                    self.seeds[which])

    def scaled_sample(self, scale: float, inputs_alone: bool) -> filter_reference.Sample:
        values = [v if not is_float(v) or (w and inputs_alone)
                  else float8.like(v, float8.wide(v) * scale)
                  for v, w in zip(self.values_of(self.base, self.seeds[0]), self.is_weight)]
        return filter_reference.Sample(self.base, values, self.seeds[0])

    def other_value(self, samples: Samples, which: int, i: int) -> torch.Tensor | None:
        """Another valid value of tensor i, or None."""
        mine, theirs = samples[which].values[i], samples[1 - which].values[i]
        if not self.equal(mine, theirs):
            return theirs if mine.shape == theirs.shape else None
        if not is_float(mine) or not bool(torch.isfinite(float8.wide(mine)).all()):
            return None
        spread = 2 * torch.rand(mine.shape).to(float8.wide(mine).dtype) - 1
        return float8.like(mine, float8.wide(mine) + CONSTANT_SPREAD * spread)

    def look_at_arguments(self, found: list[Json]) -> None:
        self.clock.step("changing tensors one by one")
        samples = [self.sample(0), self.sample(1)]
        self.samples = samples
        for i, name in enumerate(self.base.names[:MAX_LEAVES]):
            if not self.base.is_passed[i]:
                continue  # backward_fn does not get this tensor, so it may be unused
            self.clock.step("changing %s (tensor %d of %d)" % (name, i + 1, len(self.base.names)))
            value = self.base.values[i]
            entry = {"name": name, "shape": list(value.shape), "is_weight": self.is_weight[i],
                     "fixed": self.fixed[i], "matters": None, "written": False, "idle": []}
            others = [self.other_value(samples, w, i) for w in (0, 1)]
            if not any(o is None for o in others) and value.numel():
                entry["matters"] = not all(samples[w].is_unchanged_by({i: others[w]}) for w in (0, 1))
                entry["written"] = not self.equal(others[1], samples[1].reference.last[i]) and \
                    not entry["matters"]
            found.append(entry)

    def look_at_halves(self, found: list[Json]) -> None:
        """Finds halves that do not matter of the inputs that matter."""
        places = {name: i for i, name in enumerate(self.base.names)}
        for entry in found:
            if entry["matters"] and not entry["is_weight"]:
                i = places[entry["name"]]
                others = [self.other_value(self.samples, w, i) for w in (0, 1)]
                entry["idle"] = self.idle_halves(self.samples, i, others)

    def idle_halves(self, samples: Samples, i: int, others: list[torch.Tensor]) -> list[Json]:
        """Halves of a tensor that do not matter: [{"axis", "from", "to"}]."""
        idle = []
        for axis, size in enumerate(others[0].shape):
            if size < 2:
                continue
            for start, end in ((0, size // 2), (size // 2, size)):
                self.clock.step("changing a half along axis %d of %s" % (axis, self.base.names[i]))
                same = True
                for sample, other in zip(samples, others):
                    half, count = sample.values[i].clone(), end - start
                    half.narrow(axis, start, count).copy_(other.narrow(axis, start, count))
                    same = same and sample.is_unchanged_by({i: half})
                if same:
                    idle.append({"axis": axis, "from": start, "to": end})
        return idle

    # Which operations matter.

    def look_at_operations(self, found: Json) -> None:
        samples = [(None, lambda: self.samples[0]), (None, lambda: self.samples[1]),
                  ("tiny inputs", lambda: self.scaled_sample(TINY, False)),
                  ("zero inputs", lambda: self.scaled_sample(0.0, True)),
                  ("large inputs", lambda: self.scaled_sample(HUGE, True))]
        study = filter_ablation.Study(os.path.dirname(self.task.path),
                                      self.task.direction == "backward", samples)
        self.clock.step("tracing the reference's operations")
        operations = study.operations()
        found["total"] = len(operations)
        for i, operation in enumerate(operations):
            self.clock.step("leaving out %s (operation %d of %d)" %
                            (operation.name, i + 1, len(operations)))
            entry = study.examine(i)
            if entry is not None and len(found["redundant"]) < filter_ablation.MAX_NAMED:
                found["redundant"].append(entry)
            found["tried"] += 1
