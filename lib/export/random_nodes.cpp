#include "lib/export/random_nodes.h"

#include <set>

#include "lib/export/varying.h"
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

const CanonicalGraph& graphOf(const Member& member, bool eval) {
  return eval ? member.eval : member.train;
}

const std::vector<uint32_t>& nodesOf(const Certificate& certificate, size_t k, bool eval) {
  const MemberMap& map = certificate.members.at(k);
  return eval ? map.eval_nodes : map.train_nodes;
}

/// For each node of member 0 that draws in some member: the number of its partner in each.
std::vector<std::vector<int64_t>> mapped(const std::vector<Member>& members,
                                         const Certificate& certificate, bool eval) {
  std::vector<std::vector<int64_t>> numbers;  // per member, per node of member 0
  std::vector<bool> draws;
  for (size_t k = 0; k < members.size(); ++k) {
    const std::vector<int64_t> own = randomNumbers(*graphOf(members[k], eval).graph);
    const std::vector<uint32_t>& nodes = nodesOf(certificate, k, eval);
    std::vector<int64_t>& mine = numbers.emplace_back();
    draws.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      const bool partner = nodes[i] != kNoNode;
      mine.push_back(partner ? own.at(nodes[i]) : k == 0 ? own.at(i) : numbers[0].at(i));
      if (mine.back() >= 0) draws[i] = true;
    }
  }
  for (std::vector<int64_t>& mine : numbers) {
    int64_t next = 1 + *std::max_element(mine.begin(), mine.end());
    std::vector<int64_t> kept;
    for (size_t i = 0; i < mine.size(); ++i) {
      if (draws[i]) kept.push_back(mine[i] >= 0 ? mine[i] : next++);
    }
    mine = std::move(kept);
  }
  return numbers;
}

bool isIdentity(const std::vector<int64_t>& map) {
  for (size_t i = 0; i < map.size(); ++i) {
    if (map[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

/// `old` numbers the ops `before`; the same for the ops `now`, new ones after all others.
std::vector<int64_t> renumbered(std::vector<int64_t> old, const std::vector<size_t>& before,
                                const std::vector<size_t>& now) {
  for (size_t i = old.size(); i < before.size(); ++i) old.push_back(static_cast<int64_t>(i));
  int64_t next = 0;
  for (const int64_t number : old) next = std::max(next, number + 1);
  std::vector<int64_t> numbers;
  for (const size_t op : now) {
    const auto found = std::find(before.begin(), before.end(), op);
    numbers.push_back(found == before.end() ? next++
                                            : old[static_cast<size_t>(found - before.begin())]);
  }
  return numbers;
}

std::vector<size_t> drawingOpsOf(const FusedModel& model, bool eval) {
  const std::vector<const Node*> drawing = drawingNodes(model, eval);
  const std::set<const Node*> wanted(drawing.begin(), drawing.end());
  std::vector<size_t> ops;
  size_t op = 0;
  for (const Node* node : nodesInOrder(*graphOf(model.prototype, eval).graph)) {
    if (wanted.contains(node)) ops.push_back(op);
    op += !node->kind().is_prim();
  }
  return ops;
}

}  // namespace

std::vector<const Node*> drawingNodes(const FusedModel& model, bool eval) {
  const Graph& graph = *graphOf(model.prototype, eval).graph;
  std::set<const Node*> lifted;
  for (const VaryingNumber& number : model.varying) {
    for (const VaryingNumber::Place& place : number.places) {
      if (place.eval != eval) continue;
      const Node* node = varyingNode(graph, place);
      if (isDropout(node) && trains(node)) lifted.insert(node);
    }
  }
  std::vector<const Node*> drawing;
  for (const Node* node : nodesInOrder(graph)) {
    if (drawsFromCounters(node) || lifted.contains(node)) drawing.push_back(node);
  }
  return drawing;
}

std::vector<RandomNodes> randomNodes(const std::vector<Member>& members,
                                     const Certificate& certificate) {
  const auto train = mapped(members, certificate, false), eval = mapped(members, certificate, true);
  std::vector<RandomNodes> all;
  bool alike = true;
  for (size_t k = 0; k < members.size(); ++k) {
    all.push_back({train[k], eval[k]});
    alike = alike && isIdentity(train[k]) && isIdentity(eval[k]);
  }
  if (alike) all.clear();
  return all;
}

DrawingOps drawingOps(const FusedModel& model) {
  return {drawingOpsOf(model, false), drawingOpsOf(model, true)};
}

void renumberRandomNodes(FusedModel& model, const DrawingOps& before) {
  const DrawingOps now = drawingOps(model);
  if (now.train == before.train && now.eval == before.eval) return;
  model.random_nodes.resize(model.k());
  for (RandomNodes& nodes : model.random_nodes) {
    nodes.train = renumbered(nodes.train, before.train, now.train);
    nodes.eval = renumbered(nodes.eval, before.eval, now.eval);
  }
}

}  // namespace chorus
