// SPDX-License-Identifier: Apache-2.0
#include "oracle/python.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/json.h"
#include "base/parse_number.h"
#include "oracle/environment.h"
#include "os/files.h"
#include "os/folders.h"
#include "os/mapped_file.h"
#include "os/process.h"
#include "os/programs.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxMemoryBytes = 1u << 20;
constexpr size_t kMaxRemembered = 64;
constexpr char kSystemPython[] = "/usr/bin/python3";
constexpr std::pair kOldestTorch{2, 4};
/// If CUPEL_PYTHON or --python names something else than a Python.
constexpr char kNamedRemedy[] = "set it to a Python that has PyTorch 2.4 or later, or leave it out";

// Finds torch as `import torch` does, but reads only its version file. If torch is absent, lists
// the folders that were searched: a change in one of them invalidates the cached answer. Imports
// no modules of the working directory: candidates' files may be there.
constexpr char kProbe[] = R"py(
import sys
sys.path[:] = filter(None, sys.path)
import importlib.util, json, os, re
found = {"program": sys.executable, "version": "", "files": [os.path.realpath(sys.executable)]}
try:
    spec = importlib.util.find_spec("torch")
except Exception:
    spec = None
if spec is not None and spec.origin:
    path = os.path.join(os.path.dirname(spec.origin), "version.py")
    try:
        match = re.search(r"__version__[^=]*=\s*['\"]([^'\"]+)", open(path).read())
        found["version"] = match.group(1) if match else "unknown"
        found["files"].append(path)
    except OSError:
        found["version"] = "unknown"
        found["files"].append(spec.origin)
else:
    found["files"] += [p for p in sys.path if os.path.isdir(p)][:32]
print(json.dumps(found))
)py";

/// Identifies a version of a file: modification time in nanoseconds, size and inode.
std::string Stamp(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return "absent";
  return fmt::format("{}.{:09}-{}-{}", info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_size,
                     info.st_ino);
}

/// A name with a slash is taken as it is: whether it can run shows when it is asked.
std::optional<std::string> OnPath(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const auto found = os::FindProgram(name);
  return found ? std::optional(found->string()) : std::nullopt;
}

/// A wrapper script (pyenv, conda) may choose the Python by folder and environment, a binary only
/// by environment.
std::string MemoryKey(const std::string& candidate) {
  Sha256 key;
  key.Field(candidate);
  key.Field(Stamp(candidate));
  for (const char* name : {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYENV_VERSION", "HOME"}) {
    key.Field(os::Variable(name));
  }
  const auto program = os::MappedFile::Open(candidate);
  std::error_code ignored;
  if (program && program->text().starts_with("#!")) key.Field(fs::current_path(ignored).string());
  return key.Hex();
}

/// The recorded answer, if all files that it depends on are unchanged.
std::optional<Python> Interpret(const Json& record) {
  if (!record.is_object()) return std::nullopt;
  Python python;
  auto program = JsonString(record, "program", "");
  auto version = JsonString(record, "version", "");
  auto stamps = JsonObject(record, "stamps", "");
  if (!program || !version || !stamps) return std::nullopt;
  Sha256 identity;
  identity.Field(*program);
  identity.Field(*version);
  for (const auto& [path, stamp] : (*stamps)->items()) {
    if (!stamp.is_string() || stamp.get<std::string>() != Stamp(path)) return std::nullopt;
    identity.Field(path);
    identity.Field(stamp.get<std::string>());
  }
  python.program = *program;
  python.torch_version = *version;
  python.identity = identity.Hex();
  return python;
}

/// Runs the interpreter and returns the record to cache.
Result<Json> Probe(const std::string& candidate, const std::stop_token& stop) {
  os::SpawnOptions spawn;
  spawn.argv = {candidate, "-c", kProbe};
  spawn.env = ChildEnvironment();
  spawn.stop = stop;
  TRY_ASSIGN(const os::RunResult run, os::Run(std::move(spawn), std::chrono::seconds(60)));
  if (!run.status.exited || run.status.code != 0) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("{} does not work as Python ({})", candidate, run.status.Describe()),
                kTorchRemedy);
  }
  const auto parsed = ParseJson(run.out, candidate);
  if (!parsed) {
    return Fail(ErrorCode::kEnvironment, candidate + " does not behave like Python", kTorchRemedy);
  }
  const Json& found = *parsed;
  TRY_ASSIGN(const Json* files, JsonArray(found, "files", candidate));
  TRY_ASSIGN(const std::string version, JsonString(found, "version", candidate));
  TRY_ASSIGN(std::string program, JsonString(found, "program", candidate));
  Json record = {{"program", program.empty() ? candidate : program}, {"version", version}};
  Json stamps = Json::object();
  for (const Json& file : *files) {
    if (file.is_string()) stamps[file.get<std::string>()] = Stamp(file.get<std::string>());
  }
  record["stamps"] = std::move(stamps);
  return record;
}

