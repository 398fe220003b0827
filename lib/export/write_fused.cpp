#include <ostream>

#include "lib/export/fused_json.h"
#include "lib/support/atomic_file.h"

namespace chorus {

void writeFused(const FusedModel& model, std::ostream& stream) {
  torch::jit::Module module = buildModule(model);
  module.train();
  const torch::jit::ExtraFilesMap extra = {{"chorus.json", fusedJson(model).dump(1) + "\n"}};
  module.save(stream, extra);
}

void writeFused(const FusedModel& model, const std::string& path) {
  writeAtomically(path, [&](std::ostream& stream) { writeFused(model, stream); });
}

}  // namespace chorus
