// The verification of small members, all at once and some at a time, as it looks at large ones.
#include "chorus/verify.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "chorus/diagnostics.h"
#include "chorus/import.h"

namespace chorus {
namespace {

namespace fs = std::filesystem;

struct Verification : testing::TestWithParam<size_t> {
  static constexpr size_t kMembers = 3;
  fs::path folder = fs::temp_directory_path() / ("chorus_verify_" + std::to_string(getpid()));
  std::vector<Member> members;
  FusedModel model;
  VerifyOptions options;

  Verification() {
    fs::create_directories(folder);
    at::manual_seed(1);
    ImportOptions reading;
    reading.inputs = {parseInputSpec("f32[N,3]")};
    for (size_t k = 0; k < kMembers; ++k) {
      const std::string path = (folder / ("m" + std::to_string(k) + ".pt")).string();
      network().save(path);
      members.push_back(importTorchScript(path, reading));
    }
    model = stackMembers(members);
    model.loss = LossSpec{"mse"};
    model.optimizer = OptimizerSpec{"sgd",
                                    {{"lr", {0.1, 0.01, 0.3}},
                                     {"momentum", {0.9, 0.5, 0}},
                                     {"dampening", {0, 0, 0}},
                                     {"weight_decay", {0, 0.1, 0}}}};
    resetState(model);
    options.bytes_together = GetParam();
  }
  ~Verification() override { fs::remove_all(folder); }

  static torch::jit::Module network() {
    torch::jit::Module module("net");
    module.register_parameter("w", at::randn({3, 3}).requires_grad_(), false);
    module.register_parameter("b", at::randn({3}).requires_grad_(), false);
    module.register_parameter("idle", at::randn({2}).requires_grad_(), false);
    module.register_buffer("mean", at::zeros({3}));
    module.register_buffer("order", at::tensor({2, 0, 1}, at::kLong));
    module.register_attribute("training", c10::BoolType::get(), true);
    module.define(R"py(
def forward(self, x):
    y = torch.tanh(torch.dropout(x @ self.w, 0.4, self.training) + self.b)
    if self.training:
        self.mean.mul_(0.9).add_(0.1 * y.detach().mean(0))
    return (y - self.mean).index_select(1, self.order)
)py");
    return module;
  }
};

TEST_P(Verification, AgreesAfterOneStepAndAfterThree) {
  for (const int64_t steps : {1, 3}) {
    options.steps = steps;
    const VerifyReport report = verify(model, members, options);
    EXPECT_TRUE(report.checked);
    EXPECT_EQ(report.unchecked, "");
    EXPECT_NE(report.summary.find("fp64"), std::string::npos) << report.summary;
    EXPECT_LT(report.worst, 1e-12);
  }
}

TEST_P(Verification, NamesTheMemberThatDiffers) {
  model.tensors[0].detach().select(0, 2).add_(1e-2);
  try {
    verify(model, members, options);
    FAIL() << "nothing was found";
  } catch (const Refused& refused) {
    const std::string text = refused.messages().at(0).text;
    EXPECT_NE(text.find("the fused model differs from member 2"), std::string::npos) << text;
  }
}

TEST_P(Verification, ChangesNoTensor) {
  const at::Tensor before = model.tensors[0].clone();
  verify(model, members, options);
  EXPECT_TRUE(at::equal(before, model.tensors[0]));
  EXPECT_EQ(model.step.sum().item<int64_t>(), 0);
}

INSTANTIATE_TEST_SUITE_P(BytesTogether, Verification, testing::Values(1, 250, size_t{1} << 28));

}  // namespace
}  // namespace chorus