/// torch_version is empty if the candidate does not have PyTorch.
Result<Python> Examine(const std::string& candidate, Json& memory, bool& changed,
                       const std::stop_token& stop) {
  const std::string key = MemoryKey(candidate);
  if (memory.contains(key)) {
    if (auto python = Interpret(memory[key])) return *python;
  }
  TRY_ASSIGN(Json record, Probe(candidate, stop));
  auto python = Interpret(record);
  if (!python) return Fail(ErrorCode::kInternal, "files changed while cupel examined Python");
  if (memory.size() >= kMaxRemembered) memory = Json::object();
  memory[key] = std::move(record);
  changed = true;
  return *python;
}

/// True for a version of at least kOldestTorch. Versions look like "2.13.0+cpu" or "2.4.0a0".
bool IsSupported(std::string_view version) {
  const auto major = TakeNumber<int>(version);
  if (!major || !version.starts_with('.')) return false;
  version.remove_prefix(1);
  const auto minor = TakeNumber<int>(version);
  return minor && std::pair(*major, *minor) >= kOldestTorch;
}

Json Recall(const fs::path& memory) {
  if (memory.empty()) return Json::object();
  const auto text = os::ReadFile(memory, kMaxMemoryBytes);
  if (!text) return Json::object();
  auto json = ParseJson(*text, memory.string());
  return json && json->is_object() ? *json : Json::object();
}

}  // namespace

Result<Python> FindPython(const std::string& wanted, const fs::path& memory,
                          const std::stop_token& stop) {
  const char* variable = std::getenv("CUPEL_PYTHON");
  std::vector<std::string> candidates;
  std::string named_by;  // what names the only candidate
  if (!wanted.empty()) {
    candidates = {wanted};
    named_by = "--python";
  } else if (variable != nullptr && *variable != '\0') {
    candidates = {variable};
    named_by = "CUPEL_PYTHON";
  } else {
    candidates = {"python3"};
    if (const auto data = os::DataDir()) candidates.push_back(*data / ".venv" / "bin" / "python");
    candidates.emplace_back(kSystemPython);
  }
  Json remembered = Recall(memory);
  bool changed = false;
  std::vector<std::string> without;  // the interpreters that do not have PyTorch
  std::optional<Error> problem;      // the first: the user's own Python counts most
  for (const std::string& name : candidates) {
    const std::optional<std::string> program = OnPath(name);
    if (!program || ::access(program->c_str(), X_OK) != 0) {
      if (named_by.empty()) continue;
      return Fail(ErrorCode::kEnvironment,
                  fmt::format("{} is {}, which is not a program", named_by, name), kNamedRemedy);
    }
    auto python = Examine(*program, remembered, changed, stop);
    if (changed && !memory.empty()) {
      // This file is only a cache, so ignore a failure to write it.
      (void)os::WriteFileAtomically(memory, DumpJson(remembered));
    }
    if (!python && python.error().code == ErrorCode::kCancelled) return python;
    if (!python) {
      if (!problem) problem = python.error();
      if (!named_by.empty()) {
        problem->message = fmt::format("{} is {}: {}", named_by, name, problem->message);
        problem->remedy = kNamedRemedy;
      }
      continue;
    }
    if (python->torch_version.empty()) {
      without.push_back(python->program);
      continue;
    }
    if (IsSupported(python->torch_version)) return python;
    if (!problem) {
      problem =
          Error{ErrorCode::kEnvironment,
                fmt::format("{} has PyTorch {}, and cupel needs {}.{} or later", python->program,
                            python->torch_version, kOldestTorch.first, kOldestTorch.second),
                kTorchRemedy};
    }
  }
  if (problem) return tl::unexpected<Error>(*problem);
  if (without.empty()) {
    return Fail(ErrorCode::kEnvironment, "there is no Python", kTorchRemedy);
  }
  return Fail(ErrorCode::kEnvironment,
              fmt::format("PyTorch was not found by {}", fmt::join(without, ", ")), kTorchRemedy);
}

}  // namespace cupel::oracle
