// Optimizers: a member's update is what it would be alone, the first steps are PyTorch's, bad
// values are refused.
#include <gtest/gtest.h>

#include "test/unit/hand_made.h"

namespace chorus {
namespace {

using namespace test;
using torch::jit::Module;

/// Values that differ by member, within the bounds of all optimizers.
std::map<std::string, std::vector<double>> variedValues(const OptimizerDefinition& definition) {
  std::map<std::string, std::vector<double>> values;
  for (const Hyperparameter& h : definition.hyperparameters) {
    const double base = h.default_value.value_or(0.1);
    values[h.name] = {base, base * 0.75, base * 0.9};
    if (base == 0) values[h.name] = {0.0, 0.02, 0.3};
  }
  if (definition.name == "rprop") values["eta2"] = {1.2, 1.1, 1.3};
  if (definition.name == "adafactor") values["d"] = {1.0, 1.5, 2.0};
  return values;
}

OptimizerSpec specOf(const OptimizerDefinition& definition, bool flags) {
  OptimizerSpec spec{definition.name, variedValues(definition), {}};
  for (const std::string& flag : definition.flags) spec.flags[flag] = flags && flag != "nesterov";
  return spec;
}

class EveryOptimizer : public testing::TestWithParam<std::string> {};

TEST_P(EveryOptimizer, MovesEachMemberAsIfAlone) {
  const OptimizerDefinition& definition = findOptimizer(GetParam());
  for (const bool flags : {false, true}) {
    FusedModel model = linearModel("cross_entropy", "");
    model.optimizer = specOf(definition, flags);
    model.prototype.slots[1].requires_grad = definition.name != "muon";  // it takes matrices only
    resetState(model);
    std::vector<Module> alone;
    for (size_t k = 0; k < 3; ++k) alone.push_back(buildModule(selectMembers(model, {k})));
    Module module = buildModule(model);
    for (int64_t step = 0; step < 6; ++step) {
      module.get_method("train_step")({batch(step), labels(step)});
      for (Module& one : alone) one.get_method("train_step")({batch(step), labels(step)});
    }
    const auto all = stateOf(module);
    for (int64_t k = 0; k < 3; ++k) {
      for (const auto& [name, tensor] : stateOf(alone[static_cast<size_t>(k)])) {
        EXPECT_TRUE(at::allclose(all.at(name)[k], tensor[0], 1e-5, 1e-7))
            << GetParam() << ", flags " << flags << ": " << name << " of member " << k;
      }
    }
  }
}

std::vector<std::string> optimizerNames() {
  std::vector<std::string> names;
  for (const OptimizerDefinition& definition : allOptimizers()) names.push_back(definition.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Optimizers, EveryOptimizer, testing::ValuesIn(optimizerNames()),
                         [](const auto& info) { return info.param; });

/// One parameter of one element, gradients g1, g2: the formulas by hand.
TEST(Optimizer, TwoStepsOfAdamW) {
  FusedModel model = linearModel("cross_entropy", "adamw", {{"lr", {0.1, 0.2, 0.3}}});
  Module module = buildModule(model);
  const double start = stateOf(module).at("fc.bias")[1][2].item<double>();
  const double g[2] = {0.5, -0.25};
  double p = start, m = 0, v = 0;
  for (int t = 1; t <= 2; ++t) {
    module.get_method("chorus_update")(
        {std::vector<at::Tensor>{at::zeros({3, 3, 3}), at::full({3, 3}, g[t - 1])}});
    p *= 1 - 0.2 * 0.01;
    m = 0.9 * m + 0.1 * g[t - 1];
    v = 0.999 * v + 0.001 * g[t - 1] * g[t - 1];
    p -= 0.2 / (1 - std::pow(0.9, t)) * m / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
  }
  EXPECT_NEAR(stateOf(module).at("fc.bias")[1][2].item<double>(), p, 1e-6);
}

TEST(Optimizer, AParameterWithoutGradientIsLeftAlone) {
  Module module = buildModule(linearModel("cross_entropy", "adamw"));
  const auto before = stateOf(module);
  module.get_method("chorus_update")({std::vector<at::Tensor>{at::empty({0}), at::ones({3, 3})}});
  const auto after = stateOf(module);
  EXPECT_TRUE(at::equal(before.at("fc.weight"), after.at("fc.weight")));
  EXPECT_FALSE(at::equal(before.at("fc.bias"), after.at("fc.bias")));
}

TEST(Optimizer, GradientsOfAnyStrides) {
  Module a = buildModule(linearModel("cross_entropy", "sgd")), b = a.deepcopy();
  const at::Tensor g = at::sin(at::arange(27, at::kFloat)).view({3, 3, 3});
  a.get_method("chorus_update")({std::vector<at::Tensor>{g, at::ones({3, 3})}});
  const at::Tensor strided = g.transpose(1, 2).contiguous().transpose(1, 2);
  b.get_method("chorus_update")({std::vector<at::Tensor>{strided, at::ones({3, 3})}});
  EXPECT_TRUE(at::equal(stateOf(a).at("fc.weight"), stateOf(b).at("fc.weight")));
}

TEST(Optimizer, MuonNamesTheParameterThatIsNoMatrix) {
  FusedModel model = linearModel("cross_entropy", "");
  model.optimizer = specOf(findOptimizer("muon"), false);
  EXPECT_NE(messageOf([&] {
              resetState(model);
            }).find("'muon' moves matrices only, but the parameter 'fc.bias' has rank 1"),
            std::string::npos);
}

TEST(Optimizer, RefusesBadValues) {
  const auto problem = [](const std::string& name, const std::string& hyper, double value,
                          const std::string& flag = "") {
    OptimizerSpec spec = specOf(findOptimizer(name), false);
    spec.values[hyper] = {spec.values.at(hyper)[0], value, spec.values.at(hyper)[0]};
    if (!flag.empty()) spec.flags[flag] = true;
    return messageOf([&] { checkOptimizer(spec, 3); });
  };
  EXPECT_NE(problem("adam", "lr", -0.1).find("member 1: lr = -0.1 is less than 0"),
            std::string::npos);
  EXPECT_NE(problem("adam", "beta2", 1).find("member 1: beta2 = 1 is not below 1"),
            std::string::npos);
  EXPECT_NE(problem("sgd", "lr", std::nan("")).find("not a finite number"), std::string::npos);
  EXPECT_NE(problem("sgd", "momentum", 0, "nesterov").find("nesterov needs a momentum"),
            std::string::npos);
  EXPECT_NE(problem("sgd", "lr", 0.1, "amsgrad").find("has no flag 'amsgrad'"), std::string::npos);
  OptimizerSpec spec = specOf(findOptimizer("adam"), false);
  EXPECT_NE(messageOf([&] { checkOptimizer(spec, 2); }).find("3 values for 2 members"),
            std::string::npos);
  EXPECT_NE(messageOf([] { findOptimizer("adan"); }).find("no optimizer 'adan'"),
            std::string::npos);
}

}  // namespace
}  // namespace chorus
