// Measures the similarity of kernel texts, so that copies are not evaluated again and examples
// differ. Reduces source to tokens without comments, layout and messages, and compares it by
// w-shingling: the resemblance of two files is the share of runs of w tokens that both have
// (Broder, "On the resemblance and containment of documents", 1997). Repeated runs count as often
// as they occur. Names that a file declares are numbered in each run by first appearance
// (parameterised matching: Baker, "A theory of parameterized pattern matching", 1993). So renaming
// changes nothing, and an insertion changes only the runs it touches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cupel::evolve {

/// The shingles of one source text (any bytes). Takes about three times the memory of the text.
class Shingles {
 public:
  explicit Shingles(std::string_view source);

  const std::vector<uint64_t>& runs() const { return runs_; }  // hashes, ascending
  /// A hash of all tokens; own names are numbered by first appearance in the file.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  std::vector<uint64_t> runs_;
  uint64_t fingerprint_ = 0;
};

/// A Python program as text for Shingles: without comments and docstrings, and with the contents of
/// other strings as code, because kernels and flags are in strings.
std::string CodeOfProgram(std::string_view program);

/// The resemblance, from 0 (nothing in common) to 1. Can also be 1 if two files differ only in
/// which variable they use at some place.
double Similarity(const Shingles& a, const Shingles& b);

/// True if the two differ only in names, comments, messages and layout. A similarity threshold
/// would not work: repairs and improvements often change one constant, operator or barrier. In
/// cupel's test kernels (novelty_test.cc) such changes leave a similarity of up to 0.992. An
/// unnecessary emulator run costs less than a lost good kernel.
inline bool IsCopy(const Shingles& a, const Shingles& b) {
  return a.fingerprint() == b.fingerprint();
}

struct Nearest {
  size_t index = 0;
  double similarity = 0;
  bool is_copy = false;
};
/// Prefers copies, then the higher similarity, then the lower index. nullopt if `among` is empty.
std::optional<Nearest> FindNearest(const Shingles& of, std::span<const Shingles> among);

}  // namespace cupel::evolve
