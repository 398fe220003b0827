#include "runtime/metrics.h"

namespace chorus {
namespace {

std::vector<double> toVector(const at::Tensor& values) {
  const at::Tensor flat = values.to(at::kCPU, at::kDouble).contiguous();
  const double* data = flat.data_ptr<double>();
  return {data, data + flat.numel()};
}

}  // namespace

void LossMean::add(const at::Tensor& losses, int64_t rows) {
  const at::Tensor weighted = losses.detach().to(at::kDouble).mul(rows);
  if (sum_.defined()) {
    sum_.add_(weighted);
  } else {
    sum_ = weighted;
  }
  rows_ += rows;
}

std::vector<double> LossMean::values() const {
  return sum_.defined() ? toVector(sum_ / rows_) : std::vector<double>{};
}

bool Accuracy::applies(const FusedModel& model, const Dataset& data) {
  if (!model.loss || !data.target) return false;
  const TargetRule rule = findLoss(model.loss->name).target(lossRequestOf(model, *model.loss));
  return rule.class_indices && data.target->values.scalar_type() == at::kLong;
}

Accuracy::Accuracy(const FusedModel& model) {
  ignored_ = findLoss(model.loss->name).target(lossRequestOf(model, *model.loss)).ignored;
}

void Accuracy::add(const at::Tensor& output, const at::Tensor& target) {
  const int64_t k = output.size(0);
  const at::Tensor predicted = output.argmax(output.dim() > 2 ? 2 : 1);  // [K,N,C,...] -> [K,N,...]
  const at::Tensor wanted = target.dim() == predicted.dim() ? target : target.unsqueeze(0);
  at::Tensor counts = at::ones_like(predicted, at::kBool);
  if (ignored_.size() == 1) {
    counts = wanted.ne(ignored_[0]).expand_as(predicted);
  } else if (!ignored_.empty()) {
    std::vector<int64_t> sizes(predicted.dim(), 1);
    sizes[0] = k;
    counts = wanted.ne(at::tensor(ignored_, at::kLong).to(wanted.device()).view(sizes));
  }
  const auto perMember = [k](const at::Tensor& flags) {
    return flags.reshape({k, -1}).to(at::kDouble).sum(1);
  };
  const at::Tensor right = perMember(predicted.eq(wanted).logical_and(counts));
  right_ = right_.defined() ? right_ + right : right;
  counted_ = counted_.defined() ? counted_ + perMember(counts) : perMember(counts);
}

std::vector<double> Accuracy::values() const { return toVector(right_ / counted_); }

}  // namespace chorus
