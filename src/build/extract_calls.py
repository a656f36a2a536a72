# How extract_follow.py evaluates attributes, arithmetic and calls. SPDX-License-Identifier: Apache-2.0
import ast
import math

from extract_cpp import EXACT_LIMIT, emit, to_cpp
from extract_torch import allocate, framework, text_method
from extract_values import (Class, Const, Cpp, Extension, ExtensionFunction, Framework, Function,
                            Instance, Layer, MAX_TEXT, Opaque, Refused, Seq, Shape, State, Unknown)

DTYPES = {"float32": "kFloat32", "float": "kFloat32", "float16": "kFloat16", "half": "kFloat16",
          "bfloat16": "kBFloat16", "float64": "kFloat64", "int32": "kInt32", "int": "kInt32",
          "int64": "kInt64", "long": "kInt64", "bool": "kBool", "uint8": "kUInt8", "int8": "kInt8"}
VIEWS = {"contiguous", "view", "reshape", "transpose", "t", "permute", "unsqueeze", "squeeze",
         "flatten", "clone", "expand", "view_as", "reshape_as"}
SAME = {"detach", "cuda", "requires_grad_"}
def attribute(follower, owner, name, node):
    if isinstance(owner, Framework):
        full = owner.path + "." + name
        if owner.path == "torch" and name in DTYPES:
            return Opaque("a type", "torch::" + DTYPES[name])
        if full in ("math.pi", "math.e", "math.inf", "math.nan"):
            return Const(getattr(math, name))
        return Framework(full)
    if isinstance(owner, Instance):
        if name in owner.attributes:
            return owner.attributes[name]
        method = owner.cls.method(name)
        if method is not None:
            is_static = any(ast.unparse(d) == "staticmethod" for d in method.decorator_list)
            return Function(method, None if is_static else owner)
        for statement in owner.cls.node.body:  # attributes of the class
            if isinstance(statement, ast.Assign) and any(
                    isinstance(t, ast.Name) and t.id == name for t in statement.targets):
                return follower.value(statement.value, {})
        if name == "training":
            return Const(True)
        return Framework("self." + name)
    if isinstance(owner, Class):
        method = owner.method(name)
        if method is not None:
            return Function(method)
        return Framework(("apply:" + owner.node.name) if name == "apply" else "class." + name)
    if isinstance(owner, Extension):
        return ExtensionFunction(owner, name)
    if isinstance(owner, Layer):
        if name in owner.states:
            return owner.states[name]
        return owner.settings.get(name, Unknown("self.….%s of a %s" % (name, owner.name), node))
    owner = follower.as_tensor(owner)
    if isinstance(owner, Cpp) and owner.kind == "tensor":
        if name == "shape":
            return Shape(owner.text)
        if name in ("ndim",):
            return Cpp(owner.text + ".dim()", "int")
        if name == "is_cuda":
            return Const(True)
        if name in ("device", "dtype", "options"):
            return Opaque("the %s of a tensor" % name,
                          owner.text + ".scalar_type()" if name == "dtype" else "")
        if name == "data":
            return owner
        if name == "T":
            return Cpp(owner.text + ".t()", "tensor")
    if isinstance(owner, State) and name in ("data", "device"):
        return owner if name == "data" else Opaque("a device")
    if isinstance(owner, Unknown):
        return owner
    if isinstance(owner, (Const, Cpp, Seq, State)):
        return Bound(owner, name)
    if isinstance(owner, Opaque):  # a context or device
        return Bound(owner, name)
    return Unknown("%s is not supported" % ast.unparse(node)[:80], node)


class Bound:
    """A method of a value."""

    def __init__(self, owner, name):
        self.owner, self.name = owner, name


def arithmetic(follower, node, left, right, table):
    for side in (left, right):
        if isinstance(side, Unknown):
            return side
    known = table.get(type(node.op))
    if known is None:
        return Unknown("%s is not supported" % ast.unparse(node)[:80], node)
    text, compute = known
    if isinstance(left, Const) and isinstance(right, Const):
        return constant(node, left, right, compute)
    if isinstance(left, Seq) and isinstance(right, Seq) and text == "+":
        return Seq(left.items + right.items)
    numbers = all(isinstance(v, Const) and type(v.value) in (int, float)
                  or isinstance(v, Cpp) and v.kind in ("int", "float") for v in (left, right))
    if not numbers:
        return Unknown("%s is framework mathematics; a candidate must use its own kernels" %
                       ast.unparse(node)[:80], node)
    is_float = text == "/" and isinstance(node.op, ast.Div) or any(
        isinstance(v.value if isinstance(v, Const) else None, float)
        or isinstance(v, Cpp) and v.kind == "float" for v in (left, right))
    a, b = to_cpp(follower, left, node), to_cpp(follower, right, node)
    if text == "**":
        return Cpp("std::pow(static_cast<double>(%s), static_cast<double>(%s))" % (a, b), "float")
    if isinstance(node.op, ast.Div):
        return Cpp("(static_cast<double>(%s) / static_cast<double>(%s))" % (a, b), "float")
    if text in ("%", "/") and is_float:
        return Unknown("%s is not supported" % ast.unparse(node)[:80], node)
    return Cpp("(%s %s %s)" % (a, text, b), "float" if is_float else "int")


