// SPDX-License-Identifier: Apache-2.0
#include "os/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace cupel::os {
namespace {

namespace fs = std::filesystem;

/// The number after the word `name` at the beginning of a line. Without a name: the first number in
/// the file.
std::optional<uint64_t> NumberIn(const fs::path& path, const std::string& name = "") {
  std::ifstream file(path);
  std::string word;
  while (file) {
    if (!name.empty() && (!(file >> word) || word != name)) {
      file.ignore(1 << 10, '\n');
      continue;
    }
    uint64_t number = 0;
    if (file >> number) return number;
    break;
  }
  return std::nullopt;
}

/// This process's cgroup: its path below the mount point of cgroup v2, without a leading slash.
fs::path OwnGroup(const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("0::/", 0) == 0) return fs::path(line.substr(4)).relative_path();
  }
  return {};
}

void Limit(Memory& memory, const fs::path& group) {
  const auto most = NumberIn(group / "memory.max");  // or the word "max"
  const auto used = NumberIn(group / "memory.current");
  if (!most || !used) return;
  const uint64_t kept =
      *used - std::min(*used, NumberIn(group / "memory.stat", "inactive_file").value_or(0));
  memory.total = std::min(memory.total, *most);
  memory.available = std::min(memory.available, *most - std::min(*most, kept));
}

}  // namespace

Memory MemoryNow(const fs::path& root) {
  const fs::path info = root / "proc/meminfo";
  Memory memory{1024 * NumberIn(info, "MemTotal:").value_or(0),
                1024 * NumberIn(info, "MemAvailable:").value_or(0)};
  const fs::path mount = root / "sys/fs/cgroup";
  for (fs::path group = OwnGroup(root);; group = group.parent_path()) {
    Limit(memory, mount / group);
    if (group.empty()) return memory;
  }
}

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0, resident = 0;
  if (!(file >> all >> resident)) return 0;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace cupel::os
