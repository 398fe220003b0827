// Optimizer updates of one member's rows of one parameter, in place: one pass over memory.
//
// The arithmetic is torch.optim's for one tensor; numbers that are the same for all elements are
// worked out in fp64 and rounded to the element type once.
#pragma once

#include <cstdint>

namespace chorus::kernels {

struct AdamNumbers {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled;  ///< adamw
  bool maximize;
  int64_t step;  ///< of this update, from 1
};

/// p, g, m (exp_avg), v (exp_avg_sq): n elements each.
void adam(float* p, const float* g, float* m, float* v, int64_t n, const AdamNumbers& numbers);
void adam(double* p, const double* g, double* m, double* v, int64_t n, const AdamNumbers& numbers);

struct SgdNumbers {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, maximize;
  bool first;  ///< the buffer takes the gradient itself
};

void sgd(float* p, const float* g, float* buffer, int64_t n, const SgdNumbers& numbers);
void sgd(double* p, const double* g, double* buffer, int64_t n, const SgdNumbers& numbers);

/// No element is NaN or infinite.
bool allFinite(const float* x, int64_t n);
bool allFinite(const double* x, int64_t n);

}  // namespace chorus::kernels
