#include <cmath>
#include <sstream>

#include "chorus/diagnostics.h"
#include "lib/losses/arguments.h"

namespace chorus::losses {

namespace {

std::vector<int64_t> ignoredClasses(const LossRequest& request) {
  std::vector<int64_t> ignored;
  for (const double value : numbers(request, "ignore_index", -100, {-9e15, 9e15})) {
    if (value != std::floor(value)) throw Refused(error("ignore_index is not a whole number"));
    ignored.push_back(static_cast<int64_t>(value));
  }
  return ignored;
}

std::string ones(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += ", 1";
  return text;
}

const at::Tensor* weightTensor(const LossRequest& request) {
  const auto found = request.spec.tensors.find("weight");
  return found == request.spec.tensors.end() ? nullptr : &found->second;
}

std::optional<int64_t> classCount(const LossRequest& request) {
  const auto& sizes = request.output_sizes.at(0);
  return sizes.at(sizes.size() == 1 ? 0 : 1);
}

void checkWeight(const LossRequest& request, const at::Tensor& weight, const std::string& loss) {
  const auto classes = classCount(request);
  const bool right_rank = weight.dim() == 1 || weight.dim() == 2;
  if (right_rank && (!classes || weight.size(-1) == *classes) &&
      (weight.dim() == 1 || weight.size(0) == static_cast<int64_t>(request.k))) {
    return;
  }
  std::ostringstream text;
  text << loss << ": the weight is " << weight.sizes() << ", which is neither [C] nor [K,C]";
  if (classes) text << " with C = " << *classes << ", K = " << request.k;
  throw Refused(error(text.str()));
}

/// weight of each target's class, like t [K,N,...].
std::string pickedWeight(const at::Tensor& weight) {
  if (weight.dim() == 1) {
    return "    w = self.chorus.loss_weight.to(o.dtype).index_select(0, safe.flatten())"
           ".view(safe.size())\n";
  }
  return "    w = self.chorus.loss_weight.to(o.dtype).gather(1, safe.flatten(1))"
         ".view(safe.size())\n";
}

/// One kernel for all members, where they agree on what is ignored and weighed.  [K,N,C] -> [(K
/// N),C]
std::string sharedKernel(const at::Tensor* weight, int64_t ignored, const std::string& how) {
  const std::string index = std::to_string(ignored);
  const std::string w = weight ? "self.chorus.loss_weight.to(o.dtype)" : "None";
  std::string text = "    e = torch.nll_loss(logp.flatten(0, 1), t.flatten(), " + w + ", 0, " +
                     index + ").view(t.size())\n    total = e.sum(1)\n";
  if (how == "sum") return text + "    return total\n";
  text += "    valid = t != " + index + "\n";
  if (!weight) return text + "    return total / valid.sum(1)\n";
  text += "    safe = t.masked_fill(torch.logical_not(valid), 0)\n" + pickedWeight(*weight);
  return text + "    return total / torch.where(valid, w, 0.0).sum(1)\n";
}

}  // namespace

size_t classRank(const LossRequest& request) {
  return std::max<size_t>(request.output_ranks.at(0), 2) + 1;
}

std::string classTarget(const LossRequest& request, const std::string& loss, bool probabilities) {
  const size_t rank = request.output_ranks.at(0);
  if (rank == 0) throw Refused(error(loss + ": the output is a scalar; it has no classes"));
  const std::string r = std::to_string(rank), below = std::to_string(rank - 1);
  const std::string head = "\"" + loss + ": ";
  std::string text = "    o = outputs[0]\n    floating = target.is_floating_point()\n";
  if (!probabilities) {
    text += "    assert not floating, " + head + "the target must be class indices\"\n";
  }
  text += "    rank = " + r + " if floating else " + below + "\n" +
          "    assert target.dim() == rank or target.dim() == rank + 1, " + head +
          "the target has rank {}, which is neither {} (shared) nor {} (stacked)\".format("
          "target.dim(), rank, rank + 1)\n"
          "    stacked = target.dim() == rank + 1\n"
          "    t = target\n"
          "    if not stacked:\n"
          "        t = t.unsqueeze(0)\n";
  if (rank == 1) text += "    o = o.unsqueeze(1)\n    t = t.unsqueeze(1)\n";
  text +=
      "    sizes = o.size()\n"
      "    if not floating:\n"
      "        sizes = [o.size(0), o.size(1)] + o.size()[3:]\n"
      "    assert t.size()[1:] == sizes[1:] and (not stacked or t.size(0) == o.size(0)), " +
      head +
      "the target is {}, which does not fit an output of {}\".format(target.size(), "
      "outputs[0].size())\n"
      "    t = t.expand(sizes)\n";
  return text;
}

std::string classWeight(const LossRequest& request, LossCode& code, const std::string& loss) {
  if (request.spec.arguments.count("weight")) {
    throw Refused(usage("'weight' of " + loss + " is a file: weight=w.npy"));
  }
  const at::Tensor* weight = weightTensor(request);
  if (!weight) return "";
  checkWeight(request, *weight, loss);
  auto& constants = weight->dim() == 1 ? code.shared_constants : code.constants;
  constants["loss_weight"] = weight->to(request.output_dtypes.at(0), false, /*copy=*/true);
  const std::string name = "self.chorus.loss_weight";
  const std::string lead = weight->dim() == 1 ? "1, 1, -1" : name + ".size(0), 1, -1";
  return name + ".to(o.dtype).view([" + lead + ones(classRank(request) - 3) + "])";
}

std::string classLoss(const LossRequest& request, LossCode& code, const std::string& loss) {
  const size_t rank = classRank(request);
  const std::string weight = classWeight(request, code, loss);
  const std::string how = reduction(request);
  const std::string eps = number(request, code, "label_smoothing", 0, rank - 1, {0, 1});
  const std::vector<int64_t> ignored = ignoredClasses(request);
  const at::Tensor* tensor = weightTensor(request);
  const bool agreed = ignored.size() == 1 && (!tensor || tensor->dim() == 1);
  std::string text = "    t = t.to(4)\n";  // int64
  if (agreed && eps == "0.0" && rank == 3) return text + sharedKernel(tensor, ignored[0], how);

  std::string index = std::to_string(ignored[0]);
  if (ignored.size() > 1) {
    code.constants["loss_ignore_index"] = at::tensor(ignored, at::kLong);
    index = "self.chorus.loss_ignore_index.view([-1" + ones(rank - 2) + "])";
  }
  text += "    valid = t != " + index + "\n" +
          "    safe = t.masked_fill(torch.logical_not(valid), 0)\n" +
          "    e = -logp.gather(2, safe.unsqueeze(2)).squeeze(2)\n";
  if (tensor) text += pickedWeight(*tensor) + "    e = e * w\n";
  if (eps != "0.0") {
    text += "    smooth = -(logp" + (tensor ? " * " + weight : "") + ").sum(2)\n" +
            "    e = (1.0 - " + eps + ") * e + " + eps + " / o.size(2) * smooth\n";
  }
  text += "    total = torch.where(valid, e, 0.0).flatten(1).sum(1)\n";
  if (how == "sum") return text + "    return total\n";
  const std::string count = tensor ? "torch.where(valid, w, 0.0)" : "valid";
  return text + "    return total / " + count + ".flatten(1).sum(1)\n";
}

TargetRule classRule(const LossRequest& request, bool probabilities) {
  const size_t rank = request.output_ranks.at(0);
  TargetRule rule;
  rule.class_indices = true;
  rule.classes = rank ? classCount(request) : std::nullopt;
  rule.ignored = ignoredClasses(request);
  rule.index_rank = rank ? rank - 1 : 0;
  rule.dense_rank = probabilities ? rank : 0;
  rule.sizes = request.output_sizes.at(0);
  return rule;
}

}  // namespace chorus::losses
