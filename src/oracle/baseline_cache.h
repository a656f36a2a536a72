// Caches baseline times of earlier measurements, for orientation only: `bench` measures again. One
// JSON file of limited size, safe for several cupel processes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "oracle/baseline.h"
#include "task/task.h"

namespace cupel::oracle {

inline constexpr size_t kMaxCachedBaselines = 4096;

/// Everything that a baseline's time depends on.
struct BaselineKey {
  std::string task_hash;  // Task::content_hash of the direction
  task::Direction direction = task::Direction::kForward;
  Json init, inputs;                         // of the setting
  BaselineKind kind = BaselineKind::kEager;  // not kNamed: libraries change
  std::string gpu, torch_version;
};
BaselineKey KeyOf(const task::Task& task, task::Direction direction, const task::Setting& setting,
                  BaselineKind kind, const std::string& gpu, const std::string& torch_version);

/// Medians, in microseconds.
struct BaselineMedians {
  double cold_us = 0;
  std::optional<double> warm_us, host_us;
  int64_t samples = 0;   // the number of samples of cold_us
  std::string how;       // BaselineInfo::how
  bool tf32 = false;     // BaselineInfo::tf32
  int64_t taken_at = 0;  // seconds since 1970; if 0, Store() sets it to now
};

class BaselineCache {
 public:
  /// `folder`: cupel's cache folder; if empty, nothing is cached.
  explicit BaselineCache(std::filesystem::path folder);

  /// Unreadable entries count as absent, since this is a cache.
  std::optional<BaselineMedians> Load(const BaselineKey& key) const;
  /// Replaces an existing entry. If there are too many entries, deletes the oldest.
  Status Store(const BaselineKey& key, const BaselineMedians& medians) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace cupel::oracle
