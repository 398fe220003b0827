// The module around the fused graphs: train_step and its parts, the active mask, names, refusals.
#include <gtest/gtest.h>

#include <c10/core/InferenceMode.h>

#include "test/unit/hand_made.h"

namespace chorus {
namespace {

using namespace test;
using torch::jit::Module;

at::Tensor lossOf(const at::Tensor& y, const at::Tensor& target) {
  return at::cross_entropy_loss(y, target);
}

/// Member k trained alone by SGD with momentum, as torch.optim.SGD does it.
struct Alone {
  at::Tensor w, b, w_buffer, b_buffer, seen;
  double lr, momentum, decay;

  explicit Alone(int64_t k, double lr, double momentum, double decay)
      : lr(lr), momentum(momentum), decay(decay) {
    const Member member = linearMember(k);
    w = member.slots[0].value.clone().set_requires_grad(true);
    b = member.slots[1].value.clone().set_requires_grad(true);
    seen = member.slots[2].value.clone();
  }
  void move(at::Tensor& p, at::Tensor& buffer) const {
    const at::Tensor g = p.grad() + decay * p.detach();
    buffer = buffer.defined() ? momentum * buffer + g : g.clone();
    p = (p.detach() - lr * (momentum == 0 ? g : buffer)).set_requires_grad(true);
  }
  at::Tensor step(const at::Tensor& x, const at::Tensor& target) {
    const at::Tensor y = at::linear(x, w, b);
    const at::Tensor loss = lossOf(y, target);
    loss.backward();
    seen = 0.9 * seen + y.detach().mean(0);
    move(w, w_buffer);
    move(b, b_buffer);
    return loss.detach();
  }
};

const std::vector<double> kLr = {0.5, 0.1, 0.02}, kMomentum = {0.9, 0, 0.5}, kDecay = {0, 0.1, 0.3};

Module sgdModule() {
  return buildModule(linearModel("cross_entropy", "sgd",
                                 {{"lr", kLr}, {"momentum", kMomentum}, {"weight_decay", kDecay}}));
}

TEST(Module, TrainStepEqualsTrainingEachMemberAlone) {
  Module module = sgdModule();
  std::vector<Alone> alone;
  for (size_t k = 0; k < 3; ++k) {
    alone.emplace_back(static_cast<int64_t>(k), kLr[k], kMomentum[k], kDecay[k]);
  }
  for (int64_t step = 0; step < 5; ++step) {
    const at::Tensor losses =
        module.get_method("train_step")({batch(step), labels(step)}).toTensor();
    for (int64_t k = 0; k < 3; ++k) {
      const at::Tensor loss = alone[static_cast<size_t>(k)].step(batch(step), labels(step));
      EXPECT_TRUE(at::allclose(losses[k], loss, 1e-5)) << "loss of member " << k;
    }
  }
  const auto state = stateOf(module);
  for (int64_t k = 0; k < 3; ++k) {
    const Alone& one = alone[static_cast<size_t>(k)];
    EXPECT_TRUE(at::allclose(state.at("fc.weight")[k], one.w, 1e-5, 1e-6)) << "member " << k;
    EXPECT_TRUE(at::allclose(state.at("fc.bias")[k], one.b, 1e-5, 1e-6)) << "member " << k;
    EXPECT_TRUE(at::allclose(state.at("seen")[k], one.seen, 1e-5, 1e-6)) << "member " << k;
  }
  EXPECT_TRUE(at::equal(state.at("chorus.step"), at::full({3}, 5, at::kLong)));
}

TEST(Module, GradientsAreThoseOfTheSumOfTheLosses) {
  Module module = sgdModule();
  const auto result = module.get_method("chorus_gradients")({batch(0), labels(0)}).toTuple();
  const auto gradients = result->elements()[1].toTensorVector();
  ASSERT_EQ(gradients.size(), 2);
  for (int64_t k = 0; k < 3; ++k) {
    Alone one(k, 0, 0, 0);
    lossOf(at::linear(batch(0), one.w, one.b), labels(0)).backward();
    EXPECT_TRUE(at::allclose(gradients[0][k], one.w.grad(), 1e-5, 1e-6)) << "member " << k;
    EXPECT_TRUE(at::allclose(gradients[1][k], one.b.grad(), 1e-5, 1e-6)) << "member " << k;
  }
}

TEST(Module, StackedInputsAndTargetsGoToTheirMember) {
  Module module = sgdModule();
  const at::Tensor x = at::stack({batch(0), batch(1), batch(2)});
  const at::Tensor y = at::stack({labels(0), labels(1), labels(2)});
  const at::Tensor losses = module.get_method("loss")({x, y}).toTensor();
  const at::Tensor mixed = module.get_method("loss")({batch(1), y}).toTensor();
  for (int64_t k = 0; k < 3; ++k) {
    const Alone one(k, 0, 0, 0);
    const auto expected = [&](int64_t input) {
      return lossOf(at::linear(batch(input), one.w, one.b), labels(k));
    };
    EXPECT_TRUE(at::allclose(losses[k], expected(k), 1e-5)) << "member " << k;
    EXPECT_TRUE(at::allclose(mixed[k], expected(1), 1e-5)) << "member " << k;
  }
}

TEST(Module, BuffersMoveInTrainModeOnly) {
  Module module = sgdModule();
  const at::Tensor before = stateOf(module).at("seen");
  module.eval();
  module.forward({batch(0)});
  EXPECT_TRUE(at::equal(stateOf(module).at("seen"), before));
  module.train();
  const at::Tensor y = module.forward({batch(0)}).toTensor();
  EXPECT_TRUE(at::allclose(stateOf(module).at("seen"), 0.9 * before + y.mean(1)));
}

TEST(Module, InactiveMembersKeepEveryByte) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    Module module = buildModule(linearModel("cross_entropy", optimizer));
    const auto step = module.get_method("train_step");
    step({batch(0), labels(0)});
    const auto before = stateOf(module);
    module.attr("chorus").toModule().attr("active").toTensor()[1].fill_(false);
    at::Tensor x = at::stack({batch(1), batch(1), batch(1)});
    x[1].fill_(std::numeric_limits<float>::quiet_NaN());  // must not leak: 0 * NaN is NaN
    step({x, labels(1)});
    const auto after = stateOf(module);
    const std::vector<std::string> moving = {"fc.weight", "fc.bias", "seen", "chorus.step"};
    for (const auto& [name, old] : before) {
      if (name == "chorus.active") continue;
      EXPECT_TRUE(at::equal(old[1], after.at(name)[1])) << optimizer << ": " << name;
      EXPECT_FALSE(after.at(name).isnan().any().item<bool>()) << optimizer << ": " << name;
    }
    for (const std::string& name : moving) {
      EXPECT_FALSE(at::equal(before.at(name)[0], after.at(name)[0])) << optimizer << ": " << name;
    }
  }
}

