// Factories, copies, element types, and their calls to the recorder.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/extension.h>

#include "fake_recorder.h"

namespace {

using testing::ElementsAre;

class Tensors : public testing::Test {
 protected:
  void SetUp() override { fake::Log().clear(); }
  at::Tensor cuda_ = at::empty({2, 3}, at::kCUDA);
};

TEST_F(Tensors, FactoriesAllocateAndFill) {
  auto half = at::full({4}, 1.0, at::TensorOptions().device(at::kCUDA).dtype(at::kHalf));
  EXPECT_THAT(fake::Log(), ElementsAre("alloc 8", "fill f16[4] 003c"));
  fake::Log().clear();
  half = at::Tensor();
  auto zeros = torch::zeros_like(cuda_);
  auto ones = torch::ones({2}, cuda_.options().dtype(torch::kInt64));
  auto other = torch::empty_like(cuda_, torch::dtype(torch::kBFloat16));
  EXPECT_THAT(fake::Log(), ElementsAre("free", "alloc 24", "fill f32[2,3] 00000000", "alloc 16",
                                       "fill i64[2] 0100000000000000", "alloc 12"));
  EXPECT_EQ(other.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(torch::zeros({3}).device(), torch::Device(torch::kCPU));
  EXPECT_EQ(torch::zeros({3}).dtype(), torch::kFloat32);
}

TEST_F(Tensors, ArithmeticGoesToTheRecorder) {
  const at::Tensor sum = cuda_ + cuda_;
  const at::Tensor rest = 1 - sum;
  at::Tensor changed = cuda_;
  changed *= 2;
  EXPECT_THAT(fake::Log(), ElementsAre("operator aten::add.Tensor f32[2,3] f32[2,3] 1", "alloc 24",
                                       "operator aten::rsub.Scalar f32[2,3] 1 1", "alloc 24",
                                       "operator aten::mul_.Scalar f32[2,3] 2"));
  EXPECT_EQ(sum.sizes(), cuda_.sizes());
  EXPECT_NE(sum.data_ptr(), cuda_.data_ptr());
  EXPECT_TRUE(changed.is_same(cuda_));
}

TEST_F(Tensors, CopiesGoToTheRecorder) {
  auto t = cuda_.t().contiguous();
  auto d = cuda_.to(torch::kFloat64);
  cuda_[0] = 2.5;
  cuda_.slice(1, 0, 2).copy_(cuda_.slice(1, 1, 3));
  EXPECT_TRUE(cuda_.contiguous().is_same(cuda_));
  EXPECT_TRUE(cuda_.expect_contiguous()->is_same(cuda_));
  EXPECT_TRUE(cuda_.to(torch::kFloat32).is_same(cuda_));
  EXPECT_THAT(fake::Log(), ElementsAre("alloc 24", "copy f32[3,2] <- f32[3,2]", "alloc 48",
                                       "copy f64[2,3] <- f32[2,3]", "fill f32[3] 00002040",
                                       "copy f32[2,2] <- f32[2,2]"));
}

TEST_F(Tensors, HostTensorsAreUploaded) {
  auto t = torch::tensor({1, 2, 3}, torch::dtype(torch::kFloat32).device(torch::kCUDA));
  EXPECT_THAT(fake::Log(), ElementsAre("alloc 12", "upload f32[3] 12"));
  auto host = torch::arange(6, torch::kInt32).view({2, 3}).t();
  EXPECT_EQ(host.data_ptr<int>()[4], 4);
  EXPECT_EQ(host.contiguous().data_ptr<int>()[1], 3);
  EXPECT_EQ(host[2][1].item<int>(), 5);
  EXPECT_EQ(torch::tensor({0.1, 70000.0}).to(torch::kHalf).to(torch::kFloat32)[0].item<float>(),
            0.0999755859375F);
  EXPECT_EQ(torch::tensor({1.00390625F}).to(at::kBFloat16).item<double>(), 1.0);
  EXPECT_EQ(torch::tensor({int64_t{1} << 60}).item<int64_t>(), int64_t{1} << 60);
}

TEST_F(Tensors, ItemReadsOneElement) {
  float value = 2.5F;
  fake::SetItem(&value, sizeof value);
  EXPECT_EQ(at::empty({1}, at::kCUDA).item<float>(), 2.5F);
  EXPECT_EQ(at::empty({}, at::kCUDA).cpu().item<double>(), 2.5);
  EXPECT_THROW((void)cuda_.item(), c10::Error);
  // The recorder decides which elements the host may read.
  const at::Tensor host = at::empty({2, 3}, at::kCUDA).t().cpu();
  EXPECT_THAT(host.sizes().vec(), testing::ElementsAre(3, 2));
  EXPECT_EQ(host[2][1].item<float>(), 2.5F);
  EXPECT_THAT(fake::Log(), testing::Contains("item f32[]").Times(7));  // one above
  EXPECT_THROW(at::Scalar(300).to<int8_t>(), c10::Error);
}

TEST_F(Tensors, PointersCarryTheOffsetAndCheckTheType) {
  char* base = static_cast<char*>(cuda_.data_ptr());
  EXPECT_EQ(static_cast<void*>(cuda_[1].data_ptr<float>()), base + 12);
  EXPECT_EQ(at::empty({0, 3}, at::kCUDA).data_ptr(), nullptr);
  try {
    (void)cuda_.data_ptr<double>();
    FAIL();
  } catch (const c10::Error& e) {
    EXPECT_STREQ(e.what(), "expected scalar type Double but found Float");
  }
  auto a = cuda_.packed_accessor32<float, 2, at::RestrictPtrTraits>();
  EXPECT_EQ(static_cast<void*>(&a[1][2]), base + 20);
  EXPECT_THROW((cuda_.accessor<float, 3>()), c10::Error);
}

TEST_F(Tensors, StreamsFollowTheGuard) {
  EXPECT_EQ(at::cuda::getCurrentCUDAStream().stream(), nullptr);
  {
    c10::cuda::CUDAStreamGuard guard(at::cuda::getStreamFromPool(true));
    const auto stream = c10::cuda::getCurrentCUDAStream();
    EXPECT_EQ(reinterpret_cast<uint64_t>(stream.stream()), 0x52U);
    EXPECT_NE(stream.id(), 0x52) << "PyTorch's ids are no handles";
  }
  EXPECT_EQ(at::cuda::getCurrentCUDAStream().id(), 0);
  const at::cuda::OptionalCUDAGuard guard(device_of(cuda_));
  EXPECT_THROW(c10::cuda::CUDAGuard(c10::DeviceIndex{3}), c10::Error);
}

TEST_F(Tensors, HalfTypesRoundLikeTheHardware) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    float f = cupel::shim::HalfBitsToFloat(half);
    EXPECT_EQ(static_cast<float>(c10::Half(half, c10::Half::from_bits())) == f, f == f);
    if (f == f) {
      EXPECT_EQ(cupel::shim::FloatToHalfBits(f), half);
    }
    if (f != f) continue;
    float next = std::nextafterf(f, 1e9F) * 1.0003F;
    EXPECT_EQ(c10::Half(next).x & 0x7fff, cupel::shim::FloatToHalfBits(next) & 0x7fff) << next;
    EXPECT_EQ(c10::BFloat16(next).x & 0x7fff, cupel::shim::FloatToBFloat16Bits(next) & 0x7fff);
  }
  c10::Half x = 1.5F;
  EXPECT_EQ(static_cast<float>(x * x + 1), 3.25F);
  EXPECT_EQ(static_cast<float>(std::numeric_limits<c10::Half>::max()), 65504.0F);
}

