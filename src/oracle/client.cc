// SPDX-License-Identifier: Apache-2.0
#include "oracle/client.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "base/hash.h"
#include "oracle/elements.h"
#include "oracle/environment.h"
#include "oracle/load.h"
#include "oracle/scripts.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;
using DeliveryOutcome = std::variant<Delivery, SettingFailure>;

/// PyTorch's rounding depends on the number of threads as well as on its version.
int Threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// Of a setting among those of a task.
std::string KeyOf(const task::Setting& setting) {
  return DumpJson(setting.init) + DumpJson(setting.inputs);
}

fs::path PoolRoot(const Options& options) {
  return options.cache.empty() ? fs::path() : options.cache / "cases";
}

}  // namespace

Client::Client(Options options)
    : options_(std::move(options)),
      pool_(PoolRoot(options_), options_.cache_bytes, options_.stop),
      cache_(options_.cache.empty() ? 0 : CaseCache::DefaultLimit()),
      shapes_(options_.cache.empty() ? fs::path() : options_.cache / "shapes", options_.stop) {}

Status Client::Identify() {
  if (python_) return {};
  fs::path memory;
  if (!options_.cache.empty()) {
    std::error_code ignored;
    fs::create_directories(options_.cache, ignored);
    memory = options_.cache / "pythons.json";
  }
  auto hash = ScriptsHash(options_.script.parent_path());
  if (!hash) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("cannot read the oracle's scripts: {}", hash.error().message),
                "reinstall cupel, or set CUPEL_HOME to the folder of cupel's data files");
  }
  scripts_hash_ = *std::move(hash);
  TRY_ASSIGN(python_, FindPython(options_.python, memory, options_.stop));
  return {};
}

Result<Request> Client::Describe(const task::Task& task, task::Direction direction,
                                 const task::Setting& setting, Distribution distribution) {
  TRY(RequireDirection(task, direction));
  TRY(Identify());
  const auto index = static_cast<size_t>(direction);
  Request request;
  request.task_name = task.name;
  request.init = setting.init;
  request.inputs = setting.inputs;
  request.seconds = setting.reference_seconds;
  request.distribution = distribution;
  request.task_id = ChildTaskId(task, direction);
  Sha256 key;
  key.Field(task.content_hash[index]);
  key.Field(Name(direction));
  key.Field(DumpJson(setting.init));
  key.Field(DumpJson(setting.inputs));
  key.Field(python_->identity);
  key.Field(scripts_hash_);
  key.Field(fmt::format("{}", Threads()));
  if (distribution != Distribution::kUsual) key.Field(Name(distribution));
  request.key = key.Hex().substr(0, 40);
  return request;
}

Result<std::vector<Json>> Client::Shapes(const task::Task& task, task::Direction direction,
                                         const std::vector<task::Setting>& settings) {
  TRY(RequireDirection(task, direction));
  TRY(Identify());
  Sha256 hash;
  hash.Field(task.content_hash[static_cast<size_t>(direction)]);
  hash.Field(Name(direction));
  hash.Field(python_->identity);
  hash.Field(scripts_hash_);
  const std::string key = hash.Hex().substr(0, 40);
  Json known = shapes_.Load(key);
  const size_t before = known.size();
  TRY(AskShapes(task, direction, settings, known));
  std::vector<Json> found;
  found.reserve(settings.size());
  for (const task::Setting& setting : settings) found.push_back(known[KeyOf(setting)]);
  const size_t after = known.size();
  for (auto item = known.begin(); item != known.end();) {
    item = item->contains("untried") ? known.erase(item) : std::next(item);
  }
  if (after != before && !known.empty()) shapes_.Save(key, known);
  return found;
}

Status Client::AskShapes(const task::Task& task, task::Direction direction,
                         const std::vector<task::Setting>& settings, Json& known) {
  std::vector<std::string> keys;
  Json asked = Json::array();
  for (const task::Setting& setting : settings) {
    std::string key = KeyOf(setting);
    if (known.contains(key) || std::ranges::find(keys, key) != keys.end()) continue;
    keys.push_back(std::move(key));
    asked.push_back({{"init", setting.init}, {"inputs", setting.inputs}});
  }
  if (keys.empty()) return {};
  Request request;
  request.task_id = ChildTaskId(task, direction);
  request.task_name = task.name;
  TRY(Load(task, direction, request));
  const int64_t id = ++last_id_;
  TRY(child_->Send({{"op", "shapes"}, {"id", id}, {"task", request.task_id}, {"settings", asked}}));
  TRY_ASSIGN(const std::optional<Json> reply, child_->Receive(id));
  if (!reply) {
    const std::string why = child_->ExitReason();
    child_.reset();
    return Fail(ErrorCode::kUnsupported, "PyTorch ended while it made calls without data: " + why);
  }
  if (reply->contains("failure")) {
    TRY_ASSIGN(const std::string why, JsonString(*reply, "failure", "oracle.py"));
    return Fail(ErrorCode::kUnsupported, why);
  }
  TRY_ASSIGN(const Json* calls, JsonArray(*reply, "calls", "oracle.py"));
  if (calls->size() != keys.size()) {
    return Fail(ErrorCode::kInternal, "oracle.py described another number of calls");
  }
  for (size_t i = 0; i < keys.size(); ++i) known[keys[i]] = (*calls)[i];
  return {};
}

