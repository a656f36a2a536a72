// TORCH_LIBRARY: functions, names and defaults from schemas.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/library.h>

#include "fake_recorder.h"

namespace {

at::Tensor Forward(const at::Tensor& x, const c10::optional<at::Tensor>& w, double eps, int64_t n,
                   bool b) {
  return eps == 1e-5 && n == -3 && b && !w ? x : at::Tensor();
}
at::Tensor OnCpu(const at::Tensor& x) { return x; }
at::Tensor OnGpu(const at::Tensor& x) { return x.t(); }

TORCH_LIBRARY(ours, m) {
  m.def(
      "lib_forward(Tensor x, Tensor? w=None, *, float eps=1e-05, int n = -3, bool b=True) -> "
      "Tensor",
      &Forward);
  m.def("lib_device(Tensor(a!) x) -> Tensor");
}
TORCH_LIBRARY_IMPL(ours, CPU, m) { m.impl("lib_device", &OnCpu); }
TORCH_LIBRARY_IMPL(ours, CUDA, m) { m.impl("ours::lib_device", TORCH_FN(OnGpu)); }
TORCH_LIBRARY_IMPL(ours, Autograd, m) {
  m.impl("lib_device", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_FRAGMENT(ours, m) {
  m.set_python_module("ours.meta");
  m.def("lib_tagged(Tensor x) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.impl("lib_tagged", c10::DispatchKey::CUDA, OnGpu);
}
TORCH_LIBRARY_FRAGMENT(ours, m) { m.impl("lib_keyed", torch::dispatch(c10::kCUDA, OnGpu)); }

at::Tensor Lines(const at::Tensor& x, std::string_view s) { return s == "x" ? x : x.t(); }
at::Tensor Scaled(const at::Tensor& x, double) { return x.t(); }
TORCH_LIBRARY_FRAGMENT(ours, m) {
  m.def("lib_inferred", &OnGpu);
  m.def("lib_two(Tensor x) -> Tensor", &OnCpu);
  m.def("lib_two.scaled(Tensor x, float scale) -> Tensor");
  m.impl("lib_two.scaled", &Scaled);
  m.def(R"--(
      lib_lines(
          Tensor! x,
          *,
          str s="a,b)"
      ) -> Tensor)--",
        &Lines);
}
TORCH_LIBRARY_FRAGMENT(theirs, m) { m.def("lib_two(Tensor x, int n) -> Tensor"); }

TEST(Library, SchemasBelongToOverloadsAndMayHaveLinesAndStrings) {
  CupelTensor x = fake::Argument({2, 3});
  auto run = [&](const char* f, std::vector<CupelValue> more) {
    more.insert(more.begin(), fake::Of(x));
    const fake::Answer answer = fake::Run(cupel_candidate_call, f, more);
    return answer.result + answer.message;
  };
  EXPECT_EQ(run("lib_inferred", {}), "f32[3,2]");
  EXPECT_EQ(run("lib_two", {}), "f32[2,3]");
  EXPECT_EQ(run("lib_two", {fake::Of(2.0)}), "f32[3,2]");
  CupelValue text = {};
  text.kind = CUPEL_STRING;
  text.s = "x";
  text.count = 1;
  EXPECT_EQ(run("lib_lines", {text}), "f32[2,3]");
}

TEST(Library, TakesNamesAndDefaultsFromTheSchema) {
  CupelTensor x = fake::Argument({2, 3});
  auto run = [&](const char* f) { return fake::Run(cupel_candidate_call, f, {fake::Of(x)}); };
  EXPECT_EQ(run("lib_forward").result, "f32[2,3]") << run("lib_forward").message;
  EXPECT_EQ(run("lib_device").result, "f32[3,2]");
  EXPECT_EQ(run("lib_tagged").result, "f32[3,2]");
  EXPECT_EQ(run("lib_keyed").result, "f32[3,2]");
  std::string all;
  cupel_candidate_describe(
      [](void* context, const char*, const char* signature) {
        *static_cast<std::string*>(context) += std::string(signature) + "\n";
      },
      &all);
  EXPECT_NE(
      all.find("lib_forward(x: Tensor, w: Optional[Tensor] = None, eps: float = 1e-05, n: int "
               "= -3, b: bool = True) -> Tensor\n"),
      std::string::npos)
      << all;
}

}  // namespace
