// SPDX-License-Identifier: Apache-2.0
#include "evolve/operation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>

#include "base/printable.h"
#include "base/text.h"
#include "os/files.h"
#include "task/explored.h"

namespace cupel::evolve {
namespace {

constexpr size_t kMaxFile = 1u << 20;
constexpr int kMaxName = 40, kMaxString = 60;  // columns
constexpr size_t kMostCalls = 4, kMostLengths = 8;
/// With a fixed seed the cases, and so the prompt, are the same each time.
constexpr uint64_t kSeed = 0;

/// The comma-separated items from `at` to the closing parenthesis; `at` follows the opening one.
std::vector<std::string> ArgumentsAt(std::string_view code, size_t at) {
  std::vector<std::string> arguments;
  int depth = 0;
  size_t begin = at;
  for (size_t i = at; i < code.size(); ++i) {
    const char c = code[i];
    if (c == ')' && depth == 0) {
      if (std::string_view last = Trim(code.substr(begin, i - begin)); !last.empty()) {
        arguments.emplace_back(last);
      }
      return arguments;
    }
    depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    if (c == ',' && depth == 0) {
      arguments.emplace_back(Trim(code.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  return {};
}

/// The names of the arguments in the task's code. Found by text search, since no Python runs here;
/// may be empty.
std::vector<std::string> ArgumentNames(const Operation& operation) {
  const std::string_view code = operation.code;
  const bool backward = operation.direction == task::Direction::kBackward;
  const bool problem = operation.format == task::Format::kKernelBench;
  const std::string_view wanted = problem    ? "def forward(self"
                                  : backward ? "backward_fn("
                                             : "def forward_fn(";
  const size_t from = problem ? std::min(code.find("class Model"), code.size()) : 0;
  const size_t found = code.find(wanted, from);
  if (found == std::string_view::npos) return {};
  std::vector<std::string> names = ArgumentsAt(code, code.find('(', found) + 1);
  if (problem && !names.empty()) names.erase(names.begin());  // self
  for (std::string& name : names) {
    if (!backward) name = Trim(name.substr(0, name.find_first_of(":=")));
    name = Fit(Printable(name), kMaxName);
  }
  return names;
}

std::string TensorText(const task::Tensor& tensor) {
  if (tensor.IsContiguous()) return tensor.Describe();
  return fmt::format("{} with strides ({})", tensor.Describe(), fmt::join(tensor.strides, ", "));
}

std::string ValueText(const task::Value& value) {
  struct {
    std::string operator()(task::None) const { return "None"; }
    std::string operator()(bool flag) const { return flag ? "bool: true" : "bool: false"; }
    std::string operator()(int64_t number) const { return fmt::format("int: {}", number); }
    std::string operator()(double number) const { return fmt::format("float: {}", number); }
    std::string operator()(const std::string& text) const {
      return fmt::format("string: \"{}\"", Fit(Printable(text), kMaxString));
    }
    std::string operator()(const task::Tensor& tensor) const { return TensorText(tensor); }
    std::string operator()(const std::vector<task::Value>& items) const {
      std::vector<std::string> parts;
      parts.reserve(items.size());
      for (const task::Value& item : items) parts.push_back(ValueText(item));
      return fmt::format("({})", fmt::join(parts, ", "));
    }
  } visitor;
  return std::visit(visitor, value.data);
}

OperationCall CallOf(const task::Setting& setting, const task::Case& drawn,
                     const std::vector<std::string>& names, task::Format format) {
  OperationCall call;
  call.setting = setting.Describe();
  if (!setting.reduced.empty()) {
    call.setting += fmt::format(" (smaller than the task's own: {})", setting.reduced);
  }
  call.returns_tuple = drawn.returns_tuple;
  for (size_t i = 0; i < drawn.args.size(); ++i) {
    const std::string name = i < names.size() ? names[i]
                             : format == task::Format::kKernelBench
                                 ? fmt::format("state_dict() entry {}", i - names.size())
                                 : fmt::format("argument {}", i);
    call.arguments.push_back(fmt::format("{}: {}", name, ValueText(drawn.args[i])));
  }
  for (const task::Output& output : drawn.outputs) {
    const std::string name = Fit(Printable(output.name), kMaxName);
    if (output.argument >= 0) {
      call.changed.push_back(name);
      continue;
    }
    call.outputs.push_back(
        output.is_none
            ? fmt::format("{}: not requested, torch::Tensor() is accepted", name)
            : fmt::format("{}: {}[{}]", name, Name(output.dtype), fmt::join(output.shape, ", ")));
  }
  return call;
}

/// The keywords that vary over the task's listed settings, with their values in order.
std::vector<std::pair<std::string, std::string>> RangesOf(
    const std::vector<task::Setting>& settings) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> values;
  for (const task::Setting& setting : settings) {
    if (setting.kind == task::SettingKind::kHeldout) continue;
    for (const Json* keywords : {&setting.init, &setting.inputs}) {
      for (const auto& [key, value] : keywords->items()) {
        auto& known = values[key];
        if (known.empty()) order.push_back(key);
        const std::string text = Fit(Printable(DumpJson(value)), kMaxString);
        if (std::find(known.begin(), known.end(), text) == known.end()) known.push_back(text);
      }
    }
  }
  std::vector<std::pair<std::string, std::string>> ranges;
  for (const std::string& key : order) {
    auto& known = values[key];
    if (known.size() < 2) continue;
    const bool more = known.size() > kMostLengths;
    known.resize(std::min(known.size(), kMostLengths));
    ranges.emplace_back(Fit(Printable(key), kMaxName),
                        fmt::format("{}{}", fmt::join(known, ", "), more ? ", …" : ""));
  }
  return ranges;
}

/// The keywords that the judge gives numbers that no setting lists.
std::vector<std::string> ExploredKeys(const std::vector<task::Setting>& settings) {
  std::vector<task::Setting> listed;
  std::ranges::copy_if(settings, std::back_inserter(listed), [](const task::Setting& setting) {
    return setting.kind != task::SettingKind::kHeldout;
  });
  std::vector<std::string> keys;
  for (const task::ExploredSize& size : task::ExploredSizes(listed, listed)) {
    std::string key = Fit(Printable(size.key), kMaxName);
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(std::move(key));
  }
  return keys;
}

constexpr std::array<std::string_view, 9> kProductNames = {
    "matmul", "linear", "Linear", "conv", "Conv", "einsum", "bmm", "attention", " @ "};
constexpr std::array<std::string_view, 10> kStatisticNames = {
    "softmax", "norm", "Norm", "mean", "var(", "std(", "sum", "max", "min", "entropy"};

template <size_t kCount>
bool HasOne(std::string_view code, const std::array<std::string_view, kCount>& names) {
  return std::ranges::any_of(
      names, [&](std::string_view name) { return code.find(name) != std::string_view::npos; });
}

void NoteTypes(const task::Case& drawn, Operation& operation) {
  const auto note = [&](DType dtype) {
    operation.has_float32 |= dtype == DType::kF32;
    operation.has_16bit |= dtype == DType::kF16 || dtype == DType::kBF16;
    operation.has_float8 |= dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2;
  };
  for (const task::Tensor* tensor : task::TensorLeaves(drawn.args)) note(tensor->dtype);
  for (const task::Output& output : drawn.outputs) note(output.dtype);
}

/// Removes the leading comment lines, and cuts the code at kMaxCode.
std::string ReadableCode(std::string code) {
  size_t at = 0;
  while (at < code.size() && (code[at] == '#' || code[at] == '\n')) {
    const size_t end = code.find('\n', at);
    if (end == std::string::npos) break;
    at = end + 1;
  }
  code.erase(0, at);
  while (!code.empty() && code.back() == '\n') code.pop_back();
  if (code.size() > kMaxCode) {
    code.resize(std::min(code.rfind('\n', kMaxCode), kMaxCode));
    code += "\n# … the rest of the file is omitted";
  }
  return code;
}

std::string CallText(const Operation& operation, const OperationCall& call) {
  std::string text =
      fmt::format("At {}:\n", call.setting.empty() ? "the task's only setting" : call.setting);
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    text += fmt::format("  {}. {}\n", i + 1, call.arguments[i]);
  }
  const bool several = call.returns_tuple || call.outputs.size() != 1;
  text += fmt::format("  {} returns {}:\n", task::Name(operation.direction),
                      several ? "std::vector<torch::Tensor>" : "torch::Tensor");
  for (const std::string& output : call.outputs) text += fmt::format("  -> {}\n", output);
  for (const std::string& changed : call.changed) {
    text += fmt::format("  It writes to this argument, in place: {}, a result like the others.\n",
                        changed);
  }
  return text;
}

constexpr char kCallOfProgram[] = R"(# The call

Your Python file defines a class ModelNew(torch.nn.Module). It is constructed with {}, and its forward
is called with the arguments of Model's forward, except fn. Give it the same parameters and buffers, made
in the same order: they get the values of Model's. So a call computes with these inputs, followed by
parameters and buffers:

)";

/// What a program's class is constructed with (constructor_of in oracle/py/signature.py).
const char* ConstructorText(const Operation& operation) {
  return operation.has_init_inputs
             ? "the list that\nget_init_inputs returns, as positional arguments"
             : "the keyword\narguments of Model";
}

std::string CallsText(const Operation& operation) {
  const bool is_program = operation.form == Form::kPython;
  std::string text =
      is_program ? fmt::format(kCallOfProgram, ConstructorText(operation))
                 : fmt::format(
                       "# The call\n\nThe C++ function `{}` is called with these arguments, "
                       "in this order:\n\n",
                       task::Name(operation.direction));
  for (size_t i = 0; i < std::min(kMostCalls, operation.calls.size()); ++i) {
    text += CallText(operation, operation.calls[i]);
  }
  if (operation.format == task::Format::kKernelBench) {
    text +=
        "The inputs come first, then the parameters and buffers of Model in the order of its "
        "state_dict().\n";
  }
  if (!operation.ranges.empty()) {
    text += "It must be correct for all combinations of:\n";
    for (const auto& [name, values] : operation.ranges) {
      text += fmt::format("  {}: {}\n", name, values);
    }
  }
  const std::string sizes = operation.sizes.empty() ? "Sizes"
                                                    : fmt::format("These sizes vary: {}; they",
                                                                  fmt::join(operation.sizes, ", "));
  return text + fmt::format(
                    "{} also take values that are not disclosed: odd ones, primes, one, widths of "
                    "models, more than\n2^31 elements. Take all sizes from the arguments, and "
                    "compute offsets of large tensors in 64 bits.\n",
                    sizes);
}

constexpr char kAccuracy[] =
    R"(# What is correct

Shapes and dtypes of outputs must be exactly those above. Integers must be equal; where PyTorch may
choose among equal numbers (argmax, topk), any of them is right. Floating-point outputs are compared with the same code in float64: the RMS error may be at most 16 times, the
largest single error 128 times PyTorch's own rounding error. float32 sums in another order and
intrinsics such as __expf pass; TF32, float16 or bfloat16 instead of float32, tanhf under fast math,
a dropped term or a skipped element fail. Products of parts (a float32 number as two or three TF32 or
16-bit parts, their products summed in float32) are allowed if they are as exact as float32. Inputs of
16 or 8 bits may be multiplied as they are, and summed in float32. A float8 output must be such a number
rounded to nearest; cast numbers too large as PyTorch does. Inputs are fresh in every trial, and also shifted, all
negative, heavy-tailed, constant, zero, or with a few elements a thousand times larger. Arguments may
have other strides or alignment: support these, make them contiguous, or reject them by TORCH_CHECK.
No out-of-bounds access, no race, no read of uninitialised memory, no write to an input{}.
)";

constexpr char kFloat8Sums[] =
    "Tensor cores sum products of float8 with fewer bits than float32: add such sums to a float32 "
    "sum after\nat most 128 products.\n";

constexpr char kOnCpu[] =
    "Where the code asks is_cuda, results are compared with what it computes on the CPU; the rest "
    "is only\ntimed.\n";

/// From Hopper on, some instructions need an architecture's own features.
std::string ArchitectureNote(const device::Description& d) {
  if (d.major < 9) return "";
  return fmt::format("; sm_{}{}a, chosen automatically, for code that needs it, such as {}",
                     d.major, d.minor, d.major == 9 ? "wgmma" : "tcgen05");
}

std::string DeviceText(const device::Description& d) {
  return fmt::format(
      "# The GPU\n\n{}: compute capability {}.{} (sm_{}{}{}), {} SMs, {} KiB of shared memory a "
      "block "
      "(48 without\ncudaFuncSetAttribute) and {} KiB an SM, {} registers an SM, {} MiB of L2, "
      "{:.2g} TB/s of memory\nbandwidth, {:.3g} TFLOP/s in float32. A launch costs about {:.2g} "
      "us.\n",
      d.full_name, d.major, d.minor, d.major, d.minor, ArchitectureNote(d), d.sm_count,
      d.shared_per_block_optin >> 10, d.shared_per_sm >> 10, d.registers_per_sm, d.l2_bytes >> 20,
      d.dram_bytes * 1e-12, d.fp32_flops * 1e-12, d.launch_latency_us);
}

constexpr char kCudaFile[] = R"(
# What the code may use

The source is one file of CUDA C++17, compiled by nvcc with -O3 --use_fast_math:

- The file ends with `PYBIND11_MODULE`: PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{0}", &{0}); }}
)";

constexpr char kInlineCode[] = R"(
# What C++ code of load_inline may use

This part is not about Triton. `functions` binds the C++ functions. No flags are needed for the architecture,
and the driver's functions are linked. One file may have both C++ code and kernels of Triton.

)";

