// Compares every view of the shim's tensors with PyTorch's results (view_table.txt, made by
// make_view_table.py).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/extension.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Ints = std::vector<int64_t>;

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}
Ints ParseInts(const std::string& text) {
  Ints values;
  if (text.empty()) return values;
  for (const auto& part : Split(text, ',')) values.push_back(std::stoll(part));
  return values;
}
std::string Commas(at::IntArrayRef values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) text += (i ? "," : "") + std::to_string(values[i]);
  return text;
}

/// One question of the table: "operation [1,2] 3".
struct Question {
  explicit Question(const std::string& text) : words(Split(text, ' ')) {}
  int64_t Int(size_t i) const { return std::stoll(words.at(i + 1)); }
  Ints List(size_t i) const {
    const std::string& word = words.at(i + 1);
    return ParseInts(word.substr(1, word.size() - 2));
  }
  std::vector<std::string> words;
};

at::Tensor Apply(const at::Tensor& t, const Question& q) {
  const std::string& op = q.words[0];
  if (op == "contiguous") return t.contiguous();
  if (op == "channels_last")
    return t.contiguous(t.dim() == 4 ? at::MemoryFormat::ChannelsLast
                                     : at::MemoryFormat::ChannelsLast3d);
  if (op == "clone") return t.clone();
  if (op == "empty_like") return at::empty_like(t);
  if (op == "to_double") return t.to(torch::kFloat64);
  if (op == "squeeze_all") return t.squeeze();
  if (op == "t") return t.t();
  if (op == "numpy_T") return t.numpy_T();
  if (op == "view") return t.view(q.List(0));
  if (op == "reshape") return t.reshape(q.List(0));
  if (op == "flatten") return t.flatten(q.Int(0), q.Int(1));
  if (op == "unflatten") return t.unflatten(q.Int(0), q.List(1));
  if (op == "squeeze") return t.squeeze(q.Int(0));
  if (op == "unsqueeze") return t.unsqueeze(q.Int(0));
  if (op == "transpose") return t.transpose(q.Int(0), q.Int(1));
  if (op == "permute") return t.permute(q.List(0));
  if (op == "movedim") return t.movedim(q.Int(0), q.Int(1));
  if (op == "narrow") return t.narrow(q.Int(0), q.Int(1), q.Int(2));
  if (op == "select") return t.select(q.Int(0), q.Int(1));
  if (op == "slice") return t.slice(q.Int(0), q.Int(1), q.Int(2), q.Int(3));
  if (op == "expand") return t.expand(q.List(0));
  if (op == "as_strided") return t.as_strided(q.List(0), q.List(1), q.Int(2));
  if (op == "split") return t.split(q.Int(0), q.Int(1)).back();
  if (op == "chunk") return t.chunk(q.Int(0), q.Int(1)).back();
  throw std::logic_error("unknown operation in the table: " + op);
}

std::string Answer(const at::Tensor& t, const Question& q) {
  if (q.words[0] == "flags") {
    auto last = t.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
    return std::to_string(t.is_contiguous()) +
           std::to_string((t.dim() == 4 || t.dim() == 5) && t.is_contiguous(last)) +
           std::to_string(t.is_non_overlapping_and_dense());
  }
  try {
    at::Tensor r = Apply(t, q);
    bool copy = r.storage().data() != t.storage().data();
    return Commas(r.sizes()) + "|" + Commas(r.strides()) + "|" +
           (copy ? "copy" : std::to_string(r.storage_offset()));
  } catch (const c10::Error&) {
    return "error";
  }
}

TEST(Views, AgreeWithPyTorch) {
  std::ifstream file(CUPEL_TEST_FOLDER "/view_table.txt");
  ASSERT_TRUE(file);
  std::string line;
  int asked = 0;
  int wrong = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> f = Split(line, '|');
    ASSERT_GE(f.size(), 6U) << line;
    std::string expected =
        line.substr(f[0].size() + f[1].size() + f[2].size() + f[3].size() + f[4].size() + 5);
    at::Tensor storage = at::empty({std::stoll(f[3])}, at::kCUDA);
    at::Tensor t = storage.as_strided(ParseInts(f[0]), ParseInts(f[1]), std::stoll(f[2]));
    std::string got = Answer(t, Question(f[4]));
    ++asked;
    if (got != expected && ++wrong <= 20) ADD_FAILURE() << line << "\n  but got " << got;
  }
  EXPECT_GT(asked, 2000);
  EXPECT_EQ(wrong, 0);
}

TEST(Views, ReportPyTorchsMessages) {
  at::Tensor t = at::empty({2, 3}, at::kCUDA);
  auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const c10::Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { (void)t.size(5); }),
            "Dimension out of range (expected to be in range of [-2, 1], but got 5)");
  EXPECT_EQ(message([&] { t.view({4, -1}); }), "shape '[4, -1]' is invalid for input of size 6");
  EXPECT_EQ(message([&] { t.t().view(-1); }).substr(0, 47),
            "view size is not compatible with input tensor's");
  EXPECT_EQ(message([&] { t.select(0, 2); }),
            "select(): index 2 out of range for tensor of size [2, 3] at dimension 0");
  EXPECT_EQ(message([&] { t.narrow(1, 2, 2); }),
            "start (2) + length (2) exceeds dimension size (3).");
  EXPECT_EQ(message([&] { t.expand({4, 3}); }),
            "The expanded size of the tensor (4) must match the existing size (2) at non-singleton "
            "dimension 0.  Target sizes: [4, 3].  Tensor sizes: [2, 3]");
  EXPECT_EQ(message([&] { at::Tensor().sizes(); }).substr(0, 44),
            "Expected a proper Tensor but got None (or an");
}

}  // namespace
