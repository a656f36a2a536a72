// SPDX-License-Identifier: Apache-2.0
#include "build/build.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "build/audit.h"
#include "build/cache.h"
#include "build/compile.h"
#include "build/diagnostics.h"
#include "build/elf.h"
#include "build/flags.h"
#include "build/operators.h"
#include "build/source_scan.h"
#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::build {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxArtefact = 256u << 20;

/// Reads a file that the compiler wrote. Accepts only a regular file in the folder itself: a link
/// could point to any file of the user.
Result<std::string> TakeOutput(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) {
    return Fail(ErrorCode::kInternal,
                fmt::format("the compiler did not write {}", path.filename().string()));
  }
  return os::ReadFile(path, kMaxArtefact);
}

/// True if the compiler ran out of disk. Checks its message, which a candidate could imitate, and
/// the disk itself.
bool DiskIsFull(const fs::path& folder, const std::string& output) {
  struct statvfs info{};
  return output.find("No space left on device") != std::string::npos &&
         statvfs(folder.c_str(), &info) == 0 &&
         info.f_bavail * info.f_frsize < (uint64_t{64} << 20);
}

std::vector<std::string> FrameworkOperators(const fs::path& shim) {
  std::vector<std::string> names;
  const auto text = os::ReadFile(shim / "cupel" / "framework_operators.txt", 4u << 20);
  for (const std::string_view line : SplitLines(text ? *text : std::string_view())) {
    if (!line.empty() && line[0] != '#') names.emplace_back(line);
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Context {
  const Options* options = nullptr;
  Toolkit toolkit;
  fs::path path;
  std::string name, source, arch;
  std::vector<std::string> flags;
  std::vector<std::string> operator_files;  // each gets a header ATen/ops/NAME.h
  OperatorHeaders operators;
  std::string operators_problem;  // why they cannot be declared
};

struct Compilation {
  os::TempDir folder;
  Compiled compiled;
};

/// PyTorch has one header per operator. Here they are all the same one.
void LinkOperatorFiles(const std::vector<std::string>& names, const fs::path& shim,
                       const fs::path& folder) {
  const fs::path path = folder / "ATen" / "ops";
  std::error_code error;  // a missing header is the compiler's error
  fs::create_directories(path, error);
  for (const fs::path& made : {path.parent_path(), path}) {  // the compiler may be another user
    fs::permissions(made, static_cast<fs::perms>(0755), error);
  }
  for (const std::string& name : names) {
    fs::create_symlink(shim / "ATen" / "ATen.h", path / (name + ".h"), error);
  }
}

Result<Compilation> RunCompiler(const Context& context, const std::vector<std::string>& lean,
                                Result<Compiled> (*compile)(const Job&) = Compile) {
  TRY_ASSIGN(os::TempDir folder, os::TempDir::Create());
  const fs::path copy = folder.path() / context.name;
  TRY(os::WriteFileAtomically(copy, context.source));
  std::error_code error;  // independent of the umask: the compiler may run as another user
  fs::permissions(copy, static_cast<fs::perms>(0644), error);
  const fs::path generated = folder.path() / "cupel_generated";
  if (!context.operators.functions.empty()) {
    fs::create_directory(generated, error);
    fs::permissions(generated, static_cast<fs::perms>(0755), error);
    const std::pair<const char*, const std::string&> files[] = {
        {"methods.h", context.operators.methods}, {"functions.h", context.operators.functions}};
    for (const auto& [name, text] : files) {
      TRY(os::WriteFileAtomically(generated / name, text));
      fs::permissions(generated / name, static_cast<fs::perms>(0644), error);
    }
  }
  if (!context.operator_files.empty()) {
    LinkOperatorFiles(context.operator_files, context.options->shim, folder.path());
  }
  Job job;
  job.toolkit = &context.toolkit;
  job.options = context.options;
  job.source_name = context.name;
  job.folder = folder.path();
  job.flags = context.flags;
  job.flags.insert(job.flags.end(), lean.begin(), lean.end());
  if (!context.operators.functions.empty() || !context.operator_files.empty()) {
    job.flags.emplace_back("-I.");
  }
  job.virtual_arch = context.arch;
  job.identity = Sha256Hex(context.source).substr(0, 8);
  TRY_ASSIGN(Compiled compiled, compile(job));
  if (!compiled.ok && DiskIsFull(folder.path(), compiled.output)) {
    return Fail(ErrorCode::kIo,
                fmt::format("the disk that holds {} is full", folder.path().parent_path().string()),
                "free space, or set TMPDIR to a folder on another disk");
  }
  return Compilation{std::move(folder), std::move(compiled)};
}

BuildFailure FailureOf(const Context& context, const Compilation& compilation,
                       std::vector<Diagnostic> diagnostics) {
  const Compiled& compiled = compilation.compiled;
  if (compiled.timed_out) {
    return {
        "build_timeout",
        fmt::format("the compiler did not finish within {} s", context.options->deadline.count()),
        context.name, std::move(diagnostics), false};
  }
  if (compiled.limits) {
    return {"build_limits",
            fmt::format("the compiler exceeded its limit of memory, time or file size ({})",
                        compiled.trouble),
            context.name, std::move(diagnostics), false};
  }
  BuildFailure failure =
      Explain(std::move(diagnostics), context.name, FrameworkOperators(context.options->shim),
              fmt::format("the compiler failed without a message ({})", compiled.trouble));
  if (failure.code == "unsupported_operator" && !context.operators_problem.empty()) {
    failure.message += " (PyTorch's operators are not known: " + context.operators_problem + ")";
  }
  return failure;
}

/// True if the source calls operators of PyTorch, which the shim does not declare.
bool LacksOperators(const Context& context, const Compilation& compilation) {
  if (compilation.compiled.ok || !context.options->operator_schemas) return false;
  return FailureOf(context, compilation,
                   ParseDiagnostics(compilation.compiled.output, compilation.folder.path()))
             .code == "unsupported_operator";
}

/// Declares the operators that the source names. Most sources name none that the shim lacks, so
/// PyTorch is asked only after an error of the compiler. Error: kCancelled.
Status DeclareNamedOperators(Context* context) {
  const auto schemas = context->options->operator_schemas();
  if (!schemas && schemas.error().code == ErrorCode::kCancelled) {
    return tl::unexpected<Error>(schemas.error());
  }
  if (!schemas) {
    context->operators_problem = schemas.error().message;
    return {};
  }
  context->operators = DeclareOperators(
      *schemas, OperatorsIn(CodeOnly(context->source), FrameworkOperators(context->options->shim)));
  return {};
}

/// Paths of the working folder would make each build's PTX different, and mean nothing later.
void DropFolder(std::string& text, const fs::path& folder) {
  const std::string prefix = folder.string() + "/";
  std::string result;
  size_t from = 0;
  for (size_t at; (at = text.find(prefix, from)) != std::string::npos; from = at + prefix.size()) {
    result.append(text, from, at - from);
  }
  result.append(text, from);
  text = std::move(result);
}

/// Stores the files, and sets the image's paths and PTX.
Result<Outcome> Keep(const Context& context, const Artefacts& artefacts, Image image) {
  image.ptx = artefacts.ptx;
  if (!context.options->cache.empty()) {
    TRY(StoreInCache(context.options->cache, artefacts, image));
  } else {
    TRY_ASSIGN(os::TempDir folder, os::TempDir::Create());
    TRY(WriteArtefacts(folder.path(), artefacts, image));
    image.folder = std::make_shared<const os::TempDir>(std::move(folder));
  }
  return Outcome(std::move(image));
}

BuildFailure NoModule(const Context& context) {
  return {
      "no_module",
      "the file does not define a Python module; add PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { "
      "m.def(\"forward\", &forward); } at its end",
      context.name,
      {},
      false};
}

Result<Outcome> Finish(const Context& context, Compilation compilation, Image image) {
  const Compiled& compiled = compilation.compiled;
  auto diagnostics = ParseDiagnostics(compiled.output, compilation.folder.path());
  if (!compiled.ok) return Outcome(FailureOf(context, compilation, std::move(diagnostics)));
  Artefacts artefacts;
  artefacts.sandbox = compiled.sandbox;
  TRY_ASSIGN(artefacts.shared_object, TakeOutput(compiled.shared_object));
  TRY_ASSIGN(artefacts.ptx, TakeOutput(compiled.ptx));
  TRY_ASSIGN(artefacts.cubin, TakeOutput(compiled.cubin));
  DropFolder(artefacts.ptx, compilation.folder.path());
  TRY_ASSIGN(const SharedObject object,
             ReadSharedObject(std::as_bytes(std::span<const char>(artefacts.shared_object))));
  const auto& defined = object.defined;
  if (std::find(defined.begin(), defined.end(), "cupel_candidate_call") == defined.end()) {
    return Outcome(NoModule(context));
  }
  Audit audit = AuditObject(object);
  if (audit.objection) {
    return Outcome(BuildFailure{std::move(audit.objection->code),
                                std::move(audit.objection->message),
                                std::move(audit.objection->where),
                                {},
                                false});
  }
  image.resources = ParseResources(compiled.ptxas);
  for (Diagnostic& diagnostic : diagnostics) {
    if (diagnostic.severity == Diagnostic::Severity::kWarning)
      image.warnings.push_back(std::move(diagnostic));
  }
  image.notes = NotesFromSource(context.source);
  for (std::string& note : NotesFromPtx(artefacts.ptx)) image.notes.push_back(std::move(note));
  for (std::string& note : audit.notes) image.notes.push_back(std::move(note));
  const auto& undefined = object.undefined;
  if (std::find(undefined.begin(), undefined.end(), "cupel_rt_operator") != undefined.end()) {
    image.notes.emplace_back(kCallsOperators);
  }
  return Keep(context, artefacts, std::move(image));
}

Result<Context> Prepare(const fs::path& source, std::string text, const Options& options) {
  Context context;
  context.options = &options;
  context.path = source;
  context.name = SourceName(source);
  context.source = std::move(text);
  TRY_ASSIGN(context.flags, CandidateFlags(options.flags));
  TRY_ASSIGN(context.arch, VirtualArch(options.arch));
  TRY_ASSIGN(context.toolkit, FindToolkit(options.stop));
  return context;
}

/// The image in the cache, or one without files.
Result<Image> CachedOrNew(const Context& context) {
  const Options& options = *context.options;
  Image image;
  TRY_ASSIGN(image.key,
             CacheKey({context.name, context.source, &options, &context.toolkit, &context.flags}));
  if (!options.cache.empty()) {
    auto cached = LoadFromCache(options.cache, image.key, options.allow_weak_sandbox);
    if (cached) image = std::move(*cached);
    image.from_cache = cached.has_value();
  }
  image.source = context.path;
  image.arch = options.arch;
  if (image.from_cache) return image;
  image.source_hash = Sha256Hex(context.source);
  image.toolkit = "nvcc " + context.toolkit.version;
  image.flags = context.flags;
  return image;
}

/// Words in the source of kernels that need an architecture with the suffix "a".
constexpr std::string_view kFeatures[] = {"wgmma",
                                          "setmaxnreg",
                                          "tcgen05",
                                          "_ARCH_FEAT_SM90_ALL",
                                          "_ARCH_FEAT_SM100_ALL",
                                          "tensormap.replace",
                                          "tensormap_replace",
                                          "ARCH_MMA_SM9",
                                          "ARCH_MMA_SM1",
                                          "<cutlass/",
                                          "\"cutlass/",
                                          "<cute/",
                                          "\"cute/"};

/// ptxas: "Instruction 'wgmma.fence' not supported on .target 'sm_90'".
bool LacksFeatures(const Outcome& outcome) {
  const auto* failure = std::get_if<BuildFailure>(&outcome);
  return failure != nullptr &&
         std::any_of(failure->diagnostics.begin(), failure->diagnostics.end(),
                     [](const Diagnostic& diagnostic) {
                       return diagnostic.message.find("on .target '") != std::string::npos;
                     });
}

/// Builds for options.arch, which is not "auto".
Result<Outcome> BuildFor(const fs::path& source, const std::string& text, const Options& options) {
  const auto start = Clock::now();
  TRY_ASSIGN(Context context, Prepare(source, text, options));
  TRY_ASSIGN(Image image, CachedOrNew(context));
  if (image.from_cache) return Outcome(std::move(image));
  const std::vector<std::string> lean = LeanDefinitions(context.source);
  TRY_ASSIGN(Compilation compilation, RunCompiler(context, lean));
  // The candidate may need something that the lean headers omit, so build again with the full ones.
  // More headers do not help if the compiler exceeded its limits.
  if (!compilation.compiled.ok && !compilation.compiled.timed_out && !compilation.compiled.limits &&
      !lean.empty()) {
    TRY_ASSIGN(compilation, RunCompiler(context, {}));
  }
  // Headers of single operators are many, and few sources include them.
  if (!compilation.compiled.ok &&
      compilation.compiled.output.find("ATen/ops/") != std::string::npos) {
    context.operator_files = FrameworkOperators(options.shim);
    context.operator_files.emplace_back("from_blob");
    TRY_ASSIGN(compilation, RunCompiler(context, {}));
  }
  if (LacksOperators(context, compilation)) {
    TRY(DeclareNamedOperators(&context));
    if (!context.operators.functions.empty()) {
      TRY_ASSIGN(compilation, RunCompiler(context, {}));
    }
  }
  image.build_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::string source_hash = image.source_hash;
  TRY_ASSIGN(Outcome outcome, Finish(context, std::move(compilation), std::move(image)));
  if (auto* failure = std::get_if<BuildFailure>(&outcome)) failure->source_hash = source_hash;
  return outcome;
}

}  // namespace

std::string SourceName(const fs::path& source) {
  const std::string stem = source.stem().string();
  const bool plain = !stem.empty() && stem.size() <= 64 &&
                     stem.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_") == std::string::npos;
  return (plain ? stem : "candidate") + ".cu";
}

std::string ArchFor(const Options& options, std::string_view source) {
  if (options.arch != "auto") return options.arch;
  const std::string arch = options.device_major >= 10 ? "sm_100" : "sm_90";
  const bool needs = std::any_of(
      std::begin(kFeatures), std::end(kFeatures),
      [&](std::string_view word) { return source.find(word) != std::string_view::npos; });
  return needs || NamesArch(options.flags, arch + "a") ? arch + "a" : arch;
}

Result<Outcome> Build(const fs::path& source, const Options& options) {
  TRY_ASSIGN(const std::string text, os::ReadFile(source, kMaxSourceBytes));
  Options chosen = options;
  chosen.arch = ArchFor(options, text);
  TRY_ASSIGN(Outcome outcome, BuildFor(source, text, chosen));
  if (options.arch != "auto" || chosen.arch.ends_with('a') || !LacksFeatures(outcome)) {
    return outcome;
  }
  chosen.arch += 'a';
  return BuildFor(source, text, chosen);
}

Result<Outcome> BuildPtx(const std::string& ptx, const std::vector<std::string>& flags,
                         const Options& options) {
  const auto start = Clock::now();
  TRY(VirtualArch(options.arch));
  Context context;
  context.options = &options;
  context.name = "kernel.ptx";
  context.source = ptx;
  context.flags = flags;
  TRY_ASSIGN(context.toolkit, FindToolkit(options.stop));
  TRY_ASSIGN(Image image, CachedOrNew(context));
  if (image.from_cache) return Outcome(std::move(image));
  TRY_ASSIGN(const Compilation compilation, RunCompiler(context, {}, Assemble));
  if (!compilation.compiled.ok) {
    return Outcome(
        FailureOf(context, compilation,
                  ParseDiagnostics(compilation.compiled.output, compilation.folder.path())));
  }
  Artefacts artefacts;
  artefacts.sandbox = compilation.compiled.sandbox;
  artefacts.ptx = ptx;
  TRY_ASSIGN(artefacts.cubin, TakeOutput(compilation.compiled.cubin));
  image.resources = ParseResources(compilation.compiled.ptxas);
  image.build_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return Keep(context, artefacts, std::move(image));
}

}  // namespace cupel::build
