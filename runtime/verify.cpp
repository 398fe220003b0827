#include "chorus/verify.h"

#include "chorus/import.h"
#include "lib/import/example_run.h"
#include "lib/losses/sums.h"
#include "runtime/comparison.h"
#include "runtime/solo.h"
#include "runtime/solo_optimizer.h"

namespace chorus {
namespace {

/// Equal members are as the first one; those that differ in places may differ in this as well.
const Node* undrawable(const FusedModel& model, const std::vector<Member>& members) {
  for (const Member& member : members) {
    const Node* node = undrawableOp(member);
    if (node != nullptr || model.partial.empty()) return node;
  }
  return nullptr;
}

bool evaluates(const std::vector<Member>& members) {
  return std::ranges::all_of(members, &Member::code_evaluates);
}

/// What cannot be compared, and why; "" if all can.
std::string uncheckable(const FusedModel& model, const std::vector<Member>& members) {
  if (const Node* node = undrawable(model, members)) {
    return std::string("training, since ") + node->kind().toQualString() +
           " draws random numbers of its own";
  }
  if (!members[0].code_trains) return "training, since the trace was made in eval mode";
  if (model.optimizer && !hasSoloOptimizer(*model.optimizer)) {
    return "updates, since LibTorch has no '" + model.optimizer->name + "' with these options";
  }
  return "";
}

struct Precision {
  std::optional<at::ScalarType> dtype;
  double tolerance;
  double atol;
  std::string name;
};

Difference compare(const FusedModel& model, const std::vector<Member>& members,
                   const VerifyOptions& options, const Precision& precision, bool trains) {
  Comparison comparison(model, members, options, precision.dtype, precision.atol);
  return comparison.run(evaluates(members), trains);
}

/// In the members' own precision a failure is the network's, or ours: it is told apart by the
/// member's own code.
Difference compareAsGiven(const FusedModel& model, const std::vector<Member>& members,
                          const VerifyOptions& options, const Precision& precision, bool trains) {
  try {
    return compare(model, members, options, precision, trains);
  } catch (const std::exception& failure) {
    if (dynamic_cast<const Refused*>(&failure)) throw;
    throw Refused(error("the network cannot be run and trained on examples of these shapes: " +
                            failureText(failure),
                        Place{members[0].path, "", "", ""})
                      .note("it may fail in PyTorch as well")
                      .helpWith("--no-verify fuses it without this check"));
  }
}

}  // namespace

VerifyReport verify(const FusedModel& model, const std::vector<Member>& members,
                    const VerifyOptions& options) {
  VerifyReport report;
  report.unchecked = uncheckable(model, members);
  const bool trains = members[0].code_trains && !undrawable(model, members);
  if (!trains && !evaluates(members)) return report;

  FusedModel checked = model;
  if (model.loss) {
    const std::string seen = losses::withoutPenalties(model.loss->name);
    if (seen != model.loss->name) {
      report.unchecked += (report.unchecked.empty() ? "" : "; ") + std::string("the penalties");
    }
    checked.loss->name = seen;
    if (seen.empty()) checked.loss.reset();
    if (!checked.loss) checked.optimizer.reset();
  }
  if (model.optimizer && !hasSoloOptimizer(*model.optimizer)) checked.optimizer.reset();
  const Precision fine{at::kDouble, 1e-5, 1e-12, "fp64"},
      plain{std::nullopt, options.rtol, options.atol, "fp32"};
  Precision used = fine;
  Difference worst;
  try {
    worst = compare(checked, members, options, fine, trains);
  } catch (const c10::Error&) {
    used = plain;  // the graph mentions fp32 by name
  } catch (const std::runtime_error&) {
    used = plain;
  }
  if (!used.dtype || worst.relative > used.tolerance) {
    used = plain;
    worst = compareAsGiven(checked, members, options, plain, trains);
  }
  if (worst.relative > used.tolerance) {
    throw Refused(
        internalError(c10::str("the fused model differs from ", worst.what, " by ", worst.relative,
                               " of its scale (allowed: ", used.tolerance, ", ", used.name, ")")));
  }
  report.checked = true;
  report.worst = worst.relative;
  report.summary =
      c10::str(trains ? c10::str("outputs, gradients, buffers and updates agree after ",
                                 options.steps, options.steps == 1 ? " step" : " steps")
                      : std::string("outputs agree in eval mode"),
               " (", used.name, ", largest relative difference ", worst.relative, ")");
  return report;
}

}  // namespace chorus
