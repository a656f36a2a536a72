// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp/brief.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace cupel::cli {
namespace {

constexpr size_t kMostNotes = 32;

/// Limits for arrays and texts. They are tried in this order until the document fits.
struct Lengths {
  size_t items, bytes;
};
constexpr Lengths kLengths[] = {{64, 4096}, {16, 1024}, {8, 512}, {4, 256}, {2, 128}, {1, 64}};

/// Removes the members below `json` that `pattern` names. Returns whether there were any.
bool Remove(Json& json, std::string_view pattern) {
  const size_t end = std::min(pattern.find('/', 1), pattern.size());
  const std::string name(pattern.substr(1, end - 1));
  const std::string_view rest = pattern.substr(end);
  if (name == "*") {
    bool removed = false;
    if (!json.is_array()) return false;
    for (Json& item : json) removed = Remove(item, rest) || removed;
    return removed;
  }
  if (!json.is_object() || !json.contains(name)) return false;
  if (!rest.empty()) return Remove(json[name], rest);
  json.erase(name);
  return true;
}

/// Cuts `text` to at most `bytes` at a character boundary, and appends "…".
std::string Cut(const std::string& text, size_t bytes) {
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) >> 6) == 2) --bytes;
  return text.substr(0, bytes) + "…";
}

class Shortener {
 public:
  explicit Shortener(Lengths lengths) : lengths_(lengths) {}

  Json Shorten(const Json& json, const std::string& where) {
    if (json.is_string()) return ShortenText(json.get_ref<const std::string&>(), where);
    if (json.is_array()) {
      Json cut = Json::array();
      for (size_t i = 0; i < std::min(json.size(), lengths_.items); ++i) {
        cut.push_back(Shorten(json[i], fmt::format("{}/{}", where, i)));
      }
      if (cut.size() < json.size()) {
        Note(fmt::format("{}: {} of {} items", where, json.size() - cut.size(), json.size()));
      }
      return cut;
    }
    if (!json.is_object()) return json;
    Json cut = Json::object();
    for (const auto& [name, member] : json.items()) {
      cut[name] = Shorten(member, fmt::format("{}/{}", where, name));
    }
    return cut;
  }

  std::vector<std::string> TakeNotes() {
    if (notes_.size() > kMostNotes) {
      const size_t more = notes_.size() - kMostNotes;
      notes_.resize(kMostNotes);
      notes_.push_back(fmt::format("and in {} more places", more));
    }
    return std::move(notes_);
  }

 private:
  Json ShortenText(const std::string& text, const std::string& where) {
    if (text.size() <= lengths_.bytes) return text;
    Note(fmt::format("{}: {} of {} bytes", where, text.size() - lengths_.bytes, text.size()));
    return Cut(text, lengths_.bytes);
  }
  void Note(std::string text) { notes_.push_back(std::move(text)); }

  Lengths lengths_;
  std::vector<std::string> notes_;
};

/// The last resort: empties members of the document that are still too large after cutting.
void EmptyLargeMembers(Json& document, size_t max_bytes, std::vector<std::string>& notes) {
  const size_t most = max_bytes / (document.size() + 1);
  for (auto& [name, member] : document.items()) {
    if (!member.is_structured() || DumpJson(member).size() <= most) continue;
    member.clear();
    notes.push_back("/" + name);
  }
}

}  // namespace

Json Brief(Json document, std::span<const std::string_view> leave_out, size_t max_bytes) {
  std::vector<std::string> removed;
  for (const std::string_view pattern : leave_out) {
    if (Remove(document, pattern)) removed.emplace_back(pattern);
  }
  Json brief = document;
  std::vector<std::string> notes;
  for (const Lengths lengths : kLengths) {
    Shortener shortener(lengths);
    brief = shortener.Shorten(document, "");
    notes = shortener.TakeNotes();
    if (DumpJson(brief).size() <= max_bytes) break;
  }
  if (DumpJson(brief).size() > max_bytes) EmptyLargeMembers(brief, max_bytes, notes);
  removed.insert(removed.end(), notes.begin(), notes.end());
  brief["left_out"] = removed;
  return brief;
}

std::string FirstLines(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  const size_t end = text.rfind('\n', max_bytes - 1);
  const size_t kept = end == std::string_view::npos ? 0 : end + 1;
  return fmt::format("{}({} more bytes are not shown)\n", text.substr(0, kept), text.size() - kept);
}

}  // namespace cupel::cli
