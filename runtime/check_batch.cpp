#include "chorus/import.h"
#include "chorus/trainer.h"
#include "lib/export/alone.h"

namespace chorus {
namespace {

bool isTrainingBatchNorm(const Node* node) {
  if (std::string(node->kind().toQualString()).find("batch_norm") == std::string::npos)
    return false;
  const auto index = node->schema().argumentIndexWithName("training");
  if (!index) return false;
  const auto flag = torch::jit::toIValue(node->input(static_cast<size_t>(*index)));
  return !flag || (flag->isBool() && flag->toBool());
}

/// Values per channel of [N,C,...] at a batch of one row; nullopt where sizes are unknown. Dims
/// that follow the batch count as one: a batch norm never sees more values for fewer rows.
std::optional<int64_t> valuesPerChannelOfOneRow(const Node* node) {
  const auto type = node->input(0)->type()->cast<c10::TensorType>();
  if (!type || !type->dim()) return std::nullopt;
  if (type->sizes()[0]) return std::nullopt;  // not a function of the rows alone
  int64_t values = 1;
  for (size_t d = 2; d < *type->dim(); ++d) values *= type->sizes()[d].value_or(1);
  return values;
}

void checkBatchNorms(const Member& member) {
  for (const Node* node : member.train.graph->nodes()) {
    if (!isTrainingBatchNorm(node) || valuesPerChannelOfOneRow(node) != 1) continue;
    Message message = error(
        "a batch of one row leaves this batch norm one value per channel, which has no variance",
        placeOf(node));
    message.helpWith(
        "--drop-last leaves out a last batch that is too small; or choose another --batch-size");
    throw Refused(message);
  }
}

void checkRowsComeFirst(const Member& member) {
  for (size_t i = 0; i < member.inputs.size(); ++i) {
    const auto& sizes = member.inputs[i].sizes;
    const bool batched =
        std::any_of(sizes.begin(), sizes.end(), [](const auto& size) { return !size; });
    if (!sizes.empty() && batched && sizes[0]) {
      throw Refused(unsupported("input " + std::to_string(i) + " of the model is " +
                                member.inputs[i].toString() +
                                ": the batch is not its first dimension"));
    }
  }
}

/// The one of all members; where they differ in places, that of each variant.
std::vector<Member> structuresOf(const FusedModel& model) {
  if (model.partial.empty()) return {model.prototype};
  std::vector<Member> structures;
  std::set<size_t> seen;
  for (size_t k = 0; k < model.k(); ++k) {
    if (!seen.insert(model.partial[k].variant).second) continue;
    structures.push_back(ownStructure(model, k));
    for (size_t i = 0; i < structures.back().slots.size(); ++i) {
      const OwnTensor& own = model.partial[k].tensors[i];
      structures.back().slots[i].value = ownTensor(model, k, own, model.tensors[own.in].detach());
    }
  }
  return structures;
}

}  // namespace

void checkBatch(const FusedModel& model, int64_t rows, bool training) {
  const Member& member = model.prototype;
  checkRowsComeFirst(member);
  if (member.fixed_batch && *member.fixed_batch != rows) {
    Message message =
        error("the export fixed the batch size to " + std::to_string(*member.fixed_batch) +
                  " in this view, but a batch has " + std::to_string(rows) + " rows",
              member.fixed_batch_place);
    message.helpWith("write x.size(0) or -1 in place of the number, or run with --batch-size " +
                     std::to_string(*member.fixed_batch) + " --drop-last");
    throw Refused(message);
  }
  for (const Member& own : structuresOf(model)) {
    checkBatchSize(own, training ? own.train : own.eval, rows);
    if (training && rows == 1) checkBatchNorms(own);
  }
}

}  // namespace chorus
