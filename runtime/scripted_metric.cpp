#include "runtime/scripted_metric.h"

#include <torch/csrc/jit/serialization/import.h>

#include <filesystem>

#include "chorus/diagnostics.h"
#include "chorus/scan.h"

namespace chorus {

bool isMetricFile(const std::string& name) { return name.ends_with(".pt"); }

std::string metricTitle(const std::string& name) {
  return isMetricFile(name) ? std::filesystem::path(name).stem().string() : name;
}

namespace {

torch::jit::Module loaded(const std::string& path) {
  scanArchive(path);
  torch::jit::Module module = torch::jit::load(path);
  module.eval();
  const auto forward = module.find_method("forward");
  const size_t arguments = forward ? forward->function().getSchema().arguments().size() : 0;
  if (arguments == 3) return module;
  throw Refused(error(forward ? "forward of the metric takes " + std::to_string(arguments - 1) +
                                    " arguments, not an output and a target"
                              : "the metric has no forward",
                      Place{path}));
}

}  // namespace

ScriptedMetric::ScriptedMetric(const std::string& path) : path_(path), module_(loaded(path)) {}

double ScriptedMetric::operator()(const at::Tensor& output, const at::Tensor& target) const {
  const at::NoGradGuard no_grad;
  c10::IValue value;
  try {
    torch::jit::Module own = module_.deepcopy();
    value = own.forward({output, target});
  } catch (const std::exception& failure) {
    throw Refused(error("forward of the metric fails", Place{path_}).note(failure.what()));
  }
  if (value.isDouble() || value.isInt() || value.isBool()) return value.toScalar().toDouble();
  if (value.isTensor() && value.toTensor().numel() == 1 && !value.toTensor().is_complex()) {
    return value.toTensor().item<double>();
  }
  throw Refused(
      error("forward of the metric returns " +
                (value.isTensor() ? c10::str("a tensor of sizes ", value.toTensor().sizes())
                                  : value.tagKind()) +
                ", not one number",
            Place{path_}));
}

}  // namespace chorus
