// SPDX-License-Identifier: Apache-2.0
#include "judge/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "records/digest.h"
#include "records/json.h"

namespace cupel::judge {
namespace {

constexpr size_t kMostDifferences = 100;

/// Who made a record, where and when. CompareRecords ignores these members.
constexpr auto kIgnoredMembers = std::to_array<std::string_view>(
    {"timing", "digest", "signatures", "kernel", "asked", "image_key", "image_sha256", "tools",
     "versions", "sandbox", "environment"});

tl::unexpected<Error> Bad(std::string_view what, const std::string& problem) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", what, problem),
              "pass a record that cupel check --json wrote");
}

/// One side of a comparison, truncated to a line.
std::string Short(const Json& json) {
  std::string text = DumpJson(json);
  constexpr size_t kMost = 200;
  if (text.size() > kMost) text = text.substr(0, kMost) + "…";
  return text;
}

/// Walks both records at once.
class Comparer {
 public:
  void Compare(const std::string& where, const Json& then, const Json& now) {
    if (found_.size() >= kMostDifferences || then == now) return;
    if (then.is_object() && now.is_object()) return CompareObjects(where, then, now);
    if (then.is_array() && now.is_array() && then.size() == now.size()) {
      for (size_t i = 0; i < then.size(); ++i) {
        Compare(fmt::format("{}[{}]", where, i), then[i], now[i]);
      }
      return;
    }
    found_.push_back({where, Short(then), Short(now)});
  }
  std::vector<Difference> Take() { return std::move(found_); }

 private:
  void CompareObjects(const std::string& where, const Json& then, const Json& now) {
    const std::string prefix = where.empty() ? "" : where + ".";
    for (const auto& [key, value] : then.items()) {
      const auto other = now.find(key);
      Compare(prefix + key, value, other == now.end() ? Json() : *other);
    }
    for (const auto& [key, value] : now.items()) {
      if (!then.contains(key)) Compare(prefix + key, Json(), value);
    }
  }

  std::vector<Difference> found_;
};

Json MemberOr(const Json& json, const char* key, Json otherwise) {
  if (!json.is_object() || !json.contains(key)) return otherwise;
  return json[key];
}

/// The decision and the codes of the reasons.
Json Decision(const Json& record) {
  Json out{{"verdict", MemberOr(record, "verdict", Json())}, {"reasons", Json::array()}};
  for (const Json& reason : MemberOr(record, "reasons", Json::array())) {
    out["reasons"].push_back(MemberOr(reason, "code", Json()));
  }
  return out;
}

/// The parts that a repeated verdict must reproduce even on a GPU: no counts, and no numbers that
/// depend on the order of atomics.
Json Bounds(const Json& record) {
  Json out = Decision(record);
  Json& settings = out["settings"] = Json::array();
  for (const Json& setting : MemberOr(record, "settings", Json::array())) {
    Json limits = Json::array();
    for (const Json& trial : MemberOr(setting, "trials", Json::array())) {
      for (const Json& output : MemberOr(trial, "outputs", Json::array())) {
        limits.push_back(
            {MemberOr(output, "rms_limit", Json()), MemberOr(output, "max_limit", Json())});
      }
    }
    settings.push_back({{"id", MemberOr(setting, "id", Json())},
                        {"status", MemberOr(setting, "status", Json())},
                        {"limits", std::move(limits)}});
  }
  return out;
}

/// The statuses of the settings, by id.
std::map<std::string, Json> Statuses(const Json& record) {
  std::map<std::string, Json> statuses;
  for (const Json& setting : MemberOr(record, "settings", Json::array())) {
    const Json id = MemberOr(setting, "id", Json());
    statuses[DumpJson(id)] = MemberOr(setting, "status", Json());
  }
  return statuses;
}

/// What another version of cupel must reproduce.
std::vector<Difference> CompareVerdicts(const Json& then, const Json& now) {
  Comparer comparer;
  comparer.Compare("", Decision(then), Decision(now));
  const auto before = Statuses(then), after = Statuses(now);
  for (const auto& [id, status] : before) {
    const auto other = after.find(id);
    comparer.Compare(fmt::format("settings[{}].status", id), status,
                     other == after.end() ? Json() : other->second);
  }
  return comparer.Take();
}

/// Removes the reasons why kinds of inputs were not tried: a repetition from given cases does not
/// look for further cases.
void DropNotTriedReasons(Json& record) {
  if (!record.contains("settings") || !record["settings"].is_array()) return;
  for (Json& setting : record["settings"]) {
    if (!setting.is_object() || !setting.contains("distributions")) continue;
    Json& others = setting["distributions"];
    if (!others.is_object() || !others.contains("not_tried")) continue;
    for (Json& item : others["not_tried"]) {
      if (item.is_object()) item.erase("why");
    }
  }
}

}  // namespace

Result<Record> ReadRecord(std::string_view text, std::string_view what) {
  Record record;
  TRY_ASSIGN(record.json, ParseJson(text, what));
  const Json& json = record.json;
  TRY_ASSIGN(record.verdict, records::ReadVerdict(json, what, {}));
  if (record.verdict.digest.empty()) {
    return Bad(what, "it has no digest: a version of cupel wrote it that could not verify records");
  }
  record.computed_digest = records::DigestOf(json);
  // As in files, or on one line, as in a suite's store.
  const std::string_view line =
      text.ends_with('\n') ? std::string_view(text).substr(0, text.size() - 1) : text;
  record.is_canonical = line == DumpJson(json, 2) || line == DumpJson(json);
  return record;
}

bool IsStillValid(const Json& json, const Basis& now) {
  const auto record = ReadRecord(DumpJson(json), "verdict");
  if (!record || record->verdict.digest != record->computed_digest || !record->verdict.accepted()) {
    return false;
  }
  const records::Verdict& verdict = record->verdict;
  const records::Provenance& then = verdict.provenance;
  const std::pair<std::string_view, std::string_view> pairs[] = {
      {verdict.image_key, now.image_key}, {verdict.device, now.device},
      {then.ptx_hash, now.ptx_hash},      {then.program_hash, now.program_hash},
      {then.shim_hash, now.shim_hash},    {then.oracle_hash, now.oracle_hash}};
  return std::all_of(std::begin(pairs), std::end(pairs),
                     [](const auto& p) { return p.first == p.second && !p.first.empty(); }) &&
         (now.torch_version.empty() || now.torch_version == verdict.torch_version);
}

std::vector<Difference> CompareRecords(const Json& then, const Json& now, Extent extent) {
  Comparer comparer;
  if (extent != Extent::kAll) {
    std::vector<Difference> found;
    if (extent == Extent::kVerdict) {
      found = CompareVerdicts(then, now);
    } else {
      comparer.Compare("", Bounds(then), Bounds(now));
      found = comparer.Take();
    }
    // The emulator's part is deterministic.
    const Extent others = extent == Extent::kBounds ? Extent::kAll : extent;
    const Json left = MemberOr(then, "other_engines", Json::array());
    const Json right = MemberOr(now, "other_engines", Json::array());
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      for (Difference& difference : CompareRecords(left[i], right[i], others)) {
        difference.where = fmt::format("other_engines[{}].{}", i, difference.where);
        found.push_back(std::move(difference));
      }
    }
    return found;
  }
  Json left = then, right = now;
  for (Json* side : {&left, &right}) {
    for (const std::string_view member : kIgnoredMembers) side->erase(std::string(member));
    DropNotTriedReasons(*side);
  }
  comparer.Compare("", left, right);
  return comparer.Take();
}

}  // namespace cupel::judge
