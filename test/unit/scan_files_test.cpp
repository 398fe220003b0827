// The gate over files: those that pytest lists, else one that LibTorch itself has just written.
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "chorus/diagnostics.h"
#include "chorus/scan.h"

namespace chorus {
namespace {

std::string verdict(const std::string& path, const ScanLimits& limits = {}) {
  try {
    scanArchive(path, limits);
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.exitCode(), 1);
    return refused.what();
  }
  return "";
}

std::string writeModule(const std::string& name) {
  torch::jit::Module module("__torch__.Small");
  module.register_parameter("weight", at::ones({3}), false);
  module.define("def forward(self, x):\n  return x * self.weight\n");
  const std::string path = (std::filesystem::temp_directory_path() / name).string();
  module.save(path);
  return path;
}

// Files are separated by the record separator, since messages have several lines.
TEST(ScanFiles, Verdicts) {
  const char* list = std::getenv("CHORUS_SCAN_LIST");
  if (!list) {
    EXPECT_EQ(verdict(writeModule("chorus_scan_small.pt")), "");
    return;
  }
  std::ifstream paths(list);
  std::ofstream out(std::getenv("CHORUS_SCAN_OUT"));
  for (std::string path; std::getline(paths, path);) out << verdict(path) << '\x1e';
}

TEST(ScanFiles, LimitsAreKept) {
  const std::string path = writeModule("chorus_scan_limits.pt");
  EXPECT_NE(verdict(path, {.max_records = 2}).find("records, more than the limit of 2"),
            std::string::npos);
  EXPECT_NE(verdict(path, {.max_unpacked_bytes = 100}).find("unpacks to more than 100 bytes"),
            std::string::npos);
  EXPECT_NE(verdict(path, {.max_code_bytes = 10}).find("more than the limit of 10"),
            std::string::npos);
  EXPECT_NE(verdict(path, {.max_nesting = 1}).find("deeper than 1"), std::string::npos);
}

}  // namespace
}  // namespace chorus
