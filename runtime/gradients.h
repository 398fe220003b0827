// Arithmetic on the gradients of K members between chorus_gradients and chorus_update.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace chorus {

/// total += gradients / count, elementwise; an empty total is made.
void accumulateGradients(std::vector<at::Tensor>& total, const std::vector<at::Tensor>& gradients,
                         int64_t count);

/// As torch.nn.utils.clip_grad_norm_(parameters of member k, limit[k]) with its 2-norm, replacing
/// the tensors. Each is [K,...].
void clipNorm(std::vector<at::Tensor>& gradients, const std::vector<double>& limit);

/// As torch.nn.utils.clip_grad_value_, per member.
void clipValue(std::vector<at::Tensor>& gradients, const std::vector<double>& limit);

}  // namespace chorus
