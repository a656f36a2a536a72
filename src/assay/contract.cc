// Tested by contract_test.cc and the end-to-end tests.
// SPDX-License-Identifier: Apache-2.0
#include "assay/contract.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "plan/changed_arguments.h"

namespace cupel::assay {
namespace {

void AppendKey(const task::Value& value, bool reads_values, std::string& key) {
  struct Visitor {
    std::string& key;
    bool reads_values;
    void operator()(task::None) const { key += "N;"; }
    void operator()(bool b) const { key += b ? "b1;" : "b0;"; }
    void operator()(int64_t i) const { key += fmt::format("i{};", i); }
    void operator()(double d) const { key += fmt::format("d{:a};", d); }
    void operator()(const std::string& s) const { key += fmt::format("s{}:{};", s.size(), s); }
    void operator()(const task::Tensor& t) const {
      key += fmt::format("t{}[{}][{}]+{}/{};", Name(t.dtype), fmt::join(t.shape, ","),
                         fmt::join(t.strides, ","), t.offset, t.storage.size());
      if (t.numel() == 1 || (reads_values && task::HostMayRead(t))) {
        const size_t size = static_cast<size_t>(SizeOf(t.dtype));
        const auto* first =
            reinterpret_cast<const char*>(t.storage.data()) + static_cast<size_t>(t.offset) * size;
        key.append(first, size * static_cast<size_t>(t.numel()));
      }
    }
    void operator()(const std::vector<task::Value>& items) const {
      key += "(";
      for (const task::Value& item : items) AppendKey(item, reads_values, key);
      key += ")";
    }
  };
  std::visit(Visitor{key, reads_values}, value.data);
}

/// A failed comparison that is not about one tensor: wrong number or kind of results.
records::Comparison WrongReturn(std::string message) {
  records::Comparison comparison;
  comparison.code = "wrong_return";
  comparison.message = std::move(message);
  return comparison;
}

std::string CountOf(bool tuple, size_t n) {
  if (!tuple) return "one tensor";
  return n == 1 ? "a list or tuple of one tensor" : fmt::format("a list or tuple of {} tensors", n);
}

bool IsArgument(const plan::Plan& plan, const plan::View& view) {
  const auto index = static_cast<size_t>(view.address.buffer);
  return view.address.buffer >= 0 && index < plan.buffers.size() &&
         plan.buffers[index].kind == plan::BufferKind::kArgument;
}

bool IsContiguous(const plan::View& view) {
  task::Tensor layout;
  layout.shape = view.shape;
  layout.strides = view.strides;
  return layout.IsContiguous();
}

}  // namespace

std::string RecordingKey(const std::vector<task::Value>& args, bool reads_values) {
  std::string key;
  for (const task::Value& value : args) AppendKey(value, reads_values, key);
  return key;
}

void ReturnChangedArguments(plan::Plan& plan, const task::Case& wanted) {
  const std::vector<const task::Tensor*> leaves = task::TensorLeaves(wanted.args);
  for (size_t i = wanted.ReturnedOutputs(); i < wanted.outputs.size(); ++i) {
    const int argument = wanted.outputs[i].argument;
    const task::Tensor& tensor = *leaves[static_cast<size_t>(argument)];
    plan::View view;
    view.address.offset = tensor.offset * SizeOf(tensor.dtype);
    view.dtype = tensor.dtype;
    view.shape = tensor.shape;
    view.strides = tensor.strides;
    plan::ReturnArgument(plan, argument, tensor.storage.size(), std::move(view));
  }
}

std::optional<size_t> FitToCase(plan::Plan& plan, const task::Case& wanted) {
  ReturnChangedArguments(plan, wanted);
  return DropDimensionOfNumbers(plan, wanted);
}

std::optional<size_t> DropDimensionOfNumbers(plan::Plan& plan, const task::Case& wanted) {
  std::optional<size_t> first;
  const size_t count = std::min(wanted.ReturnedOutputs(), plan.outputs.size());
  for (size_t i = 0; i < count; ++i) {
    plan::View& view = plan.outputs[i];
    if (wanted.outputs[i].is_none || !wanted.outputs[i].shape.empty()) continue;
    if (view.shape != std::vector<int64_t>{1}) continue;
    view.shape.clear();
    view.strides.clear();
    if (!first) first = i;
  }
  return first;
}

std::optional<records::Comparison> ContractProblem(const plan::Plan& plan,
                                                   const task::Case& wanted) {
  const size_t wanted_count = wanted.ReturnedOutputs();
  // The changed arguments are the last outputs of the plan, too.
  const size_t changed = wanted.outputs.size() - wanted_count;
  const size_t count = plan.outputs.size() - std::min(changed, plan.outputs.size());
  if (plan.returns_tuple != wanted.returns_tuple || count != wanted_count) {
    std::vector<std::string> names;
    names.reserve(wanted_count);
    for (size_t i = 0; i < wanted_count; ++i) names.push_back(wanted.outputs[i].name);
    return WrongReturn(
        fmt::format("returns {}, but the task requires {} ({})", CountOf(plan.returns_tuple, count),
                    CountOf(wanted.returns_tuple, wanted_count), fmt::join(names, ", ")));
  }
  bool from_arguments = true;
  for (size_t i = 0; i < count; ++i) {
    const plan::View& view = plan.outputs[i];
    const task::Output& output = wanted.outputs[i];
    if (output.is_none) continue;
    if (view.address.buffer == plan::kNoneOutput) {
      return WrongReturn(fmt::format(
          "returns None for {}; a function that writes its result to an argument needs a wrapper "
          "that makes the tensor and returns it",
          output.name));
    }
    // A view of an input is judged by its values: the transpose of a single row is the row. If the
    // task requires moving values, a non-contiguous view avoids the work.
    const bool is_input = IsArgument(plan, view) &&
                          plan::IsReadOnly(plan.buffers[static_cast<size_t>(view.address.buffer)]);
    if (is_input && !IsContiguous(view)) {
      return WrongReturn(fmt::format(
          "returns a view of an input for {}, without moving any data; write the result to a new "
          "tensor",
          output.name));
    }
    from_arguments = from_arguments && (output.reference.numel() == 0 || IsArgument(plan, view));
    if (view.dtype != output.dtype || view.shape != output.shape) {
      task::Tensor shape_alone;
      shape_alone.dtype = view.dtype;
      shape_alone.shape = view.shape;
      return judge::Compare(shape_alone, output);
    }
  }
  if (!from_arguments && plan.nodes.empty()) {
    return WrongReturn(
        "launches no device work after its first calls: it returns memory that nothing has "
        "written, or that an earlier call filled");
  }
  return std::nullopt;
}

}  // namespace cupel::assay
