#include "lib/batching/regions.h"

#include <numeric>

namespace chorus {
namespace {

using torch::jit::Block;

/// The nodes of one block by number, with who reads whom.
struct Numbered {
  std::vector<const Node*> nodes;
  std::unordered_map<const Node*, size_t> number;
  std::vector<std::vector<size_t>> reads;  ///< numbers of the nodes that a node reads
};

Numbered numbered(const Block& block) {
  Numbered made;
  for (const Node* node : block.nodes()) {
    made.number[node] = made.nodes.size();
    made.nodes.push_back(node);
    made.reads.emplace_back();
    for (const Value* value : valuesRead(node)) {
      const auto found = made.number.find(value->node());
      if (found != made.number.end()) made.reads.back().push_back(found->second);
    }
  }
  return made;
}

/// Groups of nodes; a group's name is one of its nodes.
class Groups {
 public:
  explicit Groups(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0); }
  size_t of(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  bool join(size_t a, size_t b) {
    a = of(a);
    b = of(b);
    parent_[b] = a;
    return a != b;
  }

 private:
  std::vector<size_t> parent_;
};

/// Adds every node that lies on a way from a group back into it.
bool closeGroups(const Numbered& block, Groups& groups, std::vector<bool>& member) {
  bool grew = false;
  std::set<size_t> names;
  for (size_t i = 0; i < member.size(); ++i) {
    if (member[i]) names.insert(groups.of(i));
  }
  for (const size_t name : names) {
    const size_t n = member.size();
    std::vector<bool> behind(n), before(n);
    for (size_t i = 0; i < n; ++i) {
      behind[i] = member[i] && groups.of(i) == groups.of(name);
      for (const size_t read : block.reads[i]) behind[i] = behind[i] || behind[read];
    }
    for (size_t i = n; i-- > 0;) {
      before[i] = before[i] || (member[i] && groups.of(i) == groups.of(name));
      if (!before[i]) continue;
      for (const size_t read : block.reads[i]) before[read] = true;
    }
    for (size_t i = 0; i < n; ++i) {
      if (!behind[i] || !before[i] || block.nodes[i]->kind() == c10::prim::Constant) continue;
      grew |= !member[i];
      member[i] = true;
      grew |= groups.join(name, i);
    }
  }
  return grew;
}

/// Emits groups as wholes, each behind what it reads; false where two wait for each other.
bool order(const Numbered& block, Groups& groups, const std::vector<bool>& member,
           std::vector<std::vector<size_t>>& steps) {
  const size_t n = block.nodes.size();
  std::map<size_t, std::vector<size_t>> nodes_of;
  for (size_t i = 0; i < n; ++i) {
    if (member[i]) nodes_of[groups.of(i)].push_back(i);
  }
  std::vector<char> state(n);  // 1: being emitted, 2: emitted
  const std::function<bool(size_t)> emit = [&](size_t i) {
    const size_t name = member[i] ? groups.of(i) : i;
    if (state[name] == 2) return true;
    if (state[name] == 1) return false;
    state[name] = 1;
    const std::vector<size_t> step = member[i] ? nodes_of.at(name) : std::vector{i};
    for (const size_t node : step) {
      for (const size_t read : block.reads[node]) {
        const size_t other = member[read] ? groups.of(read) : read;
        if (other != name && !emit(read)) return false;
      }
    }
    state[name] = 2;
    steps.push_back(step);
    return true;
  };
  for (size_t i = 0; i < n; ++i) {
    if (!emit(i)) return false;
  }
  return true;
}

}  // namespace

std::vector<Region> stepsOf(const Block& block, const Dependence& dependence) {
  std::vector<Region> regions;
  bool any = false;
  for (const Node* node : block.nodes()) {
    regions.push_back({{node}, ""});
    any = any || dependence.touched.count(node) > 0;
  }
  if (!any) return regions;

  const Numbered all = numbered(block);
  Groups groups(all.nodes.size());
  std::vector<bool> member(all.nodes.size());
  for (size_t i = 0; i < all.nodes.size(); ++i) {
    member[i] = dependence.touched.count(all.nodes[i]) > 0;
    if (!member[i]) continue;
    for (const Value* value : valuesRead(all.nodes[i])) {
      const auto found = all.number.find(value->node());
      if (found != all.number.end() && dependence.ragged.count(value))
        groups.join(found->second, i);
    }
  }
  while (closeGroups(all, groups, member)) {
  }
  std::vector<std::vector<size_t>> steps;
  if (!order(all, groups, member, steps)) {
    // Two regions that wait for each other are one.
    std::optional<size_t> first;
    for (size_t i = 0; i < member.size(); ++i) {
      if (member[i]) groups.join(first.value_or(i), i);
      if (member[i] && !first) first = i;
    }
    while (closeGroups(all, groups, member)) {
    }
    steps.clear();
    if (!order(all, groups, member, steps))
      throw Refused(internalError("regions of a block cannot be put in order"));
  }
  regions.clear();
  for (const auto& step : steps) {
    Region region;
    for (const size_t i : step) region.nodes.push_back(all.nodes[i]);
    if (member[step.front()])
      region.reason = "a member's own data decide a shape, number or branch";
    regions.push_back(std::move(region));
  }
  return regions;
}

std::set<const Value*> readByOutputs(const CanonicalGraph& canonical) {
  std::set<const Node*> seen;
  std::set<const Value*> reached;
  std::vector<const Value*> work;
  for (size_t i = 0; i < canonical.n_outputs; ++i) work.push_back(canonical.graph->outputs()[i]);
  while (!work.empty()) {
    const Value* value = work.back();
    work.pop_back();
    reached.insert(value);
    if (!seen.insert(value->node()).second) continue;
    for (const Value* operand : valuesRead(value->node())) work.push_back(operand);
  }
  return reached;
}

}  // namespace chorus
