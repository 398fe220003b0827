#include "runtime/gradients.h"

namespace chorus {
namespace {

/// [K] -> [K,1,...] of `like`'s rank and dtype.
at::Tensor alongMembers(const at::Tensor& values, const at::Tensor& like) {
  std::vector<int64_t> sizes(like.dim(), 1);
  sizes[0] = values.size(0);
  return values.to(like.options()).view(sizes);
}

/// chorus_gradients gives an empty tensor for a parameter that the loss does not reach.
bool isAbsent(const at::Tensor& gradient) { return gradient.dim() == 1 && gradient.numel() == 0; }

}  // namespace

void accumulateGradients(std::vector<at::Tensor>& total, const std::vector<at::Tensor>& gradients,
                         int64_t count) {
  const bool first = total.empty();
  for (size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor part = gradients[i] / count;
    if (first) {
      total.push_back(part);
    } else {
      total[i].add_(part);
    }
  }
}

void clipNorm(std::vector<at::Tensor>& gradients, const std::vector<double>& limit) {
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : gradients) {
    if (isAbsent(gradient)) continue;
    norms.push_back(gradient.reshape({gradient.size(0), -1}).norm(2, 1));  // [K,...] -> [K]
  }
  if (norms.empty()) return;
  const at::Tensor total = at::stack(norms, 1).norm(2, 1);
  const at::Tensor limits = at::tensor(limit, at::kDouble).to(total.options());
  const at::Tensor scale = (limits / (total + 1e-6)).clamp_max(1.0);
  for (at::Tensor& gradient : gradients) {
    if (!isAbsent(gradient)) gradient = gradient * alongMembers(scale, gradient);
  }
}

void clipValue(std::vector<at::Tensor>& gradients, const std::vector<double>& limit) {
  const at::Tensor limits = at::tensor(limit, at::kDouble);
  for (at::Tensor& gradient : gradients) {
    if (isAbsent(gradient)) continue;
    const at::Tensor bound = alongMembers(limits, gradient);
    gradient = at::clamp(gradient, -bound, bound);
  }
}

}  // namespace chorus
