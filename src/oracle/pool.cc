// SPDX-License-Identifier: Apache-2.0
#include "oracle/pool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "base/json.h"
#include "base/random.h"
#include "os/fd.h"
#include "os/files.h"
#include "os/trim.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxIndexBytes = 4u << 20;
constexpr size_t kMaxEntries = 1024;

struct Entry {
  std::string file;  // inside the setting's folder
  std::string digest;
  std::string sum;   // Checksum() of the bytes
  std::string seed;  // empty: entropy
  int64_t uses = 0;
};

struct Index {
  std::optional<std::vector<double>> scales;
  std::optional<std::string> refusal;
  std::vector<Entry> entries;
};

/// A fast checksum that detects torn writes and bit rot. It does not protect against attackers:
/// only the user can write to the folder.
std::string Checksum(std::span<const std::byte> bytes) {
  uint64_t lanes[4] = {1, 2, 3, 4};
  size_t i = 0;
  for (; i + 32 <= bytes.size(); i += 32) {
    uint64_t words[4];
    std::memcpy(words, bytes.data() + i, 32);
    for (int lane = 0; lane < 4; ++lane) {
      lanes[lane] = (lanes[lane] ^ words[lane]) * 0x9e3779b97f4a7c15u;
      lanes[lane] ^= lanes[lane] >> 29;
    }
  }
  uint64_t sum = bytes.size();
  for (; i < bytes.size(); ++i) sum = (sum ^ std::to_integer<uint64_t>(bytes[i])) * 0x100000001b3u;
  for (uint64_t lane : lanes) sum = (sum ^ lane) * 0x9e3779b97f4a7c15u + (sum >> 31);
  return fmt::format("{:016x}", sum);
}

