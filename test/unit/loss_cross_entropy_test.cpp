// cross_entropy and nll against PyTorch's, member by member: forward and gradient.
#include <gtest/gtest.h>

#include "chorus/diagnostics.h"
#include "test/unit/loss_run.h"

namespace chorus {
namespace {

using namespace test;

struct Settings {
  at::Tensor weight;  ///< of member k
  int64_t ignore = -100;
  double smoothing = 0;
  int64_t reduction = at::Reduction::Mean;
};

at::Tensor torchLoss(const at::Tensor& y, const at::Tensor& t, const Settings& s) {
  const std::optional<at::Tensor> weight =
      s.weight.defined() ? std::optional<at::Tensor>(s.weight) : std::nullopt;
  return at::cross_entropy_loss(y, t, weight, s.reduction, s.ignore, s.smoothing);
}

const at::Tensor kWeight = at::tensor({0.1, 5.0, 1.0}, at::kDouble);
/// [K,N]: member 0 has one ignored row, member 1 two, member 2 none.
const at::Tensor kUneven = at::tensor({0, -100, 2, -100, 1, -100, 2, 1, 0}, at::kLong).view({3, 3});

TEST(CrossEntropy, ClassIndicesSharedAndStacked) {
  const at::Tensor y = numbersLike({3, 3, 3});
  const auto alone = [](int64_t, const at::Tensor& o, const at::Tensor& t) {
    return torchLoss(o, t, {});
  };
  expectLoss(requestFor("cross_entropy", y), y, at::tensor({0, 2, 1}, at::kLong), false, alone);
  expectLoss(requestFor("cross_entropy", y), y, kUneven, true, alone);
  expectLoss(requestFor("cross_entropy", y), y, kUneven.to(at::kInt), true,
             [](int64_t, const at::Tensor& o, const at::Tensor& t) {
               return torchLoss(o, t.to(at::kLong), {});
             });
}

TEST(CrossEntropy, EveryArgumentOneOrK) {
  const at::Tensor y = numbersLike({3, 3, 3});
  const at::Tensor rows = at::stack({kWeight, kWeight.flip(0), at::ones_like(kWeight)});
  for (const bool by_member : {false, true}) {
    for (const char* how : {"mean", "sum"}) {
      std::map<std::string, std::vector<std::string>> arguments = {{"reduction", {how}}};
      const std::vector<double> smoothing = {0.2, by_member ? 0.0 : 0.2, by_member ? 0.5 : 0.2};
      const std::vector<int64_t> ignore = {0, by_member ? -100 : 0, by_member ? 2 : 0};
      arguments["label_smoothing"] =
          by_member ? std::vector<std::string>{"0.2", "0", "0.5"} : std::vector<std::string>{"0.2"};
      arguments["ignore_index"] =
          by_member ? std::vector<std::string>{"0", "-100", "2"} : std::vector<std::string>{"0"};
      const at::Tensor weight = by_member ? rows : kWeight;
      const at::Tensor target = at::tensor({0, 2, 1}, at::kLong);
      expectLoss(requestFor("cross_entropy", y, arguments, {{"weight", weight}}), y, target, false,
                 [&](int64_t k, const at::Tensor& o, const at::Tensor& t) {
                   const auto i = static_cast<size_t>(k);
                   return torchLoss(
                       o, t,
                       {by_member ? rows[k] : kWeight, ignore[i], smoothing[i],
                        how == std::string("mean") ? at::Reduction::Mean : at::Reduction::Sum});
                 });
    }
  }
}

TEST(CrossEntropy, WeightsAloneDivideByTheirOwnSum) {
  const at::Tensor y = numbersLike({3, 3, 3});
  expectLoss(
      requestFor("cross_entropy", y, {}, {{"weight", kWeight}}), y, kUneven, true,
      [](int64_t, const at::Tensor& o, const at::Tensor& t) { return torchLoss(o, t, {kWeight}); });
}

TEST(CrossEntropy, AllIgnoredInOneMemberIsNanThereOnly) {
  const at::Tensor y = numbersLike({3, 3, 3});
  at::Tensor target = kUneven.clone();
  target[1].fill_(-100);
  for (const char* smoothing : {"0", "0.3"}) {
    expectLoss(requestFor("cross_entropy", y, {{"label_smoothing", {smoothing}}}), y, target, true,
               [&](int64_t, const at::Tensor& o, const at::Tensor& t) {
                 return torchLoss(o, t, {{}, -100, std::stod(smoothing)});
               });
  }
}

TEST(CrossEntropy, DenseTargets) {
  const at::Tensor y = numbersLike({3, 3, 3, 3, 3});
  const at::Tensor target = (at::arange(27, at::kLong) * 7 % 3).view({3, 3, 3});
  expectLoss(
      requestFor("cross_entropy", y, {}, {{"weight", kWeight}}), y, target, false,
      [](int64_t, const at::Tensor& o, const at::Tensor& t) { return torchLoss(o, t, {kWeight}); });
}

TEST(CrossEntropy, Probabilities) {
  const at::Tensor y = numbersLike({3, 3, 3, 3});
  const at::Tensor target = at::softmax(numbersLike({3, 3, 3, 3}, 1), 2);
  for (const bool stacked : {false, true}) {
    expectLoss(
        requestFor("cross_entropy", y, {{"label_smoothing", {"0.1"}}}, {{"weight", kWeight}}), y,
        stacked ? target : target[0], stacked,
        [](int64_t, const at::Tensor& o, const at::Tensor& t) {
          return torchLoss(o, t, {kWeight, -100, 0.1});
        });
  }
}

TEST(CrossEntropy, OutputsWithoutABatch) {
  const at::Tensor y = numbersLike({3, 3});
  const auto alone = [](int64_t, const at::Tensor& o, const at::Tensor& t) {
    return torchLoss(o, t, {kWeight});
  };
  const LossRequest request = requestFor("cross_entropy", y, {}, {{"weight", kWeight}});
  expectLoss(request, y, at::scalar_tensor(2, at::kLong), false, alone);
  expectLoss(request, y, at::tensor({2, 0, 1}, at::kLong), true, alone);
  expectLoss(request, y, at::softmax(numbersLike({3, 3}, 2), 1), true, alone);
}

TEST(Nll, EqualsPyTorch) {
  const at::Tensor y = at::log_softmax(numbersLike({3, 3, 3}), 2);
  expectLoss(requestFor("nll", y, {}, {{"weight", kWeight}}), y, kUneven, true,
             [](int64_t, const at::Tensor& o, const at::Tensor& t) {
               return at::nll_loss(o, t, kWeight);
             });
}

std::string refusal(const LossRequest& request, const at::Tensor& y, const at::Tensor& target) {
  try {
    runLoss(request, {y}, target);
  } catch (const std::exception& failure) {
    return failure.what();
  }
  return "";
}

TEST(CrossEntropy, RefusesWhatDoesNotFit) {
  const at::Tensor y = numbersLike({3, 3, 3});
  const at::Tensor target = at::tensor({0, 2, 1}, at::kLong);
  const auto with = [&](const std::string& name, const std::vector<std::string>& values) {
    return refusal(requestFor("cross_entropy", y, {{name, values}}), y, target);
  };
  EXPECT_NE(with("reduction", {"none"}).find("reduction is 'none'"), std::string::npos);
  EXPECT_NE(with("label_smothing", {"0.1"}).find("has no argument 'label_smothing'"),
            std::string::npos);
  EXPECT_NE(with("label_smoothing", {"0.1", "0.2"}).find("2 values for 3 members"),
            std::string::npos);
  EXPECT_NE(with("label_smoothing", {"1.5"}).find("between 0 and 1"), std::string::npos);
  EXPECT_NE(with("ignore_index", {"1.5"}).find("not a whole number"), std::string::npos);
  const LossRequest request = requestFor("cross_entropy", y);
  EXPECT_NE(refusal(request, y, target[0]).find("rank 0, which is neither 1 (shared) nor 2"),
            std::string::npos);
  EXPECT_NE(refusal(request, y, target.slice(0, 0, 2)), "");
  EXPECT_NE(refusal(request, y, target + 1), "");
  const LossRequest wide = requestFor("cross_entropy", y, {}, {{"weight", at::ones({4})}});
  EXPECT_NE(refusal(wide, y, target).find("neither [C] nor [K,C] with C = 3"), std::string::npos);
}

}  // namespace
}  // namespace chorus
