# Calls of torch, math and Python itself that extract.py supports in a Python answer: allocations,
# parameters, layers, load_inline, strings and numbers. SPDX-License-Identifier: Apache-2.0
import ast
import math
import re
import textwrap

from extract_cpp import emit, to_cpp
from extract_values import (Class, Const, Cpp, Extension, Function, Layer, MAX_TEXT, Opaque, Refused,
                            Seq, Shape, State, Unknown)

WIDE = re.compile(r"[:{][^{}]{0,8}?\d{4}|\d{5}")  # a format that pads to thousands of characters


def text_method(owner, name, args, keywords, node):
    values = [a.value for a in args if isinstance(a, Const)]
    named = {k: v.value for k, v in keywords.items() if isinstance(v, Const)}
    if name == "join" and len(args) == 1 and isinstance(args[0], Seq):
        values = [[i.value for i in args[0].items if isinstance(i, Const)]]
        if len(values[0]) == len(args[0].items) and all(isinstance(v, str) for v in values[0]):
            return Const(owner.value.join(values[0]))
    if name not in ("strip", "lstrip", "rstrip", "replace", "upper", "lower", "format") or len(
            values) != len(args) or len(named) != len(keywords):
        return Unknown("%s is not supported" % ast.unparse(node)[:80], node)
    if name == "format" and (WIDE.search(owner.value) or "{0." in owner.value or not all(
            isinstance(v, (str, int, float)) for v in values + list(named.values()))):
        return Unknown("a format that is not supported", node)
    if name == "replace" and len(values) == 2 and all(isinstance(v, str) for v in values):
        if owner.value.count(values[0]) * len(values[1]) > MAX_TEXT:
            return Unknown("a text that is too long", node)
    try:
        return Const(getattr(owner.value, name)(*values, **named))
    except Exception:
        return Unknown("%s fails" % ast.unparse(node)[:80], node)


def allocate(follower, name, args, keywords, node, like=""):
    """torch.empty and similar: tensors that a void function fills."""
    if follower.emitted is None:
        return Unknown("a tensor made outside forward", node)
    if name.endswith("_like"):
        source = to_cpp(follower, args[0], node) if args else ""
        types = [v.dtype for k, v in keywords.items() if isinstance(v, Opaque) and v.dtype]
        options = ", %s.options().dtype(%s)" % (source, types[0]) if types else ""
        return emit(follower, "torch::%s(%s%s)" % (name, source, options))
    fill = ""
    if name == "full":
        args, fill = args[:1], ", " + to_cpp(follower, args[1] if len(args) > 1 else keywords.get(
            "fill_value", Const(0)), node)
    args = [a for a in args if not isinstance(a, Opaque)]
    shape = args[0] if len(args) == 1 and isinstance(args[0], (Seq, Shape)) else Seq(args)
    sizes = (to_cpp(follower, shape, node) if isinstance(shape, Shape) else
             "{%s}" % ", ".join(to_cpp(follower, v, node) for v in shape.items))
    types = [v.dtype for v in keywords.values() if isinstance(v, Opaque) and v.dtype]
    source = like or follower.first_tensor
    if not source:
        raise Refused(node, "a tensor is created, but no input is a tensor")
    kind = types[0] if types else (like + ".scalar_type()" if like else "torch::kFloat32")
    return emit(follower, "torch::%s(%s%s, %s.options().dtype(%s))" %
                (name, sizes, fill, source, kind))


def framework(follower, path, args, keywords, node):
    name = path.rsplit(".", 1)[-1]
    if name == "load_inline":
        return extension(args, keywords, node)
    if path.startswith("apply:"):
        cls = follower.globals.get(path[6:])
        forward = cls.method("forward") if isinstance(cls, Class) else None
        if forward is not None:
            return follower.call_function(Function(forward), [Opaque("ctx")] + args, keywords, node)
    if name == "register_buffer" and len(args) > 1 or name == "register_parameter" and len(args) > 1:
        return register(follower, name, args, keywords, node)
    if path in ("torch.nn.Parameter", "nn.Parameter", "torch.nn.parameter.Parameter"):
        return State()
    if path.startswith(("torch.nn.", "nn.")) and name[:1].isupper():
        return Layer(path, args, keywords)
    if path in ("torch.empty_like", "torch.zeros_like", "torch.ones_like", "torch.empty",
                "torch.zeros", "torch.ones", "torch.full"):
        return allocate(follower, name, args, keywords, node)
    if path in ("torch.cuda.synchronize", "print", "torch.cuda.current_stream", "super().__init__",
                "torch.manual_seed") or path.startswith(("torch.nn.init.", "nn.init.", "torch._C",
                                                         "torch.backends", "warnings.")):
        return Const(None)
    if path in ("torch.device", "torch.no_grad", "torch.inference_mode", "torch.cuda.device"):
        return Opaque("a device")
    if path == "torch.cuda.is_available":
        return Const(True)
    if path in ("textwrap.dedent",) and args and isinstance(args[0], Const):
        return Const(textwrap.dedent(str(args[0].value)))
    return number(follower, path, args, keywords, node)


