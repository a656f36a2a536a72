// SPDX-License-Identifier: Apache-2.0
#include "assay/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/field.h"

namespace cupel::assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Three elements in all fields. The reference has 1, 2 and 3.
class Elements {
 public:
  Elements() {
    real_.shadow_state.assign(3, 0);
    for (auto& kernel : kernel_) {
      for (uint32_t i = 1; i <= 3; ++i) kernel.push_back(engine::PackElement({i, 7, 0}));
    }
  }
  Elements& Set(size_t field, size_t element, engine::FieldElement value) {
    kernel_.at(field).at(element) = engine::PackElement(value);
    return *this;
  }
  Elements& SetAll(size_t element, engine::FieldElement value) {
    for (size_t field = 0; field < kernel_.size(); ++field) Set(field, element, value);
    return *this;
  }
  Elements& Doubt(size_t element) {
    real_.shadow_state.at(element) = 2;
    real_.shadow_causes = {{"setp at kernel.cu:3", 1}};
    return *this;
  }
  OutputProof Compare(const std::vector<std::string>& functions = {},
                      const std::vector<bool>& infinite = {}) const {
    std::array<ElementPair, oracle::kFields> fields;
    for (size_t i = 0; i < fields.size(); ++i) {
      fields[i] = {&kernel_[i], &reference_, &exponents_};
    }
    return CompareElements(real_, fields, functions, infinite);
  }

 private:
  engine::OutputTensor real_;
  std::array<std::vector<uint64_t>, oracle::kFields> kernel_;
  std::vector<uint32_t> reference_ = {1, 2, 3}, exponents_ = {4, 4, 4};
};

TEST(Proof, NeedsEqualityInEveryField) {
  EXPECT_EQ(Elements().Compare().proved, 3);
  for (size_t field = 0; field < oracle::kFields; ++field) {
    const OutputProof proof = Elements().Set(field, 1, {5, 7, 0}).Compare();
    EXPECT_EQ(proof.proved, 2) << field;
    EXPECT_EQ(proof.differing, 1) << field;
    EXPECT_EQ(proof.first_element, 1) << field;
  }
}

TEST(Proof, LogarithmsNeedEqualityModuloQ) {
  EXPECT_EQ(Elements().SetAll(0, {5, 4, engine::kFieldOpaque}).Compare().proved, 3);
  const engine::FieldElement one = {5, 4, engine::kFieldOpaque},
                             other = {1, 7, engine::kFieldOpaque};
  Elements mixed = Elements().SetAll(0, one).Set(1, 0, other);
  EXPECT_EQ(mixed.Compare().proved, 2);
}

TEST(Proof, DifferencesThatALawExplainsAreNotProved) {
  for (const uint32_t flag :
       {engine::kFieldUnknown, engine::kFieldConstant, engine::kFieldOpaque}) {
    const OutputProof proof = Elements().SetAll(0, {5, 7, flag}).Compare();
    EXPECT_EQ(proof.differing, 0) << flag;
    EXPECT_EQ(proof.unexplained, 1) << flag;
    EXPECT_EQ(proof.reasons.size(), 1u) << flag;
  }
  EXPECT_EQ(Elements().SetAll(0, {5, 7, engine::kFieldDeep}).Compare().differing, 1);
  const OutputProof proof = Elements().SetAll(0, {5, 7, 0}).Compare({"log"});
  EXPECT_THAT(proof.reasons, ElementsAre(HasSubstr("log")));
  EXPECT_EQ(proof.unexplained, 1);
}

TEST(Proof, RootsMayLackASign) {
  Elements elements;
  elements.Set(0, 2, {5, 7, engine::kFieldRoot});
  EXPECT_EQ(elements.Compare().unexplained, 1);
  EXPECT_EQ(elements.SetAll(2, {5, 7, engine::kFieldRoot}).Compare().unexplained, 1);
}

TEST(Proof, WhatIsUnknownIsNotEqual) {
  EXPECT_EQ(Elements().SetAll(0, {1, 7, engine::kFieldUnknown}).Compare().proved, 2);
}

TEST(Proof, InfiniteNumbersHaveNoElement) {
  const Elements infinite = Elements().SetAll(0, {0, 0, engine::kFieldUnknown});
  EXPECT_EQ(infinite.Compare().proved, 2);
  EXPECT_EQ(infinite.Compare({}, {true, false, false}).proved, 3);
}

TEST(Proof, NamesThePlacesOfDecisions) {
  Elements elements;
  elements.Doubt(1);
  EXPECT_EQ(elements.Compare().proved, 3);  // equal whatever was decided
  const OutputProof proof = elements.SetAll(1, {9, 7, 0}).Compare();
  EXPECT_EQ(proof.unfollowed, 1);
  EXPECT_THAT(proof.reasons, ElementsAre(HasSubstr("kernel.cu:3")));
}

}  // namespace
}  // namespace cupel::assay
