#include <ostream>

#include "lib/export/fused_json.h"
#include "lib/support/atomic_file.h"

namespace chorus {

void writeFused(const FusedModel& model, const std::string& path) {
  torch::jit::Module module = buildModule(model);
  module.train();
  const torch::jit::ExtraFilesMap extra = {{"chorus.json", fusedJson(model).dump(1) + "\n"}};
  writeAtomically(path, [&](std::ostream& stream) { module.save(stream, extra); });
}

}  // namespace chorus