def register(follower, name, args, keywords, node):
    owner = follower.building[-1] if follower.building else None
    if owner is None or not isinstance(args[0], Const) or not isinstance(args[0].value, str):
        return Unknown("%s is not supported" % ast.unparse(node)[:80], node)
    persistent = keywords.get("persistent", args[2] if len(args) > 2 else Const(True))
    kept = isinstance(persistent, Const) and persistent.value
    owner.attributes[args[0].value] = State() if kept else Unknown(
        "a buffer that is not in state_dict", node)
    if name == "register_buffer":
        owner.buffers.add(args[0].value)
    return Const(None)


def number(follower, path, args, keywords, node):
    """len, int, math.sqrt …, for constants and sizes."""
    unknown = next((a for a in args if isinstance(a, Unknown)), None)
    name = path.rsplit(".", 1)[-1]
    if path in ("tuple", "list") and len(args) == 1 and isinstance(args[0], (Seq, Shape)):
        return args[0]
    if path == "len" and len(args) == 1:
        if isinstance(args[0], Seq):
            return Const(len(args[0].items))
        if isinstance(args[0], Shape):
            return Cpp(args[0].tensor + ".dim()", "int")
    values = [a.value for a in args if isinstance(a, Const)]
    sizes = frozenset().union(*(a.sizes for a in args if isinstance(a, Const)))
    plain = {"int": int, "float": float, "bool": bool, "max": max, "min": min, "abs": abs, "str": str,
             "round": round, "len": len}
    function = plain.get(path) or (getattr(math, name, None) if path == "math." + name and name in (
        "sqrt", "log", "log2", "exp", "ceil", "floor", "prod", "gcd", "pow") else None)
    if path == "range" and len(values) == len(args) and all(type(v) is int for v in values):
        if 0 < len(values) < 4 and max(map(abs, values)) < 1000 and values[2:] != [0]:
            return Seq([Const(v, sizes) for v in range(*values)])
    if function is not None and len(values) == len(args) and not keywords and all(
            isinstance(v, (int, float, str)) and len(str(v)[:99]) < 99 for v in values):
        try:
            return Const(function(*values), sizes)
        except Exception:
            return Unknown("%s fails" % ast.unparse(node)[:80], node)
    known = [isinstance(a, Const) or isinstance(a, Cpp) and a.kind in ("int", "float") for a in args]
    if args and all(known) and not keywords:
        texts = [to_cpp(follower, a, node) for a in args]
        if path in ("math.sqrt", "math.log", "math.exp", "math.log2"):
            return Cpp("std::%s(static_cast<double>(%s))" % (name, texts[0]), "float")
        if path == "float":
            return Cpp("static_cast<double>(%s)" % texts[0], "float")
        if path == "int":
            return Cpp("static_cast<int64_t>(%s)" % texts[0], "int")
        if path in ("max", "min") and len(texts) == 2:
            return Cpp("std::%s<int64_t>(%s, %s)" % (name, *texts), "int")
    if unknown is not None:
        return unknown
    why = "framework mathematics; a candidate must use its own kernels" if path.startswith(
        ("torch", "nn", "F")) else "not supported"
    return Unknown("%s is %s" % (ast.unparse(node)[:80], why), node)


def extension(args, keywords, node):
    given = dict(zip(("name", "cpp_sources", "cuda_sources", "functions", "extra_cflags",
                      "extra_cuda_cflags"), args))
    given.update(keywords)

    def texts(key):
        value = given.get(key, Seq([]))
        items = value.items if isinstance(value, Seq) else [value]
        found = []
        for item in items:
            if isinstance(item, Unknown):
                raise Refused(item.node or node, "%s: %s" % (key, item.why))
            if not isinstance(item, Const) or not isinstance(item.value, (str, type(None))):
                raise Refused(node, "%s of load_inline is not a constant string" % key)
            found.append(item.value or "")
        return found

    cuda, cpp = "\n".join(texts("cuda_sources")), "\n".join(texts("cpp_sources"))
    if isinstance(given.get("functions"), Unknown):
        raise Refused(node, "functions of load_inline: %s" % given["functions"].why)
    import extract_text
    functions = {n: n for n in texts("functions")} or extract_text.module_functions(cuda + cpp)
    if not cuda.strip():
        raise Refused(node, "load_inline has no cuda_sources")
    return Extension(cuda, cpp, functions, [f for f in texts("extra_cuda_cflags") if f.strip()])
