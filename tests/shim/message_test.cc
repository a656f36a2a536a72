// TORCH_CHECK's messages and the dispatch macros.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/Exceptions.h>
#include <gtest/gtest.h>
#include <torch/extension.h>

#include <sstream>

namespace {

struct Point {
  int x;
};
std::ostream& operator<<(std::ostream& out, const Point& p) { return out << '<' << p.x << '>'; }

template <class F>
std::string Message(F f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

TEST(Check, JoinsArgumentsLikeAStream) {
  at::Tensor t = at::empty({2, 3}, at::kCUDA);
  std::string name = "w";
  EXPECT_EQ(Message([&] {
              TORCH_CHECK(t.dim() == 3, name, " must be 3-D, got ", t.dim(), "-D ", t.sizes(), ' ',
                          t.dtype(), ' ', t.scalar_type(), ' ', t.device(), ' ', 1.5, ' ', true,
                          ' ', Point{3});
            }),
            "w must be 3-D, got 2-D [2, 3] float Float cuda:0 1.5 1 <3>");
  EXPECT_EQ(Message([] { TORCH_CHECK(1 + 1 == 3); }).substr(0, 47),
            "Expected 1 + 1 == 3 to be true, but got false. ");
  EXPECT_EQ(Message([] { TORCH_CHECK(true, "never"); }), "no error");
  EXPECT_NE(Message([] { TORCH_INTERNAL_ASSERT(false, "why"); }).find("INTERNAL ASSERT FAILED at"),
            std::string::npos);
  EXPECT_EQ(Message([] { AT_ERROR("a", 1); }), "a1");
  EXPECT_THROW(TORCH_CHECK_INDEX(false, "x"), c10::IndexError);
  EXPECT_EQ(Message([] { AT_CUDA_CHECK(cudaErrorInvalidValue); }), "CUDA error: invalid argument");
}

TEST(Check, NamesTheArgumentThatDiffers) {
  const at::Tensor a = at::empty({2, 3}, at::kCUDA), b = at::empty({3, 2}, at::kCUDA);
  const at::TensorArg a_arg{a, "a", 1}, b_arg{b, "b", 2};
  at::checkAllSameGPU("f", {a_arg, b_arg});
  at::checkAllSameType("f", {a_arg, b_arg});
  at::checkDim("f", a_arg, 2);
  EXPECT_EQ(Message([&] { at::checkSameSize("f", a_arg, b_arg); }),
            "Expected tensor for argument #1 'a' to have the same size as tensor for argument #2 "
            "'b' (while checking arguments for f)");
  EXPECT_NE(Message([&] { at::checkDim("f", b_arg, 3); }).find("argument #2 'b'"),
            std::string::npos);
  const at::Tensor t = a.t();
  EXPECT_NE(Message([&] { at::checkContiguous("f", {t, "t", 1}); }), "no error");
}

TEST(Options, AreWrittenWithTheirDefaults) {
  std::ostringstream out;
  out << at::empty({2}, at::kCUDA).options();
  EXPECT_EQ(out.str(),
            "TensorOptions(dtype=float, device=cuda:0, layout=Strided (default), "
            "requires_grad=false (default), pinned_memory=false (default), "
            "memory_format=(nullopt))");
}

TEST(Dispatch, PicksTheTypeOrNamesTheMissingOne) {
  auto name = [](at::ScalarType type) {
    return AT_DISPATCH_FLOATING_TYPES_AND2(
        at::ScalarType::Half, at::ScalarType::BFloat16, type, "f",
        [&] { return std::string(c10::toString(c10::CppTypeToScalarType<scalar_t>::value)); });
  };
  EXPECT_EQ(name(at::kFloat), "Float");
  EXPECT_EQ(name(at::kBFloat16), "BFloat16");
  EXPECT_EQ(Message([&] { name(at::kInt); }), "\"f\" not implemented for 'Int'");
  int size = 0;
  AT_DISPATCH_ALL_TYPES(at::kLong, "g", [&] { size = sizeof(scalar_t); });
  EXPECT_EQ(size, 8);
  AT_DISPATCH_SWITCH(at::kBool, "h", AT_DISPATCH_CASE(at::ScalarType::Bool, [&] {
                       size = std::is_same_v<scalar_t, bool> ? 1 : 0;
                     }));
  EXPECT_EQ(size, 1);
}

}  // namespace
