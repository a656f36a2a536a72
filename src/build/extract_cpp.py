# Converts values of a Python answer to C++. SPDX-License-Identifier: Apache-2.0
import math

from extract_values import Const, Cpp, Refused, Seq, Shape, Unknown

EXACT_LIMIT = 1 << 256


def number_text(value):
    """A constant in C++ syntax."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -(1 << 63) < value < 1 << 63:
            raise Refused(None, "the number %d does not fit 64 bits" % value if abs(value) <
                          EXACT_LIMIT else "a number that does not fit 64 bits")
        return "%d%s" % (value, "" if abs(value) < 1 << 31 else "LL")
    if isinstance(value, float):
        if math.isinf(value) or math.isnan(value):
            name = "infinity" if math.isinf(value) else "quiet_NaN"
            return "%sstd::numeric_limits<double>::%s()" % ("-" if value < 0 else "", name)
        return repr(value)
    if value is None:
        return "{}"
    if isinstance(value, str):
        if len(value) > 1000 or not value.isprintable() or not value.isascii():
            raise Refused(None, "a string that cannot be passed to C++")
        return '"%s"' % value.replace("\\", "\\\\").replace('"', '\\"')
    if isinstance(value, (tuple, list)) and all(type(v) in (int, bool) for v in value):
        return "std::vector<int64_t>{%s}" % ", ".join(number_text(v) for v in value)
    raise Refused(None, "a %s as an argument of a kernel" % type(value).__name__)


def to_cpp(follower, value, node, what="an argument"):
    value = follower.as_tensor(value)
    if isinstance(value, Cpp):
        return value.text
    if isinstance(value, Const):
        follower.sizes |= value.sizes
        return number_text(value.value)
    if isinstance(value, Seq):
        parts = [to_cpp(follower, v, node, what) for v in value.items]
        tensors = [isinstance(follower.as_tensor(v), Cpp) and follower.as_tensor(v).kind == "tensor"
                   for v in value.items]
        kind = "torch::Tensor" if tensors and all(tensors) else "int64_t"
        return "std::vector<%s>{%s}" % (kind, ", ".join(parts))
    if isinstance(value, Shape):
        return value.tensor + ".sizes()"
    if isinstance(value, Unknown):
        raise Refused(value.node or node, value.why)
    raise Refused(node, "%s is a %s, which kernels cannot take" % (what, type(value).__name__.lower()))


def emit(follower, text):
    variable = "v%d" % len(follower.emitted)
    follower.emitted.append("auto %s = %s;" % (variable, text))
    return Cpp(variable, "tensor")
