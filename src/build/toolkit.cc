// Finds the CUDA toolkit.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/stat.h>

#include <stop_token>

#include "base/json.h"
#include "build/build.h"
#include "os/files.h"
#include "os/folders.h"
#include "os/process.h"
#include "os/programs.h"

namespace cupel::build {
namespace fs = std::filesystem;
namespace {

Result<fs::path> FindNvcc() {
  os::Tool tool{
      "CUPEL_NVCC",
      "nvcc",
      {},
      {ErrorCode::kEnvironment, "nvcc was not found",
       "install the CUDA toolkit (https://developer.nvidia.com/cuda-downloads), or set CUPEL_NVCC "
       "to the path of nvcc"}};
  if (const fs::path home = os::Variable("CUDA_HOME"); home.is_absolute()) {
    tool.folders.push_back(home / "bin");
  }
  for (fs::path& folder : os::FoldersOf(os::Variable("PATH"))) {
    tool.folders.push_back(std::move(folder));
  }
  tool.folders.emplace_back("/usr/local/cuda/bin");
  return os::FindTool(tool);
}

/// The version in version.json, which NVIDIA's packages have had since CUDA 11.
std::string VersionFromFile(const fs::path& root) {
  const auto text = os::ReadFile(root / "version.json", 1 << 20);
  if (!text) return {};
  const auto json = ParseJson(*text, "version.json");
  if (!json) return {};
  const auto nvcc = JsonObject(*json, "cuda_nvcc", "version.json");
  if (!nvcc) return {};
  return JsonString(**nvcc, "version", "cuda_nvcc").value_or("");
}

/// "Cuda compilation tools, release 13.0, V13.0.88".
Result<std::string> VersionFromProgram(const fs::path& nvcc, const std::stop_token& stop) {
  os::SpawnOptions options;
  options.argv = {nvcc.string(), "--version"};
  options.env = {{"PATH", "/usr/bin:/bin"}};
  options.stop = stop;
  TRY_ASSIGN(const os::RunResult result, os::Run(options, std::chrono::seconds(20)));
  const size_t at = result.out.rfind(", V");
  if (!result.status.exited || result.status.code != 0 || at == std::string::npos) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("{} --version does not report a version ({})", nvcc.string(),
                            result.status.Describe()),
                "reinstall the CUDA toolkit");
  }
  const size_t begin = at + 3;
  const size_t end = result.out.find_first_not_of("0123456789.", begin);
  return result.out.substr(begin, end == std::string::npos ? end : end - begin);
}

/// Asking nvcc for its version starts a process, so cupel's cache keeps the answer while the file
/// stays the same.
Result<std::string> CachedVersion(const fs::path& nvcc, const std::stop_token& stop) {
  struct stat info{};
  if (stat(nvcc.c_str(), &info) != 0) return VersionFromProgram(nvcc, stop);
  const std::string identity = fmt::format("{} {} {}.{}", nvcc.string(), info.st_size,
                                           info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  const auto cache = os::CacheDir();
  if (!cache) return VersionFromProgram(nvcc, stop);
  const fs::path memo = *cache / "nvcc-version";
  if (const auto text = os::ReadFile(memo, 4096)) {
    const size_t line = text->find('\n');
    if (line != std::string::npos && text->substr(0, line) == identity) {
      std::string version = text->substr(line + 1);
      if (!version.empty() && version.find_first_not_of("0123456789.") == std::string::npos) {
        return version;
      }
    }
  }
  TRY_ASSIGN(std::string version, VersionFromProgram(nvcc, stop));
  // Best effort: if the file cannot be written, nvcc is asked again.
  (void)os::WriteFileAtomically(memo, identity + "\n" + version);
  return version;
}

}  // namespace

Result<Toolkit> FindToolkit(const std::stop_token& stop) {
  Toolkit toolkit;
  TRY_ASSIGN(toolkit.nvcc, FindNvcc());
  std::error_code error;
  // nvcc finds its parts relative to itself, with links resolved.
  const fs::path real = fs::canonical(toolkit.nvcc, error);
  if (error) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("cannot resolve {}: {}", toolkit.nvcc.string(), error.message()));
  }
  toolkit.root = real.parent_path().parent_path();
  toolkit.version = VersionFromFile(toolkit.root);
  if (toolkit.version.empty()) {
    TRY_ASSIGN(toolkit.version, CachedVersion(real, stop));
  }
  return toolkit;
}

}  // namespace cupel::build
