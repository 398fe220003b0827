// 30 random networks, thousands of edits of one member of three. Whatever is accepted is computed
// fused and by each member alone: outputs in both modes, moved statistics, gradients. An edit that
// changes nothing must be accepted. CHORUS_MUTATIONS=N tries N edits.
#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include "chorus/checker.h"
#include "chorus/equivalence.h"
#include "chorus/fused_model.h"
#include "lib/export/random_nodes.h"
#include "lib/export/varying.h"
#include "test/unit/mutation_networks.h"

namespace chorus::test {
namespace {

constexpr size_t kNetworks = 30, kMembers = 3;

size_t editCount() {
  const char* count = std::getenv("CHORUS_MUTATIONS");
  return count ? std::stoul(count) : 600;
}

/// Everything that the graph returns.
std::vector<at::Tensor> runGraph(const CanonicalGraph& canonical, const at::Tensor& x,
                                 const std::vector<at::Tensor>& slots) {
  auto graph = canonical.graph->copy();
  torch::jit::Code code(graph, "");
  torch::jit::Stack stack{x};
  for (const at::Tensor& slot : slots) stack.emplace_back(slot);
  torch::jit::InterpreterState(code).run(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : stack) results.push_back(value.toTensor());
  return results;
}

std::vector<at::Tensor> valuesOf(const Member& member) {
  std::vector<at::Tensor> values;
  for (const TensorSlot& slot : member.slots)
    values.push_back(slot.value.detach().clone().requires_grad_(slot.requires_grad));
  return values;
}

/// Rows that look at both sides of every branch.
at::Tensor input(int64_t rows) {
  return at::cos(at::arange(rows * 4, at::kFloat) * 2.3).reshape({rows, 4});
}

bool close(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && at::allclose(a, b, 1e-3, 1e-4, true);
}

/// Member k's own slots in the order of member 0's.
void alignSlots(std::vector<Member>& members, const Certificate& certificate) {
  for (size_t k = 0; k < members.size(); ++k) {
    std::vector<TensorSlot> slots;
    for (const uint32_t s : certificate.members[k].slots) slots.push_back(members[k].slots[s]);
    members[k].slots = std::move(slots);
  }
}

/// "" or what slice k of the fused model computes otherwise than member k.
std::string fusedDiffers(std::vector<Member> members, const Certificate& certificate) {
  const std::vector<Member> own = members;
  alignSlots(members, certificate);
  FusedModel model = stackMembers(members);
  model.varying = varyingNumbers(certificate, members[0]);
  for (const bool train : {false, true}) {  // training moves the model's statistics
    torch::jit::Module module = buildModule(model);
    module.train(train);
    for (const int64_t rows : {2, 3}) {
      const at::Tensor x = input(rows);
      const auto fused = module.forward({x}).toTuple()->elements();
      for (size_t k = 0; k < own.size(); ++k) {
        const auto alone = runGraph(train ? own[k].train : own[k].eval, x, valuesOf(own[k]));
        for (size_t j = 0; j < 2; ++j) {
          const at::Tensor mine = fused[j].toTensor()[static_cast<int64_t>(k)];
          if (!close(mine, alone[j])) return "output " + std::to_string(j) + " of " + own[k].name;
        }
      }
      if (train) break;  // the statistics have moved
    }
  }
  return "";
}

/// "" or the gradient of slice k that is otherwise than that of member k alone.
std::string gradientDiffers(std::vector<Member> members, const Certificate& certificate) {
  const std::vector<Member> own = members;
  alignSlots(members, certificate);
  FusedModel model = stackMembers(members);
  model.varying = varyingNumbers(certificate, members[0]);
  torch::jit::Module module = buildModule(model);
  module.train();
  const at::Tensor x = input(3), weights = at::sin(at::arange(12, at::kFloat)).reshape({3, 4});
  (module.forward({x}).toTuple()->elements()[0].toTensor() * weights).sum().backward();
  std::map<std::string, at::Tensor> state;
  for (const auto& p : module.named_parameters()) state[p.name] = p.value;
  for (size_t k = 0; k < own.size(); ++k) {
    std::vector<at::Tensor> values = valuesOf(own[k]);
    (runGraph(own[k].train, x, values)[0] * weights).sum().backward();
    for (size_t s = 0; s < members[0].slots.size(); ++s) {
      const at::Tensor alone = values[certificate.members[k].slots[s]].grad();
      const auto fused = state.find(members[0].slots[s].name);
      if (!alone.defined() || fused == state.end()) continue;
      const at::Tensor mine = fused->second.grad();
      if (!mine.defined() || !close(mine[static_cast<int64_t>(k)], alone))
        return "gradient of " + own[k].name + "'s " + own[k].slots[s].name;
    }
  }
  return "";
}

/// The member's code on the weights of member 0, under the map: equal where nothing varies.
std::string functionDiffers(const std::vector<Member>& members, const Certificate& certificate) {
  if (!certificate.attributes.empty() || !certificate.constants.empty()) return "";
  const std::vector<at::Tensor> first = valuesOf(members[0]);
  for (size_t k = 1; k < members.size(); ++k) {
    std::vector<at::Tensor> mine(first.size());
    for (size_t s = 0; s < first.size(); ++s) mine[certificate.members[k].slots[s]] = first[s];
    for (const bool train : {true, false}) {
      const auto a = runGraph(train ? members[0].train : members[0].eval, input(3), first);
      const auto b = runGraph(train ? members[k].train : members[k].eval, input(3), mine);
      for (size_t j = 0; j < 2; ++j) {
        if (!close(a[j], b[j])) return "output " + std::to_string(j) + " of " + members[k].name;
      }
    }
  }
  return "";
}

struct Counts {
  size_t refused = 0, carried = 0, accepted = 0;
};

TEST(Mutations, EveryEditIsRefusedCarriedOrAcceptedAsItShould) {
  std::map<std::string, Counts> counts;
  size_t computed = 0;
  const size_t n = editCount();
  for (size_t i = 0; i < n; ++i) {
    Random random(static_cast<uint32_t>(1000 + i));
    const Network network = randomNetwork(i % kNetworks);
    const Edit edit = randomEdit(network, random);
    const size_t odd = below(random, kMembers);
    std::vector<Member> members;
    for (size_t k = 0; k < kMembers; ++k) {
      const Network& mine = k == odd ? edit.network : network;
      members.push_back(memberOf(mine, "m" + std::to_string(k), 7 * i + k));
    }
    const std::string what =
        "edit " + std::to_string(i) + " (" + edit.name + " of member " + std::to_string(odd) + ")";
    const std::vector<ProvedGroup> groups = proveGroupsUnifying(members, /*mixed_momentum=*/true);
    Counts& mine = counts[edit.name];
    if (groups.size() > 1) {
      ++mine.refused;
      EXPECT_TRUE(edit.changes) << what;
      EXPECT_EQ(groups.back().members, std::vector<size_t>{odd}) << what;
      continue;
    }
    const Certificate& certificate = groups[0].certificate;
    const bool carries = !certificate.attributes.empty() || !certificate.constants.empty();
    ++(carries ? mine.carried : mine.accepted);
    EXPECT_EQ(checkCertificate(certificate, members), "") << what;
    EXPECT_EQ(functionDiffers(members, certificate), "") << what;
    if (!carries && i % 4 != 0) continue;
    EXPECT_EQ(fusedDiffers(members, certificate), "") << what;
    EXPECT_EQ(gradientDiffers(members, certificate), "") << what;
    ++computed;
  }
  std::cout << n << " edits of " << kNetworks << " networks, " << computed << " computed fused\n";
  for (const auto& [name, c] : counts) {
    std::cout << "  " << name << ": " << c.refused << " refused, " << c.carried << " carried, "
              << c.accepted << " accepted\n";
  }
}

/// One entry of the certificate of a random network, set to another value.
TEST(Mutations, TheCheckerRejectsEveryChangedEntry) {
  size_t tried = 0;
  for (size_t i = 0; i < 20 * kNetworks; ++i) {
    Random random(static_cast<uint32_t>(i));
    Network network = randomNetwork(i % kNetworks), changed = network;
    for (Step& step : changed.steps) step.number *= 2;  // some of them vary
    changed.names = 5;
    const std::vector<Member> members = {memberOf(network, "m0", 1), memberOf(changed, "m1", 2)};
    const Certificate valid = prove(members);
    Certificate other = valid;
    MemberMap& map = other.members[below(random, 2)];
    const size_t n_kinds = valid.attributes.empty() ? 3 : 5;
    const size_t kind = below(random, n_kinds);
    if (kind < 3) {
      auto& list = kind == 0 ? map.train_nodes : kind == 1 ? map.eval_nodes : map.slots;
      if (list.empty()) continue;
      uint32_t& entry = list[below(random, list.size())];
      entry = static_cast<uint32_t>(below(random, list.size() + 2));
    } else {
      VaryingAttribute& attribute = other.attributes[below(random, other.attributes.size())];
      if (kind == 3) attribute.values[below(random, 2)] = "d3fe8000000000000";
      if (kind == 4) attribute.operand += 1;
    }
    if (other == valid) continue;
    ++tried;
    EXPECT_NE(checkCertificate(other, members), "") << i;
  }
  EXPECT_GT(tried, 400u);
  std::cout << tried << " changed certificates\n";
}

}  // namespace
}  // namespace chorus::test
