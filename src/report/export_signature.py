# Derives the signature of an exported operator from the arguments of the task's function at every
# setting and from the names in its source. SPDX-License-Identifier: Apache-2.0
import ast
import json
import keyword

SCHEMA_WORDS = {"int", "float", "bool", "str", "Tensor", "Scalar", "None", "True", "False", "inf", "nan",
                "self", "out", "args", "Device", "Layout", "Generator", "SymInt", "ScalarType", "torch",
                "support", "forward_op"}


class Unsupported(Exception):
    """This kernel or task cannot be exported; str() says why."""


def reference_function(tree):
    """The definition and the name of the function that is the default of `fn` in Model.forward."""
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    for model in tree.body:
        if not (isinstance(model, ast.ClassDef) and model.name == "Model"):
            continue
        for method in model.body:
            if not (isinstance(method, ast.FunctionDef) and method.name == "forward"):
                continue
            given = method.args.posonlyargs + method.args.args
            for argument, default in zip(given[len(given) - len(method.args.defaults):],
                                         method.args.defaults):
                if argument.arg == "fn" and isinstance(default, ast.Name):
                    return functions.get(default.id), default.id
    return functions.get("forward_fn"), "forward_fn"


def model_forward(tree):
    for model in tree.body:
        if isinstance(model, ast.ClassDef) and model.name == "Model":
            for method in model.body:
                if isinstance(method, ast.FunctionDef) and method.name == "forward":
                    return method
    return None


def literal(node):
    """The value of a default as source text, or None if it is not a plain literal."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    return repr(value) if isinstance(value, (int, float, str, bool, type(None), tuple)) else None


def parameters(function, count, skip=0, rest="arg"):
    """(name, default or None) for each of `count` positional arguments."""
    found = []
    if function is not None:
        given = (function.args.posonlyargs + function.args.args)[skip:]
        defaults = [None] * (len(given) - len(function.args.defaults)) + function.args.defaults
        found = [(a.arg, d) for a, d in zip(given, defaults[-len(given):] if given else [])]
    result, used = [], set()
    for i in range(count):
        name, default = found[i] if i < len(found) else ("%s_%d" % (rest, i - len(found)), None)
        if not name.isascii() or keyword.iskeyword(name) or name in SCHEMA_WORDS or name[0] == "_":
            name = "%s_%d" % (rest, i)
        while name in used:
            name += "_"
        used.add(name)
        result.append((name, None if default is None else literal(default)))
    return result


def united(kinds):
    """One description of an argument that covers all settings."""
    names = {k["kind"] for k in kinds}
    optional = "none" in names
    names.discard("none")
    if names == {"int", "float"}:
        names = {"float"}
    if len(names) > 1:
        raise Unsupported("an argument is %s, depending on the setting" % " or ".join(sorted(names)))
    if not names:
        return {"kind": "tensor", "optional": True, "dtypes": [], "dense": True}
    kind = names.pop()
    some = [k for k in kinds if k["kind"] != "none"]
    result = {"kind": kind, "optional": optional}
    if kind == "tensor":
        result["dtypes"] = sorted({k["dtype"] for k in some})
        result["dense"] = all(k["dense"] for k in some)
    elif kind == "tuple":
        items = [i for k in some for i in k["items"]]
        result["items"] = united(items) if items else {"kind": "int", "optional": False}
        if result["items"]["kind"] == "tuple" or result["items"]["optional"]:
            raise Unsupported("an argument is a tuple that contains tuples or None")
    return result


SCHEMA_TYPES = {"tensor": "Tensor", "bool": "bool", "int": "SymInt", "float": "float", "string": "str"}


def schema_type(kind):
    if kind["kind"] == "tuple":
        text = SCHEMA_TYPES[kind["items"]["kind"]] + "[]"
    else:
        text = SCHEMA_TYPES[kind["kind"]]
    return text + "?" if kind["optional"] else text


def judged(name, kind):
    """Source text of an argument's description for support.as_judged."""
    if kind["kind"] == "tuple" and kind["items"]["kind"] == "tensor":
        return "support.Each(%s)" % judged(name, kind["items"])
    if kind["kind"] != "tensor" or not kind["dtypes"]:
        return "None"
    types = "".join("torch.%s, " % d for d in kind["dtypes"])
    return "(%r, (%s), %r)" % (name, types.strip(), kind["dense"])


