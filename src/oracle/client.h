// The state that an Oracle's streams share: the interpreter, the child, the pool, and the pending
// requests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "oracle/case_cache.h"
#include "oracle/oracle.h"
#include "oracle/pool.h"
#include "oracle/python.h"
#include "oracle/shape_cache.h"
#include "oracle/torch_child.h"
#include "os/mapped_file.h"
#include "task/task.h"

namespace cupel::oracle {

/// The request for one setting's cases.
struct Request {
  std::string key;      // of the pool
  std::string task_id;  // the child's name for the task
  std::string task_name;
  Json init, inputs;
  Distribution distribution = Distribution::kUsual;
  int seconds = 0;  // task::Setting::reference_seconds
};

/// A computed case on its way from the child to the caller or the pool.
struct Delivery {
  os::MappedFile mapping;
  std::filesystem::path file;  // if too large for the pool; otherwise empty, and the file deleted
  std::string digest;
  int64_t bytes = 0;
  double seconds = 0;
};

/// A request that the child has not answered yet. Invalid after the child was replaced.
struct Question {
  int64_t id = 0;
  int child = 0;
};

class Client {
 public:
  explicit Client(Options options);

  /// Finds the interpreter (without starting it) and computes the setting's key in the pool.
  Result<Request> Describe(const task::Task& task, task::Direction direction,
                           const task::Setting& setting, Distribution distribution);
  /// The arguments of calls at `settings`, as the child describes them (oracle/py/shapes.py). Each
  /// description is kept on disk.
  Result<std::vector<Json>> Shapes(const task::Task& task, task::Direction direction,
                                   const std::vector<task::Setting>& settings);
  /// As Oracle::Elements. `seeds`: of the call, and of the fields.
  Result<std::variant<FieldResults, SettingFailure>> Elements(
      const task::Task& task, task::Direction direction, const Request& request,
      const std::pair<uint64_t, uint64_t>& seeds);
  /// Starts the child if needed and makes it load the task's code.
  Status Load(const task::Task& task, task::Direction direction, const Request& request);
  /// Requests a case. Call Load() first.
  Result<Question> Ask(const Request& request, uint64_t seed);
  bool IsOpen(const Question& question) const { return child_ && question.child == children_; }
  /// Waits for the answer. A failure of the task is a SettingFailure, not an Error.
  Result<std::variant<Delivery, SettingFailure>> Await(const Request& request,
                                                       const Question& question);
  /// Stops waiting for the answer. CollectAbandoned() adds it to the pool under `key`, or discards
  /// it if `key` is empty.
  void Abandon(const Question& question, const std::string& key);
  /// Keeps a case for later requests: on disk, or for the life of this process if it is large.
  void Keep(const Request& request, const Delivery& delivery, const std::string& tag);
  /// Deletes the large cases that are kept for this process, to free memory.
  void MakeRoom();
  /// Returns up to `count` kept cases that were drawn from entropy.
  std::vector<PooledCase> Take(const Request& request, int count);
  std::optional<PooledCase> TakeSeeded(const Request& request, const std::string& tag);
  /// Receives the answers to abandoned requests, waiting for `patience` at most.
  void CollectAbandoned(std::chrono::milliseconds patience);

  Pool& pool() { return pool_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Status Identify();
  /// Asks the child for the settings that `known` lacks, and adds them.
  Status AskShapes(const task::Task& task, task::Direction direction,
                   const std::vector<task::Setting>& settings, Json& known);
  Status StartChild();
  Result<std::variant<Delivery, SettingFailure>> Read(const Request& request, const Json& reply);
  void Warn(const Request& request, const Json& reply);

  Options options_;
  Pool pool_;
  CaseCache cache_;
  ShapeCache shapes_;
  std::optional<Python> python_;
  std::string scripts_hash_;
  std::unique_ptr<TorchChild> child_;
  int children_ = 0;  // started so far
  int64_t last_id_ = 0;
  std::set<std::string> loaded_;
  std::set<std::string> on_cpu_;  // tasks whose truth has broken a child's GPU
  std::vector<std::string> warnings_;
  std::map<int64_t, std::string> abandoned_;
};

}  // namespace cupel::oracle
