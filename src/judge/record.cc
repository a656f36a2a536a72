// SPDX-License-Identifier: Apache-2.0
#include "judge/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/hash.h"
#include "base/parse_number.h"

namespace cupel::judge {
namespace {

constexpr const char* kSchema = "cupel.verdict/1";
constexpr size_t kMostDifferences = 100;
constexpr size_t kMostCases = 1u << 20;

/// Who made a record, where and when. CompareRecords ignores these members.
constexpr auto kIgnoredMembers = std::to_array<std::string_view>(
    {"timing", "digest", "signatures", "kernel", "asked", "image_key", "image_sha256", "tools",
     "versions", "sandbox", "environment"});

template <typename List>
bool Contains(const List& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

tl::unexpected<Error> Bad(std::string_view what, const std::string& problem) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", what, problem),
              "pass a record that cupel check --json wrote");
}

Result<uint64_t> Seed(const Json& object, std::string_view what) {
  TRY_ASSIGN(const std::string text, JsonString(object, "seed", what));
  if (const auto seed = ParseNumber<uint64_t>(text)) return *seed;
  return Bad(what, "a seed is not a decimal 64-bit number");
}

Result<std::vector<std::string>> Strings(const Json& object, const char* key,
                                         std::string_view what) {
  TRY_ASSIGN(const Json* list, JsonArray(object, key, what));
  std::vector<std::string> strings;
  for (const Json& item : *list) {
    if (!item.is_string()) return Bad(what, fmt::format("{} contains a non-string", key));
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

Result<int> Number(const Json& object, const char* key, int least, int most,
                   std::string_view what) {
  TRY_ASSIGN(const int64_t value, JsonInt(object, key, what));
  if (value < least || value > most) {
    return Bad(what,
               fmt::format("{} is {}, which is not within {} to {}", key, value, least, most));
  }
  return static_cast<int>(value);
}

Result<Asked> ReadAsked(const Json& json, std::string_view what) {
  Asked asked;
  TRY_ASSIGN(asked.task, JsonString(json, "task", what));
  TRY_ASSIGN(asked.kinds, Strings(json, "kinds", what));
  TRY_ASSIGN(asked.trials, Number(json, "trials", 1, 10000, what));
  TRY_ASSIGN(asked.shadows, JsonBool(json, "shadows", what));
  TRY_ASSIGN(asked.integers, JsonBool(json, "integers", what));
  TRY_ASSIGN(asked.schedules, Number(json, "schedules", -1, 1000, what));
  if (json.contains("reduced")) {  // missing in records of 0.1.0 and earlier
    TRY_ASSIGN(asked.reduced, JsonBool(json, "reduced", what));
  }
  TRY_ASSIGN(asked.distributions, Strings(json, "distributions", what));
  TRY_ASSIGN(asked.engine, JsonString(json, "engine", what));
  TRY_ASSIGN(asked.model, JsonString(json, "model", what));
  TRY_ASSIGN(asked.arch, JsonString(json, "arch", what));
  TRY_ASSIGN(asked.flags, Strings(json, "flags", what));
  TRY_ASSIGN(asked.include_roots, Strings(json, "include_roots", what));
  return asked;
}

Status ReadCases(const Json& record, std::string_view what,
                 std::map<std::string, std::vector<UsedCase>>& cases) {
  TRY_ASSIGN(const Json* settings, JsonArray(record, "settings", what));
  size_t count = 0;
  for (const Json& setting : *settings) {
    TRY_ASSIGN(const std::string id, JsonString(setting, "id", what));
    TRY_ASSIGN(const Json* list, JsonArray(setting, "cases", what));
    for (const Json& item : *list) {
      if (++count > kMostCases) return Bad(what, "it lists too many cases");
      UsedCase& used = cases[id].emplace_back();
      TRY_ASSIGN(used.kind, JsonString(item, "kind", what));
      TRY_ASSIGN(used.seed, Seed(item, what));
      if (!item.contains("at")) continue;
      TRY_ASSIGN(used.at, JsonString(item, "at", what));
    }
  }
  return {};
}

Status ReadTools(const Json& record, std::string_view what, Record& into) {
  TRY_ASSIGN(const Json* versions, JsonObject(record, "versions", what));
  TRY_ASSIGN(into.cupel_version, JsonString(*versions, "cupel", what));
  TRY_ASSIGN(into.toolkit, JsonString(*versions, "toolkit", what));
  TRY_ASSIGN(into.torch_version, JsonString(*versions, "torch", what));
  Provenance& provenance = into.provenance;
  TRY_ASSIGN(const Json* tools, JsonObject(record, "tools", what));
  TRY_ASSIGN(provenance.program_hash, JsonString(*tools, "program_sha256", what));
  TRY_ASSIGN(provenance.commit, JsonString(*tools, "commit", what));
  TRY_ASSIGN(provenance.shim_hash, JsonString(*tools, "shim_sha256", what));
  TRY_ASSIGN(provenance.oracle_hash, JsonString(*tools, "oracle_sha256", what));
  TRY_ASSIGN(const Json* image, JsonObject(record, "image_sha256", what));
  TRY_ASSIGN(provenance.shared_object_hash, JsonString(*image, "shared_object", what));
  TRY_ASSIGN(provenance.ptx_hash, JsonString(*image, "ptx", what));
  TRY_ASSIGN(provenance.cubin_hash, JsonString(*image, "cubin", what));
  return {};
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

/// The parts that a repeated verdict must reproduce even on a GPU: no counts, and no numbers that
/// depend on the order of atomics.
Json Bounds(const Json& record) {
  Json out{{"verdict", MemberOr(record, "verdict", Json())}, {"reasons", Json::array()}};
  for (const Json& reason : MemberOr(record, "reasons", Json::array())) {
    out["reasons"].push_back(MemberOr(reason, "code", Json()));
  }
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

std::string RecordDigest(const Json& record) {
  // Sort members by name, so that their order in the file does not matter.
  nlohmann::json sorted = record;
  if (sorted.is_object()) {
    for (const char* member : {"timing", "digest", "signatures"}) sorted.erase(member);
  }
  return Sha256Hex(sorted.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void AddDigest(Json& record) { record["digest"] = RecordDigest(record); }

Result<Record> ReadRecord(std::string_view text, std::string_view what) {
  Record record;
  TRY_ASSIGN(record.json, ParseJson(text, what));
  const Json& json = record.json;
  if (!json.is_object()) return Bad(what, "it is not a JSON object");
  TRY_ASSIGN(const std::string schema, JsonString(json, "schema", what));
  if (schema != kSchema) return Bad(what, fmt::format("its schema is not {}", kSchema));
  if (!json.contains("digest") || !json.contains("asked")) {
    return Bad(what, "it has no digest: a version of cupel wrote it that could not verify records");
  }
  TRY_ASSIGN(record.digest, JsonString(json, "digest", what));
  for (const auto& [name, field] :
       {std::pair("verdict", &Record::verdict), std::pair("task", &Record::task),
        std::pair("direction", &Record::direction), std::pair("kernel", &Record::kernel),
        std::pair("source_sha256", &Record::source_hash),
        std::pair("task_sha256", &Record::task_hash),
        std::pair("seed_origin", &Record::seed_origin)}) {
    TRY_ASSIGN(record.*field, JsonString(json, name, what));
  }
  if (record.direction != "forward" && record.direction != "backward") {
    return Bad(what, "its direction is neither forward nor backward");
  }
  if (record.seed_origin != "user" && record.seed_origin != "entropy") {
    return Bad(what, "its seed_origin is neither user nor entropy");
  }
  TRY_ASSIGN(record.seed, Seed(json, what));
  TRY_ASSIGN(const Json* asked, JsonObject(json, "asked", what));
  TRY_ASSIGN(record.provenance.asked, ReadAsked(*asked, what));
  TRY(ReadCases(json, what, record.cases));
  TRY(ReadTools(json, what, record));
  for (const char* list : {"reasons", "notes", "not_checked"}) {
    TRY(JsonArray(json, list, what));
  }
  record.computed_digest = RecordDigest(json);
  // As in files, or on one line, as in a suite's store.
  const std::string_view line =
      text.ends_with('\n') ? std::string_view(text).substr(0, text.size() - 1) : text;
  record.is_canonical = line == DumpJson(json, 2) || line == DumpJson(json);
  return record;
}

bool IsStillValid(const Json& json, const Basis& now) {
  const auto record = ReadRecord(DumpJson(json), "verdict");
  if (!record || record->digest != record->computed_digest || record->verdict != "accepted") {
    return false;
  }
  const auto image = JsonString(json, "image_key", "verdict");
  const auto device = JsonString(json, "device", "verdict");
  if (!image || !device) return false;
  const Provenance& then = record->provenance;
  const std::pair<std::string_view, std::string_view> pairs[] = {
      {*image, now.image_key},         {*device, now.device},
      {then.ptx_hash, now.ptx_hash},   {then.program_hash, now.program_hash},
      {then.shim_hash, now.shim_hash}, {then.oracle_hash, now.oracle_hash}};
  return std::all_of(std::begin(pairs), std::end(pairs),
                     [](const auto& p) { return p.first == p.second && !p.first.empty(); }) &&
         (now.torch_version.empty() || now.torch_version == record->torch_version);
}

std::vector<Difference> CompareRecords(const Json& then, const Json& now, bool exactly) {
  Comparer comparer;
  if (!exactly) {
    comparer.Compare("", Bounds(then), Bounds(now));
    return comparer.Take();
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