Result<std::variant<FieldResults, SettingFailure>> Client::Elements(
    const task::Task& task, task::Direction direction, const Request& request,
    const std::pair<uint64_t, uint64_t>& seeds) {
  using Outcome = std::variant<FieldResults, SettingFailure>;
  TRY(Load(task, direction, request));
  const int64_t id = ++last_id_;
  TRY(child_->Send({{"op", "elements"},
                    {"id", id},
                    {"task", request.task_id},
                    {"init", request.init},
                    {"inputs", request.inputs},
                    {"distribution", Name(request.distribution)},
                    {"seed", seeds.first},
                    {"field_seed", seeds.second}}));
  TRY_ASSIGN(const std::optional<Json> reply, child_->Receive(id));
  if (!reply) {
    SettingFailure failure{"PyTorch ended while it computed in finite fields: " +
                           child_->ExitReason()};
    failure.killed = child_->was_killed();
    child_.reset();
    return Outcome(std::move(failure));
  }
  if (reply->contains("failure")) {
    TRY_ASSIGN(std::string why, JsonString(*reply, "failure", "oracle.py"));
    return Outcome(SettingFailure{std::move(why)});
  }
  TRY_ASSIGN(FieldResults results, ReadElements(*reply));
  return Outcome(std::move(results));
}

Status Client::StartChild() {
  loaded_.clear();
  abandoned_.clear();
  if (options_.progress) options_.progress(fmt::format("starting PyTorch ({})", python_->program));
  ChildOptions spawn{python_->program,  options_.script,  StepDeadline(options_.step_deadline),
                     options_.progress, options_.threads, options_.stop};
  TRY_ASSIGN(child_, TorchChild::Start(std::move(spawn)));
  ++children_;
  if (!options_.gpu) return {};
  TRY(child_->Send({{"op", "gpu"},
                    {"id", ++last_id_},
                    {"ordinal", options_.gpu->ordinal},
                    {"lock", options_.gpu->lock.string()}}));
  TRY(child_->Receive(last_id_));  // if the child has died, the first case reports it
  return {};
}

Status Client::Load(const task::Task& task, task::Direction direction, const Request& request) {
  if (child_ && !child_->alive()) child_.reset();
  if (!child_) TRY(StartChild());
  if (loaded_.count(request.task_id) != 0) return {};
  const bool on_cpu = on_cpu_.contains(request.task_id);
  Status loaded = LoadInChild(*child_, ++last_id_, task, direction, on_cpu);
  if (!loaded && child_->gpu_failed()) {  // because of an earlier request
    TRY(StartChild());
    loaded = LoadInChild(*child_, ++last_id_, task, direction, on_cpu);
  }
  TRY(loaded);
  loaded_.insert(request.task_id);
  return {};
}

Result<Question> Client::Ask(const Request& request, uint64_t seed) {
  Json ask = {{"op", "case"},         {"id", ++last_id_},         {"task", request.task_id},
              {"init", request.init}, {"inputs", request.inputs}, {"seed", seed}};
  if (request.distribution != Distribution::kUsual) {
    ask["distribution"] = Name(request.distribution);
  }
  if (request.seconds > 0) ask["seconds"] = request.seconds;
  if (auto scales = pool_.Scales(request.key)) ask["scales"] = *scales;
  TRY(child_->Send(ask));
  return Question{last_id_, children_};
}

Result<DeliveryOutcome> Client::Await(const Request& request, const Question& question) {
  TRY_ASSIGN(const std::optional<Json> reply, child_->Receive(question.id));
  if (reply) return Read(request, *reply);
  SettingFailure failure{fmt::format("PyTorch ended while computing it: {}", child_->ExitReason())};
  failure.killed = child_->was_killed();
  failure.gpu_failed = child_->gpu_failed();
  child_.reset();
  if (failure.gpu_failed) {
    on_cpu_.insert(request.task_id);
    if (options_.progress) {
      options_.progress("computing truth on the CPU, in a new process: " + failure.message);
    }
  }
  return DeliveryOutcome(std::move(failure));
}

