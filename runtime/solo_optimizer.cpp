#include "runtime/solo_optimizer.h"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace chorus {
namespace {

bool isSet(const OptimizerSpec& spec, const std::string& flag) {
  const auto found = spec.flags.find(flag);
  return found != spec.flags.end() && found->second;
}

template <typename Options>
Options adamOptions(const OptimizerSpec& spec, size_t k) {
  const auto value = [&](const char* name) { return spec.values.at(name).at(k); };
  return Options(value("lr"))
      .betas({value("beta1"), value("beta2")})
      .eps(value("eps"))
      .weight_decay(value("weight_decay"))
      .amsgrad(isSet(spec, "amsgrad"));
}

}  // namespace

bool hasSoloOptimizer(const OptimizerSpec& spec) {
  const bool known = spec.name == "sgd" || spec.name == "adam" || spec.name == "adamw";
  return known && !isSet(spec, "maximize") && spec.groups.empty();
}

std::unique_ptr<torch::optim::Optimizer> soloOptimizer(const OptimizerSpec& spec, size_t k,
                                                       std::vector<at::Tensor> parameters) {
  const auto value = [&](const char* name) { return spec.values.at(name).at(k); };
  if (spec.name == "adam") {
    return std::make_unique<torch::optim::Adam>(std::move(parameters),
                                                adamOptions<torch::optim::AdamOptions>(spec, k));
  }
  if (spec.name == "adamw") {
    return std::make_unique<torch::optim::AdamW>(std::move(parameters),
                                                 adamOptions<torch::optim::AdamWOptions>(spec, k));
  }
  return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                             torch::optim::SGDOptions(value("lr"))
                                                 .momentum(value("momentum"))
                                                 .dampening(value("dampening"))
                                                 .weight_decay(value("weight_decay"))
                                                 .nesterov(isSet(spec, "nesterov")));
}

}  // namespace chorus
