#include "runtime/step_memory.h"

#include <c10/core/Allocator.h>
#include <c10/util/Logging.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cmath>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "chorus/diagnostics.h"
#include "runtime/examples.h"
#include "runtime/executor.h"
#include "runtime/optimizer_step.h"

namespace chorus {
namespace {

class Recorder : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* data, int64_t bytes, size_t, size_t, c10::Device) override {
    const std::scoped_lock lock(mutex_);
    if (bytes > 0) {
      living_[data] = count_;
      events.push_back({count_++, static_cast<double>(bytes)});
    } else if (const auto found = living_.find(data); found != living_.end()) {
      events.push_back({found->second, 0});
      living_.erase(found);
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::vector<AllocationEvent> events;

 private:
  std::mutex mutex_;
  size_t count_ = 0;
  std::unordered_map<void*, size_t> living_;
};

/// LibTorch warns of memory that is freed while it records and was there before.
class QuietLog {
 public:
  QuietLog() { FLAGS_caffe2_log_level = static_cast<int>(c10::GLOG_ERROR); }
  ~QuietLog() { FLAGS_caffe2_log_level = before_; }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;

 private:
  int before_ = FLAGS_caffe2_log_level;
};

/// One step of all members, as the trainer does it; moves the tensors of `copy`.
std::vector<AllocationEvent> recordStep(FusedModel copy, int64_t rows) {
  Executor executor(copy, 0);
  executor.train();
  executor.random().steps.assign(copy.k(), 0);
  Examples examples(copy, std::nullopt, 0);
  Batch batch = examples.next(rows);
  return recordAllocations([&] {
    for (at::Tensor& input : batch.inputs) input = input.clone();
    if (batch.target.defined()) batch.target = batch.target.clone();
    StepResult result = executor.step(batch);
    executor.apply(result.updates);
    if (hasUpdateKernel(copy)) {
      const std::vector<bool> all(copy.k(), true);
      updateByKernel(copy, *copy.optimizer, 0, all, result.gradients);
    } else {
      executor.update(std::move(result.gradients));
    }
  });
}

/// Events of `a` and `b` rows, in the same order, tell those of any number of rows; else the peaks
/// do.
double peakAt(const std::vector<AllocationEvent>& at_a, const std::vector<AllocationEvent>& at_b,
              double a, double b, double rows) {
  const double reach = (rows - a) / (b - a);
  const auto along = [&](double x, double y) { return std::max(0.0, x + (y - x) * reach); };
  const bool same = std::ranges::equal(at_a, at_b, [](const auto& x, const auto& y) {
    return x.id == y.id && (x.bytes == 0) == (y.bytes == 0);
  });
  if (!same) return along(peakOf(at_a), peakOf(at_b));
  std::vector<AllocationEvent> events = at_a;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i].bytes > 0) events[i].bytes = std::max(1.0, along(at_a[i].bytes, at_b[i].bytes));
  }
  return peakOf(events);
}

/// The first `k` members.
FusedModel firstMembers(const FusedModel& model, size_t k) {
  std::vector<size_t> members(std::min(k, model.k()));
  std::iota(members.begin(), members.end(), 0);
  return selectMembers(model, members);
}

double peakOfMembers(const FusedModel& model, int64_t rows, int64_t some) {
  if (rows <= some + 1) return peakOf(recordStep(model, rows));
  const auto at_a = recordStep(model, some), at_b = recordStep(model, some + 1);
  return peakAt(at_a, at_b, static_cast<double>(some), static_cast<double>(some + 1),
                static_cast<double>(rows));
}

double peakOfAll(const FusedModel& model, int64_t rows, int64_t some) {
  constexpr size_t kFew = 2;
  // Members that differ in places do not take the same.
  if (model.k() <= kFew + 1 || !model.partial.empty())
    return peakOfMembers(firstMembers(model, model.k()), rows, some);
  const double a = peakOfMembers(firstMembers(model, kFew), rows, some);
  const double b = peakOfMembers(firstMembers(model, kFew + 1), rows, some);
  return a + (b - a) * static_cast<double>(model.k() - kFew);
}

}  // namespace

std::vector<AllocationEvent> recordAllocations(const std::function<void()>& work) {
  const auto recorder = std::make_shared<Recorder>();
  {
    const QuietLog quiet;
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, recorder);
    work();
  }
  return std::move(recorder->events);
}

double peakOf(const std::vector<AllocationEvent>& events) {
  std::vector<double> sizes;
  double living = 0, peak = 0;
  for (const AllocationEvent& event : events) {
    if (event.bytes > 0) {
      sizes.push_back(event.bytes);
      living += event.bytes;
    } else {
      living -= sizes.at(event.id);
    }
    peak = std::max(peak, living);
  }
  return peak;
}

std::optional<int64_t> stepBytes(const FusedModel& model, int64_t rows, double flops) {
  if (!model.loss || !model.optimizer || rows < 1) return std::nullopt;
  // Backward takes two times as much as forward; about a second on one core.
  const double members = static_cast<double>(std::min<size_t>(model.k(), 5));
  const double affordable = 3e9 / (3 * 2 * members * std::max(flops, 1.0));
  // From 16 rows on LibTorch convolves with the kernels of larger batches.
  const auto some = static_cast<int64_t>(std::clamp(affordable, 2.0, 16.0));
  for (const int64_t few : {some, rows}) {  // a trace for one number of rows runs with no other
    try {
      return static_cast<int64_t>(std::ceil(peakOfAll(model, rows, few)));
    } catch (const Refused&) {
    } catch (const c10::Error&) {
    } catch (const std::runtime_error&) {
    }
  }
  return std::nullopt;
}

}  // namespace chorus
