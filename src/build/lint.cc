// SPDX-License-Identifier: Apache-2.0
#include "build/lint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "build/build.h"
#include "build/diagnostics.h"
#include "os/files.h"
#include "os/process.h"
#include "os/temp_dir.h"

namespace cupel::build {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPrograms[] = {"/usr/bin/clang-tidy", "/usr/bin/clang-tidy-14"};
constexpr const char* kFile = "kernel.cu";
constexpr size_t kMaxLint = 1u << 20, kMaxRemarks = 50;
constexpr std::chrono::seconds kLintDeadline{60};

/// Checks that are useful for kernels. The others are about style, or report every index.
constexpr const char* kChecks =
    "--checks=-*,bugprone-*,-bugprone-easily-swappable-parameters,"
    "-bugprone-narrowing-conversions,-bugprone-reserved-identifier,-bugprone-macro-parentheses,"
    "performance-*,clang-analyzer-core.*,clang-analyzer-deadcode.*";

std::string Program() {
  for (const char* program : kPrograms) {
    if (::access(program, X_OK) == 0) return program;
  }
  return "";
}

os::Confinement Confine(const Toolkit& toolkit, const Options& options, const fs::path& folder) {
  os::Confinement confinement;
  confinement.syscalls = os::SyscallProfile::kCompiler;
  confinement.readable = {"/bin",       "/usr/bin",  "/usr/include",      "/usr/lib",
                          "/lib",       "/lib64",    "/etc/alternatives", "/etc/ld.so.cache",
                          toolkit.root, options.shim};
  for (const fs::path& root : options.include_roots) confinement.readable.push_back(root);
  confinement.writable = {folder};
  confinement.address_space_bytes = uint64_t{4} << 30;
  confinement.file_bytes = uint64_t{64} << 20;
  confinement.cpu_seconds = static_cast<uint64_t>(kLintDeadline.count());
  confinement.processes = 8;
  confinement.allow_weak = options.allow_weak_sandbox;
  return confinement;
}

/// Checks only the device code: the build checks the host code.
std::vector<std::string> Arguments(const std::string& program, const Toolkit& toolkit,
                                   const Options& options) {
  std::vector<std::string> argv = {program,
                                   kChecks,
                                   "--quiet",
                                   kFile,
                                   "--",
                                   "-x",
                                   "cuda",
                                   "--cuda-device-only",
                                   "--cuda-gpu-arch=sm_80",
                                   "--cuda-path=" + toolkit.root.string(),
                                   "-Wno-unknown-cuda-version",
                                   "-std=c++17",
                                   "-ferror-limit=0",
                                   "-idirafter.",
                                   "-I" + options.shim.string()};
  for (const fs::path& root : options.include_roots) argv.push_back("-I" + root.string());
  argv.push_back("-idirafter" + (options.shim / "cublas").string());
  return argv;
}

Lint LintOf(const os::RunResult& run, const fs::path& folder) {
  Lint lint;
  if (run.status.timed_out) {
    lint.missing = "clang-tidy did not finish in time";
    return lint;
  }
  for (Diagnostic& diagnostic : ParseDiagnostics(run.out, folder)) {
    if (diagnostic.file != kFile) continue;  // clang's own CUDA headers may have errors
    if (diagnostic.severity == Diagnostic::Severity::kError) {
      lint.remarks.clear();
      lint.missing = "clang-tidy cannot read the file: " + diagnostic.message;
      return lint;
    }
    if (diagnostic.severity == Diagnostic::Severity::kWarning &&
        lint.remarks.size() < kMaxRemarks) {
      lint.remarks.push_back(std::move(diagnostic));
    }
  }
  return lint;
}

}  // namespace

Result<Lint> RunClangTidy(const fs::path& source, const Options& options) {
  const std::string program = Program();
  if (program.empty()) return Lint{{}, "clang-tidy is not installed"};
  TRY_ASSIGN(const Toolkit toolkit, FindToolkit(options.stop));
  TRY_ASSIGN(const std::string text, os::ReadFile(source, kMaxSourceBytes));
  TRY_ASSIGN(const os::TempDir folder, os::TempDir::Create());
  TRY(os::WriteFileAtomically(folder.path() / kFile, text));
  // CUDA 13 no longer has this header, and clang up to 18 stops with a fatal error without it. With
  // an empty header, later errors are not fatal and clang also checks the file itself.
  TRY(os::WriteFileAtomically(folder.path() / "texture_fetch_functions.h", ""));
  const os::Confinement confinement = Confine(toolkit, options, folder.path());
  os::SpawnOptions spawn;
  spawn.argv = Arguments(program, toolkit, options);
  spawn.env = {{"PATH", "/usr/bin:/bin"}, {"HOME", folder.path().string()}, {"LC_ALL", "C"}};
  spawn.directory = folder.path();
  spawn.confinement = &confinement;
  spawn.stop = options.stop;
  TRY_ASSIGN(const os::RunResult run, os::Run(std::move(spawn), kLintDeadline, kMaxLint));
  return LintOf(run, folder.path());
}

}  // namespace cupel::build
