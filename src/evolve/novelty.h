// How much of one kernel's text is in another's, so that copies are not evaluated again and
// examples are not all alike. Source is reduced to tokens without comments, layout and messages,
// and compared by w-shingling: the resemblance of two files is the share of their runs of w tokens
// that they have in common (Broder, "On the resemblance and containment of documents", 1997), a run
// that a file has twice counting twice. Names that a file declares itself are numbered in each run
// by their first appearance there (parameterised matching: Baker, "A theory of parameterized
// pattern matching", 1993), so that renaming makes nothing new, and an insertion changes only the
// runs it touches. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace cupel::evolve {

/// Of one source text, of any bytes; some three times its size.
class Shingles {
 public:
  explicit Shingles(std::string_view source);

  const std::vector<uint64_t>& runs() const { return runs_; }  // hashes, ascending
  /// Of all tokens, own names numbered by their first appearance in the file.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  std::vector<uint64_t> runs_;
  uint64_t fingerprint_ = 0;
};

/// The resemblance, from 0 (nothing in common) to 1. Also 1 where only which variable is used where
/// differs.
double Similarity(const Shingles& a, const Shingles& b);

/// The same but for names, comments, messages and layout. Nothing less will do: one changed
/// constant, operator or barrier, which is what repairs and improvements often are, leaves a
/// similarity of up to 0.992 in the kernels that cupel is tested with (novelty_test.cc), and an
/// emulator's run too many costs less than a good kernel lost.
inline bool IsCopy(const Shingles& a, const Shingles& b) {
  return a.fingerprint() == b.fingerprint();
}

struct Nearest {
  size_t index = 0;
  double similarity = 0;
  bool is_copy = false;
};
/// Copies are nearer than what is none, then what is more similar, then what stands first.
/// nullopt among none.
std::optional<Nearest> FindNearest(const Shingles& of, const std::vector<Shingles>& among);

}  // namespace cupel::evolve
