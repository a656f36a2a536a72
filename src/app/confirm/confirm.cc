// SPDX-License-Identifier: Apache-2.0
#include "app/confirm/confirm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "app/candidate.h"
#include "app/confirm/confirm_child.h"
#include "app/confirm/confirm_files.h"
#include "app/session.h"
#include "base/hash.h"
#include "build/flags.h"
#include "gpu/driver.h"
#include "gpu/engine.h"
#include "os/files.h"
#include "os/folders.h"
#include "os/temp_dir.h"
#include "records/json.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;
using std::chrono::minutes;

constexpr size_t kMaxSource = 16u << 20;
constexpr const char* kName = "candidate";
constexpr OneFileOnly kNoProgramToConfirm = {
    "confirm builds one C++/CUDA file as a PyTorch extension",
    "time the program with PyTorch itself, which runs it as it is, or with cupel bench"};

/// The built extension in the cache.
struct Extension {
  fs::path folder, module;
  std::string failure;
  double seconds = 0;
  bool from_cache = false;
};

/// Returns "9.0" for sm_90 and "9.0a" for sm_90a, the form that PyTorch's extension builder
/// expects.
std::string ArchList(const std::string& arch) {
  std::string number = arch.substr(3), suffix;
  if (number.ends_with('a')) suffix = "a", number.pop_back();
  return fmt::format("{}.{}{}", number.substr(0, number.size() - 1), number.back(), suffix);
}

/// The nvcc flags of a judged build, without those that PyTorch's builder adds itself.
Result<std::vector<std::string>> Flags(const Compile& compile) {
  TRY_ASSIGN(const auto all, build::CandidateFlags(compile.flags));
  std::vector<std::string> flags;
  for (const std::string& flag : all) {
    if (flag == "-std=c++17" || flag.starts_with("-D__CUDA_NO_")) continue;
    flags.push_back(flag);
  }
  return flags;
}

Result<Extension> BuildExtension(const ConfirmChildren& children, const ConfirmOptions& options,
                                 const std::string& source) {
  TRY_ASSIGN(const auto cache, os::CacheDir());
  TRY_ASSIGN(const auto flags, Flags(options.compile));
  build::Options target;
  target.arch = options.compile.arch;
  target.flags = options.compile.flags;
  const std::string arch = build::ArchFor(target, source);
  Sha256 key;
  for (const std::string& part : {std::string("confirm/1"), source, children.python().identity,
                                  arch, fmt::format("{}", fmt::join(flags, " "))}) {
    key.Field(part);
  }
  Json roots = Json::array();
  std::vector<fs::path> readable;
  for (const auto& root : options.compile.include_roots) {
    readable.push_back(fs::absolute(root));
    roots.push_back(readable.back().string());
    key.Field(readable.back().string());
  }
  const fs::path top = cache / "confirm" / key.Hex();
  Extension extension;
  extension.folder = top / "build";
  extension.module = extension.folder / fmt::format("{}.so", kName);
  std::error_code error;
  if (fs::exists(top / "done", error) && fs::exists(extension.module, error)) {
    extension.from_cache = true;
    return extension;
  }
  fs::remove_all(top, error);
  fs::create_directories(top / "source", error);
  fs::create_directories(extension.folder, error);
  const fs::path file = top / "source" / "kernel.cu";
  TRY(os::WriteFileAtomically(file, source));
  for (const fs::path& path : {top / "source", extension.folder}) {
    fs::permissions(path, static_cast<fs::perms>(0755), error);
  }
  fs::permissions(file, static_cast<fs::perms>(0644), error);
  readable.push_back(top / "source");
  const Json request{{"name", kName},          {"source", file.string()},
                     {"flags", flags},         {"folder", extension.folder.string()},
                     {"include_roots", roots}, {"arch_list", ArchList(arch)}};
  TRY_ASSIGN(const ChildReply reply, children.RunConfined("build", request, readable,
                                                          extension.folder, false, minutes(20)));
  extension.failure = reply.failure;
  if (!reply.failure.empty()) return extension;
  extension.seconds = JsonNumber(reply.json, "seconds", "build").value_or(0);
  if (!fs::exists(extension.module, error)) {
    extension.failure = "the build wrote no extension";
    return extension;
  }
  TRY(os::WriteFileAtomically(top / "done", ""));
  return extension;
}

