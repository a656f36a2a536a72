// SPDX-License-Identifier: Apache-2.0
#include "trace/python_paths.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/json.h"
#include "oracle/environment.h"
#include "os/files.h"
#include "os/process.h"
#include "os/programs.h"

namespace cupel::trace {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxMemoryBytes = 1u << 20;
constexpr size_t kMaxRemembered = 16;

// Imports no modules of the working directory: candidates' files may be there.
constexpr char kProbe[] = R"py(
import sys
sys.path[:] = filter(None, sys.path)
import contextlib, json, os
import torch
with contextlib.suppress(ImportError):
    import numpy
home = os.path.join(os.path.realpath(os.path.expanduser("~")), "")
def is_fit(folder):
    return os.path.isabs(folder) and not home.startswith(os.path.join(os.path.realpath(folder), ""))
path = [folder for folder in sys.path if is_fit(folder)]
with open("/proc/self/maps") as maps:
    mapped = [line.rstrip("\n").split(None, 5)[-1] for line in maps]
libraries = {os.path.dirname(file) for file in mapped if ".so" in os.path.basename(file)}
print(json.dumps({"import_path": path, "readable": [
    sys.executable, os.path.join(sys.prefix, "pyvenv.cfg"), *path, *filter(is_fit, sorted(libraries))]}))
)py";

/// Two answers can differ only if this differs.
std::string MemoryKeyOf(const oracle::Python& python) {
  Sha256 key;
  key.Field(python.identity);
  key.Field(kProbe);
  for (const char* name : {"PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "HOME"}) {
    key.Field(os::Variable(name));
  }
  return key.Hex();
}

std::optional<PythonPaths> ReadAnswer(const Json& answer) {
  const auto import_path = JsonArray(answer, "import_path", "");
  const auto readable = JsonArray(answer, "readable", "");
  if (!import_path || !readable) return std::nullopt;
  PythonPaths paths;
  for (const Json& path : **import_path) {
    if (path.is_string()) paths.import_path.push_back(path.get<std::string>());
  }
  for (const Json& path : **readable) {
    if (path.is_string()) paths.readable.emplace_back(path.get<std::string>());
  }
  return paths;
}

Result<Json> AskPython(const oracle::Python& python, const std::stop_token& stop) {
  os::SpawnOptions spawn;
  spawn.argv = {python.program, "-c", kProbe};
  spawn.env = oracle::ChildEnvironment(1);
  spawn.stop = stop;
  TRY_ASSIGN(const os::RunResult run, os::Run(std::move(spawn), std::chrono::minutes(5)));
  if (!run.status.exited || run.status.code != 0) {
    return Fail(
        ErrorCode::kEnvironment,
        fmt::format("PyTorch did not start under {}: {}", python.program, run.status.Describe()),
        fmt::format("try: {} -c 'import torch'", python.program));
  }
  return ParseJson(run.out, python.program);
}

}  // namespace

Result<PythonPaths> FindPythonPaths(const oracle::Python& python, const fs::path& memory,
                                    const std::stop_token& stop) {
  const std::string key = MemoryKeyOf(python);
  Json remembered = Json::object();
  if (!memory.empty()) {
    const auto text = os::ReadFile(memory, kMaxMemoryBytes);
    auto json = text ? ParseJson(*text, memory.string()) : Json();
    if (json && json->is_object()) remembered = std::move(*json);
  }
  if (remembered.contains(key)) {
    if (auto paths = ReadAnswer(remembered[key])) return std::move(*paths);
  }
  TRY_ASSIGN(Json answer, AskPython(python, stop));
  auto paths = ReadAnswer(answer);
  if (!paths) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("{} does not behave like Python", python.program),
                oracle::kTorchRemedy);
  }
  if (!memory.empty()) {
    if (remembered.size() >= kMaxRemembered) remembered = Json::object();
    remembered[key] = std::move(answer);
    // This file is only a cache, so ignore a failure to write it.
    (void)os::WriteFileAtomically(memory, DumpJson(remembered));
  }
  return std::move(*paths);
}

}  // namespace cupel::trace