Result<DeliveryOutcome> Client::Read(const Request& request, const Json& reply) {
  if (reply.contains("failure")) {
    TRY_ASSIGN(std::string why, JsonString(reply, "failure", "oracle.py"));
    return DeliveryOutcome(SettingFailure{std::move(why)});
  }
  Warn(request, reply);
  if (reply.contains("inapplicable")) {
    TRY_ASSIGN(std::string why, JsonString(reply, "inapplicable", "oracle.py"));
    TRY_ASSIGN(const bool lasting, JsonBool(reply, "lasting", "oracle.py"));
    if (lasting && !request.key.empty()) pool_.SetRefusal(request.key, why);
    return DeliveryOutcome(SettingFailure{std::move(why), true});
  }
  Delivery delivery;
  TRY_ASSIGN(const std::string file, JsonString(reply, "file", "oracle.py"));
  TRY_ASSIGN(delivery.digest, JsonString(reply, "digest", "oracle.py"));
  TRY_ASSIGN(delivery.bytes, JsonInt(reply, "bytes", "oracle.py"));
  TRY_ASSIGN(delivery.seconds, JsonNumber(reply, "seconds", "oracle.py"));
  TRY_ASSIGN(delivery.mapping, os::MappedFile::Open(file));
  if (delivery.mapping.bytes().size() > kMaxPooledBytes) {
    delivery.file = file;
  } else {
    std::error_code ignored;
    fs::remove(file, ignored);  // the mapping keeps the bytes
  }
  TRY_ASSIGN(const int64_t draws, JsonInt(reply, "draws", "oracle.py"));
  if (draws > 0) {
    std::vector<double> scales;
    TRY_ASSIGN(const Json* list, JsonArray(reply, "scales", "oracle.py"));
    for (const Json& scale : *list) scales.push_back(scale.is_number() ? scale.get<double>() : 0);
    pool_.SetScales(request.key, scales);
  }
  return DeliveryOutcome(std::move(delivery));
}

void Client::Warn(const Request& request, const Json& reply) {
  const auto list = JsonArray(reply, "warnings", "oracle.py");
  if (!list || request.task_name.empty()) return;  // an abandoned request has no task name
  for (const Json& item : **list) {
    if (!item.is_string()) continue;
    std::string text = fmt::format("task {}: {}", request.task_name, item.get<std::string>());
    if (std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end()) {
      warnings_.push_back(std::move(text));
    }
  }
}

void Client::Keep(const Request& request, const Delivery& delivery, const std::string& tag) {
  if (delivery.file.empty()) {
    return pool_.Insert(request.key, delivery.mapping.bytes(), delivery.digest, tag, 1);
  }
  cache_.Keep(request.key, delivery.file, delivery.mapping.bytes().size(), delivery.digest, tag);
}

void Client::MakeRoom() { cache_.Clear(); }

std::vector<PooledCase> Client::Take(const Request& request, int count) {
  std::vector<PooledCase> taken = pool_.Take(request.key, count);
  const int missing = count - static_cast<int>(taken.size());
  for (PooledCase& found : cache_.Take(request.key, missing)) taken.push_back(std::move(found));
  return taken;
}

std::optional<PooledCase> Client::TakeSeeded(const Request& request, const std::string& tag) {
  auto pooled = pool_.TakeSeeded(request.key, tag);
  return pooled ? std::move(pooled) : cache_.TakeSeeded(request.key, tag);
}

void Client::Abandon(const Question& question, const std::string& key) {
  if (IsOpen(question)) abandoned_.emplace(question.id, key);
}

void Client::CollectAbandoned(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (child_ && child_->alive() && !abandoned_.empty()) {
    const auto [id, key] = *abandoned_.begin();
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const auto reply = child_->ReceiveSoon(id, std::max(left, std::chrono::milliseconds(0)));
    if (!reply || !*reply) return;
    abandoned_.erase(id);
    Request request;
    request.key = key;
    const auto outcome = Read(request, **reply);
    const auto* delivery = outcome ? std::get_if<Delivery>(&*outcome) : nullptr;
    if (delivery == nullptr) continue;
    std::error_code ignored;
    if (!delivery->file.empty()) {
      fs::remove(delivery->file, ignored);
    } else if (!key.empty()) {
      pool_.Insert(key, delivery->mapping.bytes(), delivery->digest, "", 0);
    }
  }
}

}  // namespace cupel::oracle