/// Validates the times that a child reported. The result has finite numbers, or the reason why
/// there are none.
Json CheckedWays(const Json& reported) {
  Json ways = Json::object();
  for (const char* way : kConfirmWays) {
    const Json& one = reported.is_object() && reported.contains(way) ? reported[way] : Json();
    if (one.is_object() && one.contains("failure") && one["failure"].is_string()) {
      ways[way] = Json{{"failure", one["failure"].get<std::string>().substr(0, 500)}};
      continue;
    }
    Json checked = Json::object();
    for (const char* key : {"mean_us", "median_us", "iqr_us", "min_us", "samples"}) {
      const auto value = one.is_object() ? JsonNumber(one, key, way) : Result<double>(-1.0);
      if (value && std::isfinite(*value) && *value >= 0) checked[key] = *value;
    }
    ways[way] = checked.size() == 5 ? checked : Json{{"failure", "no times were reported"}};
  }
  return ways;
}

/// Calls and times the kernel in a separate process, and judges the results that it wrote.
Result<Json> TryKernel(const ConfirmChildren& children, const ConfirmOptions& options,
                       const Extension& extension, const task::Case& wanted) {
  TRY_ASSIGN(const os::TempDir folder, os::TempDir::Create());
  std::error_code error;
  const fs::path input = folder.path() / "arguments", output = folder.path() / "results";
  fs::create_directory(input, error);
  fs::create_directory(output, error);
  TRY(WriteArguments(wanted.args, input / "arguments"));
  const Json request{{"module", extension.module.string()},
                     {"name", kName},
                     {"function", task::Name(DirectionOf(options.target))},
                     {"arguments", (input / "arguments").string()},
                     {"folder", output.string()},
                     {"device", fmt::format("cuda:{}", children.ordinal())},
                     {"ways", kConfirmWays},
                     {"repeats", options.repeats}};
  TRY_ASSIGN(const ChildReply reply,
             children.RunConfined("candidate", request, {input, extension.folder}, output, true,
                                  minutes(10)));
  std::vector<records::Reason> reasons;
  if (!reply.failure.empty()) {
    reasons.push_back({"does_not_run", reply.failure, ""});
  } else {
    for (const char* which : {"first", "last"}) {
      const Json reported = reply.json.contains(which) ? reply.json[which] : Json::object();
      for (records::Reason& reason : JudgeResults(reported, output, wanted)) {
        reason.where =
            fmt::format("{} call{}{}", which, reason.where.empty() ? "" : ", ", reason.where);
        reasons.push_back(std::move(reason));
      }
    }
  }
  return Json{{"right", reasons.empty()},
              {"reasons", records::ToJson(reasons)},
              {"ways", CheckedWays(reply.json.contains("ways") ? reply.json["ways"] : Json())}};
}

/// Times eager and compiled PyTorch on the same inputs, in a process without the kernel.
Result<Json> TryReferences(const ConfirmChildren& children, const ConfirmOptions& options,
                           const task::Task& task, const task::Setting& setting, uint64_t seed) {
  TRY_ASSIGN(const auto data, os::DataDir());
  const task::Direction direction = DirectionOf(options.target);
  const int d = static_cast<int>(direction);
  const bool problem = task.format == task::Format::kKernelBench;
  const Json request{{"oracle", (data / "src" / "oracle" / "py" / "oracle.py").string()},
                     {"task",
                      {{"path", fs::absolute(task.code[d]).string()},
                       {"direction", task::Name(direction)},
                       {"name", task.name},
                       {"hash", task.content_hash[d]},
                       {"format", problem ? "kernelbench" : "folder"}}},
                     {"init", setting.init},
                     {"inputs", setting.inputs},
                     {"seed", std::to_string(seed)},
                     {"device", fmt::format("cuda:{}", children.ordinal())},
                     {"kinds", {"eager", "compile"}},
                     {"ways", kConfirmWays},
                     {"repeats", options.repeats}};
  TRY_ASSIGN(const ChildReply reply, children.RunTrusted("reference", request, minutes(30)));
  Json found = Json::object();
  for (const char* kind : {"eager", "compile"}) {
    if (!reply.failure.empty() || !reply.json.contains(kind)) {
      found[kind] = Json{{"failure", reply.failure}};
    } else if (reply.json[kind].contains("failure")) {
      found[kind] = reply.json[kind];
    } else {
      found[kind] = CheckedWays(reply.json[kind]);
    }
  }
  return found;
}

/// Runs and times the kernel at one setting. Returns null if the reference fails at this setting.
Result<Json> ConfirmSetting(Session& session, engine::Engine& gpu, const ConfirmChildren& children,
                            const ConfirmOptions& options, const task::Task& task,
                            const task::Setting& setting, const Extension& extension) {
  TRY_ASSIGN(const auto cases, session.oracle().Cases(task, DirectionOf(options.target), setting, 1,
                                                      options.common.seed));
  const auto* wanted = cases.empty() ? nullptr : std::get_if<task::Case>(&cases[0]);
  if (wanted == nullptr) return Json();
  Json json{{"id", setting.id}, {"description", setting.Describe()}};
  TRY_ASSIGN(const auto reserved, gpu.Reserve());
  TRY_ASSIGN(json["kernel"], TryKernel(children, options, extension, *wanted));
  if (!options.references) return json;
  TRY_ASSIGN(Json references, TryReferences(children, options, task, setting, wanted->seed));
  json.update(references);
  return json;
}