std::string OperatorsText(const task::AllowedOperators& operators) {
  if (operators.all) {
    return "Operators of PyTorch may compute\n  parts of the result (a convolution or a matrix "
           "product, without TF32), but a kernel of your own must have a part in it.";
  }
  if (operators.names.empty()) return "Operators of PyTorch that compute are rejected.";
  return fmt::format("Of PyTorch's operators, only these may compute a part of the result: {}.",
                     fmt::join(operators.names, ", "));
}

std::string ProgramText(const task::AllowedOperators& operators) {
  return fmt::format(R"(
# The Python file

It is run on tensors without data, and the work that it requests is recorded: kernels run, are judged
and timed without Python. So the file must request the same work for the same shapes.

- It brings at least one kernel of its own, as CUDA C++ in a string for
  torch.utils.cpp_extension.load_inline, or as a @triton.jit function. {}
  Tensors may be allocated, viewed and made contiguous.
- Code that reads a value of a tensor (.item(), .tolist(), .cpu(), if x.sum() > 0) is rejected, and so
  is a result that is kept from an earlier call. There are no files, processes or threads.
- Nothing can be measured there. All configurations of an autotuner must be right. The first that fits is timed.
- load_inline compiles without fast math unless extra_cuda_cflags has --use_fast_math.
)",
                     OperatorsText(operators));
}

}  // namespace