def constant(node, left, right, compute):
    a, b = left.value, right.value
    if isinstance(node.op, (ast.Pow, ast.LShift)) and (
            not isinstance(a, (int, float)) or not isinstance(b, (int, float)) or abs(b) > 256):
        return Unknown("a number that is too large", node)
    if isinstance(node.op, ast.Mult) and (isinstance(a, str) or isinstance(b, str)):
        count = b if isinstance(a, str) else a
        if not isinstance(count, int) or count * max(len(str(a)), len(str(b))) > MAX_TEXT:
            return Unknown("a text that is too long", node)
    if isinstance(node.op, ast.Mod) and isinstance(a, str):
        return Unknown("%% on a text", node)
    if any(isinstance(v, int) and abs(v) > EXACT_LIMIT for v in (a, b)):
        return Unknown("a number that is too large", node)
    try:
        return Const(compute(a, b), left.sizes | right.sizes)
    except (TypeError, ArithmeticError, ValueError):
        return Unknown("%s fails" % ast.unparse(node)[:80], node)


def call(follower, function, args, keywords, node):
    if isinstance(function, ExtensionFunction):
        return launch(follower, function, args, keywords, node)
    if isinstance(function, Function):
        return follower.call_function(function, args, keywords, node)
    if isinstance(function, Class):
        return construct(follower, function, args, keywords, node)
    if isinstance(function, Instance):
        forward = function.cls.method("__call__") or function.cls.method("forward")
        if forward is not None:
            return follower.call_function(Function(forward, function), args, keywords, node)
    if isinstance(function, Layer):
        return Unknown("self.….forward of a %s is framework mathematics; a candidate must use its own "
                       "kernels" % function.name, node)
    if isinstance(function, Bound):
        return method(follower, function.owner, function.name, args, keywords, node)
    if isinstance(function, Framework):
        return framework(follower, function.path, args, keywords, node)
    if isinstance(function, Unknown):
        return function
    return Unknown("%s is not supported" % ast.unparse(node)[:80], node)


def construct(follower, cls, args, keywords, node):
    if follower.emitted is not None:
        return Unknown("forward builds a module", node)
    instance = Instance(cls)
    init = cls.method("__init__")
    if init is not None:
        follower.call_function(Function(init, instance), args, keywords, node)
    return instance


def launch(follower, function, args, keywords, node):
    if follower.emitted is None:
        return Unknown("a kernel called outside forward", node)
    extension, name = function.extension, function.name
    if name not in extension.functions:
        raise Refused(node, "%s is not among the functions that load_inline exports (%s)" %
                      (name, ", ".join(sorted(extension.functions)[:8])))
    if keywords:
        raise Refused(node, "%s is called with keywords, which load_inline's functions do not take" %
                      name)
    text = "%s(%s)" % (extension.functions[name],
                       ", ".join(to_cpp(follower, a, node) for a in args))
    follower.used.append(function)
    kind = follower.returns(extension, extension.functions[name])
    if kind == "void":
        follower.emitted.append(text + ";")
        return Const(None)
    variable = "v%d" % len(follower.emitted)
    follower.emitted.append("auto %s = %s;" % (variable, text))
    return Cpp(variable, kind)


def method(follower, owner, name, args, keywords, node):
    owner = follower.as_tensor(owner)
    if isinstance(owner, Opaque):
        return Const(None)
    if isinstance(owner, Const) and isinstance(owner.value, str):
        return text_method(owner, name, args, keywords, node)
    if not (isinstance(owner, Cpp) and owner.kind == "tensor") or follower.emitted is None:
        if isinstance(owner, State) or isinstance(owner, Seq) and name in ("append", "extend"):
            return owner if name in SAME | {"contiguous", "to", "float"} else Unknown(
                "%s is not supported" % ast.unparse(node)[:80], node)
        return Unknown("%s is not supported" % ast.unparse(node)[:80], node)
    plain = [to_cpp(follower, a, node) for a in args] if name in VIEWS | {
        "size", "stride", "numel", "dim", "nelement", "element_size"} else []
    if name == "size" and not args:
        return Shape(owner.text)
    if name in ("size", "stride", "numel", "dim", "nelement", "element_size"):
        return Cpp("%s.%s(%s)" % (owner.text, "numel" if name == "nelement" else name,
                                  ", ".join(plain)), "int")
    if name in VIEWS and not keywords:
        if name in ("view", "reshape", "permute", "expand") and not (
                len(args) == 1 and isinstance(args[0], (Seq, Shape))):
            plain = ["{%s}" % ", ".join(plain)]
        return emit(follower, "%s.%s(%s)" % (owner.text, name, ", ".join(plain)))
    if name in SAME:
        return owner
    if name in ("to", "type", "float", "half", "bfloat16", "double"):
        types = [v.dtype for v in list(args) + list(keywords.values())
                 if isinstance(v, Opaque) and v.dtype]
        if name not in ("to", "type"):
            types = ["torch::" + DTYPES.get(name, "kFloat64")]
        if not types and any(isinstance(v, Cpp) for v in args):
            return Unknown("%s is not supported" % ast.unparse(node)[:80], node)
        return emit(follower, "%s.to(%s)" % (owner.text, types[0])) if types else owner
    if name in ("new_empty", "new_zeros"):
        return allocate(follower, name[4:], args, keywords, node, owner.text)
    if name in ("zero_", "fill_"):
        follower.emitted.append("%s.%s(%s);" % (owner.text, name, ", ".join(
            to_cpp(follower, a, node) for a in args)))
        return owner
    return Unknown("%s is framework mathematics; a candidate must use its own kernels" %
                   ast.unparse(node)[:80], node)
