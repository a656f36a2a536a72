// SPDX-License-Identifier: Apache-2.0
#include "oracle/oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/hash.h"
#include "base/json.h"
#include "oracle/client.h"
#include "task/case_file.h"

namespace cupel::oracle {
namespace {

using task::Case;
using task::Direction;
using task::Setting;
using task::Task;

/// If a case is larger, the child starts the next one only when the caller is done, to save memory.
constexpr int64_t kMaxPrefetchBytes = 3ll << 29;
/// The time that the child may spend on refilling the pool at the end of a setting.
constexpr double kRefillSeconds = 0.3;
constexpr int kMaxRefills = 32;
/// Bytes of the largest storage of a call without data: 2^33 elements of eight bytes.
constexpr size_t kLargestShape = size_t{1} << 36;

/// The case seed of a trial under a user's seed: the same on all machines, different per setting.
uint64_t SeedOfTrial(uint64_t seed, const Task& task, Direction direction, const Setting& setting,
                     Distribution distribution, int trial) {
  Sha256 hash;
  hash.Field(fmt::format("trial|{}|{}|{}", seed, trial, Name(direction)));
  hash.Field(task.content_hash[static_cast<size_t>(direction)]);
  hash.Field(DumpJson(setting.init));
  hash.Field(DumpJson(setting.inputs));
  if (distribution != Distribution::kUsual) hash.Field(Name(distribution));
  return std::strtoull(hash.Hex().substr(0, 16).c_str(), nullptr, 16);
}

/// The source of one case of a stream.
struct Slot {
  std::optional<PooledCase> pooled;
  uint64_t seed = 0;
  std::string tag;  // in the pool: the user's seed and the trial; empty for entropy
};

/// Returns pooled cases at once. Requests the others from the child, one ahead of the caller.
class CaseStream final : public Oracle::Stream {
 public:
  CaseStream(Client& client, Task task, Direction direction, const Setting& setting,
             Request request, std::vector<Slot> slots, bool refill)
      : client_(client),
        task_(std::move(task)),
        direction_(direction),
        setting_id_(setting.id),
        request_(std::move(request)),
        slots_(std::move(slots)),
        refill_(refill) {}
  CaseStream(const CaseStream&) = delete;
  CaseStream& operator=(const CaseStream&) = delete;
  ~CaseStream() override { Drop(); }

  /// Requests the first case at or after `place` that is not pooled.
  Status AskAhead(size_t place) {
    while (place < slots_.size() && slots_[place].pooled) ++place;
    if (place >= slots_.size()) return {};
    if (asked_ && client_.IsOpen(*asked_)) {
      if (asked_place_ == place) return {};
      Drop();
    }
    TRY(client_.Load(task_, direction_, request_));
    TRY_ASSIGN(asked_, client_.Ask(request_, slots_[place].seed));
    asked_place_ = place;
    return {};
  }

  Result<std::optional<CaseOutcome>> Next() override {
    client_.CollectAbandoned(std::chrono::milliseconds(0));
    if (next_ >= slots_.size()) return std::optional<CaseOutcome>();
    const size_t place = next_++;
    if (slots_[place].pooled) {
      PooledCase pooled = std::move(*slots_[place].pooled);
      slots_[place].pooled.reset();
      if (auto found = Finish(std::move(pooled.mapping), pooled.digest)) {
        return std::optional<CaseOutcome>(std::move(*found));
      }
      // The file is intact but unreadable: compute the case again.
    }
    return Compute(place);
  }

 private:
  void Drop() {
    if (asked_) client_.Abandon(*asked_, "");
    asked_.reset();
  }

  Result<std::variant<Delivery, SettingFailure>> Answer(size_t place) {
    TRY(AskAhead(place));
    const Question question = *asked_;
    asked_.reset();
    return client_.Await(request_, question);
  }