Result<Operation> Describe(const task::Task& task, task::Direction direction,
                           oracle::Oracle& oracle, const device::Description& device) {
  Operation operation;
  operation.task = task.name;
  operation.title = task.title;
  operation.direction = direction;
  operation.format = task.format;
  operation.device = device;
  TRY_ASSIGN(std::string code, os::ReadFile(task.code[static_cast<int>(direction)], kMaxFile));
  operation.has_init_inputs = code.find("def get_init_inputs(") != std::string::npos ||
                              code.find("\nget_init_inputs =") != std::string::npos;
  operation.code = ReadableCode(std::move(code));
  operation.has_products = HasOne(operation.code, kProductNames);
  operation.has_statistics = HasOne(operation.code, kStatisticNames);
  const std::vector<std::string> names = ArgumentNames(operation);
  std::string failure = "it lists no single setting";
  for (const task::Setting& setting : task.SettingsOf(direction)) {
    if (setting.kind != task::SettingKind::kSingle) continue;
    TRY_ASSIGN(const auto outcomes, oracle.Cases(task, direction, setting, 1, kSeed));
    for (const oracle::CaseOutcome& outcome : outcomes) {
      if (const auto* drawn = std::get_if<task::Case>(&outcome)) {
        operation.calls.push_back(CallOf(setting, *drawn, names, task.format));
        NoteTypes(*drawn, operation);
      } else {
        failure = std::get<oracle::SettingFailure>(outcome).message;
      }
    }
  }
  if (operation.calls.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot describe task {} to a model: {}", task.name, failure),
                "fix the task's code, or its single settings");
  }
  operation.ranges = RangesOf(task.SettingsOf(direction));
  operation.sizes = ExploredKeys(task.SettingsOf(direction));
  return operation;
}

