# Writes the generated files of an exported package. Untrusted text is inserted as Python or TOML literals.
# SPDX-License-Identifier: Apache-2.0
import json
import re

from export_signature import needs_constants


def toml(text):
    """A basic string of TOML, which is escaped like a JSON string, but DEL must be escaped too."""
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False).replace(
        "\x7f", "\\u007f")


def docstring(text):
    """The text on one line, safe inside triple quotes."""
    plain = "".join(c if c.isprintable() and c not in '\\"' else " " for c in text)
    return " ".join(plain.split())[:200]


def init(spec):
    return '''# %s: exported by cupel %s.
from .ops import call as forward

__all__ = ["forward"]
''' % (docstring(spec["task"]["title"]), docstring(spec["version"]))


def argument_list(names, defaults):
    """Source text of a parameter list. A default is dropped if a later parameter has none."""
    parts, open_ = [], True
    for name, default in reversed(list(zip(names, defaults))):
        open_ = open_ and default is not None
        parts.append("%s=%s" % (name, default) if open_ else name)
    return ", ".join(reversed(parts))


OPERATOR = '''

@torch.library.custom_op(%(qualified)r, mutates_args=(), device_types=DEVICES,
                         schema=%(schema)r)
def %(direction)s_kernel(*args):
    return support.run(%(extension)s.%(direction)s, %(args)s, %(judged)s, %(keep)s)


@%(direction)s_kernel.register_fake
def _(*args):
    return %(fake)s


%(direction)s_op = torch.ops.%(name)s.%(direction)s.default
'''


def ops(spec, forward, defaults, backward, gradients, function):
    name = spec["name"]
    problem = spec["task"]["format"] == "kernelbench"
    built = ["_forward"] + (["_backward"] if backward else [])
    modules = (["problem"] if problem else []) + ["reference"]
    modules += (["reference_backward"] if backward else []) + ["support"]
    called = "problem.forward_fn" if problem else "reference.%s" % function
    text = '''"""%s as PyTorch operators."""
import torch

from . import %s

%s = support.extensions(__package__, %s)
DEVICES = "cuda"

# The arguments with which the kernel was judged: name, types, whether dense.
FORWARD = %s
''' % (docstring(spec["task"]["title"]), ", ".join(modules), ", ".join(built) + ("," if len(built) == 1 else ""),
       ", ".join('"%s"' % one for one in built), forward.judged())
    if backward:
        text += "BACKWARD = %s\n" % backward.judged()
    text += OPERATOR % {
        "qualified": "%s::forward" % name, "schema": forward.schema(), "direction": "forward",
        "extension": "_forward", "args": "args", "judged": "FORWARD", "keep": forward.keep,
        "fake": "support.empty_as(%s, args, %s)" % (called, forward.keep), "name": name}
    if backward:
        text += backward_text(spec, forward, backward, gradients)
    call = "forward_op(%s)" % ", ".join(forward.names)
    if forward.many or forward.count > 1:
        call = "support.unpacked(%s, %s, %d, %r)" % (call, forward.keep, forward.count, forward.many)
    return text + '''

def call(%s):
    """Computes the same as the task's reference; for CUDA tensors."""
    return %s
''' % (argument_list(forward.names, defaults), call)


