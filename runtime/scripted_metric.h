// A metric of the user's own: a TorchScript file whose forward(output, target) returns one number.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

namespace chorus {

/// "score.pt" names a file, "accuracy" does not.
bool isMetricFile(const std::string& name);
/// What reports call it: the file without folder and ending.
std::string metricTitle(const std::string& name);

class ScriptedMetric {
 public:
  /// The file passes the gate of lib/scan first. Throws Refused (error) where it is no TorchScript
  /// file or its forward takes other arguments.
  explicit ScriptedMetric(const std::string& path);

  /// output [N,...] of the model's first output and target [N,...], of all rows of one member, in
  /// their own dtypes. Every call begins with the tensors that the file holds. Throws Refused
  /// (error) where forward fails or returns no single number.
  double operator()(const at::Tensor& output, const at::Tensor& target) const;

 private:
  std::string path_;
  torch::jit::Module module_;
};

}  // namespace chorus