  Result<std::optional<CaseOutcome>> Compute(size_t place) {
    TRY_ASSIGN(auto outcome, Answer(place));
    auto* failure = std::get_if<SettingFailure>(&outcome);
    if (failure != nullptr && (failure->killed || failure->gpu_failed)) {
      if (failure->killed) client_.MakeRoom();
      TRY_ASSIGN(outcome, Answer(place));
      failure = std::get_if<SettingFailure>(&outcome);
    }
    if (failure != nullptr) {
      next_ = slots_.size();
      return std::optional<CaseOutcome>(std::move(*failure));
    }
    auto& delivery = std::get<Delivery>(outcome);
    if (delivery.bytes <= kMaxPrefetchBytes) TRY(AskAhead(next_));
    client_.Keep(request_, delivery, slots_[place].tag);
    if (next_ >= slots_.size()) TRY(Refill(delivery));
    TRY_ASSIGN(Case result, Finish(std::move(delivery.mapping), delivery.digest));
    return std::optional<CaseOutcome>(std::move(result));
  }

  Result<Case> Finish(os::MappedFile mapping, const std::string& digest) {
    TRY_ASSIGN(Case result, task::ReadCase(std::move(mapping), "case " + digest.substr(0, 12)));
    result.task_name = task_.name;
    result.setting = setting_id_;
    result.content_hash = digest;
    return result;
  }

  /// Requests cases for later checks: they cost little while PyTorch is running.
  Status Refill(const Delivery& last) {
    if (!refill_ || static_cast<uint64_t>(last.bytes) > kMaxPooledBytes) return {};
    const int wanted = 2 * static_cast<int>(slots_.size()) - client_.pool().Available(request_.key);
    const int affordable = static_cast<int>(kRefillSeconds / std::max(last.seconds, 1e-3));
    for (int i = 0; i < std::min({wanted, affordable, kMaxRefills}); ++i) {
      TRY_ASSIGN(const Question question, client_.Ask(request_, EntropySeed()));
      client_.Abandon(question, request_.key);
    }
    return {};
  }

  Client& client_;
  Task task_;
  Direction direction_;
  std::string setting_id_;
  Request request_;
  std::vector<Slot> slots_;
  bool refill_;
  size_t next_ = 0;
  std::optional<Question> asked_;
  size_t asked_place_ = 0;
};

/// The stream of a setting to which the distribution does not apply.
class NoCase final : public Oracle::Stream {
 public:
  explicit NoCase(std::string why) : why_(std::move(why)) {}
  Result<std::optional<CaseOutcome>> Next() override {
    return std::optional<CaseOutcome>(SettingFailure{why_, true});
  }

