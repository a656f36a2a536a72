// SPDX-License-Identifier: Apache-2.0
#include "trace/extensions.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/demangle.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/parse_number.h"
#include "build/flags.h"
#include "os/files.h"
#include "os/temp_dir.h"
#include "plan/codec.h"
#include "plan/json_parts.h"
#include "plan/limits.h"
#include "ptx/parser.h"
#include "record/kernels.h"
#include "trace/arguments.h"
#include "trace/sources.h"

namespace cupel::trace {
namespace {

using record::Refusal;
using Reply = Extensions::Reply;

constexpr std::string_view kQuestion = "a call of an extension";
constexpr std::string_view kKernel = "a kernel of Triton";
constexpr size_t kMostImages = plan::kMaxImages;
constexpr size_t kMostParts = 100'000;

Refusal RefusalOf(const build::BuildFailure& failure, const std::string& name) {
  return {failure.code, fmt::format("{}: {}", name, failure.message), failure.where,
          failure.unsupported};
}

Refusal NotRead(const std::string& name, const Error& error) {
  return {"unsupported_api", fmt::format("{}: {}", name, error.message), "", true};
}

Refusal TooMany() {
  return {"unsupported_api",
          fmt::format("a program with more than {} extensions and kernels", kMostImages), "", true};
}

/// The files of an extension.
std::vector<build::SourceFile> FilesOf(const Sources& sources) {
  if (sources.files) return sources.files->files;
  return {{sources.name + ".cu", sources.text, true}};
}

constexpr std::string_view kSource = "CUDA source of kernels";
constexpr size_t kMostInstances = 256;

/// A reply after which the program gets an exception. It may catch it and go on.
Json Failed(const Refusal& refusal) {
  return {
      {"failed", {{"code", refusal.code}, {"message", refusal.message}, {"where", refusal.where}}}};
}

/// An output for the program: of an argument's memory, or of memory that the call made.
Json OutputOf(const plan::View& view, const plan::Plan& plan) {
  if (view.address.buffer == plan::kNoneOutput) return nullptr;
  const plan::Buffer& buffer = plan.buffers[static_cast<size_t>(view.address.buffer)];
  Json output{{"argument", nullptr},       {"buffer", view.address.buffer},
              {"bytes", buffer.bytes},     {"offset", view.address.offset},
              {"dtype", Name(view.dtype)}, {"shape", view.shape},
              {"strides", view.strides}};
  if (buffer.kind == plan::BufferKind::kArgument) output["argument"] = buffer.argument;
  return output;
}

/// The architecture for which PTX of this target ("sm_80", "sm_90a") is assembled. Nothing if the
/// device does not run it: PTX runs on later devices, but with a suffix only on its own.
std::optional<std::string> ArchFor(std::string_view target, const device::Description& device) {
  constexpr std::string_view kPrefix = "sm_";
  if (!target.starts_with(kPrefix)) return std::nullopt;
  std::string_view rest = target.substr(kPrefix.size());
  const auto number = TakeNumber<int>(rest);
  const int own = 10 * device.major + device.minor;
  if (!number || *number > own || (!rest.empty() && *number != own)) return std::nullopt;
  return fmt::format("sm_{}{}", own, rest);
}

Json Described(const record::Kernel& kernel, int most_threads) {
  Json parameters = Json::array();
  for (const record::Kernel::Param& parameter : kernel.params)
    parameters.push_back(parameter.bytes);
  return {{"name", kernel.name},
          {"signature", Demangle(kernel.name)},
          {"parameters", std::move(parameters)},
          {"registers", kernel.registers},
          {"shared", kernel.static_shared},
          {"threads", kernel.max_threads > 0 ? kernel.max_threads : most_threads}};
}

}  // namespace

std::string_view NameOf(ProgramCode::Kind kind) {
  switch (kind) {
    case ProgramCode::Kind::kExtension:
      return "extension";
    case ProgramCode::Kind::kTriton:
      return "triton";
    case ProgramCode::Kind::kKernels:
      return "kernels";
  }
  return "";
}

std::string_view DescriptionOf(ProgramCode::Kind kind) {
  switch (kind) {
    case ProgramCode::Kind::kExtension:
      return "extension";
    case ProgramCode::Kind::kTriton:
      return "kernel of Triton";
    case ProgramCode::Kind::kKernels:
      return "kernels";
  }
  return "";
}

Extensions::Extensions(std::filesystem::path program, build::Options build, record::Options record,
                       device::Description device)
    : program_(std::move(program)),
      build_(std::move(build)),
      record_(std::move(record)),
      device_(std::move(device)) {}

Result<build::SourcesOutcome> Extensions::BuildSources(const Sources& sources,
                                                       const build::Options& options) const {
  if (sources.files) return build::Build(*sources.files, options);
  TRY_ASSIGN(os::TempDir folder, os::TempDir::Create());
  const auto file = folder.path() / (sources.name + ".cu");
  TRY(os::WriteFileAtomically(file, sources.text));
  TRY_ASSIGN(build::Outcome outcome, build::Build(file, options));
  if (auto* failure = std::get_if<build::BuildFailure>(&outcome)) {
    return build::SourcesOutcome(std::move(*failure));
  }
  auto& image = std::get<build::Image>(outcome);
  image.source = program_;
  return build::SourcesOutcome(build::OneImage(std::move(image)));
}

Result<Reply> Extensions::Build(const Json& question) {
  const std::string key = Sha256Hex(DumpJson(question));
  if (const auto known = built_.find(key); known != built_.end()) return Reply(known->second);
  if (std::max(images_.size(), code_.size()) >= kMostImages) return Reply(TooMany());
  TRY_ASSIGN(auto found, SourcesOf(question, program_.parent_path()));
  if (auto* refusal = std::get_if<Refusal>(&found)) return Reply(std::move(*refusal));
  const Sources& sources = std::get<Sources>(found);
  build::Options options = build_;
  const build::AnswerFlags flags = build::FlagsOfAnswer(sources.flags);
  options.flags.insert(options.flags.begin(), flags.kept.begin(), flags.kept.end());
  notes_.insert(notes_.end(), flags.notes.begin(), flags.notes.end());
  if (sources.has_files) options.include_roots.push_back(program_.parent_path());
  TRY_ASSIGN(const build::SourcesOutcome outcome, BuildSources(sources, options));
  code_.push_back({ProgramCode::Kind::kExtension, sources.name, FilesOf(sources), outcome});
  if (const auto* failure = std::get_if<build::BuildFailure>(&outcome)) {
    Refusal refusal = RefusalOf(*failure, "extension " + sources.name);
    if (refusal.unsupported) return Reply(std::move(refusal));
    return Reply(built_.emplace(key, Failed(refusal)).first->second);
  }
  TRY_ASSIGN(Reply reply, Load(std::get<build::Images>(outcome)));
  if (auto* json = std::get_if<Json>(&reply)) {
    (*json)["libraries"] = sources.libraries;
    built_.emplace(key, *json);
  }
  return reply;
}

Result<Reply> Extensions::Load(build::Images images) {
  if (images_.size() + images.size() > kMostImages) return Reply(TooMany());
  TRY_ASSIGN(auto recorder, record::Recorder::Start(images, device_, record_));
  TRY_ASSIGN(auto functions, recorder.Functions());
  if (auto* refusal = std::get_if<Refusal>(&functions)) return Reply(std::move(*refusal));
  const int number = static_cast<int>(images_.size());
  images_.insert(images_.end(), images.begin(), images.end());
  known_.emplace(number, Known{std::move(recorder), {}});
  return Reply(
      Json{{"image", number}, {"functions", std::get<std::vector<std::string>>(functions)}});
}

Result<Reply> Extensions::Call(const Json& question) {
  TRY_ASSIGN(const int64_t image, JsonInt(question, "image", kQuestion));
  record::Request request;
  TRY_ASSIGN(request.function, JsonString(question, "function", kQuestion));
  TRY_ASSIGN(const Json* arguments, JsonArray(question, "arguments", kQuestion));
  const auto at = known_.find(static_cast<int>(image));
  if (at == known_.end() || at->first != image || parts_.size() >= kMostParts) {
    return Fail(ErrorCode::kInvalidArgument, "a call of an unknown extension");
  }
  TRY_ASSIGN(request.args, ReadArguments(*arguments));
  request.may_return_numbers = true;
  Known& known = at->second;
  const std::string key = DumpJson(record::ToJson(request));
  auto recorded = known.calls.find(key);
  if (recorded == known.calls.end()) {
    TRY_ASSIGN(auto outcome, known.recorder.Record(request));
    if (auto* refusal = std::get_if<Refusal>(&outcome)) return Reply(std::move(*refusal));
    recorded = known.calls.emplace(key, parts_.size()).first;
    parts_.push_back(
        {std::move(std::get<record::Recording>(outcome).plan), static_cast<int>(image)});
  }
  const plan::Plan& plan = parts_[recorded->second].plan;
  Json outputs = Json::array();
  for (const plan::View& view : plan.outputs) outputs.push_back(OutputOf(view, plan));
  for (const plan::Number& number : plan.numbers) {
    outputs[static_cast<size_t>(number.output)] = Json{{"number", plan::ToJson(number)}};
  }
  return Reply(Json{
      {"call", recorded->second}, {"outputs", std::move(outputs)}, {"tuple", plan.returns_tuple}});
}

Result<std::variant<std::monostate, Refusal>> Extensions::Recheck() {
  for (auto& [image, known] : known_) {
    TRY_ASSIGN(auto checked, known.recorder.Recheck());
    if (std::holds_alternative<Refusal>(checked)) return checked;
  }
  return std::variant<std::monostate, Refusal>();
}

Result<Reply> Extensions::Assemble(const Json& question) {
  const std::string key = Sha256Hex(DumpJson(question));
  if (const auto known = built_.find(key); known != built_.end()) return Reply(known->second);
  if (std::max(images_.size(), code_.size()) >= kMostImages) return Reply(TooMany());
  TRY_ASSIGN(const std::string name, JsonString(question, "name", kKernel));
  TRY_ASSIGN(const std::string ptx, JsonString(question, "ptx", kKernel));
  TRY_ASSIGN(const bool fused, JsonBool(question, "fused", kKernel));
  if (ptx.size() > build::kMaxSourceBytes) {
    return Reply(Refusal{"unsupported_api", fmt::format("the code of kernel {} is too large", name),
                         "", true});
  }
  const auto module = ptx::Parse(ptx);
  if (!module) return Reply(NotRead("kernel " + name, module.error()));
  build::Options options = build_;
  options.arch = module->target;
  std::vector<std::string> flags;
  if (!fused) flags.emplace_back("--fmad=false");
  TRY_ASSIGN(build::Outcome outcome, build::BuildPtx(ptx, flags, options));
  const build::SourceFile file{name + ".ptx", ptx};
  if (const auto* failure = std::get_if<build::BuildFailure>(&outcome)) {
    code_.push_back({ProgramCode::Kind::kTriton, name, {file}, *failure});
    return Reply(built_.emplace(key, Failed(RefusalOf(*failure, "kernel " + name))).first->second);
  }
  auto& image = std::get<build::Image>(outcome);
  image.is_of_triton = true;
  auto kernels = record::KernelsOf(*module, image);
  const auto kernel = std::find_if(kernels.begin(), kernels.end(),
                                   [&](const record::Kernel& k) { return k.name == name; });
  if (kernel == kernels.end()) {
    return Fail(ErrorCode::kInvalidArgument, "PTX without the kernel that it is for");
  }
  int spills = 0;
  for (const build::KernelResources& r : image.resources) spills += r.spill_stores;
  Json reply{{"registers", kernel->registers},
             {"spills", spills},
             {"threads", device_.max_threads_per_block}};
  reply["image"] =
      Keep(ProgramCode::Kind::kTriton, name, file, std::move(image), std::move(kernels));
  return Reply(built_.emplace(key, std::move(reply)).first->second);
}

Result<Reply> Extensions::Compile(const Json& question) {
  const std::string key = Sha256Hex(DumpJson(question));
  if (const auto known = built_.find(key); known != built_.end()) return Reply(known->second);
  if (std::max(images_.size(), code_.size()) >= kMostImages) return Reply(TooMany());
  TRY_ASSIGN(const std::string name, JsonString(question, "name", kSource));
  TRY_ASSIGN(const std::string language, JsonString(question, "language", kSource));
  TRY_ASSIGN(const std::string text, JsonString(question, "source", kSource));
  TRY_ASSIGN(const auto given, JsonStringList(question, "flags", kSource));
  TRY_ASSIGN(const auto instances, JsonStringList(question, "instances", kSource));
  if (text.size() > build::kMaxSourceBytes || instances.size() > kMostInstances) {
    return Reply(
        Refusal{"unsupported_api", fmt::format("the source {} is too large", name), "", true});
  }
  build::Options options = build_;
  const build::AnswerFlags flags = build::FlagsOfAnswer(given);
  options.flags.insert(options.flags.begin(), flags.kept.begin(), flags.kept.end());
  notes_.insert(notes_.end(), flags.notes.begin(), flags.notes.end());
  const bool is_ptx = language == "ptx";
  build::SourceFile file{is_ptx ? name : build::SourceName(name), text};
  std::optional<ptx::Module> module;
  if (is_ptx) {
    auto parsed = ptx::Parse(text);
    if (!parsed) return Reply(NotRead(name, parsed.error()));
    module = std::move(*parsed);
    const auto arch = ArchFor(module->target, device_);
    if (!arch) {
      return Reply(Refusal{"compile_error",
                           fmt::format("{} is for {}, which the judged GPU (sm_{}{}) does not run",
                                       name, module->target, device_.major, device_.minor),
                           name, false});
    }
    options.arch = *arch;
  }
  TRY_ASSIGN(build::Outcome outcome, is_ptx ? build::BuildPtx(text, {}, options)
                                            : build::BuildDevice(file, instances, options));
  if (const auto* failure = std::get_if<build::BuildFailure>(&outcome)) {
    code_.push_back({ProgramCode::Kind::kKernels, name, {file}, *failure});
    Refusal refusal = RefusalOf(*failure, "kernel source " + name);
    if (refusal.unsupported) return Reply(std::move(refusal));
    return Reply(built_.emplace(key, Failed(refusal)).first->second);
  }
  auto& image = std::get<build::Image>(outcome);
  if (!module) {
    auto parsed = ptx::Parse(image.ptx);
    if (!parsed) return Reply(NotRead(name, parsed.error()));
    module = std::move(*parsed);
  }
  auto kernels = record::KernelsOf(*module, image);
  Json reply{{"ptx", image.ptx}, {"kernels", Json::array()}};
  for (const record::Kernel& kernel : kernels) {
    reply["kernels"].push_back(Described(kernel, device_.max_threads_per_block));
  }
  reply["image"] =
      Keep(ProgramCode::Kind::kKernels, name, file, std::move(image), std::move(kernels));
  return Reply(built_.emplace(key, std::move(reply)).first->second);
}

int Extensions::Keep(ProgramCode::Kind kind, const std::string& name, build::SourceFile source,
                     build::Image image, std::vector<record::Kernel> kernels) {
  image.source = program_;
  const int number = static_cast<int>(images_.size());
  images_.push_back(std::make_shared<const build::Image>(std::move(image)));
  code_.push_back({kind, name, {std::move(source)}, build::Images{images_.back()}});
  for (record::Kernel& kernel : kernels) {
    std::pair<int, std::string> at{number, kernel.name};
    kernels_.emplace(std::move(at), std::move(kernel));
  }
  return number;
}

}  // namespace cupel::trace
