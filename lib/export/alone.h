// Members of a model that differ in places (chorus-fuse --partial), each as it is alone.
#pragma once

#include "chorus/fused_model.h"
#include "lib/support/choice.h"

namespace chorus {

/// Member k's own graphs, in canonical form, over its own slots in its own order. Its slots have no
/// values. `copies`: nodes of the prototype's train and eval graph -> those of the member's.
Member ownStructure(const FusedModel& model, size_t k, NodeCopies* copies = nullptr);

/// Member k's tensor in the place of `tensor`: of `values`, which are like the tensors of the
/// model's slots (themselves, gradients, averages, ...). A view where it can be.
at::Tensor ownTensor(const FusedModel& model, size_t k, const OwnTensor& tensor,
                     const at::Tensor& values);

/// Member k as a model of K = 1, with its own tensors, optimizer and state (copies).
FusedModel memberAlone(const FusedModel& model, size_t k);

/// Puts the tensors, state and step of a memberAlone back.
void putMember(FusedModel& model, const FusedModel& alone, size_t k);

/// "chorus::own.p0" is not a name that a user knows: that of the first member who has the slot.
std::string slotTitle(const FusedModel& model, size_t slot);

}  // namespace chorus
