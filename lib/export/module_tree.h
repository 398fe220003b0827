// The module tree of a fused file or of a split member: nested submodules named by the components
// of the tensors' own names.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <vector>

#include "chorus/member.h"

namespace chorus {

/// "layer1.0.weight" -> {"layer1", "0", "weight"}.
std::vector<std::string> pathComponents(const std::string& path);

/// An empty module with a `training` attribute, in a compilation unit of its own.
torch::jit::Module makeModule(const std::string& qualified_name);

/// The submodule at `path` (empty: the root), created with its parents where it is missing, of a
/// class `type`.
torch::jit::Module submodule(torch::jit::Module& root, const std::vector<std::string>& path,
                             const std::string& type = "Part");

/// Registers `tensor` at its path. Throws Refused (unsupported) where two names collide.
void registerTensor(torch::jit::Module& root, const std::string& path, const at::Tensor& tensor,
                    bool is_parameter);

/// The tensor at `path`, or an undefined one.
at::Tensor tensorAt(const torch::jit::Module& root, const std::string& path);

/// TorchScript that reads the tensor: self.layer1.conv.weight; getattr for what is no identifier
/// and for a first component in `quoted`.
std::string readExpression(const std::string& path, const std::vector<std::string>& quoted = {});

/// prim::GetAttr chain at the graph's insert point.
Value* insertRead(Graph& graph, Value* self, const std::string& path);

/// TorchScript expression that rebuilds the tree from the list `list`: "(o[0], {"a": o[1]})".
std::string treeExpression(const OutputTree& tree, const std::string& list);

/// Adds `graph` (first input: self, untyped so far) as a method.
void addGraphMethod(torch::jit::Module& module, const std::string& name,
                    const std::shared_ptr<Graph>& graph);

/// Replaces the outputs by one List[Tensor].
void returnAsList(Graph& graph);

/// A copy of `body`, whose inputs and outputs are those of `canonical`, as a method's graph: inputs
/// self and the model's inputs, tensors read from self by `read`, all outputs as one List[Tensor].
std::shared_ptr<Graph> readingGraph(
    const CanonicalGraph& canonical, Graph& body, const torch::jit::Module& module,
    const std::function<Value*(Graph&, Value* self, size_t slot)>& read);

/// Does the graph update the slot while an output depends on its old value? Then the method must
/// read a copy: the backward pass of a user's own loop runs after the update.
bool isReadAndUpdated(const CanonicalGraph& canonical, size_t slot);

}  // namespace chorus
