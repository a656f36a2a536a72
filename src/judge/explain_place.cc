// The positions of an output's wrong elements: slices along axes, heads, tails, periods.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "judge/explain.h"

namespace cupel::judge {
namespace {

/// A set of slices of one axis, classified by its form.
struct SliceSet {
  enum Kind { kAll, kRange, kEvery, kPeriodic, kIrregular } kind = kAll;
  int64_t size = 0, begin = 0, end = 0;
  int64_t step = 1;          // kEvery, kPeriodic: the period
  int64_t from = 0, to = 0;  // kPeriodic: of each period, [from, to)
};

constexpr int64_t kLongestPeriod = 1024, kFewestPeriods = 3;

/// Of a set that repeats: the same run of slices in each period. Fills `set` and returns true.
bool FindPeriod(const std::vector<int64_t>& slices, int64_t length, SliceSet& set) {
  std::vector<bool> wrong(static_cast<size_t>(length));
  for (const int64_t slice : slices) wrong[static_cast<size_t>(slice)] = true;
  for (int64_t period = 2; period <= kLongestPeriod && kFewestPeriods * period <= length;
       ++period) {
    bool repeats = true;
    for (int64_t i = period; i < length && repeats; ++i) {
      repeats = wrong[static_cast<size_t>(i)] == wrong[static_cast<size_t>(i - period)];
    }
    if (!repeats) continue;
    const auto first = wrong.begin(), end = first + period;
    const auto from = std::find(first, end, true), to = std::find(from, end, false);
    if (std::find(to, end, true) != end) return false;  // several runs in a period
    set.step = period;
    set.from = from - first;
    set.to = to - first;
    return true;
  }
  return false;
}

SliceSet Classify(const std::vector<int64_t>& slices, int64_t length) {
  SliceSet set;
  set.size = static_cast<int64_t>(slices.size());
  set.begin = slices.front();
  set.end = slices.back() + 1;
  if (set.size == length) return set;
  if (set.end - set.begin == set.size) {
    set.kind = SliceSet::kRange;
    return set;
  }
  int64_t step = 0;
  for (size_t i = 1; i < slices.size(); ++i) step = std::gcd(step, slices[i] - slices[i - 1]);
  set.kind = SliceSet::kIrregular;
  if (set.size < 3) return set;
  if (step >= 2 && set.size == (length - set.begin % step + step - 1) / step) {
    set.kind = SliceSet::kEvery;
    set.step = step;
  } else if (FindPeriod(slices, length, set)) {
    set.kind = SliceSet::kPeriodic;
  }
  return set;
}

std::string AxisWord(const Evidence& e, size_t axis, bool plural) {
  if (e.axes.size() == 1) return plural ? "elements" : "element";
  if (e.axes.size() == 2 && axis == 0) return plural ? "rows" : "row";
  if (e.axes.size() == 2) return plural ? "columns" : "column";
  return fmt::format("{} of axis {}", plural ? "indices" : "index", axis);
}

std::string Span(const Evidence& e, size_t axis, int64_t begin, int64_t end) {
  const int64_t length = e.axes[axis].length;
  if (end - begin == 1) return fmt::format("{} {} of {}", AxisWord(e, axis, false), begin, length);
  return fmt::format("{} {} to {} of {}", AxisWord(e, axis, true), begin, end - 1, length);
}

/// Names the largest power of two up to 1024 whose whole tiles end at `begin`.
std::string TileNote(int64_t begin, int64_t length) {
  for (int64_t tile = 1024; tile >= 2; tile /= 2) {
    if (begin % tile != 0 || begin == 0) continue;
    if (length - begin < tile) {
      return fmt::format(" (the remainder after whole tiles of {})", tile);
    }
    if (length - begin == tile && tile >= 4) return fmt::format(" (the last tile of {})", tile);
    if (tile >= 8) return fmt::format(" (starting at a multiple of {})", tile);
  }
  return "";
}

Place DescribeRange(const Evidence& e, size_t axis, const SliceSet& set) {
  const int64_t length = e.axes[axis].length;
  const bool tail = set.end == length && set.begin > 0;
  if (tail && set.begin * 2 <= length) {
    const bool one = set.begin == 1;
    return {"only_first",
            fmt::format("only {} {} correct", Span(e, axis, 0, set.begin), one ? "is" : "are"),
            true};
  }
  if (set.begin == 0 && set.end * 2 > length) {
    const bool one = length - set.end == 1;
    return {"only_last",
            fmt::format("only {} {} correct", Span(e, axis, set.end, length), one ? "is" : "are"),
            true};
  }
  std::string text = fmt::format("the wrong ones are {}", Span(e, axis, set.begin, set.end));
  if (tail) text += TileNote(set.begin, length);
  return {tail ? "tail" : set.size == 1 ? "slice" : "range", text};
}

/// "columns 6 to 7 of every 8".
std::string PeriodText(const Evidence& e, size_t axis, const SliceSet& set) {
  const std::string which =
      set.to - set.from == 1
          ? fmt::format("{} {}", AxisWord(e, axis, false), set.from)
          : fmt::format("{} {} to {}", AxisWord(e, axis, true), set.from, set.to - 1);
  return fmt::format("{} of every {}", which, set.step);
}

Place DescribePlace(const Evidence& e, size_t axis, const SliceSet& set) {
  if (set.kind == SliceSet::kRange) return DescribeRange(e, axis, set);
  if (set.kind == SliceSet::kPeriodic) {
    return {"periodic", "the wrong ones are " + PeriodText(e, axis, set)};
  }
  return {"every_kth", fmt::format("every {}{} {} is wrong, starting at {}", set.step,
                                   set.step == 2   ? "nd"
                                   : set.step == 3 ? "rd"
                                                   : "th",
                                   AxisWord(e, axis, false), set.begin)};
}

/// All wrong elements are at the end in row-major order, and that end is not a whole row.
std::optional<Place> FlatTail(const Evidence& e) {
  if (e.axes.size() < 2 || e.first_wrong == 0) return {};
  const int64_t tail = e.count - e.first_wrong;
  if (e.wrong * 100 < tail * 99 || e.first_wrong % e.row_length() == 0) return {};
  if (e.first_wrong * 2 < e.count) {
    return Place{"only_first", fmt::format("only the first {} elements are correct", e.first_wrong),
                 true};
  }
  return Place{"tail", fmt::format("the wrong ones are the last {} elements{}", tail,
                                   TileNote(e.first_wrong, e.count))};
}

/// All wrong elements are at the beginning in row-major order, and end within a row.
std::optional<Place> FlatHead(const Evidence& e) {
  const int64_t head = e.last_wrong + 1;
  if (e.axes.size() < 2 || head % e.row_length() == 0 || head < e.row_length()) return {};
  if (e.wrong * 100 < head * 99) return {};
  if (head * 2 > e.count) {
    return Place{"only_last", fmt::format("only the last {} elements are correct", e.count - head),
                 true};
  }
  return Place{"head", fmt::format("the wrong ones are the first {} elements", head)};
}

/// The wrong elements are whole slices at the end of two or more axes, e.g. the edge tiles of a
/// matrix.
std::optional<Place> EdgeUnion(const Evidence& e) {
  int64_t right = 1;
  std::string text;
  int edges = 0;
  for (size_t a = 0; a < e.axes.size(); ++a) {
    const Axis& axis = e.axes[a];
    if (axis.wrong.empty()) return {};
    const int64_t full = e.count / axis.length;
    int64_t begin = axis.length;
    while (begin > 0 && axis.wrong[static_cast<size_t>(begin - 1)] == full) --begin;
    right *= begin;
    if (begin == axis.length || begin == 0) continue;
    text += fmt::format("{}{}{}", edges++ > 0 ? ", and " : "the wrong ones are ",
                        Span(e, a, begin, axis.length), TileNote(begin, axis.length));
  }
  if (edges < 2 || e.count - right != e.wrong) return {};
  return Place{"tail", text};
}

}  // namespace

std::optional<Place> FindPlace(const Evidence& e) {
  if (e.wrong == e.count) return {};
  if (auto flat = FlatTail(e)) return flat;
  if (auto flat = FlatHead(e)) return flat;
  if (auto edges = EdgeUnion(e)) return edges;
  double box = 1;
  bool irregular = false;
  std::vector<std::pair<size_t, SliceSet>> regular;
  for (size_t a = 0; a < e.axes.size(); ++a) {
    const Axis& axis = e.axes[a];
    if (axis.wrong.empty()) {
      box *= static_cast<double>(axis.length);
      continue;
    }
    std::vector<int64_t> slices;
    for (int64_t i = 0; i < axis.length; ++i) {
      if (axis.wrong[static_cast<size_t>(i)] > 0) slices.push_back(i);
    }
    const SliceSet set = Classify(slices, axis.length);
    box *= static_cast<double>(set.size);
    irregular |= set.kind == SliceSet::kIrregular;
    if (set.kind != SliceSet::kAll && set.kind != SliceSet::kIrregular) {
      regular.emplace_back(a, set);
    }
  }
  // If the wrong elements do not fill the box, it says little. A single element is listed anyway.
  if (regular.empty() || e.wrong == 1 || static_cast<double>(e.wrong) < 0.5 * box) return {};
  if (irregular && regular.size() == 1 && e.axes[regular[0].first].length < 4) return {};
  Place place = DescribePlace(e, regular[0].first, regular[0].second);
  for (size_t t = 1; t < regular.size(); ++t) {
    const auto& [axis, set] = regular[t];
    if (set.kind == SliceSet::kRange) {
      place.text += fmt::format(", within {}{}", Span(e, axis, set.begin, set.end),
                                set.end == e.axes[axis].length ? TileNote(set.begin, set.end) : "");
    } else if (set.kind == SliceSet::kPeriodic) {
      place.text += ", within " + PeriodText(e, axis, set);
    } else {
      place.text += fmt::format(", within every {}th {} starting at {}", set.step,
                                AxisWord(e, axis, false), set.begin);
    }
  }
  return place;
}

}  // namespace cupel::judge
