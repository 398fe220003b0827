#pragma once

namespace chorus::optimizers {

/// The end of an update that moves by g with momentum. A member without momentum moves by its
/// gradient, whatever its buffer holds; the first step fills the buffer with the gradient itself,
/// without dampening.
constexpr const char* kMomentumStep =
    R"(    later = momentum.to(t) * momentum_buffer + (1 - dampening).to(t) * g
    momentum_buffer = torch.where(step == 1, g, later)
    move = momentum_buffer
    if nesterov:
        move = g + momentum.to(t) * momentum_buffer
    move = torch.where(momentum == 0, g, move)
    return p - lr.to(t) * move, momentum_buffer
)";

}  // namespace chorus::optimizers
