# Writes a forward_fn of plain functions for modules that consist of simple layers: F.conv2d(x,
# conv_weight, conv_bias, stride=2) instead of self.conv(x). For other modules, forward_fn calls the
# module (import_folder.py). SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import builtins
import time
from collections.abc import Iterable
from typing import Any

import torch

import import_layers
import import_sizes
import import_text
from import_calls import ImportCalls


class NotSimple(Exception):
    """The module uses something that import_layers.py does not support."""


class Rewriter(ast.NodeTransformer):
    def __init__(self, model: torch.nn.Module, inputs: dict[str, str], names: dict[str, str]) -> None:
        self.model, self.inputs, self.names = model, inputs, names
        self.constants = {}  # path -> value; they must not change with the sizes

    def path_of(self, node: ast.AST) -> str | None:
        """"conv.weight" of self.conv.weight, else None."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        is_self = isinstance(node, ast.Name) and node.id == "self"
        return ".".join(reversed(parts)) if is_self and parts else None

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        path = self.path_of(node)
        if path is None:
            return self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            raise NotSimple()
        if path in self.names:
            return name(self.names[path])
        # for example self.weight.size
        owner, _, last = path.rpartition(".")
        if owner in self.names:
            return ast.Attribute(name(self.names[owner]), last, ast.Load())
        return self.constant(path)

    def constant(self, path: str) -> ast.expr:
        value = self.value_at(path)
        self.constants[path] = value
        return ast.parse(repr(value), mode="eval").body

    def value_at(self, path: str) -> Any:
        value = at(self.model, path)
        parts = value if isinstance(value, tuple) else (value,)
        if any(not (p is None or isinstance(p, (bool, int, float, str))) for p in parts):
            raise NotSimple()
        return value

    def visit_Call(self, node: ast.Call) -> ast.AST:
        path = self.path_of(node.func)
        if path is None or path in self.names or path.rpartition(".")[0] in self.names:
            return self.generic_visit(node)
        layer = at(self.model, path)
        if not isinstance(layer, torch.nn.Module) or node.keywords or len(node.args) != 1:
            raise NotSimple()
        return self.layer(layer, path, self.visit(node.args[0]))

    def layer(self, layer: torch.nn.Module, path: str, argument: ast.expr) -> ast.expr:
        if type(layer) is torch.nn.Sequential:
            for key, part in layer.named_children():
                argument = self.layer(part, path + "." + key, argument)
            return argument
        if layer._forward_hooks or layer._forward_pre_hooks:
            raise NotSimple()
        described = import_layers.describe(layer)
        if described is None:
            raise NotSimple()
        function, tensors, constants = described
        if function is None:  # the layer returns its input
            return argument
        call = ast.Call(ast.parse(function, mode="eval").body, [argument], [])
        for key, tensor in tensors:
            if isinstance(tensor, int):  # a number instead of a tensor
                self.constants["%s:%s" % (path, key)] = tensor
            value = ast.Constant(tensor) if not isinstance(tensor, str) else name(
                self.names[path + "." + tensor])
            if key == "shape":
                value = ast.Attribute(value, "shape", ast.Load())
            call.args.append(value)
        for key, value in constants.items():
            self.constants["%s:%s" % (path, key)] = value
            call.keywords.append(ast.keyword(key, ast.parse(repr(value), mode="eval").body))
        return call

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id == "self":
            raise NotSimple()
        if node.id in self.inputs:
            return ast.Name(self.inputs[node.id], node.ctx)
        if isinstance(node.ctx, ast.Store) and node.id in self.names.values():
            raise NotSimple()
        return node


def name(text: str) -> ast.Name:
    return ast.Name(text, ast.Load())


def at(owner: Any, path: str) -> Any:
    for part in path.split("."):
        if not hasattr(owner, part):
            raise NotSimple()
        owner = getattr(owner, part)
    return owner


def forward_of(importing: ImportCalls) -> ast.FunctionDef:
    """The syntax tree of forward. Raises NotSimple if the class is not in the file."""
    cls = importing.problem.makes
    found = [n for n in importing.source.tree.body
             if isinstance(n, ast.ClassDef) and n.name == getattr(cls, "__name__", "")]
    if len(found) != 1 or found[0].keywords or found[0].decorator_list:
        raise NotSimple()
    methods = [n for n in found[0].body if isinstance(n, ast.FunctionDef) and n.name == "forward"]
    if len(methods) != 1 or methods[0].decorator_list:
        raise NotSimple()
    args = methods[0].args
    if args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs:
        raise NotSimple()
    return ast.parse(ast.unparse(methods[0])).body[0]


def bindings(importing: ImportCalls, method: ast.Module, known: Iterable[str]) -> list[str]:
    """Lines that bind the module-level names that the body reads."""
    given = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional"}
    stored = {n.id for n in ast.walk(method) if isinstance(n, ast.Name)
              and isinstance(n.ctx, ast.Store)}
    stored |= {n.arg for n in ast.walk(method) if isinstance(n, ast.arg)} | set(known)
    lines, module = [], importing.problem.module
    for read in sorted({n.id for n in ast.walk(method) if isinstance(n, ast.Name)} - stored):
        value = getattr(module, read, None)
        if read in given:
            if value is not None and getattr(value, "__name__", "") != given[read]:
                raise NotSimple()
        elif value is not None and read not in vars(builtins):
            lines.append("%s = problem.%s" % (read, read))
        elif not hasattr(builtins, read):
            raise NotSimple()
    return lines


def rewrite(importing: ImportCalls) -> list[str] | None:
    """The lines that define forward_fn, or None."""
    facts = importing.facts
    names = import_text.argument_names(facts.inputs, facts.state)
    inputs, state = names[:len(facts.inputs)], names[len(facts.inputs):]
    try:
        method = forward_of(importing)
        given = [a.arg for a in method.args.args][1:]
        if len(given) < len(inputs) or importing.model._forward_hooks:
            raise NotSimple()
        rewriter = Rewriter(importing.model, dict(zip(given, inputs)), dict(zip(facts.state, state)))
        body = method.body[1:] if ast.get_docstring(method) is not None else method.body
        defaults = dict(zip(reversed(given), reversed(method.args.defaults)))
        body = [ast.Assign([ast.Name(g, ast.Store())], defaults[g], lineno=0)
                for g in given[len(inputs):]] + [rewriter.visit(n) for n in body]
        method.body = [ast.fix_missing_locations(n) for n in body]
        lines = bindings(importing, ast.Module(method.body, []), names)
        if not keeps_constants(importing, rewriter):
            return None
    except (NotSimple, KeyError):
        return None
    head = import_text.wrapped("def forward_fn(", names, "):")
    text = "\n".join(ast.unparse(n) for n in method.body)
    return (lines + ["", ""] if lines else []) + head + ["    " + t for t in text.split("\n")]


def keeps_constants(importing: ImportCalls, rewriter: Rewriter) -> bool:
    """True if the numbers in the text are the same at other sizes."""
    generated, sizes, before = importing.generated(), importing.sizes(), rewriter.constants
    base = rewriter.model
    for key in importing.facts.keys:
        for change in import_sizes.CHANGES:
            changed = dict(sizes, **{key: import_sizes.resized(sizes[key], change)})
            if changed == sizes or time.monotonic() > importing.deadline:
                continue
            try:
                importing.call(generated, changed, False)
            except Exception:  # the size is not allowed
                continue
            if constants_of(importing.model, before) != before:
                return False
            break
    importing.model = base
    return True


def constants_of(model: torch.nn.Module, paths: Iterable[str]) -> dict[str, Any]:
    found = {}
    for path in paths:
        layer, _, key = path.partition(":")
        if not key:
            found[path] = at(model, layer)
            continue
        described = import_layers.describe(at(model, layer))
        found[path] = dict(described[1], **described[2]).get(key) if described else None
    return found
