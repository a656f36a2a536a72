# Symbolic values of a Python answer, determined without running it: constants, C++ expressions, modules
# and their contents, or the reason why a value is unknown. SPDX-License-Identifier: Apache-2.0
MAX_TEXT = 4 << 20


class Refused(Exception):
    """The answer cannot be evaluated; str() says why and where."""

    def __init__(self, node, why):
        line = getattr(node, "lineno", 0)
        super().__init__(why if why.startswith("line ") or not line else "line %d: %s" % (line, why))


class Const:
    """A Python value. `sizes`: the task's sizes from which it was computed."""

    def __init__(self, value, sizes=frozenset()):
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise Refused(None, "a text of more than %d bytes" % MAX_TEXT)
        self.value, self.sizes = value, frozenset(sizes)


class Seq:
    def __init__(self, items):
        self.items = list(items)
        if len(self.items) > 4096:
            raise Refused(None, "a list of more than 4096 elements")


class Cpp:
    """A C++ expression. `kind`: tensor, int, float, vector, tuple (of tensors) or none."""

    def __init__(self, text, kind):
        if len(text) > 4000:
            raise Refused(None, "an expression of more than 4000 characters")
        self.text, self.kind = text, kind


class State:
    """A parameter or buffer of the answer's module, by its path."""

    def __init__(self, path=""):
        self.path = path


class Shape:
    def __init__(self, tensor):
        self.tensor = tensor


class Unknown:
    def __init__(self, why, node=None):
        self.why, self.node = why, node


class Opaque:
    """A device, a type or a context: passed on, but never used in computations."""

    def __init__(self, what, dtype=""):
        self.what, self.dtype = what, dtype


class Framework:
    """torch, torch.nn.functional.relu, math.sqrt, len …"""

    def __init__(self, path):
        self.path = path


class Extension:
    """What load_inline returns."""

    def __init__(self, cuda, cpp, functions, flags):
        self.cuda, self.cpp, self.functions, self.flags = cuda, cpp, functions, flags


class ExtensionFunction:
    def __init__(self, extension, name):
        self.extension, self.name = extension, name


class Function:
    """A function of the answer. `owner` is the self that it is bound to."""

    def __init__(self, node, owner=None):
        self.node, self.owner = node, owner


class Class:
    def __init__(self, node):
        self.node = node

    def method(self, name):
        found = [n for n in self.node.body
                 if type(n).__name__ == "FunctionDef" and n.name == name]
        return found[-1] if found else None


class Instance:
    """An object of one of the answer's classes. Attributes are in the order of assignment."""

    def __init__(self, cls, prefix=""):
        self.cls, self.attributes, self.buffers = cls, {}, set()

    def state(self, prefix=""):
        """Paths in state_dict's order: own parameters, own buffers, then those of submodules."""
        own = [k for k, v in self.attributes.items() if isinstance(v, State)]
        for name in [k for k in own if k not in self.buffers] + [k for k in own if k in self.buffers]:
            self.attributes[name].path = self.attributes[name].path or prefix + name
            yield prefix + name
        for name, value in self.attributes.items():
            if isinstance(value, (Instance, Layer)):
                yield from value.state(prefix + name + ".")


CONV = ["in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups",
        "bias"]
CONV_T = ["in_channels", "out_channels", "kernel_size", "stride", "padding", "output_padding",
          "groups", "bias", "dilation"]
NORM = ["num_features", "eps", "momentum", "affine", "track_running_stats"]
STATS = ["running_mean", "running_var", "num_batches_tracked"]
LAYERS = {  # name: (arguments, defaults, parameters and buffers)
    "Linear": (["in_features", "out_features", "bias"], {"bias": True}, ["weight", "bias"]),
    "LayerNorm": (["normalized_shape", "eps", "elementwise_affine"],
                  {"eps": 1e-5, "elementwise_affine": True}, ["weight", "bias"]),
    "GroupNorm": (["num_groups", "num_channels", "eps", "affine"],
                  {"eps": 1e-5, "affine": True}, ["weight", "bias"]),
    "Embedding": (["num_embeddings", "embedding_dim"], {}, ["weight"]),
    "PReLU": (["num_parameters", "init"], {}, ["weight"]),
}
for _n in ("1d", "2d", "3d"):
    _d = int(_n[0])
    _defaults = {"bias": True, "groups": 1, "stride": 1, "padding": 0, "dilation": 1,
                 "output_padding": 0}
    LAYERS["Conv" + _n] = (CONV, _defaults, ["weight", "bias"])
    LAYERS["ConvTranspose" + _n] = (CONV_T, _defaults, ["weight", "bias"])
    LAYERS["BatchNorm" + _n] = (NORM, {"eps": 1e-5, "momentum": 0.1, "affine": True,
                                       "track_running_stats": True}, ["weight", "bias"] + STATS)
    LAYERS["InstanceNorm" + _n] = (NORM, {"eps": 1e-5, "momentum": 0.1, "affine": False,
                                          "track_running_stats": False},
                                   ["weight", "bias"] + STATS)
SPREAD = {"kernel_size", "stride", "padding", "dilation", "output_padding"}


class Layer:
    """A module of torch.nn: its parameters, and the constructor's arguments."""

    def __init__(self, name, args, keywords):
        self.name, self.settings, self.states, self.parts = name, {}, {}, []
        base = name.rsplit(".", 1)[-1]
        if base in ("Sequential", "ModuleList"):
            given = args[0].items if args and isinstance(args[0], Seq) else args
            self.parts = [p for p in given if isinstance(p, (Layer, Instance))]
            return
        names, defaults, parameters = LAYERS.get(base, ([], {}, []))
        self.settings = {k: Const(v) for k, v in defaults.items()}
        self.settings.update(zip(names, args))
        self.settings.update(keywords)
        dimensions = int(base[-2]) if base[-2:] in ("1d", "2d", "3d") else 0
        for key in SPREAD & set(self.settings) if dimensions else ():
            value = self.settings[key]
            if isinstance(value, Const) and isinstance(value.value, int):
                self.settings[key] = Seq([value] * dimensions)
        for parameter in parameters:
            switch = {"bias": "bias", "weight": None}.get(parameter, "track_running_stats")
            if parameter in ("weight", "bias") and "Norm" in base:
                switch = "affine" if "affine" in defaults else "elementwise_affine"
            value = self.settings.get(switch)
            if isinstance(value, Const) and not value.value:
                self.states[parameter] = Const(None)
            else:
                self.states[parameter] = State()

    def state(self, prefix=""):
        for name, value in self.states.items():
            if isinstance(value, State):
                value.path = value.path or prefix + name
                yield prefix + name
        for i, part in enumerate(self.parts):
            yield from part.state("%s%d." % (prefix, i))
