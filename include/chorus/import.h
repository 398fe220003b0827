// Archive -> Member. One file of lib/import/ per format.
#pragma once

#include <string>
#include <vector>

#include "chorus/member.h"

namespace chorus {

/// What the train and eval flags that a trace baked in mean: follow the module's mode, or stay as traced.
enum class ModePolicy { Follow, AsTraced };

struct ImportOptions {
  std::vector<InputSpec> inputs;  ///< from --input; empty: the example inputs stored in the archive
  /// `inputs` are those of a data file: floating ones get the dtype of the archive's own example or first parameter.
  bool inputs_are_data = false;
  ModePolicy mode = ModePolicy::Follow;
  std::string name;               ///< member name; empty: the file's name without its ending
};

/// Reads a TorchScript archive (traced or scripted). The file is untrusted: it is scanned before LibTorch sees it.
/// Throws Refused, naming the file and the user's own place.
Member importTorchScript(const std::string& path, const ImportOptions& options);

/// Parses "f32[N,3,32,32]" or "i64[N,16]<30522". Throws Refused (usage).
InputSpec parseInputSpec(const std::string& text);

/// Runs `graph` on meta tensors of these input sizes (batch size n in place of N). Returns the output sizes.
/// Throws Refused naming the first node that cannot work at this batch size.
std::vector<std::vector<int64_t>> checkBatchSize(const Member& member, const CanonicalGraph& graph, int64_t n);

}  // namespace chorus
