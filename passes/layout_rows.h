// Ops that treat channels apart have two forms: on merged channels, and on K-first rows.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace chorus {

/// Rewrites `node` where it is such an op on the chorus::merge of a K-first value, and its results
/// are unmerged at once: merging copies, rows are views.
///
///     unmerge(op(merge(x), ...), k)
///         ==>  op(x.flatten(0, 1), ...).unflatten(0, [k, -1])      [K,N,C,...] -> [(K N),C,...]
///     unmerge(group_norm(merge(x), g, w, b), k)
///         ==>  group_norm over [1,(K N C),...] with g N groups, w and b repeated N times
///
/// True where it did; `node` is gone then.
bool workOnRows(torch::jit::Graph& graph, torch::jit::Node* node);

}  // namespace chorus
