// A loss that the user wrote: a TorchScript file whose forward(outputs..., target) returns a
// scalar.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "chorus/loss.h"
#include "chorus/member.h"

namespace chorus::losses {

/// The name that such a loss has in LossSpec. The archive's bytes travel as its tensor "file"
/// [bytes] u8; its argument "path" is for messages, "target" is the --target that was given.
constexpr const char* kScripted = "scripted";

/// The text of --loss names a file.
bool isLossFile(const std::string& text);

/// Reads and scans the file. `target` is the text of --target, or "". Throws Refused (error) for
/// what scanArchive refuses.
LossSpec scriptedSpec(const std::string& path, const std::string& target);

/// The argument or tensor of that name in a LossSpec is the scripted loss's.
bool isOfScripted(const std::string& name);

/// How many outputs its forward takes in front of the target, at least one.
size_t scriptedOutputs(const LossSpec& spec);

/// The definition of kScripted.
const LossDefinition& scripted();

/// The user's module as it is, in training mode; null where the loss is not kScripted.
std::optional<torch::jit::Module> scriptedModule(const LossSpec& spec);

/// parseInputSpec for --target.
InputSpec parseTargetSpec(const std::string& text);

}  // namespace chorus::losses
