// SPDX-License-Identifier: Apache-2.0
#include "app/signature.h"

#include <filesystem>
#include <string>
#include <utility>

#include "app/session.h"
#include "base/hash.h"
#include "os/files.h"
#include "os/folders.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxSignature = 4u << 20;
constexpr int kSeconds = 120;

}  // namespace

Result<Json> Signatures::Of(const task::Task& task, task::Direction direction,
                            const task::Setting& setting) {
  TRY_ASSIGN(const fs::path cache, os::CacheDir());
  Sha256 key;
  key.Field("signature 2");
  key.Field(task.content_hash[static_cast<int>(direction)]);
  key.Field(task.format == task::Format::kKernelBench ? "problem" : "folder");
  key.Field(DumpJson(setting.init));
  key.Field(DumpJson(setting.inputs));
  const fs::path file = cache / "signatures" / (key.Hex() + ".json");
  std::error_code ignored;
  if (fs::exists(file, ignored)) {
    const auto text = os::ReadFile(file, kMaxSignature);
    auto known = text ? ParseJson(*text, file.string()) : Result<Json>(Json());
    if (known && known->is_object()) return *known;
  }
  const std::lock_guard lock(mutex_);
  if (importer_ == nullptr) {
    TRY_ASSIGN(oracle::ImportOptions options, ImporterOptions(common_, kSeconds, 0));
    importer_ = std::make_unique<oracle::Importer>(std::move(options));
  }
  TRY_ASSIGN(Json signature, importer_->Signature(task, direction, setting));
  signature.erase("id");
  fs::create_directories(file.parent_path(), ignored);
  (void)os::WriteFileAtomically(file, DumpJson(signature));  // a failure only costs time later
  return signature;
}

}  // namespace cupel::app
