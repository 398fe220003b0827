// Specialisation: a member's code -> its canonical straight-line graph for one mode.
//
// The code is interpreted on abstract values (abstract_value.h): calls are entered, attributes
// become slots or constants, `training` becomes the mode, branches and loops whose condition does
// not depend on data are followed, containers are resolved, and in-place ops become values
// (functionalisation). What remains are ops on tensors, in program order.
#pragma once

#include <string>
#include <vector>

#include "chorus/import.h"
#include "chorus/member.h"

namespace chorus {

/// How `training` reads: what the code says, changed by the policy of --mode (docs/contract.md,
/// section 4).
struct ModeReading {
  bool training = true;    ///< the mode that the graph is made for
  bool baked = false;      ///< the code is a trace: its flags are constants
  bool mixed = false;      ///< flags disagree: the False ones were frozen by the user
  bool as_traced = false;  ///< --mode as-traced

  bool flag(bool written) const {
    if (as_traced) return written;
    return training && (written || !mixed);
  }
};

struct SpecializeRequest {
  std::vector<InputSpec> inputs;
  std::vector<TensorSlot> slots;
  ModeReading mode;
  std::string file;     ///< for messages
  int64_t first_n = 2;  ///< the batch sizes of the two examples
  int64_t second_n = 6;
};

struct Specialized {
  CanonicalGraph canonical;
  std::vector<TensorSlot> slots;  ///< the request's, then constants found in the code
  OutputTree output;
};

/// Thrown when the code works for the first example's batch size and not for the second's.
struct BatchSizeFixed {
  Place place;
  std::string reason;
};

/// `self` is the module whose `forward` `code` is; null for code whose inputs are the model's
/// inputs, then all slots.
Specialized specialize(const Graph& code, const torch::jit::Module* self,
                       const SpecializeRequest& request);

/// Brings the graph of a fused file (pure, all tensors as inputs) into canonical form again.
/// `example_batch`: a batch size that the graph works with. `slots` has the roles and names; their
/// values give shapes (the first `k` dims of stacked ones are the caller's matter).
CanonicalGraph recanonicalise(std::shared_ptr<Graph> graph, const std::vector<InputSpec>& inputs,
                              std::vector<TensorSlot> slots, bool training,
                              int64_t example_batch = 2);

}  // namespace chorus
