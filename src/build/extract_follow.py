# Evaluates a Python answer symbolically, without running it: __init__ to find what the module contains,
# and forward to find the calls of its kernels. Values that cannot be determined are Unknown; the answer is
# refused only if a result depends on one.
# SPDX-License-Identifier: Apache-2.0
import ast
import builtins
import operator

import extract_calls
import extract_rules
import extract_torch
from extract_values import (Class, Const, Cpp, Extension, ExtensionFunction, Framework, Function,
                            Instance, Layer, Refused, Seq, Shape, State, Unknown)

GLOBAL = "global names"  # not a valid Python name, so it cannot collide with one
MAX_STEPS, MAX_DEPTH = 200000, 24
ARITHMETIC = {ast.Add: ("+", operator.add), ast.Sub: ("-", operator.sub),
              ast.Mult: ("*", operator.mul), ast.Div: ("/", operator.truediv),
              ast.FloorDiv: ("/", operator.floordiv), ast.Mod: ("%", operator.mod),
              ast.Pow: ("**", operator.pow), ast.LShift: ("<<", operator.lshift),
              ast.RShift: (">>", operator.rshift)}
COMPARISONS = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
               ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_,
               ast.IsNot: operator.is_not, ast.In: lambda a, b: a in b,
               ast.NotIn: lambda a, b: a not in b}


NEVER_NONE = (Cpp, State, Layer, Instance, Extension, ExtensionFunction, Function, Seq, Shape)


class Returned(Exception):
    def __init__(self, value):
        super().__init__()
        self.value = value


class Raised(Exception):
    """The answer always raises an error at `node`."""

    def __init__(self, node):
        super().__init__()
        self.node = node


