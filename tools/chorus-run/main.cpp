#include <ATen/Parallel.h>

#include "lib/support/atomic_file.h"
#include "runtime/allocator.h"
#include "runtime/npz_writer.h"
#include "tools/chorus-run/manifest_run.h"
#include "tools/chorus-run/model_file.h"
#include "tools/chorus-run/report.h"
#include "tools/chorus-run/run_inputs.h"
#include "tools/chorus-run/training.h"
#include "tools/common/manifest.h"
#include "tools/common/report.h"
#include "tools/common/run_tool.h"

namespace chorus {
namespace {

/// "output", or "output0", "output1", ...: [K,N,...], of a plain member [N,...].
NamedArrays namedOutputs(const std::vector<at::Tensor>& outputs, bool plain) {
  NamedArrays arrays;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = outputs.size() == 1 ? "output" : "output" + std::to_string(i);
    if (outputs[i].defined()) arrays.emplace_back(name, plain ? outputs[i][0] : outputs[i]);
  }
  return arrays;
}

void predictAndWrite(const RunOptions& options, ModelFile& file, const RunData& data,
                     int64_t batch_size) {
  const NamedArrays arrays =
      namedOutputs(predict(file.model, data.train, batch_size, options.seed), file.plain);
  writeAtomically(options.predict,
                  [&](const std::string& temporary) { writeNpz(temporary, arrays); });
  reportPredictions(options, file.model, arrays);
}

/// The command that goes on with an interrupted run.
void sayInterrupted(const RunOptions& options, const CheckpointFolder& checkpoints) {
  std::string command = "chorus-run " + options.arguments;
  const std::string folder = options.resume_name.empty() ? checkpoints.path() : options.resume_name;
  if (options.resume.empty()) command += " --resume " + quotedForShell(folder);
  say(warning("interrupted; the run's state is in " + checkpoints.path())
          .helpWith("go on with: " + command));
}

int trainAndWrite(const RunOptions& options, ModelFile& file, const RunData& data) {
  CheckpointFolder checkpoints(options);
  const TrainOptions train = trainOptions(options, file.model.k(), data);
  checkpoints.setInputs(inputHashes(options, file.model, data, train));
  if (!options.resume.empty()) resume(checkpoints.load(), file.model);
  Diagnostics found;
  const TrainResult result = runTraining(options, file.model, data, train, checkpoints, found);
  if (result.interrupted) {
    say(found);
    sayInterrupted(options, checkpoints);
    return 130;
  }
  if (!options.output.empty()) writeModel(file, options.output);
  reportTraining(options, file.model, result);
  say(found);
  checkpoints.finish();
  return 0;
}

int runModel(RunOptions* options) {
  Diagnostics diagnostics;
  ModelFile file = readModel(*options, diagnostics);
  FusedModel& model = file.model;
  applyOptions(*options, model, diagnostics);
  const std::vector<int64_t> batch_sizes = batchSizes(*options, model.k());
  const RunData data = readData(*options, model, diagnostics);
  say(diagnostics);
  if (options->evaluate) {
    reportScores(
        *options, model, data.train,
        evaluate(model, data.train, batch_sizes, options->seed, {}, metricNames(*options)));
    return 0;
  }
  if (!options->predict.empty()) {
    predictAndWrite(*options, file, data, batch_sizes.front());
    return 0;
  }
  return trainAndWrite(*options, file, data);
}

int run(const std::vector<std::string>& arguments) {
  auto options = parseRunOptions(arguments);
  if (!options) return 0;
  keepFreedMemory();
  if (options->threads > 0) at::set_num_threads(options->threads);
  if (!isManifest(options->model())) return runModel(&*options);
  return runManifest(*options, [](RunOptions& group) { return runModel(&group); });
}

}  // namespace
}  // namespace chorus

int main(int argc, char** argv) { return chorus::runTool("chorus-run", argc, argv, chorus::run); }
