// SPDX-License-Identifier: Apache-2.0
#include "review/labels.h"

#include <fmt/format.h>

#include <set>

#include "os/files.h"

namespace cupel::review {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxLabels = 4u << 20;

Result<std::optional<Aspect>> WrongOf(const Json& entry, const std::string& what) {
  if (!entry.contains("wrong") || entry["wrong"].is_null()) return std::optional<Aspect>();
  TRY_ASSIGN(const std::string name, JsonString(entry, "wrong", what));
  for (const Aspect aspect : kAllAspects) {
    if (name == Name(aspect)) return std::optional(aspect);
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}.wrong is not the name of a verifier", what),
              "write compile, memory, numerics or null");
}

Result<LabelledKernel> ReadEntry(const Json& entry, const fs::path& folder,
                                 const std::string& what) {
  LabelledKernel kernel;
  TRY_ASSIGN(kernel.id, JsonString(entry, "id", what));
  TRY_ASSIGN(const std::string path, JsonString(entry, "kernel", what));
  kernel.kernel = (folder / path).lexically_normal();
  TRY_ASSIGN(kernel.task, JsonString(entry, "task", what));
  if (kernel.task.find('/') != std::string::npos) {
    kernel.task = fs::absolute(folder / kernel.task).lexically_normal().string();
  }
  if (entry.contains("backward")) {
    TRY_ASSIGN(kernel.backward, JsonBool(entry, "backward", what));
  }
  TRY_ASSIGN(kernel.wrong, WrongOf(entry, what));
  if (entry.contains("reason")) {
    TRY_ASSIGN(kernel.reason, JsonString(entry, "reason", what));
  }
  return kernel;
}

}  // namespace

std::optional<bool> LabelledKernel::Fine(Aspect aspect) const {
  if (!wrong || aspect < *wrong) return true;
  if (aspect == *wrong) return false;
  return std::nullopt;
}

Result<std::vector<LabelledKernel>> ReadLabels(const fs::path& file) {
  TRY_ASSIGN(const std::string text, os::ReadFile(file, kMaxLabels));
  TRY_ASSIGN(const Json json, ParseJson(text, file.string()));
  TRY_ASSIGN(const Json* entries, JsonArray(json, "kernels", file.string()));
  std::vector<LabelledKernel> kernels;
  std::set<std::string> ids;
  for (size_t i = 0; i < entries->size(); ++i) {
    const std::string what = fmt::format("{}: kernels[{}]", file.string(), i);
    TRY_ASSIGN(LabelledKernel kernel, ReadEntry((*entries)[i], file.parent_path(), what));
    if (!ids.insert(kernel.id).second) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: the id {} occurs twice", what, kernel.id),
                  "give each kernel a unique id");
    }
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace cupel::review
