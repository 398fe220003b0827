// The MODEL argument: read, given a loss and an optimizer, written back in its own format.
#pragma once

#include "chorus/fused_model.h"
#include "tools/chorus-run/options.h"

namespace chorus {

struct ModelFile {
  FusedModel model;
  bool plain = false;  ///< an ordinary member, held as a fused model of K = 1
};

/// Reads MODEL, fused or plain.
ModelFile readModel(const RunOptions& options, Diagnostics& diagnostics);

/// Sets loss, optimizer, member seeds and a fresh optimizer state, as the options and the file say.
/// Reads --hparams. What the file's own loss and optimizer rule out is a usage error.
void applyOptions(RunOptions& options, FusedModel& model, Diagnostics& diagnostics);

/// Puts what a checkpoint holds in the place of the model: tensors, state, and where the run
/// stands.
void resume(FusedModel checkpoint, FusedModel& model);

/// A plain member's optimizer state becomes extra records of its archive.
void writeModel(const ModelFile& file, const std::string& path);

}  // namespace chorus