/// The folder of one setting, locked while the object exists. False if it cannot be created.
class LockedFolder {
 public:
  LockedFolder(const fs::path& root, const std::string& key) : path_(root / key) {
    if (root.empty()) return;
    std::error_code error;
    fs::create_directories(root, error);
    ::chmod(root.c_str(), 0700);  // contains the expected results
    if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) return;
    lock_ =
        os::Fd(::open((path_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (lock_ && ::flock(lock_.get(), LOCK_EX) != 0) lock_.Close();
  }
  explicit operator bool() const { return static_cast<bool>(lock_); }
  const fs::path& path() const { return path_; }

  /// An unreadable index counts as empty, since this is a cache.
  Index Load() const {
    Index index;
    const auto text = os::ReadFile(path_ / "index.json", kMaxIndexBytes);
    if (!text) return index;
    const auto json = ParseJson(*text, "index.json");
    if (!json || !json->is_object()) return index;
    LoadScales(*json, index);
    if (auto why = JsonString(*json, "inapplicable", "index")) index.refusal = *why;
    const auto entries = JsonArray(*json, "entries", "index");
    if (!entries || (*entries)->size() > kMaxEntries) return index;
    for (const Json& item : **entries) {
      auto file = JsonString(item, "file", "entry");
      auto digest = JsonString(item, "digest", "entry");
      auto sum = JsonString(item, "sum", "entry");
      auto seed = JsonString(item, "seed", "entry");
      auto uses = JsonInt(item, "uses", "entry");
      if (!file || !digest || !sum || !seed || !uses || fs::path(*file).filename() != *file)
        continue;
      index.entries.push_back({*file, *digest, *sum, *seed, *uses});
    }
    return index;
  }

  void Save(const Index& index) const {
    Json json = {{"version", 1}};
    if (index.scales) json["scales"] = *index.scales;
    if (index.refusal) json["inapplicable"] = *index.refusal;
    json["entries"] = Json::array();
    for (const Entry& e : index.entries) {
      json["entries"].push_back({{"file", e.file},
                                 {"digest", e.digest},
                                 {"sum", e.sum},
                                 {"seed", e.seed},
                                 {"uses", e.uses}});
    }
    const std::string text = DumpJson(json);
    (void)Write("index.json", std::as_bytes(std::span(text)));
  }

  /// Atomic for other processes. Not synced, since torn files are detected and dropped.
  bool Write(const std::string& name, std::span<const std::byte> bytes) const {
    const fs::path early = path_ / (name + ".new");
    os::Fd file(::open(early.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return false;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::error_code error;
    if (os::WriteAll(file.get(), text)) fs::rename(early, path_ / name, error);
    std::error_code ignored;
    const bool renamed = !fs::exists(early, ignored);
    if (!renamed) fs::remove(early, ignored);
    return renamed && !error;
  }

  void Remove(const std::string& name) const {
    std::error_code ignored;
    fs::remove(path_ / name, ignored);
  }

 private:
  static void LoadScales(const Json& json, Index& index) {
    const auto scales = JsonArray(json, "scales", "index");
    if (!scales) return;
    std::vector<double> values;
    for (const Json& scale : **scales) {
      if (!scale.is_number()) return;
      values.push_back(scale.get<double>());
    }
    index.scales = std::move(values);
  }

  fs::path path_;
  os::Fd lock_;
};

std::optional<PooledCase> Open(const LockedFolder& folder, const Entry& entry) {
  const fs::path path = folder.path() / entry.file;
  auto mapping = os::MappedFile::Open(path);
  if (!mapping || Checksum(mapping->bytes()) != entry.sum) return std::nullopt;
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // last used: now
  return PooledCase{std::move(*mapping), entry.digest};
}

}  // namespace

std::vector<PooledCase> Pool::Take(const std::string& key, int count) {
  std::vector<PooledCase> taken;
  const LockedFolder folder(root_, key);
  if (!folder || count <= 0) return taken;
  Index index = folder.Load();
  Random random(EntropySeed());
  std::vector<Entry> left;   // entries that stay in the index
  std::vector<Entry> offer;  // entries to choose from
  for (Entry& entry : index.entries) {
    (entry.seed.empty() ? offer : left).push_back(std::move(entry));
  }
  for (size_t i = offer.size(); i > 1; --i) std::swap(offer[i - 1], offer[random.Below(i)]);
  for (Entry& entry : offer) {
    if (taken.size() < static_cast<size_t>(count)) {
      auto opened = entry.uses < kMaxUses ? Open(folder, entry) : std::nullopt;
      if (!opened) {
        folder.Remove(entry.file);
        continue;
      }
      taken.push_back(std::move(*opened));
      if (++entry.uses >= kMaxUses) {
        folder.Remove(entry.file);  // the mapping keeps the bytes for this last use
        continue;
      }
    }
    left.push_back(std::move(entry));
  }
  index.entries = std::move(left);
  folder.Save(index);
  return taken;
}

std::optional<PooledCase> Pool::TakeSeeded(const std::string& key, const std::string& seed) {
  const LockedFolder folder(root_, key);
  if (!folder) return std::nullopt;
  Index index = folder.Load();
  for (size_t i = 0; i < index.entries.size(); ++i) {
    if (index.entries[i].seed != seed) continue;
    auto opened = Open(folder, index.entries[i]);
    if (opened) return opened;
    folder.Remove(index.entries[i].file);
    index.entries.erase(index.entries.begin() + static_cast<std::ptrdiff_t>(i));
    folder.Save(index);
    return std::nullopt;
  }
  return std::nullopt;
}

int Pool::Available(const std::string& key) {
  const LockedFolder folder(root_, key);
  if (!folder) return 0;
  const Index index = folder.Load();
  return static_cast<int>(std::count_if(index.entries.begin(), index.entries.end(),
                                        [](const Entry& e) { return e.seed.empty(); }));
}

void Pool::Insert(const std::string& key, std::span<const std::byte> file,
                  const std::string& digest, const std::string& seed, int uses) {
  if (root_.empty() || file.size() > kMaxPooledBytes || file.size() > limit_) return;
  if (digest.find('/') != std::string::npos || digest.empty()) return;
  {
    const LockedFolder folder(root_, key);
    if (!folder) return;
    Index index = folder.Load();
    const bool known = std::any_of(index.entries.begin(), index.entries.end(), [&](const Entry& e) {
      return e.digest == digest && e.seed == seed;
    });
    if (known || index.entries.size() >= kMaxEntries) return;
    // A random name: a case drawn from entropy and one of a user's seed may have the same digest.
    const Entry entry{fmt::format("{:016x}.case", EntropySeed()), digest, Checksum(file), seed,
                      uses};
    if (!folder.Write(entry.file, file)) return;
    index.entries.push_back(entry);
    folder.Save(index);
  }
  Trim();
}

std::optional<std::vector<double>> Pool::Scales(const std::string& key) {
  const LockedFolder folder(root_, key);
  if (!folder) return std::nullopt;
  return folder.Load().scales;
}

void Pool::SetScales(const std::string& key, const std::vector<double>& scales) {
  const LockedFolder folder(root_, key);
  if (!folder) return;
  Index index = folder.Load();
  index.scales = scales;
  folder.Save(index);
}

std::optional<std::string> Pool::Refusal(const std::string& key) {
  const LockedFolder folder(root_, key);
  if (!folder) return std::nullopt;
  return folder.Load().refusal;
}

void Pool::SetRefusal(const std::string& key, const std::string& why) {
  const LockedFolder folder(root_, key);
  if (!folder) return;
  Index index = folder.Load();
  index.refusal = why;
  folder.Save(index);
}

/// Deletes the least recently used cases of all settings. Needs no lock, since an index entry
/// without a file is dropped when it is next used.
void Pool::Trim() {
  os::TrimFolder(root_, limit_, [](const fs::path& path) { return path.extension() == ".case"; });
}

}  // namespace cupel::oracle
