// Builds by content: one folder a key, with a manifest that holds the hash of every file. Only the
// supervisor writes here, and only whole folders, by rename: a crash or a second process leaves
// nothing half done. What does not match its manifest is built again. SPDX-License-Identifier:
// Apache-2.0
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
  os::SandboxReport sandbox;
};

/// Everything that a build depends on.
struct KeyInputs {
  std::string_view source_name, source;
  const Options* options = nullptr;
  const Toolkit* toolkit = nullptr;
  const std::vector<std::string>* flags = nullptr;
};
Result<std::string> CacheKey(const KeyInputs& inputs);

/// Of the names and contents of all files below `folder`.
Result<std::string> FolderHash(const std::filesystem::path& folder);

/// What is known of a build beside what it yields. Stands in the manifest.
struct Evidence {
  os::SandboxReport sandbox;                             // what the compiler ran in
  std::string shared_object_hash, ptx_hash, cubin_hash;  // SHA-256
};

/// From the manifest beside the image's files.
Result<Evidence> EvidenceOf(const Image& image);

/// The image under `key`, if it is whole. `source` and `from_cache` are left to the caller. What a
/// compiler wrote in a sandbox that was too weak is passed over where `weak` is false.
std::optional<Image> LoadFromCache(const std::filesystem::path& cache, const std::string& key,
                                   bool weak = false);

/// Writes the files and the manifest below `folder`, as the paths of `image` (which it sets) say.
Status WriteArtefacts(const std::filesystem::path& folder, const Artefacts& artefacts,
                      Image& image);

/// Stores under image.key, and removes the entries unused for longest when there are too many
/// bytes.
Status StoreInCache(const std::filesystem::path& cache, const Artefacts& artefacts, Image& image,
                    uint64_t max_bytes = kMaxCacheBytes);

}  // namespace cupel::build
