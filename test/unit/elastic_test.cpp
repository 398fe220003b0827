// K is data: members leave and come back with their optimizer state, and train as if they had
// stayed.
#include <gtest/gtest.h>

#include <filesystem>

#include "test/unit/hand_made.h"

namespace chorus {
namespace {

using namespace test;
using torch::jit::Module;

FusedModel fiveMembers(const std::string& optimizer) {
  std::vector<Member> members;
  for (int64_t k = 0; k < 5; ++k) members.push_back(linearMember(k));
  FusedModel model = stackMembers(members);
  model.loss =
      LossSpec{"cross_entropy", {{"label_smoothing", {"0", "0.1", "0.2", "0.3", "0.4"}}}, {}};
  OptimizerSpec spec{optimizer, {}, {}};
  for (const Hyperparameter& h : findOptimizer(optimizer).hyperparameters) {
    const double base = h.default_value.value_or(0.1);
    spec.values[h.name] = {base, base * 0.9, base * 0.8, base * 0.7, base * 0.6};
  }
  spec.values["weight_decay"] = {0, 0.1, 0.2, 0.3, 0.4};
  model.optimizer = spec;
  model.extra["mark"] = at::arange(5, at::kFloat).view({5, 1});
  resetState(model);
  return model;
}

void trainSteps(FusedModel& model, int64_t begin, int64_t end) {
  Module module = buildModule(model);
  for (int64_t step = begin; step < end; ++step) {
    module.get_method("train_step")({batch(step), labels(step)});
  }
}

FusedModel throughFile(const FusedModel& model, const std::string& name) {
  const std::string path = (std::filesystem::temp_directory_path() / name).string();
  writeFused(model, path);
  FusedModel read = readFused(path);
  std::filesystem::remove(path);
  return read;
}

class Elastic : public testing::TestWithParam<std::string> {};

TEST_P(Elastic, SlicedToTwoAndAppendedBackToFive) {
  FusedModel stayed = fiveMembers(GetParam()), left = fiveMembers(GetParam());
  trainSteps(stayed, 0, 3);
  trainSteps(left, 0, 3);
  const FusedModel two = throughFile(selectMembers(left, {0, 1}), "chorus_two_" + GetParam());
  const FusedModel three =
      throughFile(selectMembers(left, {2, 3, 4}), "chorus_three_" + GetParam());
  EXPECT_EQ(two.k(), 2u);
  FusedModel back = throughFile(appendMembers(two, three), "chorus_five_" + GetParam());
  ASSERT_EQ(back.k(), 5u);
  trainSteps(stayed, 3, 6);
  trainSteps(back, 3, 6);
  const auto want = stateOf(buildModule(stayed)), got = stateOf(buildModule(back));
  ASSERT_EQ(want.size(), got.size());
  for (const auto& [name, tensor] : want) {
    ASSERT_TRUE(got.count(name)) << name;
    EXPECT_TRUE(at::equal(tensor, got.at(name))) << name;
  }
}

TEST_P(Elastic, ASliceTrainsAsItsMembersDoAmongFive) {
  FusedModel stayed = fiveMembers(GetParam());
  trainSteps(stayed, 0, 3);
  FusedModel two = selectMembers(stayed, {3, 1});
  trainSteps(stayed, 3, 6);
  trainSteps(two, 3, 6);
  const auto want = stateOf(buildModule(stayed)), got = stateOf(buildModule(two));
  for (const auto& [name, tensor] : got) {
    const at::Tensor rows = want.at(name).index_select(0, at::tensor({3, 1}, at::kLong));
    EXPECT_TRUE(at::allclose(rows, tensor, 1e-5, 1e-7)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Elastic, testing::Values("sgd", "adam", "nadam", "lamb"),
                         [](const auto& info) { return info.param; });

TEST(ParameterGroups, TravelWithTheirMembers) {
  FusedModel model = fiveMembers("adamw");
  ParameterGroup bare{{"fc.bias"}, model.optimizer->values};
  bare.values["weight_decay"] = {0, 0, 0.5, 0, 0};
  bare.values["lr"] = {0.1, 0.2, 0.3, 0.4, 0.5};
  model.optimizer->groups = {bare};
  resetState(model);
  trainSteps(model, 0, 2);
  const FusedModel read = throughFile(selectMembers(model, {2, 4}), "chorus_groups");
  ASSERT_EQ(read.optimizer->groups.size(), 1u);
  EXPECT_EQ(read.optimizer->groups[0].values.at("lr"), (std::vector<double>{0.3, 0.5}));
  EXPECT_EQ(read.optimizer->groups[0].values.at("weight_decay"), (std::vector<double>{0.5, 0}));
  EXPECT_EQ(read.optimizer->groups[0].parameters, std::vector<std::string>{"fc.bias"});
  EXPECT_TRUE(read.state.count("exp_avg_g1"));
}

}  // namespace
}  // namespace chorus
