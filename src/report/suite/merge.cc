// SPDX-License-Identifier: Apache-2.0
#include "report/suite/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "report/loose_json.h"
#include "report/suite/scores.h"

namespace cupel::report {
namespace {

Status CheckAlike(const NamedResults& first, const NamedResults& piece) {
  for (const char* key : {"engine", "device"}) {
    const Json one = MemberAt(first.document, key), other = MemberAt(piece.document, key);
    // A run that has not judged anything yet has no device.
    if (one == other || one == "" || other == "") continue;
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} and {} do not have the same {}: {} and {}", first.name, piece.name, key,
                    MemberAt(first.document, key).dump(), MemberAt(piece.document, key).dump()),
        "to compare them, use cupel suite compare");
  }
  return {};
}

/// The description of a piece, without its items.
std::vector<Json> About(const NamedResults& piece) {
  auto merged = ListAt(piece.document, "merged").get<std::vector<Json>>();
  std::erase_if(merged, [](const Json& run) { return !run.is_object() || !run.contains("name"); });
  if (!merged.empty()) return merged;
  Json about{{"name", piece.name}};
  for (const char* key : {"cupel", "status", "torch", "seed", "asked"}) {
    about[key] = MemberAt(piece.document, key);
  }
  return {about};
}

/// Joins the values of the pieces; different ones give "0.1.0, 0.2.0".
void Join(const Json& value, Json& all) {
  if (value == all || !value.is_string() || !all.is_string()) return;
  const std::string one = value, known = ", " + all.get<std::string>() + ", ";
  if (known.find(", " + one + ", ") == std::string::npos) all = all.get<std::string>() + ", " + one;
}

/// The progress of an item. The result with the most progress is kept.
enum { kPending, kFailed, kUnfinished, kFinished };
int Progress(const Json& item) {
  if (item["decision"] == "pending") return kPending;
  if (item["decision"] == "error") return kFailed;  // cupel failed, so there is no result
  return item.contains("unfinished") ? kUnfinished : kFinished;
}

class Merger {
 public:
  void Add(const NamedResults& piece) {
    for (Json item : ListAt(piece.document, "items")) {
      const std::string id = item["id"];  // ReadSuite has checked that it exists
      const auto [place, is_new] = places_.emplace(id, items_.size());
      if (!is_new && Progress(item) < Progress(items_[place->second])) continue;
      if (!item.contains("from"))
        item["from"] = piece.name;  // items of an earlier merge already have it
      if (is_new) {
        items_.push_back(std::move(item));
      } else {
        NoteFewer(items_[place->second], item);
        items_[place->second] = std::move(item);
      }
    }
    for (const Json& problem : ListAt(piece.document, "without_kernel")) AddOnce(problem, missing_);
    for (const Json& note : ListAt(piece.document, "notes")) AddOnce(note, notes_);
    const Json timing = MemberAt(piece.document, "timing");
    for (const Json& commit : ListAt(timing, "commits")) AddOnce(commit, commits_);
    for (const char* key : {"created_ms", "updated_ms"}) {
      const Json time = MemberAt(timing, key);
      if (time.is_number()) times_.push_back(time);
    }
    if (const Json ceilings = MemberAt(piece.document, "ceilings"); ceilings.is_object()) {
      ceilings_ = ceilings;
    }
    for (const Json& about : About(piece)) merged_.push_back(about);
  }

  Json Take(Json document) && {
    const bool pending = std::any_of(items_.begin(), items_.end(),
                                     [](const Json& item) { return Progress(item) < kFinished; });
    document["status"] = pending ? "stopped" : "finished";
    document["ceilings"] = std::move(ceilings_);
    document["without_kernel"] = StillMissing();
    document["items"] = std::move(items_);
    document["notes"] = std::move(notes_);
    document["merged"] = std::move(merged_);
    document["timing"] = Json::object();
    if (!times_.empty()) {
      const auto [least, most] = std::minmax_element(times_.begin(), times_.end());
      document["timing"] = {{"created_ms", *least}, {"updated_ms", *most}};
    }
    document["timing"]["commits"] = std::move(commits_);
    return document;
  }

 private:
  static void AddOnce(const Json& value, std::vector<Json>& list) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  }

  /// The last result is used even if it has fewer settings. Then adds a note.
  void NoteFewer(const Json& before, const Json& now) {
    const size_t had = ListAt(before, "settings").size(), has = ListAt(now, "settings").size();
    if (has >= had) return;
    AddOnce(fmt::format("{}: {} settings of {} replace {} of {}", MemberAt(now, "id").dump(), has,
                        MemberAt(now, "from").dump(), had, MemberAt(before, "from").dump()),
            notes_);
  }

  /// Problems for which no piece has a kernel.
  std::vector<Json> StillMissing() const {
    std::set<std::pair<Json, Json>> solved;
    for (const Json& item : items_) solved.emplace(item["task"], item["direction"]);
    std::vector<Json> missing = missing_;
    std::erase_if(missing, [&](const Json& problem) {
      return solved.count({MemberAt(problem, "task"), MemberAt(problem, "direction")}) > 0;
    });
    return missing;
  }

  std::vector<Json> items_, missing_, notes_, commits_, times_;
  std::map<std::string, size_t> places_;  // of items, by id
  Json ceilings_ = Json::object(), merged_ = Json::array();
};

}  // namespace

Result<Json> MergeSuites(const std::vector<NamedResults>& pieces) {
  Merger merger;
  for (const NamedResults& piece : pieces) {
    TRY(ReadSuite(piece.document, piece.name));
    // Compare with all earlier pieces, since a piece without a device matches any.
    for (const NamedResults& earlier : std::span(&pieces.front(), &piece)) {
      TRY(CheckAlike(earlier, piece));
    }
    merger.Add(piece);
  }
  Json first = pieces.front().document;
  for (const NamedResults& piece : pieces) {
    for (const char* key : {"cupel", "torch", "seed"})
      Join(MemberAt(piece.document, key), first[key]);
    if (first["device"] == "") first["device"] = MemberAt(piece.document, "device");
  }
  Json document = std::move(merger).Take(std::move(first));
  TRY_ASSIGN(const Suite suite, ReadSuite(document, "the merged document"));
  document["scores"] = ToJson(Score(suite));
  return document;
}

}  // namespace cupel::report
