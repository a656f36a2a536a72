// See ATen/TensorAccessor.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/TensorAccessor.h"
#include "cupel/headeronly.h"

namespace torch::headeronly {
using at::DefaultPtrTraits;
using at::RestrictPtrTraits;
template <class T, size_t N, template <typename> class P = DefaultPtrTraits, class I = int64_t>
using HeaderOnlyTensorAccessorBase = at::TensorAccessor<T, N, P, I>;
template <class T, size_t N, template <typename> class P = DefaultPtrTraits, class I = int64_t>
using HeaderOnlyTensorAccessor = at::TensorAccessor<T, N, P, I>;
template <class T, size_t N, template <typename> class P = DefaultPtrTraits, class I = int64_t>
using HeaderOnlyGenericPackedTensorAccessorBase = at::GenericPackedTensorAccessor<T, N, P, I>;
template <class T, size_t N, template <typename> class P = DefaultPtrTraits, class I = int64_t>
using HeaderOnlyGenericPackedTensorAccessor = at::GenericPackedTensorAccessor<T, N, P, I>;
}  // namespace torch::headeronly
