// How much of one kernel's text is in another's, so that copies are not evaluated again. Source is
// reduced to tokens without comments and white space, and compared by w-shingling: the resemblance
// of two files is the share of the runs of w tokens that they have in common (Broder, "On the
// resemblance and containment of documents", 1997). Names that a file declares itself are numbered
// in each run by their first appearance there (parameterised matching: Baker, "A theory of
// parameterized pattern matching", 1993), so that renaming makes nothing new, and an insertion
// changes only the runs it touches. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace cupel::evolve {

/// The least similarity of a copy; novelty_test.cc has the measurements behind it.
inline constexpr double kCopySimilarity = 0.98;

/// Of one source text, of any bytes. Small beside it; time is linear but for a sort.
class Shingles {
 public:
  explicit Shingles(std::string_view source);

  const std::vector<uint64_t>& runs() const { return runs_; }        // hashes, ascending, unique
  const std::vector<uint64_t>& numbers() const { return numbers_; }  // hashes, ascending

 private:
  std::vector<uint64_t> runs_, numbers_;
};

/// The resemblance, from 0 (nothing in common) to 1 (the same but for names, comments and layout).
double Similarity(const Shingles& a, const Shingles& b);

/// Nothing that matters differs, as far as text tells: the numbers are the same, each as often, and
/// the similarity is kCopySimilarity at least. A changed tile size is no copy in a file of any
/// size.
bool IsCopy(const Shingles& a, const Shingles& b);

struct Nearest {
  size_t index = 0;
  double similarity = 0;
  bool is_copy = false;
};
/// Copies are nearer than what is none, then what is more similar, then what stands first.
/// nullopt among none.
std::optional<Nearest> FindNearest(const Shingles& of, const std::vector<Shingles>& among);

}  // namespace cupel::evolve
