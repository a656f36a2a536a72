// c10::ArrayRef: a borrowed, read-only run of elements. IntArrayRef carries sizes and strides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/Exception.h"
#include "c10/util/Optional.h"

namespace c10 {

template <class T>
class ArrayRef final {
 public:
  using iterator = const T*;
  using const_iterator = const T*;
  using size_type = size_t;
  using value_type = T;

  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : data_(&one), length_(1) {}
  constexpr ArrayRef(const T* data, size_t length) : data_(data), length_(length) {}
  constexpr ArrayRef(const T* begin, const T* end)
      : data_(begin), length_(static_cast<size_t>(end - begin)) {}
  template <class A>
  ArrayRef(const std::vector<T, A>& v) : data_(v.data()), length_(v.size()) {
    static_assert(!std::is_same_v<T, bool>, "ArrayRef<bool> cannot refer to a std::vector<bool>");
  }
  template <size_t N>
  constexpr ArrayRef(const std::array<T, N>& a) : data_(a.data()), length_(N) {}
  template <size_t N>
  constexpr ArrayRef(const T (&a)[N]) : data_(a), length_(N) {}
  constexpr ArrayRef(const std::initializer_list<T>& l)
      : data_(std::begin(l) == std::end(l) ? nullptr : std::begin(l)), length_(l.size()) {}

  constexpr iterator begin() const { return data_; }
  constexpr iterator end() const { return data_ + length_; }
  constexpr bool empty() const { return length_ == 0; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return length_; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  const T& front() const { return at(0); }
  const T& back() const { return at(length_ - 1); }
  const T& at(size_t i) const {
    TORCH_CHECK(i < length_, "ArrayRef: invalid index Index = ", i, "; Length = ", length_);
    return data_[i];
  }
  bool equals(ArrayRef other) const {
    return length_ == other.length_ && std::equal(begin(), end(), other.begin());
  }
  ArrayRef slice(size_t start, size_t count) const {
    TORCH_CHECK(start + count <= length_, "ArrayRef: invalid slice, N = ", start, "; M = ", count,
                "; size = ", length_);
    return ArrayRef(data_ + start, count);
  }
  ArrayRef slice(size_t start) const { return slice(start, length_ - start); }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  // A temporary list or value would dangle.
  template <class U>
  std::enable_if_t<std::is_same_v<U, T>, ArrayRef<T>>& operator=(U&&) = delete;
  template <class U>
  std::enable_if_t<std::is_same_v<U, T>, ArrayRef<T>>& operator=(std::initializer_list<U>) = delete;

 private:
  const T* data_ = nullptr;
  size_t length_ = 0;
};

template <class T>
bool operator==(ArrayRef<T> a, ArrayRef<T> b) {
  return a.equals(b);
}
template <class T>
bool operator!=(ArrayRef<T> a, ArrayRef<T> b) {
  return !a.equals(b);
}
template <class T>
bool operator==(const std::vector<T>& a, ArrayRef<T> b) {
  return ArrayRef<T>(a).equals(b);
}
template <class T>
bool operator!=(const std::vector<T>& a, ArrayRef<T> b) {
  return !ArrayRef<T>(a).equals(b);
}
template <class T>
bool operator==(ArrayRef<T> a, const std::vector<T>& b) {
  return a.equals(ArrayRef<T>(b));
}
template <class T>
bool operator!=(ArrayRef<T> a, const std::vector<T>& b) {
  return !a.equals(ArrayRef<T>(b));
}

template <class T>
void AppendText(cupel::shim::Text& text, const ArrayRef<T>& list) {
  text << '[';
  for (size_t i = 0; i < list.size(); ++i) {
    if (i) text << ", ";
    cupel::shim::Put(text, list[i]);
  }
  text << ']';
}
template <class C, class T>
std::basic_ostream<C>& operator<<(std::basic_ostream<C>& out, const ArrayRef<T>& list) {
  return out << cupel::shim::Join(list).c_str();
}

using IntArrayRef = ArrayRef<int64_t>;
using IntList = ArrayRef<int64_t>;

/// An optional ArrayRef that also takes what an ArrayRef takes.
template <class T>
class OptionalArrayRef final {
 public:
  constexpr OptionalArrayRef() = default;
  constexpr OptionalArrayRef(nullopt_t) {}
  OptionalArrayRef(ArrayRef<T> list) : list_(list) {}
  OptionalArrayRef(const optional<ArrayRef<T>>& list) : list_(list) {}
  OptionalArrayRef(const T& one) : list_(ArrayRef<T>(one)) {}
  OptionalArrayRef(const std::vector<T>& v) : list_(ArrayRef<T>(v)) {}
  OptionalArrayRef(const std::initializer_list<T>& l) : list_(ArrayRef<T>(l)) {}
  bool has_value() const { return list_.has_value(); }
  explicit operator bool() const { return list_.has_value(); }
  const ArrayRef<T>& value() const { return list_.value(); }
  const ArrayRef<T>& operator*() const { return *list_; }
  const ArrayRef<T>* operator->() const { return &*list_; }

 private:
  optional<ArrayRef<T>> list_;
};
using OptionalIntArrayRef = OptionalArrayRef<int64_t>;

}  // namespace c10
