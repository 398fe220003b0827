#include "lib/export/random_nodes.h"

#include "lib/support/graph_order.h"
#include "lib/support/random_ops.h"

namespace chorus {

std::vector<int64_t> randomNumbers(const Graph& graph) {
  std::vector<int64_t> numbers;
  int64_t next = 0;
  for (const Node* node : nodesInOrder(graph))
    numbers.push_back(drawsFromCounters(node) ? next++ : -1);
  return numbers;
}

namespace {

std::vector<int64_t> mapped(const Graph& first, const Graph& other,
                            const std::vector<uint32_t>& nodes) {
  const std::vector<int64_t> mine = randomNumbers(first), theirs = randomNumbers(other);
  std::vector<int64_t> map;
  for (size_t i = 0; i < mine.size(); ++i) {
    if (mine[i] >= 0) map.push_back(nodes.at(i) == kNoNode ? mine[i] : theirs.at(nodes.at(i)));
  }
  return map;
}

bool isIdentity(const std::vector<int64_t>& map) {
  for (size_t i = 0; i < map.size(); ++i) {
    if (map[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

}  // namespace

std::vector<RandomNodes> randomNodes(const std::vector<Member>& members,
                                     const Certificate& certificate) {
  std::vector<RandomNodes> all;
  bool alike = true;
  for (size_t k = 0; k < members.size(); ++k) {
    const MemberMap& map = certificate.members.at(k);
    all.push_back({mapped(*members[0].train.graph, *members[k].train.graph, map.train_nodes),
                   mapped(*members[0].eval.graph, *members[k].eval.graph, map.eval_nodes)});
    alike = alike && isIdentity(all.back().train) && isIdentity(all.back().eval);
  }
  if (alike) all.clear();
  return all;
}

}  // namespace chorus
