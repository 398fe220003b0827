// Attention and recurrent networks hold their dropout inside them. Where it drops, importing takes
// it out; where its p is 0, the op stays whole and keeps its kernels. Members of both kinds are
// written alike: with a dropout of which p is 0 in some.
#include "chorus/pass.h"
#include "lib/equivalence/unify.h"

namespace chorus::equivalence {

bool hasIdleDropout(const Member& member) {
  static const std::set<std::string> names = {"aten::scaled_dot_product_attention", "aten::lstm",
                                              "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"};
  const auto nodes = member.train.graph->nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const Node* node) { return names.contains(node->kind().toQualString()); });
}

void unifyDropout(Member& member) {
  member.train.graph = member.train.graph->copy();
  runPasses(member.train.graph, {"split-idle-dropouts"});
  runPasses(member.train.graph, canonicalPipeline());
}

}  // namespace chorus::equivalence
