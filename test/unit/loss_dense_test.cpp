// Losses whose target has the output's shape, against PyTorch's, member by member.
#include <gtest/gtest.h>

#include "chorus/diagnostics.h"
#include "test/unit/loss_run.h"

namespace chorus {
namespace {

using namespace test;
using Arguments = std::map<std::string, std::vector<std::string>>;
using Alone = std::function<at::Tensor(int64_t, const at::Tensor&, const at::Tensor&)>;

void expectDense(const std::string& loss, const at::Tensor& output, const at::Tensor& target,
                 const Alone& alone, const Arguments& arguments = {},
                 const std::map<std::string, at::Tensor>& tensors = {}) {
  const LossRequest request = requestFor(loss, output, arguments, tensors);
  expectLoss(request, output, target, true, alone);
  expectLoss(request, output, target[0], false, alone);
}

const at::Tensor kOutput = numbersLike({3, 3, 3});
const at::Tensor kTarget = numbersLike({3, 3, 3}, 0.7);
const at::Tensor kBits = (kTarget > 0).to(at::kDouble);
const std::vector<double> kK = {1.0, 0.3, 2.0};
const std::vector<std::string> kKText = {"1", "0.3", "2"};
constexpr int64_t kMean = at::Reduction::Mean;

TEST(DenseLoss, Mse) {
  expectDense("mse", kOutput, kTarget,
              [](int64_t, auto& o, auto& t) { return at::mse_loss(o, t); });
  expectDense("mse", kOutput, kTarget,
              [](int64_t, auto& o, auto& t) { return at::mse_loss(o, t, at::Reduction::Sum); },
              {{"reduction", {"sum"}}});
}

TEST(DenseLoss, MseOfScalars) {
  expectDense("mse", numbersLike({3}), numbersLike({3}, 2),
              [](int64_t, auto& o, auto& t) { return at::mse_loss(o, t); });
}

TEST(DenseLoss, MseNeverBroadcasts) {
  const at::Tensor output = numbersLike({3, 3, 1});
  const auto refused = [&](const at::Tensor& target) {
    try {
      runLoss(requestFor("mse", output), {output}, target);
    } catch (const std::exception& failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  EXPECT_NE(refused(numbersLike({3})).find("rank 1, which is neither 2 (shared) nor 3 (stacked)"),
            std::string::npos);
  EXPECT_NE(refused(numbersLike({3, 3})).find("the target is [3, 3] and a member's output [3, 1]"),
            std::string::npos);
  EXPECT_NE(refused(numbersLike({3, 3, 3})).find("the stacked target is [3, 3, 3]"),
            std::string::npos);
  EXPECT_EQ(refused(numbersLike({3, 1})), "");
}

TEST(DenseLoss, AbsoluteErrors) {
  expectDense("l1", kOutput, kTarget, [](int64_t, auto& o, auto& t) { return at::l1_loss(o, t); });
  expectDense("smooth_l1", kOutput, kTarget,
              [](int64_t k, auto& o, auto& t) {
                return at::smooth_l1_loss(o, t, kMean, kK[static_cast<size_t>(k)]);
              },
              {{"beta", kKText}});
  expectDense("smooth_l1", kOutput, kOutput.clone(),
              [](int64_t, auto& o, auto& t) { return at::l1_loss(o, t); }, {{"beta", {"0"}}});
  expectDense("huber", kOutput, kTarget,
              [](int64_t k, auto& o, auto& t) {
                return at::huber_loss(o, t, kMean, kK[static_cast<size_t>(k)]);
              },
              {{"delta", kKText}});
}

TEST(DenseLoss, BinaryCrossEntropies) {
  const at::Tensor weight = at::tensor({0.5, 2.0, 9.0}, at::kDouble);
  expectDense("bce", at::sigmoid(kOutput), kBits,
              [&](int64_t, auto& o, auto& t) { return at::binary_cross_entropy(o, t, weight); }, {},
              {{"weight", weight}});
  const at::Tensor rows = at::stack({weight, weight.flip(0), weight * 2});
  expectDense("bce_with_logits", kOutput, kBits,
              [&](int64_t k, auto& o, auto& t) {
                return at::binary_cross_entropy_with_logits(o, t, weight, rows[k]);
              },
              {}, {{"weight", weight}, {"pos_weight", rows}});
}

TEST(DenseLoss, Divergences) {
  const at::Tensor log = at::log_softmax(kOutput, 2), p = at::softmax(kTarget, 2);
  expectDense("kl_div", log, p, [](int64_t, auto& o, auto& t) { return at::kl_div(o, t); });
  expectDense("kl_div", log, p.log(),
              [](int64_t, auto& o, auto& t) {
                return at::kl_div(o, t, at::Reduction::Sum, true) / o.size(0);
              },
              {{"reduction", {"batchmean"}}, {"log_target", {"true"}}});
  expectDense(
      "poisson_nll", kOutput, kBits * 3,
      [](int64_t, auto& o, auto& t) { return at::poisson_nll_loss(o, t, true, true, 1e-8, kMean); },
      {{"full", {"True"}}});
}

TEST(DenseLoss, Margins) {
  const at::Tensor signs = kBits * 2 - 1;
  expectDense("soft_margin", kOutput, signs,
              [](int64_t, auto& o, auto& t) { return at::soft_margin_loss(o, t); });
  expectDense("hinge_embedding", kOutput, signs,
              [](int64_t k, auto& o, auto& t) {
                return at::hinge_embedding_loss(o, t, kK[static_cast<size_t>(k)]);
              },
              {{"margin", kKText}});
}

TEST(Losses, OutputIsTheLoss) {
  LossRequest request = requestFor("output:1", numbersLike({3, 3}));
  request.output_ranks = {1, 0};
  const at::Tensor losses = numbersLike({3});
  EXPECT_TRUE(at::equal(runLoss(request, {numbersLike({3, 3}), losses}, losses), losses));
  request.spec.name = "output";
  EXPECT_THROW(findLoss("output").build(request), Refused);
  request.spec.name = "output:2";
  EXPECT_THROW(findLoss("output:2").build(request), Refused);
  EXPECT_FALSE(findLoss("output:1").takes_target);
}

}  // namespace
}  // namespace chorus