template <class T>
void ExpectEveryByteSurvives(float largest, float too_large) {
  for (int bits = 0; bits < 256; ++bits) {
    const T value(static_cast<uint8_t>(bits), T::from_bits());
    const auto f = static_cast<float>(value);
    EXPECT_EQ(value.isnan(), f != f);
    EXPECT_EQ(value.isinf(), std::isinf(f));
    if (f == f) {
      EXPECT_EQ(T(f).x, bits);
    }
  }
  EXPECT_EQ(static_cast<float>(std::numeric_limits<T>::max()), largest);
  EXPECT_EQ(static_cast<float>(-std::numeric_limits<T>::max()), -largest);
  EXPECT_EQ(static_cast<float>(T(1e9F)), too_large);
  EXPECT_EQ(static_cast<float>(T(1.0F) + T(0.5F)), 1.5F);
}

TEST_F(Tensors, Float8TypesRoundLikePyTorch) {
  ExpectEveryByteSurvives<c10::Float8_e4m3fn>(448, 448);
  ExpectEveryByteSurvives<c10::Float8_e5m2>(57344, std::numeric_limits<float>::infinity());
  const auto x = torch::tensor({1.0625F}).to(torch::kFloat8_e4m3fn);  // a tie
  EXPECT_EQ(x.item<double>(), 1.0);
  EXPECT_EQ(x.element_size(), 1);
  EXPECT_EQ(torch::tensor({1.375F}).to(at::kFloat8_e5m2).item<float>(), 1.5F);
  auto y = torch::empty_like(cuda_, torch::dtype(torch::kFloat8_e5m2));
  EXPECT_EQ(y.scalar_type(), torch::kFloat8_e5m2);
  EXPECT_NO_THROW(y.data_ptr<c10::Float8_e5m2>());
  EXPECT_THROW(y.data_ptr<c10::Float8_e4m3fn>(), c10::Error);
}

}  // namespace