def backward_text(spec, forward, backward, gradients):
    name, part = spec["name"], spec["wiring"]["backward"]
    count = len(backward.keep)
    sizes = ["SymInt[] size_%d" % i for i in range(count)]
    types = ["torch.%s" % g["dtype"] if g["dtype"] else "args[%d].dtype" % g["like"]
             for g in (gradients[i] for i in backward.keep)]
    text = OPERATOR % {
        "qualified": "%s::backward" % name, "schema": backward.schema(sizes),
        "direction": "backward", "extension": "_backward", "args": "args[:-%d]" % count,
        "judged": "BACKWARD", "keep": backward.keep, "name": name,
        "fake": "support.empty_gradients(args, [%s])" % ", ".join(types)}
    places = [gradients[i]["input"] for i in backward.keep]
    prepare = "support.prepared_by(reference_backward)" if needs_constants(part) else "None"
    return text + '''
# The source of each argument of the backward kernel, and the inputs of which its results are the gradients.
WIRING = support.Wiring(
    backward_op, %s,
    %s, %d, reference_backward.AutogradFunction, recompute=%r, keep=%s, count=%d,
    prepare=%s)
torch.library.register_autograd(%r, WIRING.backward, setup_context=WIRING.setup_context)
''' % (repr(part["sources"]), places, len(forward.kinds), part["recompute"], forward.keep,
       forward.count, prepare, "%s::forward" % name)


def pytest_file(name):
    return '''# Run it with pytest, or directly: python tests/test_%(name)s.py
import sys

import torch

from %(name)s import test


def test_%(name)s():
    if not torch.cuda.is_available():
        import pytest
        pytest.skip("needs a CUDA GPU")
    test.check_all()


if __name__ == "__main__":
    sys.exit(test.main())
''' % {"name": name}


# PyTorch's libraries bring the CUDA runtime and cuBLAS, but not the driver.
DRIVER = """
                      libraries=["cuda"], library_dirs=[STUBS],"""


def calls_driver(path):
    """True if a kernel's host code calls the CUDA driver, as for tensor maps."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return re.search(r"\bcu[A-Z]\w*\s*\(", file.read()) is not None


def setup(spec, given_flags):
    extensions = []
    for direction in ("forward", "backward"):
        if spec[direction]:
            flags = [f for f in spec[direction]["flags"] if not given_flags.match(f)]
            driver = calls_driver(spec[direction]["kernel"])
            extensions.append('''        CUDAExtension(%r, [%r],
                      include_dirs=%r,%s
                      extra_compile_args={"cxx": ["-O3"], "nvcc": %r}),
''' % ("%s._%s" % (spec["name"], direction), "csrc/%s.cu" % direction, spec["include_roots"],
       DRIVER if driver else "", flags))
    arch = ""
    if spec["arch"].endswith("a"):  # PyTorch does not choose these targets by itself
        number = spec["arch"][3:-1]
        arch = ("\n# The kernel was compiled for %s and may use instructions that only this target has.\n" %
                spec["arch"])
        arch += 'os.environ.setdefault("TORCH_CUDA_ARCH_LIST", %r)\n' % (
            "%s.%sa" % (number[:-1], number[-1]))
    return '''# Builds the unchanged kernels with the flags with which they were judged.
import os
import sys

import torch
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension

if torch.version.cuda is None:
    sys.exit("PyTorch %%s is built without CUDA: install a CUDA build of PyTorch" %% torch.__version__)
if CUDA_HOME is None:
    sys.exit("nvcc was not found: install the CUDA toolkit %%s, or set CUDA_HOME" %% torch.version.cuda)

# The CUDA toolkit's stand-in for the driver's library.
STUBS = os.path.join(CUDA_HOME, "lib64", "stubs")
%s
os.environ.setdefault("MAX_JOBS", "2")
setup(
    ext_modules=[
%s    ],
    cmdclass={"build_ext": BuildExtension},
)
''' % (arch, "".join(extensions))


def pyproject(spec):
    return '''[build-system]
requires = ["setuptools", "torch>=2.4"]
build-backend = "setuptools.build_meta"

[project]
name = %s
version = "0.1.0"
description = %s
requires-python = ">=3.9"
dependencies = ["torch>=2.4"]

[tool.setuptools]
packages = [%s]
package-dir = {"" = "src"}

[tool.setuptools.package-data]
%s = ["settings.json"]
''' % (toml(spec["name"].replace("_", "-")), toml(docstring(spec["task"]["title"])), toml(spec["name"]),
       spec["name"])
