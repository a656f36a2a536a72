# The C++ of an extracted answer: analyses its sources and composes the .cu file.
# SPDX-License-Identifier: Apache-2.0
import re

TYPES = {"tensor": "torch::Tensor", "int": "int64_t", "float": "double", "bool": "bool",
         "string": "std::string", "tuple": "std::vector<int64_t>",
         "none": "std::optional<torch::Tensor>"}


def module_functions(source):
    """Functions that the sources export themselves with PYBIND11_MODULE: Python name -> C++ name."""
    found = re.findall(r'\bm\s*\.\s*def\s*\(\s*"(\w{1,200})"\s*,\s*&?\s*([\w:]{1,200})', source)
    return dict(found[:256])


def returned_by(source, name):
    """tensor, vector, tuple or void: the return type in the function's declaration."""
    tensor = r"(?:torch|at)\s*::\s*Tensor"
    for kind, text in (("void", r"void"), ("vector", r"(?:std\s*::\s*)?vector\s*<\s*" + tensor +
                                           r"\s*>"),
                       ("tuple", r"(?:std\s*::\s*)?(?:tuple|pair)\s*<[\w\s:,]{1,400}>")):
        if re.search(r"(?<![\w>])" + text + r"\s+" + re.escape(name) + r"\s*\(", source):
            return kind
    return "tensor"


def without_comments(source):
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.S)


def sources_of(extensions):
    """The text of the extensions that are called, each once. Omits cpp_sources that only declare functions,
    because the same file defines them."""
    parts = []
    for extension in extensions:
        if "{" in without_comments(extension.cpp):
            parts.append(extension.cpp)
        parts.append(extension.cuda)
    return "\n".join(p.strip("\n") for p in parts)


def file_of(answer, parameters, body, result, extensions, comments):
    """One .cu file with a module that exports `forward`."""
    sources = sources_of(extensions)
    head = ["// Extracted from %s without running it. The kernels are unchanged. The adapter at" %
            answer,
            "// the end calls them like ModelNew.forward, with the task's arguments in order."]
    head += ["// " + c for c in comments]
    lines = head + ["#include <torch/extension.h>", "", "#include <cuda_runtime.h>", "",
                    "#include <cmath>", "#include <limits>", "#include <optional>",
                    "#include <tuple>", "#include <vector>", ""]
    has_module = "PYBIND11_MODULE" in without_comments(sources)
    if has_module:  # it exports under other names
        lines += ["#pragma push_macro(\"PYBIND11_MODULE\")", "#undef PYBIND11_MODULE",
                  "#define PYBIND11_MODULE(name, m) "
                  "[[maybe_unused]] static void cupel_unused_module(pybind11::module_& m)"]
    lines += [sources]
    if has_module:
        lines += ["#pragma pop_macro(\"PYBIND11_MODULE\")"]
    taken = ", ".join("%s %s" % (TYPES.get(kind, "torch::Tensor"), name)
                      for name, kind in parameters)
    lines += ["", "static auto cupel_forward(%s) {" % taken]
    lines += ["  " + line for line in body]
    lines += ["  return %s;" % result, "}", "",
              "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {",
              "  m.def(\"forward\", &cupel_forward);", "}", ""]
    return "\n".join(lines)
