// The build cache, addressed by content: one folder per key, with a manifest that contains the hash
// of every file. Only the supervisor writes here, and only whole folders, by rename. So a crash or
// a second process leaves no partial entries. Entries that do not match their manifest are built
// again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "build/build.h"

namespace cupel::build {

inline constexpr uint64_t kMaxCacheBytes = uint64_t{1} << 30;

/// The files of a build, as bytes.
struct Artefacts {
  std::string shared_object, ptx, cubin;
  std::string filled_object;  // empty if there is none
  os::SandboxReport sandbox;
};

/// Everything that a build depends on.
struct KeyInputs {
  std::string_view source_name, source;  // of several files: "", and their Bundle
  const Options* options = nullptr;
  const Toolkit* toolkit = nullptr;
  const std::vector<std::string>* flags = nullptr;
};
Result<std::string> CacheKey(const KeyInputs& inputs);

/// A hash of the names and contents of all files below `folder`.
Result<std::string> FolderHash(const std::filesystem::path& folder);

/// Facts about a build in addition to its files. Stored in the manifest.
struct Evidence {
  os::SandboxReport sandbox;                             // of the compiler
  std::string shared_object_hash, ptx_hash, cubin_hash;  // SHA-256
};

/// Reads the manifest next to the image's files.
Result<Evidence> EvidenceOf(const Image& image);

/// The image stored under `key`, if it is intact. The caller sets `source` and `from_cache`. Unless
/// `weak`, ignores images that were compiled in a sandbox that was too weak.
std::optional<Image> LoadFromCache(const std::filesystem::path& cache, const std::string& key,
                                   bool weak = false);

/// Writes the files and the manifest below `folder`, and sets the paths in `image`.
Status WriteArtefacts(const std::filesystem::path& folder, const Artefacts& artefacts,
                      Image& image);

/// Stores under image.key. If the cache exceeds `max_bytes`, removes the least recently used
/// entries.
Status StoreInCache(const std::filesystem::path& cache, const Artefacts& artefacts, Image& image,
                    uint64_t max_bytes = kMaxCacheBytes);

}  // namespace cupel::build
