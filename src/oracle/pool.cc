// SPDX-License-Identifier: Apache-2.0
#include "oracle/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "base/json.h"
#include "os/fd.h"
#include "os/files.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxIndexBytes = 4u << 20;
constexpr size_t kMaxEntries = 1024;

struct Index {
  std::optional<std::vector<double>> scales;
  std::optional<std::string> refusal;
  std::vector<KeptCase> cases;
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

/// The folder of one setting, locked while the object exists. False if it cannot be locked.
class SettingFolder {
 public:
  SettingFolder(const os::FileStore& files, const std::string& key)
      : files_(files), key_(key), lock_(files.Lock(key + "/lock")) {}
  explicit operator bool() const { return lock_.has_value(); }

  /// An unreadable index counts as empty, since this is a cache.
  Index Load() const {
    Index index;
    const auto mapped = files_.Open(NameOf("index.json"));  // records its use, as of its cases
    if (!mapped || mapped->bytes().size() > kMaxIndexBytes) return index;
    const auto json = ParseJson(mapped->text(), "index.json");
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
      index.cases.push_back({*file, *digest, *seed, *uses, *sum});
    }
    return index;
  }

  void Save(const Index& index) const {
    Json json = {{"version", 1}};
    if (index.scales) json["scales"] = *index.scales;
    if (index.refusal) json["inapplicable"] = *index.refusal;
    json["entries"] = Json::array();
    for (const KeptCase& one : index.cases) {
      json["entries"].push_back({{"file", one.file.string()},
                                 {"digest", one.digest},
                                 {"sum", one.sum},
                                 {"seed", one.seed},
                                 {"uses", one.uses}});
    }
    (void)files_.Write(NameOf("index.json"), DumpJson(json));
  }

  bool Write(const std::string& file, std::span<const std::byte> bytes) const {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return files_.Write(NameOf(file), text).has_value();
  }

  CaseFiles Files() const {
    return {[this](const KeptCase& one) -> std::optional<os::MappedFile> {
              auto mapping = files_.Open(NameOf(one.file));
              if (!mapping || Checksum(mapping->bytes()) != one.sum) return std::nullopt;
              return std::move(*mapping);
            },
            [this](const KeptCase& one) { files_.Remove(NameOf(one.file)); }};
  }

 private:
  std::string NameOf(const fs::path& file) const { return key_ + "/" + file.string(); }

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

  const os::FileStore& files_;
  std::string key_;
  Result<os::Fd> lock_;
};

}  // namespace

std::vector<PooledCase> Pool::Take(const std::string& key, int count) {
  const SettingFolder folder(files_, key);
  if (!folder || count <= 0) return {};
  Index index = folder.Load();
  auto taken = TakeCases(index.cases, count, folder.Files());
  folder.Save(index);
  return taken;
}

std::optional<PooledCase> Pool::TakeSeeded(const std::string& key, const std::string& seed) {
  const SettingFolder folder(files_, key);
  if (!folder) return std::nullopt;
  Index index = folder.Load();
  const size_t count = index.cases.size();
  auto taken = TakeSeededCase(index.cases, seed, folder.Files());
  if (index.cases.size() < count) folder.Save(index);
  return taken;
}

int Pool::Available(const std::string& key) {
  const SettingFolder folder(files_, key);
  if (!folder) return 0;
  const Index index = folder.Load();
  return static_cast<int>(std::count_if(index.cases.begin(), index.cases.end(),
                                        [](const KeptCase& c) { return c.seed.empty(); }));
}

void Pool::Insert(const std::string& key, std::span<const std::byte> file,
                  const std::string& digest, const std::string& seed, int uses) {
  if (file.size() > kMaxPooledBytes || file.size() > limit_) return;
  if (digest.find('/') != std::string::npos || digest.empty()) return;
  {
    const SettingFolder folder(files_, key);
    if (!folder) return;
    Index index = folder.Load();
    const bool known = std::any_of(index.cases.begin(), index.cases.end(), [&](const KeptCase& c) {
      return c.digest == digest && c.seed == seed;
    });
    if (known || index.cases.size() >= kMaxEntries) return;
    // A random name: a case drawn from entropy and one of a user's seed may have the same digest.
    const std::string name = fmt::format("{:016x}.case", EntropySeed());
    if (!folder.Write(name, file)) return;
    index.cases.push_back({name, digest, seed, uses, Checksum(file)});
    folder.Save(index);
  }
  files_.TrimAfter(file.size());  // an index entry without a file is dropped when it is next used
}

std::optional<std::vector<double>> Pool::Scales(const std::string& key) {
  const SettingFolder folder(files_, key);
  if (!folder) return std::nullopt;
  return folder.Load().scales;
}

void Pool::SetScales(const std::string& key, const std::vector<double>& scales) {
  const SettingFolder folder(files_, key);
  if (!folder) return;
  Index index = folder.Load();
  index.scales = scales;
  folder.Save(index);
}

std::optional<std::string> Pool::Refusal(const std::string& key) {
  const SettingFolder folder(files_, key);
  if (!folder) return std::nullopt;
  return folder.Load().refusal;
}

void Pool::SetRefusal(const std::string& key, const std::string& why) {
  const SettingFolder folder(files_, key);
  if (!folder) return;
  Index index = folder.Load();
  index.refusal = why;
  folder.Save(index);
}

}  // namespace cupel::oracle