std::string Text(const Operation& operation) {
  std::string text = fmt::format(
      "# The operation\n\n{} ({}). PyTorch computes:\n\n```python\n{}\n```\n\n",
      Printable(operation.title),
      operation.direction == task::Direction::kBackward
          ? "backward: the gradients that backward_fn has to return"
      : operation.format == task::Format::kKernelBench ? "what Model.forward returns"
                                                       : "forward: what forward_fn returns",
      operation.code);
  const bool changes = std::ranges::any_of(
      operation.calls, [](const OperationCall& call) { return !call.changed.empty(); });
  text += CallsText(operation) + "\n" +
          fmt::format(kAccuracy, changes ? " except those that it has to change" : "");
  if (operation.code.find("is_cuda") != std::string::npos) text += kOnCpu;
  if (operation.has_float8 && operation.device.major == 9) text += kFloat8Sums;
  text += "\n" + DeviceText(operation.device);
  const bool is_program = operation.form == Form::kPython;
  if (is_program) text += ProgramText(operation.operators);
  text += is_program ? std::string(kInlineCode)
                     : fmt::format(kCudaFile, task::Name(operation.direction));
  const bool has_operators = operation.operators.all || !operation.operators.names.empty();
  if (!is_program && has_operators) text += "- " + OperatorsText(operation.operators) + "\n";
  return text + ApiMd();
}

}  // namespace cupel::evolve
