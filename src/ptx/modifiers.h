// The modifiers of an instruction as data: known words (modifiers.def) in the order in which they
// are written. A shape such as .m16n8k16 is the word kShape; its numbers are in Instr::shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "ptx/limits.h"
#include "ptx/type.h"

namespace cupel::ptx {

enum class Modifier : uint16_t {
  kUnknown,  // not in the table
  kShape,
#define CUPEL_MODIFIER(enumerator, text) enumerator,
#include "ptx/modifiers.def"
};

/// kUnknown if no row has this text.
Modifier ModifierNamed(std::string_view text);
/// "L2::128B"; empty for kUnknown and kShape.
std::string_view Name(Modifier modifier);
/// kNone if the word names no type.
Type TypeOf(Modifier modifier);
/// kNone if the word names no state space. Parts of a space (shared::cta) count as the space.
Space SpaceOf(Modifier modifier);
/// The word of a type other than kNone.
Modifier ModifierOf(Type type);

/// The extents of a matrix instruction: m16n8k16.
struct Shape {
  uint16_t m = 0, n = 0, k = 0;
  bool operator==(const Shape&) const = default;
};
/// Returns nothing unless the text is three numbers from 1 to 9999 without leading zeros.
std::optional<Shape> ShapeNamed(std::string_view text);

/// A list with a fixed capacity.
template <class T, size_t kMost>
class ShortList {
 public:
  ShortList() = default;
  ShortList(std::initializer_list<T> items) {
    for (const T& item : items) Add(item);
  }
  /// Items beyond the capacity are dropped.
  void Add(T item) {
    if (size_ < kMost) items_[size_++] = item;
  }
  void Erase(T item) {
    const auto last = std::remove(items_.begin(), items_.begin() + size_, item);
    size_ = static_cast<uint8_t>(last - items_.begin());
  }
  void Replace(T from, T to) { std::replace(items_.begin(), items_.begin() + size_, from, to); }
  bool Has(T item) const { return std::find(begin(), end(), item) != end(); }
  bool HasAny(std::initializer_list<T> any) const {
    return std::any_of(any.begin(), any.end(), [this](T item) { return Has(item); });
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T operator[](size_t index) const { return items_[index]; }
  /// T() if the list is empty.
  T front() const { return items_[0]; }
  T back() const { return items_[size_ == 0 ? 0 : size_ - 1]; }
  const T* begin() const { return items_.data(); }
  const T* end() const { return items_.data() + size_; }

  bool operator==(const ShortList& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  uint8_t size_ = 0;
  std::array<T, kMost> items_{};
};

using Modifiers = ShortList<Modifier, kMaxModifiers>;
using Types = ShortList<Type, kMaxModifiers>;

/// The types among the words, in order (cvt: [0] destination, [1] source).
Types TypesOf(const Modifiers& modifiers);

}  // namespace cupel::ptx