 private:
  std::string why_;
};

}  // namespace

struct TorchOracle::Impl {
  Client client;
  os::MappedFile zeros;  // what the storages of Shapes() borrow
};

TorchOracle::TorchOracle(Options options) : impl_(new Impl{Client(std::move(options)), {}}) {}

// Wait briefly for cases that are nearly finished, so that the next check need not start PyTorch.
TorchOracle::~TorchOracle() { impl_->client.CollectAbandoned(std::chrono::milliseconds(300)); }

/// Makes the slots of a stream; the pool may fill some.
struct TorchOracle::Slots {
  std::function<std::vector<Slot>(const Request&, Client&)> make;
  bool refill = false;
};

Result<std::unique_ptr<Oracle::Stream>> TorchOracle::Start(const Task& task, Direction direction,
                                                           const Setting& setting,
                                                           Distribution distribution,
                                                           const Slots& slots) {
  Client& client = impl_->client;
  TRY_ASSIGN(Request request, client.Describe(task, direction, setting, distribution));
  if (distribution != Distribution::kUsual) {
    if (auto why = client.pool().Refusal(request.key)) {
      return std::unique_ptr<Stream>(std::make_unique<NoCase>(std::move(*why)));
    }
  }
  std::vector<Slot> made = slots.make(request, client);
  auto stream = std::make_unique<CaseStream>(client, task, direction, setting, std::move(request),
                                             std::move(made), slots.refill);
  TRY(stream->AskAhead(0));
  return std::unique_ptr<Stream>(std::move(stream));
}

Result<std::unique_ptr<Oracle::Stream>> TorchOracle::Open(const Task& task, Direction direction,
                                                          const Setting& setting, int count,
                                                          std::optional<uint64_t> seed, bool fresh,
                                                          Distribution distribution) {
  const auto make = [&](const Request& request, Client& client) {
    std::vector<Slot> slots(static_cast<size_t>(std::max(count, 0)));
    std::vector<PooledCase> pooled;
    if (!seed && !fresh) pooled = client.Take(request, count);
    for (size_t i = 0; i < slots.size(); ++i) {
      if (!seed) {
        slots[i].seed = EntropySeed();
        if (i < pooled.size()) slots[i].pooled = std::move(pooled[i]);
        continue;
      }
      slots[i].seed =
          SeedOfTrial(*seed, task, direction, setting, distribution, static_cast<int>(i));
      slots[i].tag = fmt::format("{}:{}", *seed, i);
      if (!fresh) slots[i].pooled = client.TakeSeeded(request, slots[i].tag);
    }
    return slots;
  };
  // For other distributions one case serves many checks, so do not compute more in advance.
  const bool refill = !seed && !fresh && distribution == Distribution::kUsual;
  return Start(task, direction, setting, distribution, {make, refill});
}

Result<std::unique_ptr<Oracle::Stream>> TorchOracle::OpenSeeds(const Task& task,
                                                               Direction direction,
                                                               const Setting& setting,
                                                               const std::vector<uint64_t>& seeds,
                                                               Distribution distribution) {
  const auto make = [&](const Request& request, Client& client) {
    std::vector<Slot> slots;
    for (const uint64_t seed : seeds) {
      const std::string tag = fmt::format("={}", seed);
      slots.push_back({client.TakeSeeded(request, tag), seed, tag});
    }
    return slots;
  };
  return Start(task, direction, setting, distribution, {make, false});
}

Result<std::vector<CaseOutcome>> Oracle::Cases(const Task& task, Direction direction,
                                               const Setting& setting, int count,
                                               std::optional<uint64_t> seed, bool fresh) {
  TRY_ASSIGN(const std::unique_ptr<Stream> stream,
             Open(task, direction, setting, count, seed, fresh));
  std::vector<CaseOutcome> outcomes;
  while (true) {
    TRY_ASSIGN(std::optional<CaseOutcome> outcome, stream->Next());
    if (!outcome) return outcomes;
    outcomes.push_back(std::move(*outcome));
  }
}

Result<std::vector<ShapeOutcome>> Oracle::Shapes(const Task&, Direction,
                                                 const std::vector<Setting>&) {
  return Fail(ErrorCode::kUnsupported, "calls without data need PyTorch in this process");
}

Result<std::vector<ShapeOutcome>> TorchOracle::Shapes(const Task& task, Direction direction,
                                                      const std::vector<Setting>& settings) {
  TRY_ASSIGN(const std::vector<Json> calls, impl_->client.Shapes(task, direction, settings));
  if (impl_->zeros.bytes().empty()) {
    TRY_ASSIGN(impl_->zeros, os::MappedFile::Zeros(kLargestShape));
  }
  std::vector<ShapeOutcome> outcomes;
  for (const Json& call : calls) {
    const auto failure = JsonString(call, "failure", "oracle.py");
    if (failure) {
      outcomes.emplace_back(SettingFailure{*failure});
      continue;
    }
    auto shape = task::ReadCallShape(call, impl_->zeros.bytes(), "a call without data");
    if (shape) {
      outcomes.emplace_back(std::move(*shape));
    } else {
      outcomes.emplace_back(SettingFailure{shape.error().message});
    }
  }
  return outcomes;
}

Result<std::variant<FieldResults, SettingFailure>> Oracle::Elements(const Task&, Direction,
                                                                    const Setting&, Distribution,
                                                                    uint64_t, uint64_t) {
  return Fail(ErrorCode::kUnsupported, "computing in finite fields needs PyTorch in this process");
}

Result<std::variant<FieldResults, SettingFailure>> TorchOracle::Elements(
    const Task& task, Direction direction, const Setting& setting, Distribution distribution,
    uint64_t seed, uint64_t field_seed) {
  TRY_ASSIGN(const Request request, impl_->client.Describe(task, direction, setting, distribution));
  return impl_->client.Elements(task, direction, request, {seed, field_seed});
}

const std::vector<std::string>& TorchOracle::warnings() const { return impl_->client.warnings(); }

}  // namespace cupel::oracle
