// A member: one network of the K, as every later stage sees it.
//
// Importing turns an archive into a Member: its tensors in `slots`, and one straight-line graph per mode
// (train, eval) in *canonical form*:
//
//   inputs    the model's inputs in order, then one input per slot, in slot order (used or not)
//   outputs   the tensors of the model's result in the order of `Member::output`, then the new value of each
//             slot listed in `CanonicalGraph::updates` (running statistics, counters, ...)
//   nodes     pure aten/prim ops: no mutation, no calls, no control flow, no attribute access, no tensor
//             constants (they are slots of role Constant); aliases normalised; constants pooled at the top
//   order     depth first from the outputs (passes/canonical_order.cpp), so that it depends on the structure alone
//   types     every tensor value carries dtype, device-free, and its sizes at the example inputs; dims that
//             follow the batch size are unknown (nullopt)
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chorus/diagnostics.h"

namespace chorus {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

enum class Role { Parameter, Buffer, Constant };

/// One tensor of a member. Names are module paths with dots, e.g. "layer1.0.conv2.weight"; a constant of the
/// graph is called "constant.I". A tied tensor is one slot: `name` is its first name, `aliases` the others.
struct TensorSlot {
  std::string name;
  std::vector<std::string> aliases;
  Role role = Role::Parameter;
  at::Tensor value;
  bool requires_grad = false;
};

/// Shape of the model's result, to be rebuilt from a flat list of tensors. In a tuple there may be None: in both modes, or
/// in place of the tensor of one mode; that tensor is in the list all the same, and [0] in the other mode.
struct OutputTree {
  enum class Kind { Tensor, Tuple, List, Dict, None, TensorInTraining, TensorInEval };
  Kind kind = Kind::Tensor;
  std::vector<OutputTree> children;  ///< of Tuple, List, Dict
  std::vector<std::string> keys;     ///< of Dict: one per child
  size_t leaves() const;             ///< number of tensors below
  bool operator==(const OutputTree&) const = default;
};

/// A model input: dtype and sizes; nullopt where the size is the batch size N.
struct InputSpec {
  at::ScalarType dtype = at::kFloat;
  std::vector<std::optional<int64_t>> sizes;
  std::optional<int64_t> bound;  ///< integer inputs: values are below it
  size_t rank() const { return sizes.size(); }
  std::string toString() const;  ///< e.g. "f32[N,3,32,32]"
};

/// A module of the member: its dotted path ("" is the root) and its class, e.g. "Linear".
struct ModuleRecord {
  std::string path;
  std::string type;
};

struct CanonicalGraph {
  std::shared_ptr<Graph> graph;
  size_t n_inputs = 0;           ///< model inputs; graph->inputs()[n_inputs + i] is slot i
  size_t n_outputs = 0;          ///< model outputs; graph->outputs()[n_outputs + j] updates slot updates[j]
  std::vector<size_t> updates;

  Value* slotInput(size_t slot) const { return graph->inputs()[n_inputs + slot]; }
};

struct Member {
  std::string name;  ///< e.g. "model_3"
  std::string path;  ///< the file it came from, as the user wrote it
  std::vector<InputSpec> inputs;
  std::vector<TensorSlot> slots;
  OutputTree output;
  std::vector<ModuleRecord> modules;  ///< parents before children, in order of definition
  CanonicalGraph train, eval;
  bool traced = false;
  /// The original code, run as it is, does what the train (eval) graph says. A trace has one of the two only.
  bool code_trains = true, code_evaluates = true;
  int64_t example_batch = 2;  ///< rows of the stored example inputs: a batch size that surely works
  /// Set where the export fixed the batch size (a view with a literal N): the size, and the place.
  std::optional<int64_t> fixed_batch;
  Place fixed_batch_place;
  /// Draws of this member are a function of it: hash of the canonical graph and the tensors' bytes.
  uint64_t seed = 0;
  std::vector<Message> remarks;
};

/// Where a node came from: Python file and line, and the module path.
Place placeOf(const Node* node, const std::string& file = "");

/// Dtype names of the command line: f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool c64 c128.
std::string dtypeName(at::ScalarType dtype);
std::optional<at::ScalarType> dtypeFromName(const std::string& name);

}  // namespace chorus
