// SPDX-License-Identifier: Apache-2.0
#include "build/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/demangle.h"
#include "base/name_some.h"
#include "base/parse_number.h"
#include "base/text.h"
#include "build/is_one_of.h"

namespace cupel::build {
namespace {

using std::string_view;
using Severity = Diagnostic::Severity;

constexpr size_t kMaxDiagnostics = 200;
constexpr size_t kMaxMessage = 1000;

bool TakePrefix(string_view& text, string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// "error: ", "error #20: ", "warning #177-D: ", "fatal error: ", "catastrophic error: ".
std::optional<Severity> TakeSeverity(string_view& text) {
  string_view rest = text;
  TakePrefix(rest, "fatal ");
  TakePrefix(rest, "catastrophic ");
  TakePrefix(rest, "internal ");
  std::optional<Severity> severity;
  if (TakePrefix(rest, "error")) {
    severity = Severity::kError;
  } else if (TakePrefix(rest, "warning")) {
    severity = Severity::kWarning;
  } else if (TakePrefix(rest, "note") || TakePrefix(rest, "remark")) {
    severity = Severity::kNote;
  }
  if (!severity) return severity;
  if (TakePrefix(rest, " #") || TakePrefix(rest, " C"))
    rest.remove_prefix(std::min(rest.find(':'), rest.size()));
  if (TakePrefix(rest, " :") || TakePrefix(rest, ":")) {
    text = Trim(rest);
    return severity;
  }
  return std::nullopt;
}

/// The number at the front of `text`, which is removed; 0 if there is none or it is out of range.
int LineIn(string_view& text) {
  const auto number = TakeNumber<int>(text);
  return number && *number >= 0 ? *number : 0;
}

/// "kernel.cu(12): error: …" (cudafe++, cicc), "kernel.cu:12:5: error: …" (gcc), "ptxas x.ptx, line
/// 3; error : …", "ptxas error : …", "…: undefined reference to …".
std::optional<Diagnostic> ParseLine(string_view line) {
  Diagnostic diagnostic;
  if (string_view rest = line; TakePrefix(rest, "ptxas ")) {
    const size_t semicolon = rest.find("; ");
    const size_t comma = rest.find(", line ");
    if (semicolon != string_view::npos && comma != string_view::npos && comma < semicolon) {
      string_view number = rest.substr(comma + 7);
      diagnostic.line = LineIn(number);
      diagnostic.file = rest.substr(0, comma);
      rest.remove_prefix(semicolon + 2);
    }
    string_view message = Trim(rest);
    for (const string_view kind : {"error", "fatal", "warning"}) {
      if (!TakePrefix(message, kind)) continue;
      diagnostic.severity = kind == "warning" ? Severity::kWarning : Severity::kError;
      message = Trim(message);
      TakePrefix(message, ":");
      diagnostic.message = Trim(message);
      return diagnostic;
    }
    return std::nullopt;
  }
  for (size_t at = line.find_first_of("(:"); at != string_view::npos;
       at = line.find_first_of("(:", at + 1)) {
    string_view rest = line.substr(at + 1);
    const auto number = TakeNumber<int>(rest);
    if (!number || *number < 0) continue;
    if (line[at] == '(' ? !TakePrefix(rest, "): ") : !TakePrefix(rest, ":")) continue;
    if (line[at] == ':') {
      string_view column = rest;
      if (TakeNumber<uint32_t>(column) && TakePrefix(column, ":")) rest = column;
      rest = Trim(rest);
    }
    const auto severity = TakeSeverity(rest);
    if (!severity) continue;
    diagnostic.severity = *severity;
    diagnostic.file = line.substr(0, at);
    diagnostic.line = *number;
    diagnostic.message = rest;
    return diagnostic;
  }
  const size_t undefined = line.find("undefined reference to ");
  const size_t error = line.find("error: ");
  if (undefined != string_view::npos) {
    diagnostic.message = line.substr(undefined);
    return diagnostic;
  }
  if (const size_t twice = line.find("multiple definition of "); twice != string_view::npos) {
    diagnostic.message = line.substr(twice, line.find(';', twice) - twice);
    return diagnostic;
  }
  // The assembler refers to its own input, which no one has seen.
  constexpr string_view kAssembler = ": Error: ";
  if (const size_t assembler = line.find(kAssembler); assembler != string_view::npos) {
    diagnostic.message =
        "the assembler reports: " + std::string(line.substr(assembler + kAssembler.size()));
    return diagnostic;
  }
  // "nvcc fatal : …", "g++: error: …", "cc1plus: out of memory …" have no line.
  if (error != string_view::npos && error < 40) {
    diagnostic.message = line.substr(error + 7);
    return diagnostic;
  }
  for (const string_view lead : {"nvcc fatal", "nvcc error"}) {
    if (string_view rest = line; TakePrefix(rest, lead)) {
      rest = Trim(rest);
      TakePrefix(rest, ":");
      diagnostic.message = Trim(rest);
      return diagnostic;
    }
  }
  return std::nullopt;
}

/// What the line after an error of nvcc about an operator or an overload adds to it. For
/// "            operand types are: int * x", this is ": int * x". Empty for other lines.
std::string TypesOf(string_view line) {
  for (const string_view lead : {"operand types are: ", "argument types are: "}) {
    string_view rest = Trim(line.substr(0, 8192));
    if (TakePrefix(rest, lead)) return ": " + std::string(rest);
  }
  return {};
}

/// The word that follows `lead` and ends at `end`.
std::optional<std::string> Between(string_view text, string_view lead, string_view end) {
  const size_t at = text.find(lead);
  if (at == string_view::npos) return std::nullopt;
  const size_t begin = at + lead.size();
  const size_t stop = text.find(end, begin);
  if (stop == string_view::npos) return std::nullopt;
  return std::string(text.substr(begin, stop - begin));
}

bool IsFramework(string_view space) {
  for (const string_view name : {"at", "torch", "c10"}) {
    if (space == name || space.substr(0, name.size() + 2) == std::string(name) + "::") return true;
  }
  return false;
}

/// Namespaces that the shim declares only so that messages can name their use.
bool IsFrameworkOnly(string_view space) {
  for (const string_view name :
       {"nn", "autograd", "linalg", "fft", "special", "optim", "jit", "sparse"}) {
    if (space.substr(0, 7 + name.size()) == "torch::" + std::string(name)) return true;
  }
  return space.substr(0, 10) == "at::native" || space.substr(0, 12) == "at::indexing";
}

/// A name that the compiler does not know, or that is deleted.
struct UnknownName {
  std::string space;  // "torch::nn::functional"; "at::Tensor" for its members; empty: no namespace
  std::string name;
  bool is_deleted = false;
};

/// As nvcc says it: namespace "at" has no member "conv2d".
std::optional<UnknownName> UnknownToNvcc(string_view message) {
  if (const auto space = Between(message, "namespace \"", "\" has no member")) {
    const string_view rest = message.substr(message.find("has no member"));
    if (auto name = Between(rest, "\"", "\"")) return UnknownName{*space, std::move(*name)};
  }
  if (auto name = Between(message, "class \"at::Tensor\" has no member \"", "\"")) {
    return UnknownName{"at::Tensor", std::move(*name)};
  }
  if (auto name = Between(message, "identifier \"", "\" is undefined")) {
    return UnknownName{"", std::move(*name)};
  }
  if (message.find("it is a deleted function") == string_view::npos) return std::nullopt;
  if (auto name = Between(message, "function \"at::operator", "(")) {
    return UnknownName{"at", "operator" + *name, true};
  }
  return std::nullopt;
}

/// As the host's compiler says it: 'conv2d' is not a member of 'at'.
std::optional<UnknownName> UnknownToHost(string_view message) {
  const auto before = [&](string_view end) -> std::optional<std::string> {
    const size_t at = message.find(end);
    const size_t begin = at == 0 || at == string_view::npos ? at : message.rfind('\'', at - 1);
    if (begin == string_view::npos || at == 0) return std::nullopt;
    return std::string(message.substr(begin + 1, at - begin - 1));
  };
  if (const auto name = before("' is not a member of '")) {
    if (auto space = Between(message, "is not a member of '", "'"))
      return UnknownName{*space, *name};
  }
  if (auto name = Between(message, "class at::Tensor' has no member named '", "'")) {
    return UnknownName{"at::Tensor", std::move(*name)};
  }
  if (const auto name = before("' was not declared in this scope")) return UnknownName{"", *name};
  if (auto name = Between(message, "use of deleted function 'at::Tensor at::operator", "(")) {
    return UnknownName{"at", "operator" + *name, true};
  }
  return std::nullopt;
}

/// The framework operator that an error is about, as the author wrote it; empty if the error is
/// about something else.
std::string FrameworkOperator(string_view message, const CallableOperators& operators) {
  auto unknown = UnknownToNvcc(message);
  if (!unknown) unknown = UnknownToHost(message);
  if (!unknown) return {};
  const auto& [space, name, is_deleted] = *unknown;
  if (is_deleted) {
    constexpr size_t kLongest = 16;
    return name.size() < kLongest ? "at::" + name + " (arithmetic on tensors)" : "";
  }
  const bool is_known = std::binary_search(operators.names.begin(), operators.names.end(), name);
  if (space.empty()) return is_known && operators.unqualified ? "at::" + name : "";
  if (!IsFramework(space) || (!is_known && !IsFrameworkOnly(space))) return {};
  return space + "::" + name;
}

/// The header that an error is about.
std::string MissingHeader(string_view message) {
  const size_t end = message.find(": No such file or directory");
  const string_view quoted = "could not open source file \"";
  std::string header;
  if (end != string_view::npos) {
    header = message.substr(0, end);
  } else if (const auto name = Between(message, quoted, "\"")) {
    header = *name;
  }
  return header;
}

/// How the names of PyTorch's headers begin, and those of libraries that candidates may have where
/// they are compiled for use.
constexpr std::array<string_view, 5> kPyTorchHeaders = {"torch/", "ATen/", "c10/", "pybind11/",
                                                        "caffe2/"};
constexpr std::array<string_view, 16> kLibraryHeaders = {
    "cublas",   "curand",  "cusparse",   "cusolver",   "cufft",    "cudnn",
    "nccl",     "nvtx3/",  "nvToolsExt", "npp",        "cutlass/", "cute/",
    "cutensor", "nvshmem", "kittens",    "flashinfer/"};

template <size_t N>
bool BeginsAsOneOf(string_view header, const std::array<string_view, N>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](string_view name) { return header.starts_with(name); });
}

std::string Where(const Diagnostic& diagnostic) {
  if (diagnostic.file.empty()) return {};
  return diagnostic.line > 0 ? fmt::format("{}:{}", diagnostic.file, diagnostic.line)
                             : diagnostic.file;
}

/// What an error says is missing, if cupel does not support it.
struct Missing {
  std::string name;
  const char* kind = "";
  const char* code = "";
};

/// `has_cublas`: the source includes cuBLAS's header, so an unknown function is one that
/// shim/cublas does not declare.
Missing MissingFrom(string_view message, const CallableOperators& operators, bool has_cublas) {
  if (std::string name = FrameworkOperator(message, operators); !name.empty()) {
    return {std::move(name), "framework operator", "unsupported_operator"};
  }
  std::string header = MissingHeader(message);
  if (BeginsAsOneOf(header, kPyTorchHeaders)) {
    return {std::move(header), "PyTorch header", "unsupported_api"};
  }
  if (BeginsAsOneOf(header, kLibraryHeaders)) {
    return {std::move(header), "library header (--include FOLDER adds headers)", "unsupported_api"};
  }
  const auto name = Between(message, "identifier \"cublas", "\" is undefined");
  if (has_cublas && name && !name->empty() && name->front() >= 'A' && name->front() <= 'Z') {
    return {"cublas" + *name, "cuBLAS function", "unsupported_api"};
  }
  return {};
}

/// "unsupported: framework operator at::conv2d, line 12; at::relu, line 13".
std::optional<BuildFailure> Unsupported(const std::vector<Diagnostic>& errors,
                                        const CallableOperators& operators) {
  const bool has_cublas = std::none_of(errors.begin(), errors.end(), [](const Diagnostic& error) {
    return error.message.find("\"cublasHandle_t\" is undefined") != std::string::npos;
  });
  BuildFailure failure;
  std::vector<std::string> seen;
  std::string_view kind;
  for (const Diagnostic& error : errors) {
    const Missing missing = MissingFrom(error.message, operators, has_cublas);
    const std::string& name = missing.name;
    if (name.empty() || std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
    if (seen.empty()) {
      failure.where = Where(error);
      failure.code = missing.code;
      failure.message = "unsupported: ";
    }
    if (seen.size() < 8) {
      failure.message += seen.empty() ? "" : "; ";
      if (missing.kind != kind) failure.message += fmt::format("{} ", missing.kind);
      kind = missing.kind;
      failure.message += fmt::format("{}, line {}", name, error.line);
    }
    seen.push_back(name);
  }
  if (seen.empty()) return std::nullopt;
  if (seen.size() > 8) failure.message += fmt::format("; and {} more", seen.size() - 8);
  failure.unsupported = true;
  return failure;
}

}  // namespace

std::vector<Diagnostic> ParseDiagnostics(string_view text, const std::filesystem::path& folder) {
  const std::string prefix = folder.string() + "/";
  std::vector<Diagnostic> diagnostics;
  const auto lines = SplitLines(text);
  for (size_t i = 0; i < lines.size() && diagnostics.size() < kMaxDiagnostics; ++i) {
    auto diagnostic = ParseLine(lines[i].substr(0, 8192));
    if (!diagnostic) continue;
    if (i + 1 < lines.size()) diagnostic->message += TypesOf(lines[i + 1]);
    for (size_t at; (at = diagnostic->message.find(prefix)) != std::string::npos;) {
      diagnostic->message.erase(at, prefix.size());
    }
    if (diagnostic->file.compare(0, prefix.size(), prefix) == 0)
      diagnostic->file.erase(0, prefix.size());
    if (diagnostic->message.size() > kMaxMessage) diagnostic->message.resize(kMaxMessage);
    const bool twice =
        std::any_of(diagnostics.begin(), diagnostics.end(), [&](const Diagnostic& d) {
          return d.line == diagnostic->line && d.file == diagnostic->file &&
                 d.message == diagnostic->message;
        });
    if (!twice) diagnostics.push_back(std::move(*diagnostic));
  }
  return diagnostics;
}

namespace {

/// Where `source` includes `header`: the number of its line, or 0.
int LineThatIncludes(string_view source, string_view header) {
  int number = 0;
  for (const string_view line : SplitLines(source)) {
    ++number;
    const string_view code = Trim(line);
    const auto names = [&](const char* form) {
      return code.find(fmt::format(fmt::runtime(form), header)) != string_view::npos;
    };
    if (code.starts_with('#') && (names("<{}>") || names("\"{}\""))) return number;
  }
  return 0;
}

/// If `first` is about a missing header: the others that are missing.
std::vector<std::string> OtherHeaders(const Diagnostic& first,
                                      const std::vector<Diagnostic>& errors) {
  std::vector<std::string> others;
  const std::string named = MissingHeader(first.message);
  for (const Diagnostic& error : errors) {
    std::string header = MissingHeader(error.message);
    if (named.empty() || header.empty() || header == named) continue;
    others.push_back(std::move(header));
  }
  return others;
}

}  // namespace

void AddMissingHeaders(const std::vector<std::string>& headers,
                       const std::vector<SourceFile>& files, std::vector<Diagnostic>& diagnostics) {
  constexpr size_t kMost = 64;
  for (size_t i = 0; i < std::min(headers.size(), kMost); ++i) {
    const bool is_known = std::ranges::any_of(diagnostics, [&](const Diagnostic& diagnostic) {
      return MissingHeader(diagnostic.message) == headers[i];
    });
    if (is_known) continue;
    Diagnostic added;
    added.message = headers[i] + ": No such file or directory";
    for (const SourceFile& file : files) {
      added.line = LineThatIncludes(file.text, headers[i]);
      added.file = file.name;
      if (added.line > 0) break;
    }
    diagnostics.push_back(std::move(added));
  }
}

BuildFailure Explain(std::vector<Diagnostic> diagnostics, const std::vector<std::string>& sources,
                     const CallableOperators& operators, const std::string& fallback) {
  std::vector<Diagnostic> errors;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (diagnostic.severity == Severity::kError) errors.push_back(diagnostic);
  }
  if (auto failure = Unsupported(errors, operators)) {
    failure->diagnostics = std::move(diagnostics);
    return *failure;
  }
  BuildFailure failure;
  failure.code = "compile_error";
  failure.message = fallback;
  if (!errors.empty()) {
    // An error on the candidate's own line is more useful to its author than one in a header.
    auto first = std::find_if(errors.begin(), errors.end(), [&](const Diagnostic& error) {
      return IsOneOf(sources, error.file);
    });
    if (first == errors.end()) first = errors.begin();
    failure.where = Where(*first);
    failure.message = first->message.substr(0, 300);
    if (const auto name = Between(first->message, "Unresolved extern function '", "'")) {
      failure.message = fmt::format(
          "the file that calls the device function {} does not define it; files are "
          "compiled without -rdc, so define it in a header that both include",
          Demangle(*name));
    }
    const auto other_headers = OtherHeaders(*first, errors);
    if (!other_headers.empty()) {
      failure.message += fmt::format("; also {}", NameSome(other_headers, 8));
    } else if (errors.size() > 1) {
      failure.message += fmt::format(" (and {} more)", errors.size() - 1);
    }
  }
  failure.diagnostics = std::move(diagnostics);
  return failure;
}

