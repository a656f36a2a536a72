// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <gtest/gtest.h>

namespace cupel {
namespace {

TEST(Sha256, MatchesThePublishedVectors) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, FieldBoundariesChangeTheHash) {
  Sha256 a, b;
  a.Field("ab");
  a.Field("c");
  b.Field("a");
  b.Field("bc");
  EXPECT_NE(a.Hex(), b.Hex());
}

TEST(EntropySeed, DoesNotRepeat) { EXPECT_NE(EntropySeed(), EntropySeed()); }

}  // namespace
}  // namespace cupel
