// Reading --loss-arg values, and the TorchScript that losses share.
#pragma once

#include <string>

#include "chorus/loss.h"

namespace chorus::losses {

/// Bounds of a number. Both ends belong to it.
struct Bounds {
  double lowest = -1e300, highest = 1e300;
};

/// The shortest text that reads back as `value`.
std::string numberText(double value);

/// The argument as an expression to be multiplied with a tensor that is [K,...] and of rank `rank`:
/// a literal where one value is given, else `self.chorus.loss_NAME` cast to the dtype of `o` and
/// viewed as [K,1,...,1], and `code` gets the constant. Throws Refused (error) for text that is no
/// number within `bounds`.
std::string number(const LossRequest& request, LossCode& code, const std::string& name,
                   double default_value, size_t rank, Bounds bounds = {});

/// One value for all members; K equal ones are one. Throws Refused (error) where members differ.
std::string oneText(const LossRequest& request, const std::string& name,
                    const std::string& default_value);
bool oneFlag(const LossRequest& request, const std::string& name, bool default_value);

/// The numbers given, one or K.
std::vector<double> numbers(const LossRequest& request, const std::string& name,
                            double default_value, Bounds bounds = {});

/// `reduction`, which must be one of `allowed`; default "mean".
std::string reduction(const LossRequest& request,
                      const std::vector<std::string>& allowed = {"mean", "sum"});

/// Lines that bring a target of the output's own shape to `t`, [K,...] like `o`, and never
/// broadcast it.
std::string denseTarget(const std::string& loss);

/// Line that returns `e` [K,...] reduced over everything but K: mean or sum.
std::string reduced(const std::string& how);

/// Lines that bring class indices to `t` [K,N,...], int64, and the output to `o` [K,N,C,...] (N = 1
/// where the member's output is [C]). With `probabilities` a floating target is one of the output's
/// shape, and `floating` tells.
std::string classTarget(const LossRequest& request, const std::string& loss, bool probabilities);

/// Rank of `o` after classTarget.
size_t classRank(const LossRequest& request);

/// Lines that give the loss `e` [K,N,...] and, for the mean, the `count` [K] to divide by, from
/// `logp` [K,N,C,...] and `t`, and return. Reads weight, ignore_index, label_smoothing and
/// reduction of the request.
std::string classLoss(const LossRequest& request, LossCode& code, const std::string& loss);

/// weight as a tensor that multiplies `o` [K,N,C,...], or "" where there is none. Registers it.
std::string classWeight(const LossRequest& request, LossCode& code, const std::string& loss);

TargetRule classRule(const LossRequest& request, bool probabilities);

/// A loss of an output and a target of its shape: `elements` is TorchScript lines that make `e`
/// [K,...] from `o` and `t`. `how` is what `reduction` returned; "batchmean" divides by the
/// member's first size.
LossCode denseLoss(const std::string& name, const std::string& elements, const std::string& how,
                   LossCode code = {});

/// A tensor argument that goes along the last dim, [C] or [K,C], as an expression that broadcasts
/// against `o` of rank `rank`; "" where it is not given. Registers it.
std::string rowTensor(const LossRequest& request, LossCode& code, const std::string& name,
                      size_t rank);

/// Throws Refused (error) unless the model has at least `count` outputs, called `what` in the
/// message.
void requireOutputs(const LossRequest& request, const std::string& loss, size_t count,
                    const std::string& what);
/// Throws Refused (error) unless output i has this rank in the member.
void requireRank(const LossRequest& request, const std::string& loss, size_t i, size_t rank);

/// The rule of a target that has the first output's shape.
TargetRule denseRule(const LossRequest& request);

}  // namespace chorus::losses