namespace {

/// What ptxas says about lost speed.
struct SpeedRemark {
  std::string kernel;  // empty: not named
  std::string text;
};

/// "… info : (C7515) Potential Performance Loss: TEXT in the function 'NAME'". These come before
/// the kernels' own lines.
std::optional<SpeedRemark> SpeedRemarkOf(string_view line) {
  constexpr size_t kLongestRemark = 300;
  constexpr string_view kLoss = "Potential Performance Loss: ", kFunction = " function '";
  const auto code = Between(line, "info    : (C", ") ");
  if (!code || code->size() > 8) return std::nullopt;
  SpeedRemark remark{Between(line, kFunction, "'").value_or(""), ""};
  string_view said = line.substr(line.find(") ") + 2);
  const bool is_loss = said.starts_with(kLoss);
  if (!is_loss && remark.kernel.empty()) return std::nullopt;
  if (is_loss) said.remove_prefix(kLoss.size());
  said = said.substr(0, said.find(kFunction));
  for (const string_view end : {" the", " in", " for", "."}) {
    if (said.ends_with(end)) said.remove_suffix(end.size());
  }
  remark.text = fmt::format("{} (C{})", Trim(said.substr(0, kLongestRemark)), *code);
  return remark;
}

}  // namespace

std::vector<KernelResources> ParseResources(string_view text) {
  std::vector<KernelResources> kernels;
  std::map<std::string, std::vector<std::string>> remarks;  // by kernel; of "": not named
  // "…, 2048 bytes smem, …": the number before `unit`.
  const auto amount = [](string_view line, string_view unit) {
    const size_t at = line.find(unit);
    if (at == string_view::npos) return 0;
    size_t begin = line.find_last_not_of(' ', at - 1);
    while (begin != string_view::npos && begin > 0 && line[begin - 1] >= '0' &&
           line[begin - 1] <= '9')
      --begin;
    string_view number = line.substr(begin == string_view::npos ? 0 : begin);
    return LineIn(number);
  };
  KernelResources* current = nullptr;
  for (const string_view line : SplitLines(text)) {
    if (const auto name = Between(line, "Compiling entry function '", "'")) {
      if (kernels.size() == 10000) break;
      kernels.emplace_back().kernel = *name;
      current = &kernels.back();
    } else if (line.find("Function properties for ") != string_view::npos) {
      // Device functions that were not inlined are reported between the kernels.
      const std::string function(Trim(line.substr(line.find(" for ") + 5)));
      current = !kernels.empty() && kernels.back().kernel == function ? &kernels.back() : nullptr;
    } else if (current != nullptr && line.find(" bytes stack frame") != string_view::npos) {
      current->local_bytes = amount(line, " bytes stack frame");
      current->spill_stores = amount(line, " bytes spill stores");
      current->spill_loads = amount(line, " bytes spill loads");
    } else if (!kernels.empty() && line.find(": Used ") != string_view::npos) {
      KernelResources& kernel = kernels.back();
      kernel.registers = amount(line, " registers");
      kernel.static_shared = amount(line, " bytes smem");
      kernel.constant_bytes = amount(line, " bytes cmem[0]");
    } else if (auto remark = SpeedRemarkOf(line)) {
      std::vector<std::string>& known = remarks[remark->kernel];
      const bool is_new = std::ranges::find(known, remark->text) == known.end();
      if (is_new && known.size() < kMostRemarks) known.push_back(std::move(remark->text));
    }
  }
  // A remark that names no kernel may be about any of the file.
  for (KernelResources& kernel : kernels) {
    for (const std::string& name : {kernel.kernel, std::string()}) {
      for (const std::string& said : remarks[name]) {
        if (kernel.remarks.size() < kMostRemarks) kernel.remarks.push_back(said);
      }
    }
  }
  return kernels;
}

}  // namespace cupel::build
