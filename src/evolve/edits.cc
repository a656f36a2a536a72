// SPDX-License-Identifier: Apache-2.0
#include "evolve/edits.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace cupel::evolve {
namespace {

constexpr size_t kShown = 160;  // bytes of a line
constexpr size_t kMargin = 12;  // lines around a place

struct Line {
  std::string_view text;       // without blanks at its end
  size_t begin = 0, next = 0;  // bytes of the source, including the line end
};

/// A line end starts no further line: "a\n" has one line, "" has none.
std::vector<Line> LinesOf(std::string_view source) {
  std::vector<Line> lines;
  for (size_t begin = 0; begin < source.size();) {
    const size_t newline = source.find('\n', begin);
    const size_t next = newline == std::string_view::npos ? source.size() : newline + 1;
    std::string_view text = source.substr(begin, next - begin);
    text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
    lines.push_back({text, begin, next});
    begin = next;
  }
  return lines;
}

size_t IndentOf(std::string_view text) {
  return std::min(text.find_first_not_of(" \t"), text.size());
}

/// Finds all occurrences of a run of lines in the source: the indices of their first lines. Uses
/// Knuth, Morris and Pratt, so that hostile repetitive input takes linear time.
std::vector<size_t> Find(std::span<const Line> wanted, std::span<const Line> source) {
  std::vector<size_t> back(wanted.size() + 1, 0);
  for (size_t i = 1, k = 0; i < wanted.size(); ++i) {
    while (k > 0 && wanted[i].text != wanted[k].text) k = back[k];
    if (wanted[i].text == wanted[k].text) ++k;
    back[i + 1] = k;
  }
  std::vector<size_t> found;
  for (size_t i = 0, k = 0; i < source.size(); ++i) {
    while (k > 0 && (k == wanted.size() || source[i].text != wanted[k].text)) k = back[k];
    if (source[i].text == wanted[k].text) ++k;
    if (k == wanted.size()) found.push_back(i + 1 - k);
  }
  return found;
}

/// How many characters two lines share at their beginnings and ends, ignoring indentation.
size_t Likeness(std::string_view a, std::string_view b) {
  a.remove_prefix(IndentOf(a));
  b.remove_prefix(IndentOf(b));
  const size_t most = std::min(a.size(), b.size());
  size_t front = 0, back = 0;
  while (front < most && a[front] == b[front]) ++front;
  while (back < most - front && a[a.size() - 1 - back] == b[b.size() - 1 - back]) ++back;
  return front + back;
}

/// The lines around `line`, as they are in the source.
std::string RegionAt(size_t line, std::span<const Line> source) {
  const size_t first = line > kMargin ? line - kMargin : 0;
  const size_t end = std::min(source.size(), line + kMargin + 1);
  std::string region;
  for (size_t i = first; i < end; ++i) region.append(source[i].text) += '\n';
  return region;
}

/// For a text that does not occur: the line of the source that is most similar to its longest line.
void DescribeNearest(std::span<const Line> wanted, std::span<const Line> source,
                     EditProblem& problem) {
  const auto longest =
      std::max_element(wanted.begin(), wanted.end(),
                       [](const Line& a, const Line& b) { return a.text.size() < b.text.size(); });
  size_t best = 0, likeness = 0;
  for (size_t i = 0; i < source.size(); ++i) {
    const size_t alike = Likeness(longest->text, source[i].text);
    if (alike > likeness) best = i;
    likeness = std::max(likeness, alike);
  }
  if (likeness == 0) {
    problem.message += "; no line of the file resembles it";
    return;
  }
  const std::string_view near = source[best].text;
  const std::string_view verb = near == longest->text ? "matches" : "is nearest to";
  problem.message +=
      fmt::format("; its line \"{}\" {} line {} of the file, \"{}\"",
                  longest->text.substr(0, kShown), verb, best + 1, near.substr(0, kShown));
  problem.region = RegionAt(best, source);
}

/// The lines [begin, end) of the source that an edit replaces.
struct Place {
  size_t begin = 0, end = 0, edit = 0;
};

tl::expected<Place, EditProblem> PlaceOf(const Edit& edit, size_t index,
                                         std::span<const Line> source) {
  const std::string search = edit.search + '\n';
  const std::vector<Line> wanted = LinesOf(search);
  const bool is_all_blank =
      std::all_of(wanted.begin(), wanted.end(), [](const Line& line) { return line.text.empty(); });
  EditProblem problem{{index}, fmt::format("edit {}: the search text ", index + 1), ""};
  if (is_all_blank) {
    problem.message +=
        "is empty; to insert lines, search for a neighbouring line and repeat it in the "
        "replacement";
    return tl::unexpected(std::move(problem));
  }
  const std::vector<size_t> found = Find(wanted, source);
  if (found.empty()) {
    problem.message += "does not occur in the file";
    DescribeNearest(wanted, source, problem);
    problem.message += "; copy whole lines exactly, with their indentation";
    return tl::unexpected(std::move(problem));
  }
  if (found.size() > 1) {
    problem.message += fmt::format(
        "occurs {} times in the file, first at lines {} and {}; add lines around it until it "
        "occurs once",
        found.size(), found[0] + 1, found[1] + 1);
    problem.region = RegionAt(found[0], source) + "…\n" + RegionAt(found[1], source);
    return tl::unexpected(std::move(problem));
  }
  return Place{found[0], found[0] + wanted.size(), index};
}

}  // namespace

tl::expected<std::string, EditProblem> ApplyEdits(std::string_view source,
                                                  const std::vector<Edit>& edits) {
  const std::vector<Line> lines = LinesOf(source);
  std::vector<Place> places;
  for (size_t i = 0; i < edits.size(); ++i) {
    auto place = PlaceOf(edits[i], i, lines);
    if (!place) return tl::unexpected(std::move(place.error()));
    places.push_back(*place);
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.begin < b.begin; });
  std::string edited;
  size_t done = 0;  // bytes of the source
  for (size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    if (i > 0 && place.begin < places[i - 1].end) {
      return tl::unexpected(EditProblem{
          {std::min(place.edit, places[i - 1].edit), std::max(place.edit, places[i - 1].edit)},
          fmt::format("edits {} and {} overlap at line {} of the file; join them into "
                      "one edit",
                      places[i - 1].edit + 1, place.edit + 1, place.begin + 1),
          RegionAt(place.begin, lines)});
    }
    edited.append(source.substr(done, lines[place.begin].begin - done));
    const std::string& replace = edits[place.edit].replace;
    if (!replace.empty()) edited.append(replace).append("\n");
    done = lines[place.end - 1].next;
  }
  return edited.append(source.substr(done));
}

}  // namespace cupel::evolve