def columns(settings, key):
    """The description of each argument, united over all settings."""
    rows = [s[key] for s in settings]
    if len({len(r) for r in rows}) != 1:
        raise Unsupported("the number of arguments varies between settings")
    return [united(list(column)) for column in zip(*rows)]


def agreed(settings, key):
    values = {json.dumps(s[key]) for s in settings}
    if len(values) != 1:
        raise Unsupported("the function's results vary between settings")
    return json.loads(values.pop())


class Signature:
    """The operator of one direction."""

    def __init__(self, names, kinds, keep, count, many):
        self.names, self.kinds, self.keep = names, kinds, keep
        self.count, self.many = count, many

    def schema(self, extra=()):
        arguments = ["%s %s" % (schema_type(k), n) for n, k in zip(self.names, self.kinds)]
        results = ["Tensor"] * len(self.keep)
        text = results[0] if len(results) == 1 else "(%s)" % ", ".join(results)
        return "(%s) -> %s" % (", ".join(arguments + list(extra)), text)

    def judged(self):
        return "[%s]" % ",\n           ".join(judged(n, k) for n, k in zip(self.names, self.kinds))


def forward_signature(spec, tree):
    settings = spec["wiring"]["forward"]["settings"]
    kinds = columns(settings, "args")
    if spec["task"]["format"] == "kernelbench":
        given = parameters(model_forward(tree), len(kinds), skip=1, rest="state")
    else:
        given = parameters(reference_function(tree)[0], len(kinds))
    outputs = agreed(settings, "outputs")
    keep = [i for i, there in enumerate(outputs) if there]
    signature = Signature([n for n, _ in given], kinds, keep, len(outputs),
                          agreed(settings, "is_tuple"))
    return signature, [d for _, d in given]


def backward_signature(spec, forward):
    part = spec["wiring"]["backward"]
    settings = part["settings"]
    if {s["given"] for s in settings} != {len(forward.kinds)}:
        raise Unsupported("forward and backward call the reference with different arguments")
    kinds = columns(settings, "args")
    names = []
    for i in range(len(kinds)):
        source = part["sources"][i] if part["sources"] else None
        name = "value_%d" % i
        if source and source[0] == "grad":
            name = "grad_%d" % source[1] if forward.count > 1 else "grad_output"
        elif source and source[0] == "input" and source[1][0] < len(forward.names):
            name = forward.names[source[1][0]]
        names.append(name + "_" if name in names else name)
    gradients = typed_gradients(settings, part["sources"] or [])
    keep = [i for i, g in enumerate(gradients) if g["input"] is not None]
    return Signature(names, kinds, keep, len(gradients), True), gradients


def needs_constants(part):
    """True if the backward kernel gets tensors that the task's model computes from the operator's arguments."""
    return any(s["given"] < len(s["inputs"]) for s in part["settings"])


def typed_gradients(settings, sources):
    """For each gradient its `input`, and its `dtype`, or the argument of the backward kernel `like` which it is."""
    given = [s["gradients"] for s in settings]
    inputs = {tuple(g["input"] for g in gradients) for gradients in given}
    if len(inputs) != 1:
        raise Unsupported("the function's results vary between settings")
    result = []
    for i, place in enumerate(inputs.pop()):
        dtypes = {gradients[i]["dtype"] for gradients in given}
        like = sources.index(["input", [place]]) if ["input", [place]] in sources else None
        if len(dtypes) > 1 and like is None:
            raise Unsupported("the types of gradients vary between settings, and the backward kernel does not get "
                              "the arguments that they belong to")
        result.append({"input": place, "dtype": dtypes.pop() if len(dtypes) == 1 else None, "like": like})
    return result
