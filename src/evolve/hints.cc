// SPDX-License-Identifier: Apache-2.0
#include "evolve/hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/beta.h"

namespace cupel::evolve {
namespace {

constexpr int64_t kMaxId = int64_t{1} << 53;
constexpr std::string_view kBackward = "backward", k16Bit = "16-bit";
constexpr std::string_view kProducts = "products", kStatistics = "statistics", kLatency = "latency";
constexpr std::string_view kWgmma = "wgmma";

/// One paragraph: each run of blanks and line ends becomes one blank; removes control characters.
std::string Paragraph(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (blank && (plain.empty() || plain.back() == ' ')) continue;
    if (blank) plain += ' ';
    if (!blank && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) plain += c;
  }
  if (plain.ends_with(' ')) plain.pop_back();
  return plain;
}

bool Fits(const Hint& hint, const HintFit& fit) {
  if (hint.needs == kProducts && !fit.has_products) return false;
  if (hint.needs == kStatistics && !fit.has_statistics) return false;
  if (hint.needs == kWgmma && !(fit.has_products && fit.has_wgmma)) return false;
  if (hint.needs == kLatency && !fit.bound.empty() && fit.bound != kLatency) return false;
  if (!hint.direction.empty() && (hint.direction == kBackward) != fit.backward) return false;
  return hint.dtype.empty() || (hint.dtype == k16Bit ? fit.has_16bit : fit.has_float32);
}

Result<Hint> ReadHint(const Json& saved, std::string_view what) {
  Hint hint;
  TRY_ASSIGN(hint.id, JsonInt(saved, "id", what));
  TRY_ASSIGN(hint.topic, JsonString(saved, "topic", what));
  TRY_ASSIGN(hint.bound, JsonString(saved, "bound", what));
  TRY_ASSIGN(hint.text, JsonString(saved, "text", what));
  for (const auto& [name, member] :
       {std::pair("direction", &hint.direction), std::pair("dtype", &hint.dtype),
        std::pair("needs", &hint.needs)}) {
    if (!saved.contains(name)) continue;  // older runs
    TRY_ASSIGN(*member, JsonString(saved, name, what));
  }
  TRY_ASSIGN(hint.origin, JsonString(saved, "origin", what));
  TRY_ASSIGN(hint.parents, JsonIntList(saved, "parents", what));
  TRY_ASSIGN(hint.tried, JsonNumber(saved, "tried", what));
  TRY_ASSIGN(hint.earned, JsonNumber(saved, "earned", what));
  const bool sums_fit = hint.earned >= 0 && hint.earned <= hint.tried && std::isfinite(hint.tried);
  if (!sums_fit || hint.id < 0 || hint.id >= kMaxId) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: hint {} has an invalid id, or \"earned\" exceeds \"tried\"", what,
                            hint.id));
  }
  return hint;
}

}  // namespace

double Expected(const Hint& hint) { return (1 + hint.earned) / (2 + hint.tried); }

Hints::Hints(std::vector<Hint> hints) : hints_(std::move(hints)) {
  std::sort(hints_.begin(), hints_.end(), [](const Hint& a, const Hint& b) { return a.id < b.id; });
  for (const Hint& hint : hints_) {
    CHECK(hint.id >= next_id_);
    next_id_ = hint.id + 1;
  }
}

const Hint* Hints::Find(int64_t id) const {
  const auto found =
      std::find_if(hints_.begin(), hints_.end(), [&](const Hint& hint) { return hint.id == id; });
  return found == hints_.end() ? nullptr : &*found;
}

HintFit ForEdits(HintFit fit, std::string_view parent) {
  fit.has_wgmma = fit.has_wgmma && parent.find(kWgmma) != std::string_view::npos;
  return fit;
}

