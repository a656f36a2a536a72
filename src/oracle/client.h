// What an Oracle shares between its streams: the interpreter, the child, the pool, and the requests
// that are under way. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "oracle/oracle.h"
#include "oracle/pool.h"
#include "oracle/python.h"
#include "oracle/shelf.h"
#include "oracle/torch_child.h"
#include "os/mapped_file.h"
#include "task/task.h"

namespace cupel::oracle {

/// What is asked of the child for one setting.
struct Request {
  std::string key;      // of the pool
  std::string task_id;  // of the child
  std::string task_name;
  Json init, inputs;
  Distribution distribution = Distribution::kUsual;
};

/// A computed case on its way from the child to the caller or the pool.
struct Delivery {
  os::MappedFile mapping;
  std::filesystem::path file;  // of what is too large for the pool; else deleted
  std::string digest;
  int64_t bytes = 0;
  double seconds = 0;
};

/// A question that the child has not answered yet. Void once another child runs.
struct Question {
  int64_t id = 0;
  int child = 0;
};

class Client {
 public:
  explicit Client(Options options);

  /// Finds the interpreter (without starting it) and names the setting's place in the pool.
  Result<Request> Describe(const task::Task& task, task::Direction direction,
                           const task::Setting& setting, Distribution distribution);
  /// Starts the child if need be and has it load the task's code.
  Status Load(const task::Task& task, task::Direction direction, const Request& request);
  /// Asks for a case. Load() first.
  Result<Question> Ask(const Request& request, uint64_t seed);
  bool IsOpen(const Question& question) const { return child_ && question.child == children_; }
  /// Waits for the answer. A failure of the task's is data.
  Result<std::variant<Delivery, SettingFailure>> Await(const Request& request,
                                                       const Question& question);
  /// The answer goes into the pool under `key`, or nowhere when it is empty.
  void Forgo(const Question& question, const std::string& key);
  /// Keeps a case for others to come, on disk or, when large, while this process runs.
  void Keep(const Request& request, const Delivery& delivery, const std::string& tag);
  /// Gives up the cases that are kept in memory.
  void MakeRoom();
  /// Up to `count` cases of entropy that were kept.
  std::vector<PooledCase> Take(const Request& request, int count);
  std::optional<PooledCase> TakeSeeded(const Request& request, const std::string& tag);
  /// Takes in answers that nobody waits for.
  void CollectForgone(std::chrono::milliseconds patience);

  Pool& pool() { return pool_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Status Identify();
  Status StartChild();
  Result<std::variant<Delivery, SettingFailure>> Read(const Request& request, const Json& reply);
  void Warn(const Request& request, const Json& reply);

  Options options_;
  Pool pool_;
  Shelf shelf_;
  std::optional<Python> python_;
  std::string script_hash_;
  std::unique_ptr<TorchChild> child_;
  int children_ = 0;  // started so far
  int64_t last_id_ = 0;
  std::set<std::string> loaded_;
  std::vector<std::string> warnings_;
  std::map<int64_t, std::string> forgone_;
};

}  // namespace cupel::oracle
