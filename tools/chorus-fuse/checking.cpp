#include "tools/chorus-fuse/checking.h"

#include "chorus/checker.h"
#include "chorus/equivalence.h"
#include "chorus/fused_model.h"
#include "lib/export/align_varying.h"
#include "lib/export/varying.h"
#include "lib/support/hash.h"

namespace chorus {
namespace {

[[noreturn]] void fails(const std::string& path, const std::string& what) {
  throw Refused(
      error("the fused file is not made from these members: " + what, Place{path, "", "", ""}));
}

void checkNumbers(const std::string& path, const FusedModel& model, const Certificate& certificate,
                  const Member& first) {
  const std::vector<VaryingNumber> expected = varyingNumbers(certificate, first);
  bool same = expected.size() == model.varying.size();
  for (size_t i = 0; same && i < expected.size(); ++i) {
    same = hashTensor(expected[i].values) == hashTensor(model.varying[i].values) &&
           expected[i].places.size() == model.varying[i].places.size();
  }
  if (!same) fails(path, "it carries other numbers per member than they have");
}

/// Tensors that nothing moves, and all of them before the first step.
void checkTensors(const std::string& path, const FusedModel& model, const Certificate& certificate,
                  const std::vector<Member>& members) {
  const bool trained = model.step.gt(0).any().item<bool>();
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorSlot& slot = model.prototype.slots[i];
    if (trained && slot.role != Role::Constant) continue;
    for (size_t k = 0; k < members.size(); ++k) {
      const at::Tensor whole = model.tensors[i].detach();
      const at::Tensor mine = model.stacked[i] ? whole.select(0, static_cast<int64_t>(k)) : whole;
      const TensorSlot& theirs = members[k].slots.at(certificate.members[k].slots[i]);
      if (hashTensor(mine) == hashTensor(theirs.value)) continue;
      fails(path, "'" + slot.name + "' of member " + std::to_string(k) + " (" + members[k].path +
                      ") has other values");
    }
  }
}

}  // namespace

std::string checkFused(const std::string& path, const std::vector<Member>& members) {
  const FusedModel model = readFused(path);
  if (!model.info.contains("certificate")) fails(path, "it has no certificate");
  const Certificate certificate = certificateFromJson(model.info["certificate"]);
  if (model.k() != members.size()) {
    fails(path, "it has " + std::to_string(model.k()) + " members, and " +
                    std::to_string(members.size()) + " are given");
  }
  const std::string wrong = checkCertificate(certificate, members);
  if (!wrong.empty()) fails(path, wrong);
  if (functionHash(unfusedMember(model, 0)) != functionHash(members[0])) {
    fails(path, "its graphs are not those of " + members[0].path);
  }
  checkNumbers(path, model, certificate, members[0]);
  checkTensors(path, model, certificate, members);
  const bool trained = model.step.gt(0).any().item<bool>();
  return "the certificate holds for these " + std::to_string(members.size()) +
         (members.size() == 1 ? " member" : " members") +
         (trained ? "; weights have been trained since" : ", and so do all weights");
}

}  // namespace chorus
