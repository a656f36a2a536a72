// SPDX-License-Identifier: Apache-2.0
#include "oracle/baseline_cache.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "os/fd.h"
#include "os/file_lock.h"
#include "os/files.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = 8u << 20;
constexpr char kFile[] = "baselines.json";
constexpr char kLock[] = "baselines.lock";
constexpr int kVersion = 1;  // of the file and of the measurement protocol

std::string Digest(const BaselineKey& key) {
  Sha256 hash;
  hash.Field(key.task_hash);
  hash.Field(Name(key.direction));
  hash.Field(DumpJson(key.init));
  hash.Field(DumpJson(key.inputs));
  hash.Field(Name(key.kind));
  hash.Field(key.gpu);
  hash.Field(key.torch_version);
  return hash.Hex().substr(0, 40);
}

std::optional<double> Microseconds(const Json& entry, const char* key) {
  const auto value = JsonNumber(entry, key, kFile);
  if (!value || !std::isfinite(*value) || *value <= 0) return std::nullopt;
  return *value;
}

std::optional<BaselineMedians> ReadMedians(const Json& entry) {
  if (!entry.is_object()) return std::nullopt;
  BaselineMedians medians;
  const auto cold = Microseconds(entry, "cold_us");
  const auto samples = JsonInt(entry, "samples", kFile);
  const auto how = JsonString(entry, "how", kFile);
  const auto tf32 = JsonBool(entry, "tf32", kFile);
  const auto taken_at = JsonInt(entry, "taken_at", kFile);
  if (!cold || !samples || *samples < 1 || !how || !tf32 || !taken_at) return std::nullopt;
  medians.cold_us = *cold;
  medians.warm_us = Microseconds(entry, "warm_us");
  medians.host_us = Microseconds(entry, "host_us");
  medians.samples = *samples;
  medians.how = *how;
  medians.tf32 = *tf32;
  medians.taken_at = *taken_at;
  return medians;
}

Json Write(const BaselineKey& key, const BaselineMedians& medians) {
  Json entry = {{"kind", Name(key.kind)},     {"gpu", key.gpu},
                {"torch", key.torch_version}, {"cold_us", medians.cold_us},
                {"samples", medians.samples}, {"how", medians.how},
                {"tf32", medians.tf32},       {"taken_at", medians.taken_at}};
  if (medians.warm_us) entry["warm_us"] = *medians.warm_us;
  if (medians.host_us) entry["host_us"] = *medians.host_us;
  return entry;
}

/// The entries by digest. Empty if the file is absent or invalid.
Json Entries(const fs::path& folder) {
  const auto text = os::ReadFile(folder / kFile, kMaxFileBytes);
  if (!text) return Json::object();
  const auto json = ParseJson(*text, kFile);
  if (!json || !json->is_object()) return Json::object();
  const auto version = JsonInt(*json, "version", kFile);
  const auto entries = JsonObject(*json, "baselines", kFile);
  if (!version || *version != kVersion || !entries) return Json::object();
  return **entries;
}

/// Makes room for one more entry and drops unreadable ones. From a full file, drops a quarter at
/// once, so that not every Store() has to sort.
Json Trimmed(const Json& entries) {
  std::vector<std::pair<int64_t, std::string>> ages;
  for (const auto& [digest, entry] : entries.items()) {
    if (const auto medians = ReadMedians(entry)) ages.emplace_back(medians->taken_at, digest);
  }
  if (ages.size() >= kMaxCachedBaselines) {
    std::sort(ages.begin(), ages.end());
    ages.erase(ages.begin(), ages.end() - kMaxCachedBaselines / 4 * 3);
  }
  Json kept = Json::object();
  for (const auto& [age, digest] : ages) kept[digest] = entries[digest];
  return kept;
}

}  // namespace

BaselineKey KeyOf(const task::Task& task, task::Direction direction, const task::Setting& setting,
                  BaselineKind kind, const std::string& gpu, const std::string& torch_version) {
  return {task.content_hash[static_cast<size_t>(direction)],
          direction,
          setting.init,
          setting.inputs,
          kind,
          gpu,
          torch_version};
}

BaselineCache::BaselineCache(fs::path folder) : folder_(std::move(folder)) {}

std::optional<BaselineMedians> BaselineCache::Load(const BaselineKey& key) const {
  if (folder_.empty()) return std::nullopt;
  const Json entries = Entries(folder_);
  const auto found = entries.find(Digest(key));
  return found == entries.end() ? std::nullopt : ReadMedians(*found);
}

Status BaselineCache::Store(const BaselineKey& key, const BaselineMedians& medians) const {
  if (folder_.empty()) return {};
  BaselineMedians stored = medians;
  if (stored.taken_at == 0) stored.taken_at = static_cast<int64_t>(std::time(nullptr));
  Json entry = Write(key, stored);
  if (!ReadMedians(entry)) {
    return Fail(ErrorCode::kInvalidArgument, "cannot cache a baseline without a time");
  }
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
  TRY_ASSIGN(const os::Fd lock, os::LockFile(folder_ / kLock));
  Json entries = Entries(folder_);
  const std::string digest = Digest(key);
  entries.erase(digest);
  entries = Trimmed(entries);
  entries[digest] = std::move(entry);
  const Json whole = {{"version", kVersion}, {"baselines", std::move(entries)}};
  return os::WriteFileAtomically(folder_ / kFile, DumpJson(whole));
}

}  // namespace cupel::oracle
