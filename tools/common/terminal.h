// Tables, and a progress bar that only people see.
#pragma once

#include <string>
#include <vector>

namespace chorus {

/// Columns aligned by two blanks; a column whose cells are all numbers (or "-", or empty) is
/// right-aligned.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  ///< as long as the header each
};
std::string format(const Table& table);

/// `value` with at most `digits` significant digits, without trailing zeros: "0.9731", "1e-05",
/// "nan".
std::string numberText(double value, int digits = 5);

/// Draws on standard error where that is a terminal, else does nothing.
class ProgressBar {
 public:
  /// `label` stands in front, e.g. "epoch 3/20". `quiet` switches the bar off.
  ProgressBar(std::string label, size_t total, bool quiet = false);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();  ///< wipes the line
  /// `done` of `total`; `suffix` stands behind, e.g. "loss 0.31". Redraws at most ten times a
  /// second.
  void update(size_t done, const std::string& suffix = "");

 private:
  std::string label_;
  size_t total_;
  bool shown_;
  double drawn_at_ = 0;  // seconds
};

}  // namespace chorus