/// The record without its settings.
Json Describe(const ConfirmChildren& children, const ConfirmOptions& options,
              const task::Task& task, const std::string& source, const Extension& extension) {
  return Json{
      {"schema", "cupel.confirm/1"},
      {"caveat",
       "for comparison only, not evidence: the kernel's own host code ran in the process that "
       "timed it"},
      {"task", task.name},
      {"direction", task::Name(DirectionOf(options.target))},
      {"kernel", options.kernel.string()},
      {"source_sha256", Sha256Hex(source)},
      {"gpu", children.gpu()},
      {"torch", children.python().torch_version},
      {"tf32", false},
      {"sandbox",
       {{"level", app::Describe(children.sandbox_level())}, {"missing", children.missing()}}},
      {"build",
       {{"seconds", extension.seconds},
        {"from_cache", extension.from_cache},
        {"failure", extension.failure}}},
      {"settings", Json::array()}};
}

Result<int> RequireGpu(const std::string& device) {
  constexpr const char* kUnsupported =
      "unsupported on this machine: cupel confirm needs an NVIDIA GPU ({}); without one, use cupel "
      "check --device emu";
  if (device == "emu") {
    return Fail(ErrorCode::kInvalidArgument,
                "cupel confirm needs a GPU; without one, use cupel check --device emu");
  }
  const auto driver = gpu::OpenDriver();
  if (!driver) {
    return Fail(ErrorCode::kEnvironment, fmt::format(kUnsupported, driver.error().message));
  }
  int count = 0;
  if ((*driver)->device_count(&count) != 0 || count == 0) {
    return Fail(ErrorCode::kEnvironment, fmt::format(kUnsupported, "no GPU was found"));
  }
  if (device == "auto") return 0;
  TRY_ASSIGN(const int ordinal, GpuOrdinal(device));
  if (ordinal < count) return ordinal;
  return Fail(ErrorCode::kEnvironment,
              fmt::format("there is no GPU {}; GPUs found: {}", ordinal, count));
}

}  // namespace

Result<ConfirmReport> Confirm(const ConfirmOptions& options, Events& events) {
  TRY(RequireCudaFile(options.kernel, kNoProgramToConfirm));
  TRY_ASSIGN(const int ordinal, RequireGpu(options.common.device));
  TRY_ASSIGN(const task::Task task, LoadTarget(options.target, options.common));
  TRY_ASSIGN(const std::string source, os::ReadFile(options.kernel, kMaxSource));
  const auto show = [&](const std::string& stage) { events.Show(Progress{stage}); };
  Common common = options.common;
  common.device = "emu";  // the session is only for the oracle: no engine executes anything here
  TRY_ASSIGN(auto session, Session::Create(common, options.compile, events));
  // This engine executes nothing. It reserves the GPU while the children measure times.
  gpu::EngineOptions reserve;
  reserve.ordinal = ordinal;
  reserve.stop = options.common.stop;
  TRY_ASSIGN(const auto cache, os::CacheDir());
  reserve.locks = cache / "gpu";
  TRY_ASSIGN(const auto gpu, gpu::MakeGpuEngine(reserve));
  show("starting PyTorch");
  TRY_ASSIGN(ConfirmChildren children,
             ConfirmChildren::Create(options.common.python, ordinal, options.common.stop));
  TRY(children.RequireCuda());
  children.AllowWeak(options.unsandboxed || options.compile.allow_weak_sandbox);
  TRY(children.FindConfinement(options.unsandboxed));
  show("building the extension");
  TRY_ASSIGN(const Extension extension, BuildExtension(children, options, source));

  ConfirmReport report;
  report.document = Describe(children, options, task, source, extension);
  report.built = extension.failure.empty();
  report.right = report.built;
  const auto kinds = KindsOf(options.target);
  for (const task::Setting& setting : task.SettingsOf(DirectionOf(options.target))) {
    if (!report.built) break;
    if (!kinds.empty() && setting.kind != kinds[0]) continue;
    show(setting.id);
    TRY_ASSIGN(Json one,
               ConfirmSetting(*session, *gpu, children, options, task, setting, extension));
    if (one.is_null()) continue;
    report.right = report.right && one["kernel"]["right"].get<bool>();
    report.document["settings"].push_back(std::move(one));
  }
  return report;
}

}  // namespace cupel::app
