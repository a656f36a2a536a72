// SPDX-License-Identifier: Apache-2.0
#include "build/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "base/json.h"
#include "os/files.h"
#include "os/sandbox_json.h"
#include "os/temp_dir.h"
#include "os/trim.h"

namespace cupel::build {
namespace fs = std::filesystem;
namespace {

constexpr const char* kSchema = "cupel.image/4";
constexpr const char* kFilledObject = "filled.so";
constexpr size_t kMaxFile = 512u << 20;
constexpr size_t kMaxTreeFiles = 100000;

/// The files of a tree in a fixed order.
Result<std::vector<fs::path>> FilesUnder(const fs::path& root) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file(error)) files.push_back(it->path());
    if (files.size() > kMaxTreeFiles) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} contains more than {} files", root.string(), kMaxTreeFiles),
                  "pass a folder that contains only the headers");
    }
  }
  if (error) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("cannot read the headers in {}: {}", root.string(), error.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Hashes the content of all files: the shim is small.
Status AddContent(Sha256& hash, const fs::path& root) {
  TRY_ASSIGN(const std::vector<fs::path> files, FilesUnder(root));
  for (const fs::path& file : files) {
    TRY_ASSIGN(const std::string text, os::ReadFile(file, 4u << 20));
    hash.Field(file.lexically_relative(root).string());
    hash.Field(text);
  }
  return {};
}

/// Hashes only names, sizes and times of files: CUTLASS is large.
Status AddListing(Sha256& hash, const fs::path& root) {
  TRY_ASSIGN(const std::vector<fs::path> files, FilesUnder(root));
  hash.Field(root.string());
  for (const fs::path& file : files) {
    struct stat info{};
    if (stat(file.c_str(), &info) != 0) continue;
    hash.Field(fmt::format("{} {} {}.{}", file.string(), info.st_size, info.st_mtim.tv_sec,
                           info.st_mtim.tv_nsec));
  }
  return {};
}

fs::path EntryOf(const fs::path& cache, const std::string& key) {
  return cache / "build" / key.substr(0, 2) / key;
}

Json DiagnosticsToJson(const std::vector<Diagnostic>& diagnostics) {
  Json list = Json::array();
  for (const Diagnostic& d : diagnostics) {
    list.push_back({{"file", d.file}, {"line", d.line}, {"message", d.message}});
  }
  return list;
}

Json ResourcesToJson(const std::vector<KernelResources>& resources) {
  Json list = Json::array();
  for (const KernelResources& r : resources) {
    list.push_back({{"kernel", r.kernel},
                    {"registers", r.registers},
                    {"static_shared", r.static_shared},
                    {"local_bytes", r.local_bytes},
                    {"spill_stores", r.spill_stores},
                    {"spill_loads", r.spill_loads},
                    {"constant_bytes", r.constant_bytes},
                    {"remarks", r.remarks}});
  }
  return list;
}

Json ManifestOf(const Artefacts& artefacts, const Image& image) {
  Json files{{"candidate.so", Sha256Hex(artefacts.shared_object)},
             {"candidate.ptx", Sha256Hex(artefacts.ptx)},
             {"candidate.cubin", Sha256Hex(artefacts.cubin)}};
  if (!artefacts.filled_object.empty()) {
    files[kFilledObject] = Sha256Hex(artefacts.filled_object);
  }
  return {{"schema", kSchema},
          {"key", image.key},
          {"source_hash", image.source_hash},
          {"toolkit", image.toolkit},
          {"flags", image.flags},
          {"build_seconds", image.build_seconds},
          {"files", std::move(files)},
          {"resources", ResourcesToJson(image.resources)},
          {"warnings", DiagnosticsToJson(image.warnings)},
          {"notes", image.notes},
          {"sandbox", os::ToJson(artefacts.sandbox)}};
}

Result<std::vector<std::string>> Strings(const Json& object, const char* key) {
  TRY_ASSIGN(const Json* list, JsonArray(object, key, "manifest"));
  std::vector<std::string> strings;
  for (const Json& item : *list) {
    if (!item.is_string()) return Fail(ErrorCode::kIo, "the manifest is damaged");
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

Status ReadResources(const Json& manifest, Image& image) {
  TRY_ASSIGN(const Json* list, JsonArray(manifest, "resources", "manifest"));
  for (const Json& item : *list) {
    KernelResources& r = image.resources.emplace_back();
    TRY_ASSIGN(r.kernel, JsonString(item, "kernel", "manifest"));
    for (const auto& [name, field] :
         {std::pair("registers", &KernelResources::registers),
          std::pair("static_shared", &KernelResources::static_shared),
          std::pair("local_bytes", &KernelResources::local_bytes),
          std::pair("spill_stores", &KernelResources::spill_stores),
          std::pair("spill_loads", &KernelResources::spill_loads),
          std::pair("constant_bytes", &KernelResources::constant_bytes)}) {
      TRY_ASSIGN(const int64_t value, JsonInt(item, name, "manifest"));
      r.*field = static_cast<int>(value);
    }
    TRY_ASSIGN(r.remarks, Strings(item, "remarks"));
  }
  return {};
}

Status ReadWarnings(const Json& manifest, Image& image) {
  TRY_ASSIGN(const Json* list, JsonArray(manifest, "warnings", "manifest"));
  for (const Json& item : *list) {
    Diagnostic& d = image.warnings.emplace_back();
    d.severity = Diagnostic::Severity::kWarning;
    TRY_ASSIGN(d.file, JsonString(item, "file", "manifest"));
    TRY_ASSIGN(const int64_t line, JsonInt(item, "line", "manifest"));
    d.line = static_cast<int>(line);
    TRY_ASSIGN(d.message, JsonString(item, "message", "manifest"));
  }
  return {};
}

/// The file's content, if it has the hash in the manifest.
Result<std::string> Verified(const fs::path& entry, const Json& files, const char* name) {
  TRY_ASSIGN(const std::string hash, JsonString(files, name, "manifest"));
  TRY_ASSIGN(std::string bytes, os::ReadFile(entry / name, kMaxFile));
  if (Sha256Hex(bytes) != hash) {
    return Fail(ErrorCode::kIo, fmt::format("{} is damaged", (entry / name).string()));
  }
  return bytes;
}

Result<Json> ReadManifest(const fs::path& folder) {
  TRY_ASSIGN(const std::string text, os::ReadFile(folder / "manifest.json", 16u << 20));
  return ParseJson(text, "manifest");
}

void SetPaths(const fs::path& folder, bool has_filled, Image& image) {
  image.shared_object = folder / "candidate.so";
  image.cubin = folder / "candidate.cubin";
  if (has_filled) image.filled_object = folder / kFilledObject;
}

Result<Image> Load(const fs::path& entry, const std::string& key) {
  TRY_ASSIGN(const Json manifest, ReadManifest(entry));
  TRY_ASSIGN(const std::string schema, JsonString(manifest, "schema", "manifest"));
  TRY_ASSIGN(const std::string stored_key, JsonString(manifest, "key", "manifest"));
  if (schema != kSchema || stored_key != key)
    return Fail(ErrorCode::kIo, "the manifest belongs to another entry");
  Image image;
  image.key = key;
  TRY_ASSIGN(image.source_hash, JsonString(manifest, "source_hash", "manifest"));
  TRY_ASSIGN(image.toolkit, JsonString(manifest, "toolkit", "manifest"));
  TRY_ASSIGN(image.build_seconds, JsonNumber(manifest, "build_seconds", "manifest"));
  TRY_ASSIGN(image.flags, Strings(manifest, "flags"));
  TRY_ASSIGN(image.notes, Strings(manifest, "notes"));
  TRY(ReadResources(manifest, image));
  TRY(ReadWarnings(manifest, image));
  TRY_ASSIGN(const Json* files, JsonObject(manifest, "files", "manifest"));
  TRY_ASSIGN(image.ptx, Verified(entry, *files, "candidate.ptx"));
  TRY(Verified(entry, *files, "candidate.so"));
  TRY(Verified(entry, *files, "candidate.cubin"));
  const bool has_filled = files->contains(kFilledObject);
  if (has_filled) TRY(Verified(entry, *files, kFilledObject));
  SetPaths(entry, has_filled, image);
  return image;
}

/// Removes the least recently used entries until the rest is within `max_bytes`.
void Evict(const fs::path& cache, uint64_t max_bytes) {
  std::vector<os::TrimEntry> entries;
  std::error_code error;
  for (const auto& shard : fs::directory_iterator(cache / "build", error)) {
    for (const auto& item : fs::directory_iterator(shard.path(), error)) {
      os::TrimEntry entry{fs::last_write_time(item.path() / "manifest.json", error), 0,
                          item.path()};
      if (error) entry.used = fs::file_time_type::min();  // incomplete after a crash
      for (const auto& file : fs::directory_iterator(item.path(), error)) {
        const auto size = file.file_size(error);
        if (!error) entry.bytes += size;
      }
      entries.push_back(std::move(entry));
    }
  }
  os::Trim(std::move(entries), {.bytes = max_bytes}, [](const os::TrimEntry& entry) {
    std::error_code ignored;
    fs::remove_all(entry.path, ignored);
    return !ignored;
  });
}

}  // namespace

Result<std::string> FolderHash(const fs::path& folder) {
  Sha256 hash;
  TRY(AddContent(hash, folder));
  return hash.Hex();
}

Result<std::string> CacheKey(const KeyInputs& inputs) {
  Sha256 hash;
  hash.Field(kSchema);
  hash.Field(inputs.source_name);
  hash.Field(inputs.source);
  for (const std::string& flag : *inputs.flags) hash.Field(flag);
  hash.Field(inputs.options->arch);
  hash.Field(inputs.toolkit->version);
  hash.Field(inputs.toolkit->root.string());
  const char* compiler = std::getenv("NVCC_CCBIN");
  hash.Field(compiler != nullptr ? compiler : "");
  TRY(AddContent(hash, inputs.options->shim));
  for (const fs::path& root : inputs.options->include_roots) TRY(AddListing(hash, root));
  return hash.Hex();
}

Result<Evidence> EvidenceOf(const Image& image) {
  TRY_ASSIGN(const Json manifest, ReadManifest(image.shared_object.parent_path()));
  Evidence evidence;
  TRY_ASSIGN(const Json* sandbox, JsonObject(manifest, "sandbox", "manifest"));
  TRY_ASSIGN(evidence.sandbox, os::SandboxReportFromJson(*sandbox, "manifest.sandbox"));
  TRY_ASSIGN(const Json* files, JsonObject(manifest, "files", "manifest"));
  TRY_ASSIGN(evidence.shared_object_hash, JsonString(*files, "candidate.so", "manifest"));
  TRY_ASSIGN(evidence.ptx_hash, JsonString(*files, "candidate.ptx", "manifest"));
  TRY_ASSIGN(evidence.cubin_hash, JsonString(*files, "candidate.cubin", "manifest"));
  return evidence;
}

std::optional<Image> LoadFromCache(const fs::path& cache, const std::string& key, bool weak) {
  if (!IsSha256Hex(key)) return std::nullopt;
  const fs::path entry = EntryOf(cache, key);
  auto image = Load(entry, key);
  std::error_code error;
  const auto evidence = image ? EvidenceOf(*image) : Result<Evidence>();
  if (!image || !evidence || (!weak && !evidence->sandbox.IsEnough())) {
    fs::remove_all(entry, error);  // damaged: make room for the next store
    return std::nullopt;
  }
  fs::last_write_time(entry / "manifest.json", fs::file_time_type::clock::now(), error);
  return std::move(*image);
}

Status WriteArtefacts(const fs::path& folder, const Artefacts& artefacts, Image& image) {
  const auto put = [&](const char* name, const std::string& bytes) -> Status {
    const fs::path path = folder / name;
    TRY(os::WriteFileAtomically(path, bytes));
    // The recorder may run as another user; the folders above keep the files private.
    std::error_code error;
    fs::permissions(path, static_cast<fs::perms>(0644), error);
    return {};
  };
  TRY(put("candidate.so", artefacts.shared_object));
  TRY(put("candidate.ptx", artefacts.ptx));
  TRY(put("candidate.cubin", artefacts.cubin));
  if (!artefacts.filled_object.empty()) TRY(put(kFilledObject, artefacts.filled_object));
  TRY(put("manifest.json", DumpJson(ManifestOf(artefacts, image), 1)));
  SetPaths(folder, !artefacts.filled_object.empty(), image);
  return {};
}

Status StoreInCache(const fs::path& cache, const Artefacts& artefacts, Image& image,
                    uint64_t max_bytes) {
  const fs::path entry = EntryOf(cache, image.key);
  std::error_code error;
  fs::create_directories(entry.parent_path(), error);
  if (error) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("cannot write the build cache {}: {}", cache.string(), error.message()),
                "set CUPEL_CACHE to a folder you can write to");
  }
  TRY_ASSIGN(const os::TempDir temporary, os::TempDir::Create(entry.parent_path()));
  const fs::path whole = temporary.path() / "entry";
  fs::create_directory(whole, error);
  TRY(WriteArtefacts(whole, artefacts, image));
  if (rename(whole.c_str(), entry.c_str()) != 0 && errno != ENOTEMPTY && errno != EEXIST) {
    return Fail(ErrorCode::kIo, fmt::format("cannot store the build in {}: {}", entry.string(),
                                            std::strerror(errno)));
  }
  // If another process was first, its files are equivalent.
  SetPaths(entry, !artefacts.filled_object.empty(), image);
  Evict(cache, max_bytes);
  return {};
}

}  // namespace cupel::build