class Follower:
    def __init__(self, tree):
        self.globals, self.steps, self.depth = {}, 0, 0
        self.emitted = None  # lines of C++; None outside forward, where nothing may be computed
        self.used = []  # extension functions that forward calls
        self.sizes = set()  # the task's sizes that became constants
        self.skipped = []
        for node in tree.body:
            try:
                self.execute_safely(node, self.globals)
            except Raised as raised:
                raise Refused(raised.node, "the file raises an error when it is imported") from raised

    # --- statements

    def execute_safely(self, node, scope):
        """For the file and __init__: a statement that is not supported sets its names to Unknown."""
        try:
            self.execute(node, scope)
        except Refused as refused:
            for name in extract_rules.bound(node):
                scope[name] = Unknown(str(refused), node)

    def run_body(self, body, scope):
        for node in body:
            self.execute(node, scope)

    def execute(self, node, scope):
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Refused(node, "more than %d steps" % MAX_STEPS)
        method = getattr(self, "do_" + type(node).__name__, None)
        if method is None:
            raise Refused(node, "a %s statement is not supported" % type(node).__name__.lower())
        method(node, scope)

    def do_FunctionDef(self, node, scope):
        scope[node.name] = Function(node)

    def do_ClassDef(self, node, scope):
        scope[node.name] = Class(node)

    def do_Import(self, node, scope):
        for alias in node.names:
            scope[alias.asname or alias.name.split(".")[0]] = Framework(
                alias.name if alias.asname else alias.name.split(".")[0])

    def do_ImportFrom(self, node, scope):
        for alias in node.names:
            scope[alias.asname or alias.name] = Framework("%s.%s" % (node.module or "", alias.name))

    def do_Pass(self, node, scope):
        pass

    do_Nonlocal = do_Delete = do_Pass

    def do_Global(self, node, scope):
        scope[GLOBAL] = scope.get(GLOBAL, frozenset()) | set(node.names)

    def do_Assert(self, node, scope):
        if self.truth(node.test, scope) is False:
            raise Raised(node)
        self.skipped.append(node.lineno)

    def do_Raise(self, node, scope):
        raise Raised(node)

    def do_Expr(self, node, scope):
        value = self.value(node.value, scope)
        if isinstance(value, Unknown) and self.emitted is not None:
            raise Refused(value.node or node, value.why)

    def do_Assign(self, node, scope):
        value = self.value(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)

    def do_AnnAssign(self, node, scope):
        if node.value is not None:
            self.assign(node.target, self.value(node.value, scope), scope)

    def do_AugAssign(self, node, scope):
        load = ast.copy_location(ast.BinOp(
            ast.copy_location(as_load(node.target), node), node.op, node.value), node)
        self.assign(node.target, self.value(load, scope), scope)

    def do_Return(self, node, scope):
        raise Returned(Const(None) if node.value is None else self.value(node.value, scope))

    def do_With(self, node, scope):
        for item in node.items:
            self.value(item.context_expr, scope)  # torch.no_grad(), a device, a stream
        self.run_caught(node, node.body, scope)

    def do_Try(self, node, scope):
        self.run_caught(node, node.body + node.orelse + node.finalbody, scope)

    def run_caught(self, node, body, scope):
        try:
            self.run_body(body, scope)
        except Raised as raised:
            raise Refused(node, "an error that the answer may catch") from raised

    def do_If(self, node, scope):
        found = self.truth(node.test, scope)
        if found is not None:
            self.run_body(node.body if found else node.orelse, scope)
        elif all(isinstance(n, (ast.Raise, ast.Assert)) for n in node.body):
            self.skipped.append(node.lineno)  # a check: the inputs are always those of the task
            self.run_body(node.orelse, scope)
        elif not node.orelse and all(is_making_contiguous(n) for n in node.body):
            self.run_body(node.body, scope)  # harmless if it is not needed
        elif self.emitted is None:
            raise Refused(node, "the condition of an if statement is not known")
        else:
            raise Refused(node, "forward branches on a value that is not known before the call: %s" %
                          ast.unparse(node.test)[:80])

    def do_For(self, node, scope):
        items = self.value(node.iter, scope)
        if not isinstance(items, Seq) or len(items.items) > 1000:
            raise Refused(node, "a loop over values that are not known before the call")
        for item in items.items:
            self.assign(node.target, item, scope)
            self.run_body(node.body, scope)

    def assign(self, target, value, scope):
        if isinstance(target, ast.Name):
            (self.globals if target.id in scope.get(GLOBAL, ()) else scope)[target.id] = value
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, scope)
            if isinstance(owner, Instance):
                if self.emitted is not None:
                    raise Refused(target, "forward stores a value in self.%s" % target.attr)
                owner.attributes[target.attr] = value
            elif isinstance(owner, Extension):
                if self.emitted is not None:
                    raise Refused(target, "forward changes %s" % ast.unparse(target)[:60])
                owner.functions.pop(target.attr, None)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for i, part in enumerate(target.elts):
                self.assign(part, self.item(value, i, len(target.elts), target), scope)
        elif self.emitted is not None:
            raise Refused(target, "forward assigns to elements (%s)" % ast.unparse(target)[:60])

    # --- expressions

    def value(self, node, scope):
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Refused(node, "more than %d steps" % MAX_STEPS)
        method = getattr(self, "of_" + type(node).__name__, None)
        if method is None:
            return Unknown("%s is not supported" % ast.unparse(node)[:80], node)
        return method(node, scope)

    def of_Constant(self, node, scope):
        return Const(node.value)

    def of_Name(self, node, scope):
        for known in (scope, self.globals):
            if node.id in known:
                return known[node.id]
        if hasattr(builtins, node.id):
            return Framework(node.id)
        return Unknown("%s is not defined before it is used" % node.id, node)

    def of_Tuple(self, node, scope):
        return Seq(self.arguments(node.elts, scope))

    of_List = of_Tuple

    def arguments(self, nodes, scope):
        values = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                value = self.value(node.value, scope)
                if not isinstance(value, Seq):
                    raise Refused(node, "%s is not known before the call" % ast.unparse(node)[:60])
                values += value.items
            else:
                values.append(self.value(node, scope))
        return values

    def of_JoinedStr(self, node, scope):
        parts = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append(str(part.value))
                continue
            value = self.value(part.value, scope)
            if not isinstance(value, Const):
                return Unknown("{%s} in an f-string is not a constant" % ast.unparse(part.value)[:60],
                               node)
            spec = self.of_JoinedStr(part.format_spec, scope) if part.format_spec else Const("")
            if not isinstance(spec, Const) or extract_torch.WIDE.search(":" + spec.value[:99]):
                return Unknown("a format that is not supported", node)
            try:
                parts.append(format(value.value, spec.value))
            except (ValueError, TypeError, AttributeError):
                return Unknown("a format that does not match its value", node)
        return Const("".join(parts))

    def of_Attribute(self, node, scope):
        return extract_calls.attribute(self, self.value(node.value, scope), node.attr, node)

    def of_Subscript(self, node, scope):
        owner, index = self.value(node.value, scope), self.value(node.slice, scope)
        if isinstance(index, Const) and type(index.value) is int:
            return self.item(owner, index.value, None, node)
        return Unknown("%s is not supported" % ast.unparse(node)[:80], node)

    def item(self, owner, index, count, node):
        """Element `index` of `count` unpacked elements (None: a subscript)."""
        owner = self.as_tensor(owner)
        if isinstance(owner, Seq) and -len(owner.items) <= index < len(owner.items):
            if count in (None, len(owner.items)):
                return owner.items[index]
        if isinstance(owner, Const) and isinstance(owner.value, (tuple, list)):
            if -len(owner.value) <= index < len(owner.value):
                return Const(owner.value[index], owner.sizes)
        if isinstance(owner, Layer) and -len(owner.parts) <= index < len(owner.parts):
            return owner.parts[index]
        if isinstance(owner, Shape):
            return Cpp("%s.size(%d)" % (owner.tensor, index), "int")
        if isinstance(owner, Cpp) and owner.kind == "vector" and index >= 0:
            return Cpp("%s[%d]" % (owner.text, index), "tensor")
        if isinstance(owner, Cpp) and owner.kind == "tuple" and index >= 0:
            return Cpp("std::get<%d>(%s)" % (index, owner.text), "tensor")
        if isinstance(owner, Unknown):
            return owner
        return Unknown("%s takes elements of something that is not a tuple" % ast.unparse(node)[:60], node)

    def of_UnaryOp(self, node, scope):
        value = self.value(node.operand, scope)
        if isinstance(node.op, ast.Not):
            found = self.truth(node.operand, scope)
            return Unknown("a condition that is not known", node) if found is None else Const(not found)
        if isinstance(node.op, ast.USub) and isinstance(value, Const):
            if isinstance(value.value, (int, float)):
                return Const(-value.value, value.sizes)
        if isinstance(node.op, ast.USub) and isinstance(value, Cpp) and value.kind != "tensor":
            return Cpp("(-%s)" % value.text, value.kind)
        return Unknown("%s is not supported" % ast.unparse(node)[:80], node)

    def of_BinOp(self, node, scope):
        return extract_calls.arithmetic(self, node, self.value(node.left, scope),
                                        self.value(node.right, scope), ARITHMETIC)

    def of_Compare(self, node, scope):
        found = self.truth(node, scope)
        return Unknown("%s is not known" % ast.unparse(node)[:80], node) if found is None else Const(
            found)

    of_BoolOp = of_Compare

    def of_IfExp(self, node, scope):
        found = self.truth(node.test, scope)
        if found is None:
            return Unknown("%s is not known" % ast.unparse(node.test)[:80], node)
        return self.value(node.body if found else node.orelse, scope)

    def truth(self, node, scope):
        """True, False, or None if it is not known."""
        if isinstance(node, ast.BoolOp):
            found = [self.truth(v, scope) for v in node.values]
            decided = isinstance(node.op, ast.Or)
            if decided in found:
                return decided
            return None if None in found else not decided
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            found = self.truth(node.operand, scope)
            return None if found is None else not found
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left = self.value(node.left, scope)
            right = self.value(node.comparators[0], scope)
            if isinstance(node.ops[0], (ast.Is, ast.IsNot)) and isinstance(right, Const):
                if isinstance(left, NEVER_NONE) and right.value is None:
                    return isinstance(node.ops[0], ast.IsNot)
            if not (isinstance(left, Const) and isinstance(right, Const)):
                return None
            try:
                return bool(COMPARISONS[type(node.ops[0])](left.value, right.value))
            except TypeError:
                return None
        value = self.value(node, scope)
        if isinstance(value, Const):
            return bool(value.value)
        return True if isinstance(value, (Layer, Instance, Extension)) else None

    def of_Call(self, node, scope):
        function = self.value(node.func, scope)
        if isinstance(function, Framework) and function.path == "super":
            return Framework("super()")
        args = self.arguments(node.args, scope)
        keywords = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                return Unknown("** in a call is not supported", node)
            keywords[keyword.arg] = self.value(keyword.value, scope)
        return extract_calls.call(self, function, args, keywords, node)

    def call_function(self, function, args, keywords, node):
        """Evaluates the body of one of the answer's own functions with the given arguments."""
        if self.depth >= MAX_DEPTH:
            raise Refused(node, "calls are nested more than %d deep" % MAX_DEPTH)
        extract_rules.check_decorators(function.node)
        spec = function.node.args
        names = [a.arg for a in spec.posonlyargs + spec.args]
        given = ([function.owner] if function.owner is not None else []) + list(args)
        scope = {}
        for name, default in zip(reversed(names), reversed(spec.defaults)):
            scope[name] = self.value(default, {})
        for arg, default in zip(spec.kwonlyargs, spec.kw_defaults):
            if default is not None:
                scope[arg.arg] = self.value(default, {})
        if spec.vararg:
            scope[spec.vararg.arg] = Seq(given[len(names):])
        elif len(given) > len(names):
            raise Refused(node, "%s is given too many arguments" % function.node.name)
        scope.update(zip(names, given))
        scope.update(keywords)
        missing = [n for n in names if n not in scope]
        if missing:
            raise Refused(node, "%s is called without %s" % (function.node.name, missing[0]))
        self.depth += 1
        try:
            if self.emitted is None:
                for statement in function.node.body:
                    self.execute_safely(statement, scope)
            else:
                self.run_body(function.node.body, scope)
        except Returned as returned:
            return returned.value
        finally:
            self.depth -= 1
        return Const(None)

    def as_tensor(self, value):
        """Replaces a parameter of the module by the task's argument for it."""
        if isinstance(value, State) and self.emitted is not None:
            return self.parameter(value)
        return value


def as_load(target):
    return ast.parse(ast.unparse(target), mode="eval").body


def is_making_contiguous(node):
    """x = x.contiguous() or x = x.cuda()."""
    return (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and node.value.func.attr in ("contiguous", "cuda"))
