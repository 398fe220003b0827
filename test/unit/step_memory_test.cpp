#include "runtime/step_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "chorus/trainer.h"
#include "runtime/examples.h"
#include "test/unit/hand_made.h"

namespace chorus::test {
namespace {

TEST(StepMemory, ThePeakIsWhatLivesAtOnce) {
  const auto events = recordAllocations([] {
    at::Tensor a = at::empty({1024}, at::kFloat);
    a = at::Tensor();
    a = at::empty({256}, at::kFloat);
    const at::Tensor b = at::empty({2048}, at::kChar);
  });
  EXPECT_EQ(peakOf(events), 4096);
  EXPECT_EQ(peakOf({{0, 1}, {1, 2}, {0, 0}, {2, 1.5}, {1, 0}}), 3.5);
  EXPECT_EQ(peakOf({}), 0);
}

TEST(StepMemory, WithoutLossOrOptimizerThereIsNoStep) {
  FusedModel model = linearModel("cross_entropy", "adam");
  EXPECT_TRUE(stepBytes(model, 4, 10).has_value());
  model.optimizer.reset();
  EXPECT_FALSE(stepBytes(model, 4, 10).has_value());
  model.loss.reset();
  EXPECT_FALSE(stepBytes(model, 4, 10).has_value());
}

/// Bytes at the peak of two steps that the trainer takes.
double trainedBytes(FusedModel& model, int64_t rows) {
  Examples examples(model, std::nullopt, 1);
  Batch batch = examples.next(2 * rows);
  Dataset data;
  for (size_t i = 0; i < batch.inputs.size(); ++i)
    data.inputs.push_back({"x" + std::to_string(i), batch.inputs[i], false});
  data.target = DataArray{"y", batch.target, false};
  TrainOptions options;
  options.epochs.assign(model.k(), 1);
  options.batch_size.assign(model.k(), rows);
  options.metrics = {};
  Diagnostics diagnostics;
  return peakOf(recordAllocations(
      [&] { train(model, data, nullptr, options, TrainObserver{}, diagnostics); }));
}

/// CHORUS_STEP_FILES: lines of a fused file and a number of rows; CHORUS_STEP_OUT: gets the bytes
/// that the trainer takes. test/pytest/test_plan.py compares them with the plan's.
TEST(StepMemory, OfFusedFiles) {
  const char* list = std::getenv("CHORUS_STEP_FILES");
  if (list == nullptr) GTEST_SKIP() << "run by test_plan.py";
  std::ifstream lines(list);
  std::ofstream out(std::getenv("CHORUS_STEP_OUT"));
  std::string path;
  for (int64_t rows = 0; lines >> path >> rows;) {
    FusedModel model = readFused(path);
    out << static_cast<int64_t>(trainedBytes(model, rows)) << "\n";
  }
}

}  // namespace
}  // namespace chorus::test
