#include "runtime/evaluate.h"

#include "lib/export/state.h"

namespace chorus {
namespace {

/// Executors of the sub-groups of a model that does not train.
class Executors {
 public:
  Executors(const FusedModel& model, uint64_t seed) : model_(model), seed_(seed) {}
  Executor& of(const SubGroup& group) {
    auto& made = parts_[{group.begin, group.count}];
    if (!made) {
      const bool all = group.count == model_.k();
      made = std::make_unique<Executor>(
          all ? model_ : viewMembers(model_, group.begin, group.count), seed_);
      made->eval();
    }
    return *made;
  }

 private:
  const FusedModel& model_;
  uint64_t seed_;
  std::map<std::pair<size_t, size_t>, std::unique_ptr<Executor>> parts_;
};

EpochPlan fileOrder(const Dataset& data, const std::vector<int64_t>& batch_sizes,
                    const std::vector<at::Tensor>& rows) {
  return {data, rows.empty() ? std::vector<at::Tensor>(1) : rows, batch_sizes, /*drop_last=*/false};
}

}  // namespace

void checkBatches(const FusedModel& model, const EpochPlan& plan, bool training) {
  std::set<int64_t> sizes;
  for (size_t k = 0; k < model.k(); ++k) {
    if (plan.steps(k) == 0) continue;
    sizes.insert(plan.rowsAt(k, 0));
    sizes.insert(plan.rowsAt(k, plan.steps(k) - 1));
  }
  // The largest first: what it says is about the batch size that was asked for.
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) checkBatch(model, *size, training);
}

Scores scoresOf(const FusedModel& model, const Dataset& data,
                const std::vector<int64_t>& batch_sizes, const std::vector<at::Tensor>& rows,
                const std::vector<std::string>& metric_names,
                const std::function<Executor&(const SubGroup&)>& executorOf) {
  LossMean losses(model.k());
  Metrics metrics(model, data, metric_names);
  const EpochPlan plan = fileOrder(data, batch_sizes, rows);
  for (int64_t step = 0; step < plan.steps(); ++step) {
    for (const SubGroup& group : plan.groups(step)) {
      Executor& executor = executorOf(group);
      const Batch batch = plan.batch(group, step);
      const auto outputs = sayingAssertions([&] { return executor.outputs(batch); });
      losses.add(sayingAssertions([&] { return executor.loss(outputs, batch); }), group);
      if (!metrics.empty()) metrics.add(outputs, batch.target, group);
    }
  }
  Scores scores;
  scores.loss = losses.values();
  scores.metrics = metrics.values(scores.loss);
  return scores;
}

Scores evaluate(const FusedModel& model, const Dataset& data,
                const std::vector<int64_t>& batch_sizes, uint64_t seed,
                const std::vector<at::Tensor>& rows, const std::vector<std::string>& metrics) {
  checkBatches(model, fileOrder(data, batch_sizes, rows), /*training=*/false);
  Executors executors(model, seed);
  return scoresOf(model, data, batch_sizes, rows, metrics,
                  [&](const SubGroup& group) -> Executor& { return executors.of(group); });
}

}  // namespace chorus
