// PYBIND11_MODULE: arguments, defaults, overloads, results and the messages of wrong calls.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <pybind11/stl.h>
#include <torch/extension.h>

#include "fake_recorder.h"

// The functions take arguments in every way that candidates do, and the analyzer does not follow
// the tensors' reference counts.
// NOLINTBEGIN(performance-unnecessary-value-param,clang-analyzer-cplusplus.*)
namespace {

using fake::Answer;
using fake::Of;

torch::Tensor Scale(torch::Tensor x, double factor, int64_t times, bool flag) {
  TORCH_CHECK(factor != 0, "factor must not be 0");
  return flag && times ? x : at::Tensor();
}
std::vector<at::Tensor> Pair(const at::Tensor& x, const c10::optional<at::Tensor>& bias) {
  return {x, bias.has_value() ? *bias : x.t()};
}
std::tuple<at::Tensor, c10::optional<at::Tensor>, double> Mixed(const at::Tensor& x) {
  return {x, c10::nullopt, 0.5};
}
enum class Mode { kNone, kBoth };
struct Handle {
  int value = 0;
};
int64_t Sum(const std::vector<int64_t>& values) {
  int64_t sum = 0;
  for (auto v : values) sum += v;
  return sum;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  using namespace py::literals;  // NOLINT
  m.doc() = "things";
  m.def("scale", &Scale, "scales", py::arg("x"), py::arg("factor") = 2, py::arg("times") = 1,
        py::arg("flag") = true);
  m.def("pair", &Pair, py::call_guard<py::gil_scoped_release>(), "x"_a,
        py::arg("bias") = py::none());
  m.def("mixed", &Mixed);
  m.def("sum", &Sum);
  m.def("nothing", [](at::Tensor& x) { x.zero_(); });
  m.def("named", [](const std::string& s, std::array<int, 2> p, at::IntArrayRef l) {
    return s + std::to_string(p[0] + p[1]) + std::to_string(l.size());
  });
  m.def("which", [](int) { return "int"; });
  m.def("which", [](double) { return "float"; });
  m.def("which", [](at::Tensor, at::Tensor) { return "tensors"; });
  m.def("tuples", [](py::tuple t, py::object o) {
    auto x = t[0].cast<at::Tensor>();
    return py::make_tuple(x.size(0), o, py::cast(t.size()));
  });
  m.def("small", [](int8_t v) { return v; });
  py::enum_<Mode>(m, "Mode").value("kNone", Mode::kNone).value("kBoth", Mode::kBoth);
  py::class_<Handle>(m, "Handle").def(py::init<>()).def_readonly("value", &Handle::value);
  auto inner = m.def_submodule("inner", "things");
  inner.def("mode", [](Mode mode) { return mode == Mode::kBoth; });
  m.def("handle", [](const Handle& handle) { return handle.value; });
  m.def("is_none", [](const py::object& o) { return o.is(py::none()); });
  m.def("all", [](const py::list& tensors, std::pair<int, int> shape) {
    py::list reversed;
    for (size_t i = tensors.size(); i > 0; --i) reversed.append(tensors[i - 1].cast<at::Tensor>());
    reversed.append(shape.first * shape.second);
    return reversed;
  });
  m.def("throws", [](int kind) {
    if (kind == 0) throw std::runtime_error("own message");
    if (kind == 1) throw 7;
    throw py::value_error("bad value");
  });
}

Answer Ask(const char* function, const std::vector<CupelValue>& args) {
  return fake::Run(cupel_candidate_call, function, args);
}

TEST(Call, ConvertsAsPybind11Does) {
  CupelTensor x = fake::Argument({2, 3});
  EXPECT_EQ(Ask("scale", {Of(x), Of(2.0), Of(1), Of(true)}).result, "f32[2,3]");
  EXPECT_EQ(Ask("scale", {Of(x), Of(3), Of(true), Of(1)}).result, "f32[2,3]");
  EXPECT_EQ(Ask("scale", {Of(x)}).result, "f32[2,3]");
  EXPECT_EQ(Ask("scale", {Of(x), Of(1), Of(1), fake::None()}).result, "None");
  EXPECT_EQ(Ask("pair", {Of(x)}).result, "(f32[2,3], f32[3,2])");
  EXPECT_EQ(Ask("pair", {Of(x), Of(x)}).result, "(f32[2,3], f32[2,3])");
  EXPECT_EQ(Ask("mixed", {Of(x)}).result, "(f32[2,3], None, 0.5)");
  std::vector<CupelValue> two{Of(3), Of(4)};
  EXPECT_EQ(Ask("sum", {fake::Tuple(two)}).result, "7");
  EXPECT_EQ(Ask("nothing", {Of(x)}).result, "None");
  EXPECT_EQ(Ask("named", {Of("a"), fake::Tuple(two), fake::Tuple(two)}).result, "'a72'");
  EXPECT_EQ(Ask("small", {Of(-128)}).result, "-128");
}

TEST(Call, AcceptsOneElementTensorsAsNumbers) {
  CupelTensor x = fake::Argument({2, 3});
  CupelTensor one = fake::Argument({1});
  float value = 0;
  fake::SetItem(&value, sizeof value);
  EXPECT_EQ(Ask("scale", {Of(x), Of(one)}).message, "factor must not be 0");
  EXPECT_EQ(Ask("scale", {Of(x), Of(x)}).status, CUPEL_BAD_ARGUMENTS);
}

TEST(Call, TriesOverloadsInOrder) {
  CupelTensor x = fake::Argument({2});
  EXPECT_EQ(Ask("which", {Of(1)}).result, "'int'");
  EXPECT_EQ(Ask("which", {Of(1.0)}).result, "'float'");
  EXPECT_EQ(Ask("which", {Of(x), Of(x)}).result, "'tensors'");
  EXPECT_EQ(Ask("which", {Of("s")}).status, CUPEL_BAD_ARGUMENTS);
}

TEST(Call, PassesPythonTuples) {
  CupelTensor x = fake::Argument({5, 2});
  std::vector<CupelValue> items{Of(x), Of(1)};
  EXPECT_EQ(Ask("tuples", {fake::Tuple(items), Of(2.5)}).result, "(5, 2.5, 2)");
}

TEST(Call, AcceptsListsEnumerationsAndNone) {
  CupelTensor x = fake::Argument({5, 2}), y = fake::Argument({3});
  std::vector<CupelValue> items{Of(x), Of(y)}, shape{Of(3), Of(4)};
  EXPECT_EQ(Ask("all", {fake::Tuple(items), fake::Tuple(shape)}).result, "(f32[3], f32[5,2], 12)");
  EXPECT_EQ(Ask("mode", {Of(1)}).result, "True");
  EXPECT_EQ(Ask("is_none", {fake::None()}).result, "True");
  EXPECT_EQ(Ask("is_none", {Of(0)}).result, "False");
}

TEST(Call, FunctionsWithOtherTypesCannotBeCalled) {
  EXPECT_EQ(Ask("handle", {Of(1)}).message,
            "argument 1 (arg0) must be a value of a C++ type that cupel's pybind11 lacks, got int; "
            "handle(arg0: value of a C++ type that cupel's pybind11 lacks) -> int");
}

TEST(Call, NamesTheWrongArgument) {
  CupelTensor x = fake::Argument({2, 3});
  std::string takes =
      "; scale(x: Tensor, factor: float = 2, times: int = 1, flag: bool = True) -> Tensor";
  Answer a = Ask("scale", {Of(1)});
  EXPECT_EQ(a.status, CUPEL_BAD_ARGUMENTS);
  EXPECT_EQ(a.message, "argument 1 (x) must be a Tensor, got int" + takes);
  EXPECT_EQ(Ask("scale", {Of(x), Of("s")}).message,
            "argument 2 (factor) must be a float, got str" + takes);
  EXPECT_EQ(Ask("scale", {Of(x), Of(1.0), Of(1.0)}).message,
            "argument 3 (times) must be an int, got float" + takes);
  EXPECT_EQ(Ask("scale", {}).message, "argument 1 (x) is missing, got 0 arguments" + takes);
  EXPECT_EQ(Ask("scale", {Of(x), Of(1), Of(1), Of(1), Of(1)}).message,
            "scale takes 4 arguments, got 5" + takes);
  EXPECT_EQ(Ask("small", {Of(128)}).status, CUPEL_BAD_ARGUMENTS);
  EXPECT_EQ(Ask("pair", {fake::None()}).status, CUPEL_BAD_ARGUMENTS);
  Answer none = Ask("backwards", {});
  EXPECT_EQ(none.status, CUPEL_NO_FUNCTION);
  EXPECT_EQ(none.message.substr(0, 52), "the module has no function backwards; it has scale, ");
}

TEST(Call, AnEntryStandsForForward) {
  cupel::shim::Registry registry;
  py::module_ module(registry);
  module.def("scale", [](int x) { return 2 * x; });
  std::string result;
  cupel::shim::Text message;
  const CupelValue three = Of(3);
  const auto call = [&](const char* name) {
    const auto take = [](void* context, const CupelValue* v) {
      *static_cast<std::string*>(context) = fake::Show(*v);
    };
    message = cupel::shim::Text();
    return registry.Call(name, &three, 1, take, &result, message);
  };
  EXPECT_EQ(call("forward"), CUPEL_NO_FUNCTION);
  EXPECT_STREQ(message.c_str(), "the module has no function forward; it has scale");
  registry.SetEntry("scale");
  EXPECT_EQ(call("forward"), CUPEL_OK);
  EXPECT_EQ(result, "6");
  EXPECT_EQ(call("other"), CUPEL_NO_FUNCTION);
}

TEST(Call, ReportsExceptions) {
  EXPECT_EQ(Ask("throws", {Of(0)}).message, "own message");
  EXPECT_EQ(Ask("throws", {Of(1)}).status, CUPEL_EXCEPTION);
  EXPECT_EQ(Ask("throws", {Of(2)}).message, "bad value");
}

}  // namespace
// NOLINTEND(performance-unnecessary-value-param,clang-analyzer-cplusplus.*)
