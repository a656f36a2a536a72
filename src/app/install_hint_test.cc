// SPDX-License-Identifier: Apache-2.0
#include "app/install_hint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::app {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(InstallHintTest, UsesTheDistributionsPackageManager) {
  const struct {
    const char *os_release, *compiler;
  } cases[] = {
      {"PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n", "apt-get install g++"},
      {"ID=ubuntu\nID_LIKE=debian\n", "apt-get install g++"},
      {"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "dnf install gcc-c++"},
      {"ID=fedora\n", "dnf install gcc-c++"},
      {"ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "zypper install gcc-c++"},
      {"ID=arch\n", "pacman -S gcc"},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(InstallHint(Need::kCompiler, one.os_release), one.compiler) << one.os_release;
  }
}

TEST(InstallHintTest, NamesNvidiasRepositoryIfTheDistributionsToolkitIsTooOld) {
  EXPECT_THAT(InstallHint(Need::kToolkit, "ID=debian\n"),
              HasSubstr("apt-get install cuda-toolkit-13-0"));
  EXPECT_THAT(InstallHint(Need::kToolkit, "ID=arch\n"), HasSubstr("pacman -S cuda,"));
}

TEST(InstallHintTest, UnknownAndHostileTextsGetAGeneralAnswer) {
  for (const char* text : {"", "ID=\n", "ID", "=\n=\n", "NAME=debian\nID=plan9\n"}) {
    EXPECT_EQ(InstallHint(Need::kCompiler, text), "install g++, which nvcc needs") << text;
    EXPECT_THAT(InstallHint(Need::kToolkit, text), Not(HasSubstr("apt-get"))) << text;
  }
}

}  // namespace
}  // namespace cupel::app