TEST(Module, AFailedStepChangesNothingAndLeavesTheGradMode) {
  Module module = sgdModule();
  const auto before = stateOf(module);
  const at::NoGradGuard no_grad;
  const auto step = module.get_method("train_step");
  const std::string rank = messageOf([&] { step({batch(0)[0], labels(0)}); });
  EXPECT_NE(rank.find("input 0 has rank 1; it must be 2"), std::string::npos) << rank;
  const std::string count = messageOf([&] { step({batch(0).expand({2, 3, 3}), labels(0)}); });
  EXPECT_NE(count.find("stacked for 2 members, but there are 3"), std::string::npos) << count;
  EXPECT_NE(messageOf([&] { step({batch(0), labels(0) + 5}); }), "");
  EXPECT_NE(messageOf([&] { step({batch(0), labels(0).slice(0, 0, 2)}); }), "");
  EXPECT_FALSE(at::GradMode::is_enabled());
  for (const auto& [name, tensor] : stateOf(module))
    EXPECT_TRUE(at::equal(tensor, before.at(name))) << name;
  step({batch(0), labels(0)});
  EXPECT_FALSE(at::GradMode::is_enabled());
  EXPECT_FALSE(at::equal(stateOf(module).at("fc.weight"), before.at("fc.weight")));
}

TEST(Module, SaysWhyItCannotTrain) {
  Module module = sgdModule();
  {
    const c10::InferenceMode inference;
    const std::string message = messageOf([&] {
      module.get_method("train_step")({batch(0), labels(0)});
    });
    EXPECT_NE(message.find("not possible under torch.inference_mode()"), std::string::npos)
        << message;
  }
  Module rounded = sgdModule();
  rounded.to(at::kHalf);
  const std::string message = messageOf([&] {
    rounded.get_method("train_step")({batch(0).to(at::kHalf), labels(0)});
  });
  EXPECT_NE(message.find("a cast of the module rounded its hyperparameters"), std::string::npos)
      << message;
}

TEST(Module, ParametersThatTheUserFroze) {
  Module module = sgdModule();
  at::Tensor bias = module.attr("fc").toModule().attr("bias").toTensor();
  bias.set_requires_grad(false);
  const auto before = stateOf(module);
  module.get_method("train_step")({batch(0), labels(0)});
  const auto after = stateOf(module);
  EXPECT_TRUE(at::equal(before.at("fc.bias"), after.at("fc.bias")));
  EXPECT_FALSE(at::equal(before.at("fc.weight"), after.at("fc.weight")));
}

TEST(Module, TheMembersOwnNamesStay) {
  const std::vector<std::string> names = {"chorus.weight", "loss.bias", "train_step"};
  FusedModel model =
      stackMembers({linearMember(0, names), linearMember(1, names), linearMember(2, names)});
  model.loss = LossSpec{"cross_entropy", {}, {}};
  model.optimizer = linearModel("", "adam").optimizer;
  resetState(model);
  Module module = buildModule(model);
  const auto before = stateOf(module);
  module.get_method("chorus_train_step")({batch(0), labels(0)});
  for (const std::string& name : names) {
    EXPECT_FALSE(at::equal(before.at(name), stateOf(module).at(name))) << name;
  }
  EXPECT_TRUE(before.count("chorus_chorus.active"));
  EXPECT_TRUE(module.find_method("chorus_loss"));
}

TEST(Module, AnyFewerMembersAreAModuleToo) {
  const FusedModel model = linearModel("cross_entropy", "adamw");
  Module whole = buildModule(model);
  Module two = buildModule(selectMembers(model, {2, 0}));
  whole.get_method("train_step")({batch(0), labels(0)});
  two.get_method("train_step")({batch(0), labels(0)});
  const auto a = stateOf(whole), b = stateOf(two);
  EXPECT_TRUE(at::allclose(a.at("fc.weight")[2], b.at("fc.weight")[0]));
  EXPECT_TRUE(at::allclose(a.at("chorus.exp_avg")[0], b.at("chorus.exp_avg")[1]));
}

}  // namespace
}  // namespace chorus
