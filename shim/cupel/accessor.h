// Tensor accessors: pointer, sizes and strides with operator(), on the host and as kernel
// parameters. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/macros/Macros.h"
#include "c10/util/ArrayRef.h"

namespace c10 {
struct Half;
struct BFloat16;
struct Float8_e5m2;
struct Float8_e4m3fn;
}  // namespace c10

namespace cupel::shim {
template <class T>
struct IsElement
    : std::bool_constant<
          std::is_same_v<T, uint8_t> || std::is_same_v<T, int8_t> || std::is_same_v<T, int16_t> ||
          std::is_same_v<T, int> || std::is_same_v<T, int64_t> || std::is_same_v<T, uint16_t> ||
          std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t> || std::is_same_v<T, float> ||
          std::is_same_v<T, double> || std::is_same_v<T, bool> || std::is_same_v<T, c10::Half> ||
          std::is_same_v<T, c10::BFloat16> || std::is_same_v<T, c10::Float8_e5m2> ||
          std::is_same_v<T, c10::Float8_e4m3fn>> {};
}  // namespace cupel::shim

namespace at {

template <class T>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <class T>
struct RestrictPtrTraits {
  using PtrType = T* __restrict__;
};

template <class T, size_t N, template <typename> class P = DefaultPtrTraits, class I = int64_t>
class TensorAccessor {
 public:
  using PtrType = typename P<T>::PtrType;
  CUPEL_HOST_DEVICE TensorAccessor(PtrType data, const I* sizes, const I* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  CUPEL_HOST_DEVICE I size(I i) const { return sizes_[i]; }
  CUPEL_HOST_DEVICE I stride(I i) const { return strides_[i]; }
  CUPEL_HOST_DEVICE PtrType data() const { return data_; }
  c10::ArrayRef<I> sizes() const { return c10::ArrayRef<I>(sizes_, N); }
  c10::ArrayRef<I> strides() const { return c10::ArrayRef<I>(strides_, N); }
  CUPEL_HOST_DEVICE decltype(auto) operator[](I i) const {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1, P, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
  }

 private:
  PtrType data_;
  const I* sizes_;
  const I* strides_;
};

template <class T, size_t N, template <typename> class P = DefaultPtrTraits, class I = int64_t>
class GenericPackedTensorAccessor {
 public:
  using PtrType = typename P<T>::PtrType;
  template <class From>
  CUPEL_HOST_DEVICE GenericPackedTensorAccessor(PtrType data, const From* sizes,
                                                const From* strides)
      : data_(data) {
    for (size_t i = 0; i < N; ++i) {
      sizes_[i] = static_cast<I>(sizes[i]);
      strides_[i] = static_cast<I>(strides[i]);
    }
  }
  CUPEL_HOST_DEVICE I size(I i) const { return sizes_[i]; }
  CUPEL_HOST_DEVICE I stride(I i) const { return strides_[i]; }
  CUPEL_HOST_DEVICE PtrType data() const { return data_; }
  CUPEL_HOST_DEVICE decltype(auto) operator[](I i) const {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1, P, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
  }

 private:
  PtrType data_;
  I sizes_[N];
  I strides_[N];
};

template <class T, size_t N, template <typename> class P = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, P, int32_t>;
template <class T, size_t N, template <typename> class P = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, P, int64_t>;
template <class T, size_t N, template <typename> class P = DefaultPtrTraits, class I = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, P, I>;

}  // namespace at
