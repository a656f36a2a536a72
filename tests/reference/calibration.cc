// SPDX-License-Identifier: Apache-2.0
#include "calibration.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace cupel::reference {
namespace {

long double Value(uint64_t bits, const Format& format) {
  const Number number = Unpack(bits, format);
  if (number.kind != Number::Kind::kFinite) return NAN;
  const long double size =
      std::ldexp(static_cast<long double>(number.mantissa.word[0]), number.exponent);
  return number.negative ? -size : size;
}

struct Worst {
  long double error = 0;
  uint64_t operand = 0;
  void Add(long double value, uint64_t at) {
    if (value > error) *this = {value, at};
  }
  std::string Text() const {
    if (error == 0) return "0";
    return fmt::format("2^{:.2f} at {:#x}", static_cast<double>(std::log2(error)), operand);
  }
};

void Calibrate(Runner& runner, const Form& form, size_t samples) {
  const Operation& operation = *form.operation;
  const Format& format = *operation.float_result;
  std::vector<std::byte> in = FormInputs(form, samples, 99);
  std::vector<std::byte> out(samples * kResultBytes);
  std::vector<std::byte>* const buffers[] = {&in, &out};
  const auto grid = static_cast<uint32_t>(samples / kFormBlock);
  const std::string wrong = runner.Run("f0", grid, kFormBlock, buffers, {});
  if (!wrong.empty()) {
    fmt::print("{}: {}\n", form.name, wrong);
    return;
  }
  Worst relative, absolute;
  size_t outside = 0;
  const long double smallest = std::ldexp(1.0L, 1 - format.bias);
  for (size_t t = 0; t < samples; ++t) {
    const Operands operands = FormOperands(form, in, t);
    uint64_t bits = 0;
    std::memcpy(&bits, out.data() + t * kResultBytes, sizeof bits);
    bits = Truncate(bits, format.bits);
    if (!Agrees(operation, operands, operation.compute(operands), bits)) ++outside;
    const long double exact = operation.exact(operands), got = Value(bits, format);
    const long double first = Value(operands[0], format);
    if (!std::isfinite(exact) || std::isnan(got) || std::isnan(first)) continue;
    if (first < operation.bound.lowest || first > operation.bound.highest) continue;
    absolute.Add(std::abs(got - exact), operands[0]);
    if (std::abs(exact) >= smallest) relative.Add(std::abs(got / exact - 1), operands[0]);
  }
  fmt::print("{:24} relative {:32} absolute {:32} outside PTX's bound: {} of {}\n", form.name,
             relative.Text(), absolute.Text(), outside, samples);
}

}  // namespace

int CalibrateAll(Runner& runner, const std::vector<Form>& forms) {
  for (const Form& form : forms) {
    if (!form.operation || !form.operation->exact || form.operation->packed) continue;
    if (!runner.Load(FormModule({&form, 1}, 0)).empty()) {
      fmt::print("{:24} rejected by the compiler\n", form.name);
      continue;
    }
    Calibrate(runner, form, form.inputs[0] == 16 ? size_t{1} << 17 : size_t{1} << 19);
  }
  return 0;
}

}  // namespace cupel::reference