std::vector<const Hint*> Hints::Sample(int count, const HintFit& fit, Random random) const {
  std::vector<std::pair<double, const Hint*>> draws;
  for (const Hint& hint : hints_) {
    // Each hint has its own stream, so that a new hint does not change the draws of others.
    Random own = random.Fork(fmt::format("hint {}", hint.id));
    const double draw = DrawBeta(own, 1 + hint.earned, 1 + hint.tried - hint.earned);
    if (Fits(hint, fit)) draws.emplace_back(draw, &hint);
  }
  std::stable_sort(draws.begin(), draws.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<const Hint*> sample;
  std::set<std::string_view> topics;
  const auto take = [&](int most, bool of_bound) {
    for (const auto& [draw, hint] : draws) {
      if (static_cast<int>(sample.size()) >= most) return;
      if (of_bound && hint->bound != fit.bound) continue;
      if (topics.insert(hint->topic).second) sample.push_back(hint);
    }
  };
  take((count + 1) / 2, true);
  take(count, false);
  return sample;
}

void Hints::Reward(int64_t id, double reward) {
  for (Hint& hint : hints_) {
    if (hint.id != id) continue;
    hint.tried += 1;
    hint.earned += std::isnan(reward) ? 0 : std::clamp(reward, 0.0, 1.0);
  }
}

Result<int64_t> Hints::Add(std::string text, std::vector<int64_t> parents) {
  text = Paragraph(text);
  if (text.empty() || text.size() > kMaxTextBytes) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("a hint has {} characters", text.size()),
                fmt::format("write 1 to {}", kMaxTextBytes));
  }
  const Hint* first = nullptr;
  for (const int64_t parent : parents) {
    if (first == nullptr) first = Find(parent);
  }
  if (first == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, "none of the parents of the new hint exists");
  }
  for (const Hint& hint : hints_) {
    if (hint.text == text) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("hint {} has the same text", hint.id));
    }
  }
  Hint hint;
  hint.id = next_id_++;
  hint.topic = first->topic;
  hint.bound = first->bound;
  hint.direction = first->direction;
  hint.dtype = first->dtype;
  hint.needs = first->needs;
  hint.text = std::move(text);
  hint.origin = "evolved";
  hint.parents = std::move(parents);
  hints_.push_back(std::move(hint));
  return hints_.back().id;
}

void Hints::Retire(size_t capacity) {
  while (hints_.size() > capacity) {
    std::map<std::string_view, int> of_topic;
    for (const Hint& hint : hints_) ++of_topic[hint.topic];
    const bool spare = of_topic.size() < hints_.size();
    auto worst = hints_.end();
    for (auto hint = hints_.begin(); hint != hints_.end(); ++hint) {
      if (spare && of_topic[hint->topic] == 1) continue;
      if (worst == hints_.end() || Expected(*hint) <= Expected(*worst)) worst = hint;
    }
    hints_.erase(worst);
  }
}

Json Hints::State() const {
  Json hints = Json::array();
  for (const Hint& hint : hints_) {
    hints.push_back({{"id", hint.id},
                     {"topic", hint.topic},
                     {"bound", hint.bound},
                     {"direction", hint.direction},
                     {"dtype", hint.dtype},
                     {"needs", hint.needs},
                     {"text", hint.text},
                     {"origin", hint.origin},
                     {"parents", hint.parents},
                     {"tried", hint.tried},
                     {"earned", hint.earned}});
  }
  return {{"next_id", next_id_}, {"hints", std::move(hints)}};
}

Result<Hints> Hints::FromState(const Json& state) {
  const std::string what = "the hints' state";
  TRY_ASSIGN(const Json* saved, JsonArray(state, "hints", what));
  std::vector<Hint> hints;
  std::set<int64_t> ids;
  for (const Json& entry : *saved) {
    TRY_ASSIGN(Hint hint, ReadHint(entry, what));
    if (!ids.insert(hint.id).second) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: hint {} occurs twice", what, hint.id));
    }
    hints.push_back(std::move(hint));
  }
  Hints restored(std::move(hints));
  TRY_ASSIGN(const int64_t next_id, JsonInt(state, "next_id", what));
  if (next_id < restored.next_id_ || next_id > kMaxId) {
    return Fail(ErrorCode::kInvalidArgument, what + ": next_id is not a free id");
  }
  restored.next_id_ = next_id;
  return restored;
}

}  // namespace cupel::evolve
