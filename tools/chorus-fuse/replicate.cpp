#include "tools/chorus-fuse/replicate.h"

#include "chorus/initialise.h"
#include "lib/support/hash.h"
#include "tools/common/report.h"
#include "tools/common/values.h"

namespace chorus {

std::vector<Member> replicate(const Member& member, const FuseOptions& options) {
  const auto k = static_cast<size_t>(options.replicate);
  const bool reset = options.init == "reset";
  std::vector<uint64_t> seeds;
  if (reset) seeds = oneOrKSeeds("--seeds", options.seeds, k);
  if (!reset && k > 1) {
    say(remark("the " + std::to_string(k) + " copies of '" + member.name +
               "' have equal weights; --init reset draws them"));
  }
  std::vector<Member> copies(k, member);
  std::vector<Message> remarks;
  for (size_t i = 0; i < k; ++i) {
    Member& copy = copies[i];
    copy.name = member.name + "." + std::to_string(i);
    copy.seed = mixHash(member.seed, i);
    if (i > 0) copy.remarks.clear();
    if (!reset) continue;
    const std::vector<at::Tensor> values =
        initialise(member, seeds[i], i == 0 ? &remarks : nullptr);
    for (size_t j = 0; j < values.size(); ++j) copy.slots[j].value = values[j];
  }
  for (const Message& message : remarks) say(message);
  return copies;
}

}  // namespace chorus
