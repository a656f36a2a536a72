// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "term/progress.h"
#include "term/table.h"
#include "term/text.h"

namespace cupel::term {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

TEST(Text, PrintableRemovesControlCharacters) {
  EXPECT_EQ(Printable("a\x1b[2Jb\nc\td\x7f"), "a?[2Jb?c?d?");
  EXPECT_EQ(Printable("µs 1×2"), "µs 1×2");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m \xff \xe2\x80\xae"),
            "?31m ? ?");
}

TEST(Text, CountsAndCutsCharacters) {
  EXPECT_EQ(Width("1×2µ"), 4);
  EXPECT_EQ(Fit("1×2µ", 4), "1×2µ");
  EXPECT_EQ(Fit("1×2µs", 4), "1×2…");
  EXPECT_EQ(Fit("abc", 0), "");
}

TEST(Text, FormatsDurations) {
  EXPECT_EQ(Duration(0.84), "0.8 s");
  EXPECT_EQ(Duration(59.4), "59 s");
  EXPECT_EQ(Duration(185), "3 min 05 s");
  EXPECT_EQ(Duration(7800), "2 h 10 min");
  EXPECT_EQ(Duration(-1), "?");
}

TEST(Table, AlignsColumns) {
  Table table({{"setting"}, {"error", Align::kRight}, {"status"}});
  table.Add({"single-0", "4.2 %", "passed"});
  table.Add({"m", "0.1 %"});
  EXPECT_EQ(table.Render(0, "  "),
            "  setting   error  status\n"
            "  single-0  4.2 %  passed\n"
            "  m         0.1 %\n");
}

TEST(Table, CutsToTheWidth) {
  Table table({{"kernel"}, {"n", Align::kRight}});
  table.Add({std::string(100, 'k'), "123456"});
  EXPECT_EQ(table.Render(30),
            "kernel                       n\n" + std::string(21, 'k') + "…  123456\n");
}

class ProgressTest : public testing::Test {
 protected:
  ProgressOptions Options(bool terminal) {
    ProgressOptions options;
    options.terminal = terminal;
    options.now = [this] { return now_; };
    options.write = [this](std::string_view text) {
      out_ += text;
      ++writes_;
    };
    options.columns = [this] { return columns_; };
    return options;
  }
  Progress At(int64_t done) {
    return {"judging multi-3", done, 100, "trials", "best 11.2 us", std::nullopt};
  }

  std::chrono::steady_clock::time_point now_{};
  int columns_ = 80, writes_ = 0;
  std::string out_;
};

TEST_F(ProgressTest, RedrawsInPlaceAndErases) {
  {
    ProgressLine progress(Options(true));
    progress.Update(At(0));
    now_ += 10s;
    progress.Update(At(10));
  }
  EXPECT_EQ(out_,
            "\r0/100 trials · best 11.2 us · judging multi-3\x1b[K"
            "\r10/100 trials · best 11.2 us · 1 min 30 s left · judging multi-3\x1b[K"
            "\r\x1b[K");
}

TEST_F(ProgressTest, RedrawsAtMostTenTimesASecond) {
  ProgressLine progress(Options(true));
  for (int i = 0; i < 1000; ++i, now_ += 1ms) progress.Update(At(i));
  EXPECT_EQ(writes_, 10);
}

TEST_F(ProgressTest, NeverReachesTheLastColumn) {
  columns_ = 20;
  ProgressLine progress(Options(true));
  progress.Update(At(5));
  EXPECT_THAT(out_, HasSubstr("\r5/100 trials · bes…\x1b[K"));
}

TEST_F(ProgressTest, ResumedWorkDoesNotCountForTheSpeed) {
  ProgressLine progress(Options(true));
  progress.Update(At(50));
  now_ += 10s;
  progress.Update(At(60));
  EXPECT_THAT(out_, HasSubstr("40 s left"));
}

TEST_F(ProgressTest, NotesStayAboveTheLine) {
  ProgressLine progress(Options(true));
  progress.Update(At(1));
  progress.Note("new best\x1b[31m");
  progress.Update(At(1));
  EXPECT_THAT(out_, HasSubstr("\r\x1b[Knew best?[31m\n\r1/100"));
}

TEST_F(ProgressTest, PrintsPlainLinesWithoutATerminal) {
  {
    ProgressLine progress(Options(false));
    for (int i = 0; i < 110; ++i, now_ += 100ms) progress.Update(At(i));
  }
  EXPECT_EQ(writes_, 3);  // 0, 5 and 10 s
  EXPECT_THAT(out_, Not(HasSubstr("\x1b")));
  EXPECT_THAT(out_, Not(HasSubstr("\r")));
}

TEST_F(ProgressTest, QuietPrintsNothing) {
  ProgressOptions options = Options(true);
  options.quiet = true;
  {
    ProgressLine progress(options);
    progress.Update(At(1));
    progress.Note("new best");
  }
  EXPECT_EQ(out_, "");
}

}  // namespace
}  // namespace cupel::term
