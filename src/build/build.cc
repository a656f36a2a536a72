// SPDX-License-Identifier: Apache-2.0
#include "build/build.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/demangle.h"
#include "base/hash.h"
#include "base/text.h"
#include "build/audit.h"
#include "build/cache.h"
#include "build/compile.h"
#include "build/diagnostics.h"
#include "build/elf.h"
#include "build/flags.h"
#include "build/half_hint.h"
#include "build/is_one_of.h"
#include "build/operators.h"
#include "build/source_scan.h"
#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::build {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxArtefact = 256u << 20;

/// Parts of the names of PyTorch's own functions.
constexpr std::string_view kFrameworkSpaces[] = {"at::", "c10::", "torch::", "pybind11::"};

/// Reads a file that the compiler wrote. Accepts only a regular file in the folder itself: a link
/// could point to any file of the user.
Result<std::string> TakeOutput(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path.parent_path(), error)) ||
      !fs::is_regular_file(fs::symlink_status(path, error))) {
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
  std::string name;  // of the candidate in messages
  std::vector<SourceFile> files;
  std::vector<std::string> folders;
  bool is_alone = true;  // a single file, not one of Sources
  std::string key_text;  // of the cache key, and hashed as the source
  std::string text;      // of all files
  std::string arch;
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

/// Writes a file that the compiler may read, and its folders.
Status Provide(const fs::path& folder, const std::string& name, const std::string& text) {
  fs::path parent = folder;
  std::error_code error;  // independent of the umask: the compiler may run as another user
  for (const fs::path& part : fs::path(name).parent_path()) {
    parent /= part;
    fs::create_directory(parent, error);
    fs::permissions(parent, static_cast<fs::perms>(0755), error);
  }
  TRY(os::WriteFileAtomically(folder / name, text));
  fs::permissions(folder / name, static_cast<fs::perms>(0644), error);
  return {};
}

/// The units of a build. Each file of several gets a folder for what nvcc writes.
std::vector<Unit> UnitsOf(const Context& context, const fs::path& folder) {
  std::vector<Unit> units;
  for (const SourceFile& file : context.files) {
    if (!file.is_compiled) continue;
    Unit& unit = units.emplace_back();
    unit.source_name = file.name;
    unit.is_cuda = !IsCppName(file.name);
    unit.identity = Sha256Hex(file.text).substr(0, 8);
    if (context.is_alone) continue;
    unit.keep = fmt::format("cupel_unit_{}", units.size() - 1);
    std::error_code error;
    fs::create_directory(folder / unit.keep, error);
    // The compiler may run as another user. The folder above is private to it.
    fs::permissions(folder / unit.keep, static_cast<fs::perms>(0777), error);
  }
  return units;
}

Result<Compilation> RunCompiler(const Context& context, const std::vector<std::string>& lean,
                                Result<Compiled> (*compile)(const Job&) = Compile) {
  TRY_ASSIGN(os::TempDir folder, os::TempDir::Create());
  for (const SourceFile& file : context.files) {
    TRY(Provide(folder.path(), file.name, file.text));
  }
  std::error_code error;
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
  job.units = UnitsOf(context, folder.path());
  job.includes = context.folders;
  job.folder = folder.path();
  job.flags = context.flags;
  job.flags.insert(job.flags.end(), lean.begin(), lean.end());
  if (!context.operators.functions.empty() || !context.operator_files.empty()) {
    job.flags.emplace_back("-I.");
  }
  job.virtual_arch = context.arch;
  TRY_ASSIGN(Compiled compiled, compile(job));
  if (!compiled.ok && DiskIsFull(folder.path(), compiled.output)) {
    return Fail(ErrorCode::kIo,
                fmt::format("the disk that holds {} is full", folder.path().parent_path().string()),
                "free space, or set TMPDIR to a folder on another disk");
  }
  return Compilation{std::move(folder), std::move(compiled)};
}

std::vector<std::string> NamesOf(const Context& context) {
  std::vector<std::string> names;
  names.reserve(context.files.size());
  for (const SourceFile& file : context.files) names.push_back(file.name);
  return names;
}

BuildFailure FailureOf(const Context& context, const Compilation& compilation,
                       std::vector<Diagnostic> diagnostics) {
  const Compiled& compiled = compilation.compiled;
  if (compiled.timed_out) {
    return {"build_timeout",
            fmt::format("the compiler did not finish within {} s (--compile-limit SECONDS gives it "
                        "more)",
                        context.options->deadline.count()),
            context.name, std::move(diagnostics), false};
  }
  if (compiled.limits) {
    return {"build_limits",
            fmt::format("the compiler exceeded its limit of memory, time or file size ({})",
                        compiled.trouble),
            context.name, std::move(diagnostics), false};
  }
  AddMissingHeaders(compiled.missing_headers, context.files, diagnostics);
  const CallableOperators operators{FrameworkOperators(context.options->shim),
                                    CallsUnqualified(CodeOnly(context.text))};
  BuildFailure failure =
      Explain(std::move(diagnostics), NamesOf(context), operators,
              fmt::format("the compiler failed without a message ({})", compiled.trouble));
  if (failure.code == "unsupported_operator" && !context.operators_problem.empty()) {
    failure.message += " (PyTorch's operators are not known: " + context.operators_problem + ")";
  }
  if (failure.code == "compile_error")
    failure.message += HalfHint(failure.diagnostics, context.flags);
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
      *schemas, OperatorsIn(CodeOnly(context->text), FrameworkOperators(context->options->shim)));
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
Result<Image> Keep(const Context& context, const Artefacts& artefacts, Image image) {
  image.ptx = artefacts.ptx;
  if (!context.options->cache.empty()) {
    TRY(StoreInCache(context.options->cache, artefacts, image));
  } else {
    TRY_ASSIGN(os::TempDir folder, os::TempDir::Create());
    TRY(WriteArtefacts(folder.path(), artefacts, image));
    image.folder = std::make_shared<const os::TempDir>(std::move(folder));
  }
  return image;
}

BuildFailure NoModule(const Context& context) {
  return {
      "no_module",
      fmt::format(
          "{} not define a Python module or operators; add "
          "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def(\"forward\", &forward); }} at {} "
          "end, or give the file that has TORCH_LIBRARY or STABLE_TORCH_LIBRARY with --sources",
          context.is_alone ? "the file does" : "the files do", context.is_alone ? "its" : "the"),
      context.name,
      {},
      false};
}

/// A function or variable that is declared and used, but that no file of the candidate defines.
/// With PyTorch, the extension could not be loaded.
std::optional<BuildFailure> UndefinedName(const Context& context, const SharedObject& object) {
  for (const std::string& symbol : object.unversioned) {
    const std::string name = Demangle(symbol);
    const bool is_cpp = symbol.starts_with("_Z") && name != symbol;
    // The recorder reports what cupel's own libraries lack.
    const bool is_pytorch =
        std::any_of(std::begin(kFrameworkSpaces), std::end(kFrameworkSpaces),
                    [&](std::string_view space) { return BriefName(name).starts_with(space); });
    if (!is_cpp || is_pytorch || !IsOneOf(object.undefined, symbol)) continue;
    return BuildFailure{
        "compile_error",
        fmt::format(
            "{} is declared and used, but {} it{}", name,
            context.is_alone ? "the file does not define" : "none of the candidate's files defines",
            context.is_alone ? "; give the file that does with --sources" : ""),
        context.name,
        {},
        false};
  }
  return std::nullopt;
}

void AddNotes(const std::vector<std::string>& notes, Image& image) {
  for (const std::string& note : notes) {
    if (!IsOneOf(image.notes, note)) image.notes.push_back(note);
  }
}

/// The image of a file, which was compiled to `code`, without the paths of its files.
Result<Image> ImageOf(const SourceFile& file, const Compiled::Code& code, Artefacts& artefacts,
                      const fs::path& folder, Image image) {
  TRY_ASSIGN(artefacts.ptx, TakeOutput(code.ptx));
  TRY_ASSIGN(artefacts.cubin, TakeOutput(code.cubin));
  DropFolder(artefacts.ptx, folder);
  image.resources = ParseResources(code.ptxas);
  image.notes = NotesFromSource(file.text);
  for (std::string& note : NotesFromPtx(artefacts.ptx)) image.notes.push_back(std::move(note));
  return image;
}

/// `images`: one for each .cu file, without its code.
Result<SourcesOutcome> Finish(const Context& context, Compilation compilation,
                              std::vector<Image> images) {
  const Compiled& compiled = compilation.compiled;
  auto diagnostics = ParseDiagnostics(compiled.output, compilation.folder.path());
  if (!compiled.ok) return SourcesOutcome(FailureOf(context, compilation, std::move(diagnostics)));
  Artefacts artefacts;
  artefacts.sandbox = compiled.sandbox;
  TRY_ASSIGN(artefacts.shared_object, TakeOutput(compiled.shared_object));
  if (!compiled.filled_object.empty()) {
    TRY_ASSIGN(artefacts.filled_object, TakeOutput(compiled.filled_object));
  }
  TRY_ASSIGN(const SharedObject object,
             ReadSharedObject(std::as_bytes(std::span<const char>(artefacts.shared_object))));
  if (!IsOneOf(object.defined, "cupel_candidate_call")) return SourcesOutcome(NoModule(context));
  const auto files =
      static_cast<size_t>(std::ranges::count_if(context.files, &SourceFile::is_compiled));
  Audit audit = AuditObject(object, std::max<size_t>(files, 1));
  if (!audit.objection && !artefacts.filled_object.empty()) {
    TRY_ASSIGN(const SharedObject other,
               ReadSharedObject(std::as_bytes(std::span<const char>(artefacts.filled_object))));
    audit.objection = AuditObject(other, std::max<size_t>(files, 1)).objection;
  }
  if (audit.objection) {
    return SourcesOutcome(BuildFailure{std::move(audit.objection->code),
                                       std::move(audit.objection->message),
                                       std::move(audit.objection->where),
                                       {},
                                       false});
  }
  if (auto failure = UndefinedName(context, object)) return SourcesOutcome(std::move(*failure));
  Images kept;
  for (const SourceFile& file : context.files) {
    if (!file.is_compiled || IsCppName(file.name)) continue;
    const size_t index = kept.size();
    TRY_ASSIGN(Image image, ImageOf(file, compiled.code.at(index), artefacts,
                                    compilation.folder.path(), std::move(images.at(index))));
    if (index == 0) {
      // What the linked file says is about all of them.
      for (Diagnostic& diagnostic : diagnostics) {
        if (diagnostic.severity == Diagnostic::Severity::kWarning)
          image.warnings.push_back(std::move(diagnostic));
      }
      for (const SourceFile& other : context.files) {
        if (IsCppName(other.name)) AddNotes(NotesFromSource(other.text), image);
      }
      AddNotes(audit.notes, image);
      if (IsOneOf(object.undefined, "cupel_rt_operator")) image.notes.emplace_back(kCallsOperators);
    }
    TRY_ASSIGN(image, Keep(context, artefacts, std::move(image)));
    kept.push_back(std::make_shared<const Image>(std::move(image)));
  }
  return SourcesOutcome(std::move(kept));
}

Status Complete(Context& context, const Options& options) {
  context.options = &options;
  TRY_ASSIGN(context.flags, CandidateFlags(options.flags));
  TRY_ASSIGN(context.arch, VirtualArch(options.arch));
  TRY_ASSIGN(context.toolkit, FindToolkit(options.stop));
  return {};
}

/// The images in the cache, or ones without files.
Result<std::vector<Image>> CachedOrNew(const Context& context) {
  const Options& options = *context.options;
  const std::string_view name = context.is_alone ? std::string_view(context.name) : "";
  TRY_ASSIGN(const std::string key,
             CacheKey({name, context.key_text, &options, &context.toolkit, &context.flags}));
  std::vector<Image> images;
  bool are_cached = !options.cache.empty();
  for (const SourceFile& file : context.files) {
    if (!file.is_compiled || IsCppName(file.name)) continue;
    Image& image = images.emplace_back();
    image.key = context.is_alone ? key : Sha256Hex(fmt::format("{} {}", key, images.size() - 1));
    if (are_cached) {
      auto cached = LoadFromCache(options.cache, image.key, options.allow_weak_sandbox);
      are_cached = cached.has_value();
      if (cached) image = std::move(*cached);
    }
    image.source = context.path;
    if (!context.is_alone) image.source = context.path / file.name;
    image.source_name = file.name;
    image.arch = options.arch;
  }
  for (Image& image : images) {
    image.from_cache = are_cached;
    if (are_cached) continue;
    Image empty;
    empty.key = image.key;
    empty.source = image.source;
    empty.source_name = image.source_name;
    empty.arch = image.arch;
    empty.source_hash = Sha256Hex(context.key_text);
    empty.toolkit = "nvcc " + context.toolkit.version;
    empty.flags = context.flags;
    image = std::move(empty);
  }
  return images;
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
bool LacksFeatures(const BuildFailure* failure) {
  return failure != nullptr &&
         std::any_of(failure->diagnostics.begin(), failure->diagnostics.end(),
                     [](const Diagnostic& diagnostic) {
                       return diagnostic.message.find("on .target '") != std::string::npos;
                     });
}

/// Builds for options.arch, which is not "auto".
Result<SourcesOutcome> BuildFor(Context context, const Options& options) {
  const auto start = Clock::now();
  TRY(Complete(context, options));
  TRY_ASSIGN(std::vector<Image> images, CachedOrNew(context));
  if (images.front().from_cache) {
    Images cached;
    for (Image& image : images) cached.push_back(std::make_shared<const Image>(std::move(image)));
    return SourcesOutcome(std::move(cached));
  }
  // All files get the same definitions, because they share the shim's types.
  const std::vector<std::string> lean = LeanDefinitions(context.text);
  TRY_ASSIGN(Compilation compilation, RunCompiler(context, lean));
  // The candidate may need something that the lean headers omit, or C++20, so build again with the
  // full ones and as PyTorch does. That does not help if the compiler exceeded its limits.
  if (!compilation.compiled.ok && !compilation.compiled.timed_out && !compilation.compiled.limits) {
    const bool is_newer = UseNewestStandard(options.flags, context.flags);
    if (!lean.empty() || is_newer) {
      TRY_ASSIGN(compilation, RunCompiler(context, {}));
    }
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
  for (Image& image : images) {
    image.flags = context.flags;
    image.build_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  TRY_ASSIGN(SourcesOutcome outcome, Finish(context, std::move(compilation), std::move(images)));
  if (auto* failure = std::get_if<BuildFailure>(&outcome)) {
    failure->source_hash = Sha256Hex(context.key_text);
  }
  return outcome;
}

/// Calls `build`, which builds `text` for the architecture of the options that it gets. If the
/// compiler says that the code needs the suffix "a", "auto" builds again with it.
template <class BuildOne>
auto BuildForDevice(const Options& options, std::string_view text, const BuildOne& build)
    -> decltype(build(options)) {
  Options chosen = options;
  chosen.arch = ArchFor(options, text);
  auto outcome = build(chosen);
  if (!outcome || options.arch != "auto" || chosen.arch.ends_with('a') ||
      !LacksFeatures(std::get_if<BuildFailure>(&*outcome))) {
    return outcome;
  }
  chosen.arch += 'a';
  return build(chosen);
}

Result<SourcesOutcome> BuildContext(const Context& context, const Options& options) {
  return BuildForDevice(options, context.text,
                        [&](const Options& chosen) { return BuildFor(context, chosen); });
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
  Context context;
  context.path = source;
  context.name = SourceName(source);
  TRY_ASSIGN(context.text, os::ReadFile(source, kMaxSourceBytes));
  context.key_text = context.text;
  context.files = {{context.name, context.text}};
  TRY_ASSIGN(SourcesOutcome outcome, BuildContext(context, options));
  if (auto* failure = std::get_if<BuildFailure>(&outcome)) return Outcome(std::move(*failure));
  return Outcome(*std::get<Images>(outcome).front());
}

Result<SourcesOutcome> Build(const Sources& sources, const Options& options) {
  Context context;
  context.path = sources.root;
  context.name = sources.name;
  context.files = sources.files;
  context.folders = sources.folders;
  context.is_alone = false;
  context.key_text = Bundle(sources);
  context.text = JoinedText(sources);
  return BuildContext(context, options);
}

namespace {

/// Builds an image that has no code of the host. `compile` makes a cubin, and perhaps PTX.
Result<Outcome> BuildWithoutHost(const Context& context, Result<Compiled> (*compile)(const Job&)) {
  const auto start = Clock::now();
  TRY_ASSIGN(std::vector<Image> images, CachedOrNew(context));
  Image& image = images.front();
  if (image.from_cache) return Outcome(std::move(image));
  TRY_ASSIGN(const Compilation compilation, RunCompiler(context, {}, compile));
  if (!compilation.compiled.ok) {
    return Outcome(
        FailureOf(context, compilation,
                  ParseDiagnostics(compilation.compiled.output, compilation.folder.path())));
  }
  Artefacts artefacts;
  artefacts.sandbox = compilation.compiled.sandbox;
  const Compiled::Code& code = compilation.compiled.code.front();
  artefacts.ptx = context.text;
  if (!code.ptx.empty()) {
    TRY_ASSIGN(artefacts.ptx, TakeOutput(code.ptx));
    DropFolder(artefacts.ptx, compilation.folder.path());
  }
  TRY_ASSIGN(artefacts.cubin, TakeOutput(code.cubin));
  image.resources = ParseResources(code.ptxas);
  image.build_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  TRY_ASSIGN(Image kept, Keep(context, artefacts, std::move(image)));
  return Outcome(std::move(kept));
}

}  // namespace

Result<Outcome> BuildDevice(const SourceFile& source, const std::vector<std::string>& instances,
                            const Options& options) {
  Context context;
  context.name = source.name;
  context.text = source.text;
  if (!instances.empty()) {
    // As cuLaunchKernel's callers do in C++: the host's use of an instance makes the compiler emit
    // it.
    context.text += "\nstatic const void* const cupel_instances[] = {";
    for (const std::string& name : instances)
      context.text += fmt::format("(const void*)({}),", name);
    context.text += "};\n";
  }
  context.key_text = "device code alone\n" + context.text;
  context.files = {{context.name, context.text}};
  return BuildForDevice(options, context.text, [&](const Options& chosen) -> Result<Outcome> {
    Context complete = context;
    TRY(Complete(complete, chosen));
    return BuildWithoutHost(complete, CompileDevice);
  });
}

Result<Outcome> BuildPtx(const std::string& ptx, const std::vector<std::string>& flags,
                         const Options& options) {
  TRY(VirtualArch(options.arch));
  Context context;
  context.options = &options;
  context.name = "kernel.ptx";
  context.files = {{context.name, ptx}};
  context.key_text = context.text = ptx;
  context.flags = flags;
  TRY_ASSIGN(context.toolkit, FindToolkit(options.stop));
  return BuildWithoutHost(context, Assemble);
}

}  // namespace cupel::build
