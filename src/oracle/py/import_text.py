# The text of an imported task: finds the sizes in a Python file, and makes parts of func_forward.py from
# its text. Only reads text; runs no code of the file. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import builtins
import keyword
import re
import symtable
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Size = int | tuple[int, ...] | list[int]  # one size or several, such as a shape
Sizes = dict[str, Size]  # by the name of the constant in the file
LARGEST = 1 << 40  # limit of a problem's numbers, so that 9 ** 9 ** 9 is not computed
LINE = 100


class NotConstant(Exception):
    """The value of the expression is not a number that can be found without running it."""


def number_of(node: ast.AST) -> int | float:
    """The value of an expression that has only numbers."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -number_of(node.operand)
    if not isinstance(node, ast.BinOp):
        raise NotConstant()
    left, right = number_of(node.left), number_of(node.right)
    if max(abs(left), abs(right)) > LARGEST or (isinstance(node.op, ast.Pow) and abs(right) > 64):
        raise NotConstant()
    operations = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b,
                  ast.Mult: lambda a, b: a * b, ast.Div: lambda a, b: a / b,
                  ast.FloorDiv: lambda a, b: a // b, ast.Pow: lambda a, b: a ** b}
    try:
        return operations[type(node.op)](left, right)
    except (KeyError, ArithmeticError) as error:
        raise NotConstant() from error


def is_derived(node: ast.AST) -> bool:
    """True if an expression has only names, numbers, strings, tuples, lists and arithmetic."""
    kinds = (ast.Name, ast.Constant, ast.Tuple, ast.List, ast.BinOp, ast.UnaryOp, ast.Starred,
             ast.Subscript, ast.operator, ast.unaryop, ast.expr_context, ast.Slice)
    return all(isinstance(n, kinds) for n in ast.walk(node))


def names_read(node: ast.AST) -> set[str]:
    """Names that a statement at module level reads when it is executed. Bodies of functions and classes
    are excluded, since they are separate scopes."""
    found = set()
    stack = [node]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Load, ast.Del)):
            found.add(node.id)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            body = set(map(id, node.body))
            stack += [n for n in ast.iter_child_nodes(node) if id(n) not in body]
        else:
            stack += ast.iter_child_nodes(node)
    return found


def globals_read(scope: symtable.SymbolTable) -> set[str]:
    """Module-level names that a function or class, or a scope in it, reads."""
    found = {s.get_name() for s in scope.get_symbols() if s.is_global() and s.is_referenced()}
    for child in scope.get_children():
        found |= globals_read(child)
    return found


def globals_written(scope: symtable.SymbolTable) -> set[str]:
    found = {s.get_name() for s in scope.get_symbols() if s.is_declared_global()}
    for child in scope.get_children():
        found |= globals_written(child)
    return found


def size_of(node: ast.AST) -> int | float | tuple[int, ...] | list[int]:
    """A number, or a tuple or list of integers, such as a shape."""
    if not isinstance(node, (ast.Tuple, ast.List)) or not node.elts:
        return number_of(node)
    values = (tuple if isinstance(node, ast.Tuple) else list)(map(number_of, node.elts))
    if any(type(v) is not int for v in values):
        raise NotConstant()
    return values


def is_size(value: Any) -> bool:
    """True if the value may be a size or several sizes."""
    values = value if isinstance(value, (tuple, list)) else (value,)
    return all(type(v) is int and v > 0 for v in values)


def largest(size: Size) -> int:
    return max(size) if isinstance(size, (tuple, list)) else size


class Source:
    """A problem file as text: its constants, and the scopes that read them."""

    def __init__(self, text: str, inputs: str = "get_inputs", init: str = "get_init_inputs") -> None:
        self.text, self.lines = text, re.split("\r\n|[\r\n]", text)
        self.tree = ast.parse(text)
        self.makers = {}  # by name: the functions whose bodies are copied into func_forward.py
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in (inputs, init):
                self.makers[node.name] = None if node.name in self.makers else node
        self.makers = {k: v for k, v in self.makers.items() if v and self.is_plain(v)}
        self.reads = {}  # scope -> names
        table = symtable.symtable(text, "problem.py", "exec")
        self.rebound = globals_written(table)
        for scope in table.get_children():
            self.reads.setdefault(scope.get_name(), set()).update(globals_read(scope))
        self.find_constants()

    @staticmethod
    def is_plain(node: ast.FunctionDef) -> bool:
        a = node.args
        return not (node.decorator_list or a.args or a.posonlyargs or a.kwonlyargs or a.vararg
                    or a.kwarg)

    def find_constants(self) -> None:
        """Sets `numbers` (name -> value) and `derived` (name -> statement): names that are assigned exactly
        once, at module level. Both keep the order of the file."""
        stored = {}
        for node in self.tree.body:
            scope = isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))
            for n in [] if scope else ast.walk(node):
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
                    stored[n.id] = stored.get(n.id, 0) + 1
            for name in bound_by(node):
                stored[name] = stored.get(name, 0) + 1
        self.numbers, self.derived, self.statements = {}, {}, {}
        for node in self.tree.body:
            for name, value in assigned(node):
                if stored[name] != 1 or name in self.rebound:
                    continue
                try:
                    self.numbers[name] = size_of(value)
                except NotConstant:
                    known = names_read(value) <= set(self.numbers) | set(self.derived)
                    if is_derived(value) and known and value is node.value:
                        self.derived[name] = node
                self.statements[name] = node

    def closure(self, names: Iterable[str]) -> set[str]:
        """The names, and the names that they are derived from."""
        found, stack = set(), list(names)
        while stack:
            name = stack.pop()
            if name not in found:
                found.add(name)
                if name in self.derived:
                    stack += names_read(self.derived[name].value)
        return found

    def sizes(self) -> Sizes:
        """Integers that only the makers of inputs and of constructor arguments read. They can become
        arguments of the makers without any other effect."""
        others = set()
        for scope, names in self.reads.items():
            if scope not in self.makers:
                others |= names
        known = {id(n) for n in self.derived.values()}
        for node in self.tree.body:
            if id(node) not in known:
                others |= names_read(node)
        taken = self.closure(others)
        wanted = set()
        for maker in self.makers:
            wanted |= self.closure(self.reads.get(maker, ()))
        return {n: v for n, v in self.numbers.items()
                if n in wanted and n not in taken and is_size(v) and not n.startswith("_")}

    def keywords_of(self, maker: str, keys: Iterable[str]) -> list[str]:
        needed = self.closure(self.reads.get(maker, ())) if maker in self.makers else set()
        return [k for k in keys if k in needed]

    def function(self, maker: str, name: str, keys: Iterable[str]) -> list[str]:
        """The maker's own text under another name, with `keys` as its arguments. Derived names that it
        needs come first in its body."""
        node = self.makers[maker]
        mine = self.keywords_of(maker, keys)
        head = wrapped("def %s(" % name, ["%s=%r" % (k, self.numbers[k]) for k in mine], "):")
        needed = self.closure(self.reads.get(maker, ()))
        first = node.body[0]
        before = self.lines[first.lineno - 1].encode()[:first.col_offset]
        on_one_line = before.strip() != b""  # the body starts on the head's last line
        indent = " " * (4 if on_one_line else node.body[0].col_offset)
        body = []
        for other, statement in self.derived.items():
            if other in needed and self.closure([other]) & set(keys):
                body.append(indent + "%s = %s" % (other, ast.get_source_segment(
                    self.text, statement.value)))
        if on_one_line:
            body += [indent + ast.get_source_segment(self.text, s) for s in node.body]
        else:
            body += self.lines[node.body[0].lineno - 1:node.end_lineno]
        return head + body

    def globals_of(self, maker: str, keys: Iterable[str]) -> list[str]:
        """Lines that bind the other names that the maker's body reads."""
        if maker not in self.makers:
            return []
        lines = []
        needed = self.closure(self.reads.get(maker, ()))
        inside = {n for n in needed if n in self.derived and self.closure([n]) & set(keys)}
        sizes = set(self.sizes())
        for name in sorted(needed - inside - set(keys), key=self.place):
            if name in ("torch", "nn", "problem") or hasattr(builtins, name):
                continue
            imported = next((n for n in self.tree.body if isinstance(
                n, (ast.Import, ast.ImportFrom)) and name in bound_by(n)), None)
            if imported is not None:
                lines.append(ast.unparse(imported))
            elif name in sizes or (name in self.numbers and self.is_own(name)):
                lines.append("%s = %r" % (name, self.numbers[name]))
            else:
                lines.append("%s = problem.%s" % (name, name))
        return lines

    def is_own(self, name: str) -> bool:
        """True if only the makers read it, so that a copy cannot differ from the module's value."""
        return all(name not in self.closure(names) for scope, names in self.reads.items()
                   if scope not in self.makers)

    def place(self, name: str) -> tuple[int, str]:
        node = self.statements.get(name)
        return (node.lineno if node is not None else 0, name)


def assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """(name, value) pairs that a statement assigns: a = 1, a = b = 1, and a, b = 1, 2."""
    for target in node.targets if isinstance(node, ast.Assign) else ():
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif (isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
              and len(target.elts) == len(node.value.elts)):
            yield from ((t.id, v) for t, v in zip(target.elts, node.value.elts)
                        if isinstance(t, ast.Name))


def bound_by(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [a.asname or a.name.split(".")[0] for a in node.names]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    return []


def wrapped(head: str, items: Sequence[str], tail: str, width: int = LINE) -> list[str]:
    """`head`, the items and `tail`, on as many lines as needed."""
    lines, indent = [head], " " * len(head)
    for i, item in enumerate(items):
        piece = item + (tail if i + 1 == len(items) else ",")
        gap = "" if lines[-1] in (head, indent) else " "
        if len(lines[-1]) + len(gap) + len(piece) > width and gap:
            lines.append(indent)
            gap = ""
        lines[-1] += gap + piece
    if not items:
        lines[-1] += tail
    return lines


def argument_names(inputs: Iterable[str], state: Iterable[str]) -> list[str]:
    """Unique identifiers for the inputs and for paths such as conv.weight."""
    taken, names = {"torch", "nn", "problem", "fn", "self", "state"}, []
    for wanted in list(inputs) + list(state):
        name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in wanted)
        if not name or name[0].isdigit():
            name = "a" + name
        while name in taken or keyword.iskeyword(name) or hasattr(builtins, name):
            name += "_"
        taken.add(name)
        names.append(name)
    return names
