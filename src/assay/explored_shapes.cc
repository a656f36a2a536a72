// SPDX-License-Identifier: Apache-2.0
#include "assay/explored_shapes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "task/shape_family.h"
#include "task/sizes.h"

namespace cupel::assay {
namespace {

/// Positions of sizes that differ in the number of one keyword only, by number.
using Family = std::vector<size_t>;

std::vector<Family> FamiliesOf(const std::vector<task::ExploredSize>& sizes) {
  std::map<std::string, Family> families;
  for (size_t i = 0; i < sizes.size(); ++i) {
    task::Setting rest = sizes[i].setting;
    task::SetNumber(rest, sizes[i].key, 0);
    families[sizes[i].key + DumpJson(rest.init) + DumpJson(rest.inputs)].push_back(i);
  }
  std::vector<Family> list;
  for (auto& [name, family] : families) {
    std::stable_sort(family.begin(), family.end(),
                     [&](size_t a, size_t b) { return sizes[a].number < sizes[b].number; });
    list.push_back(std::move(family));
  }
  return list;
}

/// Five positions of a family: small, middle and large numbers. All, if there are few.
Family PointsOf(const Family& family) {
  if (family.size() <= 6) return family;
  return {family[0], family[1], family[2], family[family.size() / 2], family.back()};
}

class Asker {
 public:
  Asker(oracle::Oracle& oracle, const task::Task& task, task::Direction direction,
        const std::vector<task::ExploredSize>& sizes)
      : oracle_(oracle), task_(task), direction_(direction), sizes_(sizes), found_(sizes.size()) {}

  Result<std::vector<std::optional<task::CallShape>>> Run() {
    const std::vector<Family> families = FamiliesOf(sizes_);
    std::vector<size_t> asked;
    for (const Family& family : families) {
      for (const size_t i : PointsOf(family)) asked.push_back(i);
    }
    TRY(Ask(asked));
    std::vector<size_t> others;
    for (const Family& family : families) {
      if (!Extend(family)) others.insert(others.end(), family.begin(), family.end());
    }
    TRY(Ask(others));
    return std::move(found_);
  }

 private:
  Status Ask(const std::vector<size_t>& positions) {
    if (positions.empty()) return {};
    std::vector<task::Setting> settings;
    settings.reserve(positions.size());
    for (const size_t i : positions) settings.push_back(sizes_[i].setting);
    TRY_ASSIGN(auto shapes, oracle_.Shapes(task_, direction_, settings));
    for (size_t k = 0; k < positions.size(); ++k) {
      auto* shape = std::get_if<task::CallShape>(&shapes[k]);
      if (shape != nullptr) found_[positions[k]] = std::move(*shape);
    }
    return {};
  }

  /// Derives the calls of a family from those that are known. False if that is impossible.
  bool Extend(const Family& family) {
    const Family points = PointsOf(family);
    if (points.size() == family.size()) return true;
    std::vector<task::ShapeFamily::Point> known;
    for (const size_t i : points) {
      if (!found_[i]) return false;  // others may be refused, too
      known.emplace_back(sizes_[i].number, &*found_[i]);
    }
    const auto fitted = task::ShapeFamily::Fit(known);
    if (!fitted) return false;
    for (const size_t i : family) {
      if (!found_[i]) found_[i] = fitted->At(sizes_[i].number);
    }
    return true;
  }

  oracle::Oracle& oracle_;
  const task::Task& task_;
  task::Direction direction_;
  const std::vector<task::ExploredSize>& sizes_;
  std::vector<std::optional<task::CallShape>> found_;
};

}  // namespace

Result<std::vector<std::optional<task::CallShape>>> ShapesAt(
    oracle::Oracle& oracle, const task::Task& task, task::Direction direction,
    const std::vector<task::ExploredSize>& sizes) {
  return Asker(oracle, task, direction, sizes).Run();
}

}  // namespace cupel::assay
