// Random networks and random edits of one, for the tests of the prover.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "chorus/member.h"

namespace chorus::test {

using Random = std::mt19937;
/// In [0, n), the same on every machine.
inline size_t below(Random& random, size_t n) { return random() % n; }

/// One op; value 0 is the network's input, value i + 1 the result of step i. All are f32[N,4].
struct Step {
  std::string op;  ///< linear, act, leaky, scale, shift, clamp, table, add, sub, mul, softmax,
                   ///< layer_norm, batch_norm, branch, lists
  std::vector<size_t> args;
  std::string kind = "relu";  ///< of act; of branch: what the first block does
  double number = 0.5;        ///< slope, factor, bound, eps, ...
  int64_t dim = 1;            ///< of softmax; of branch: the batch size it looks at
  double momentum = 0.1;
  bool bias = true;
  size_t weight = 0;  ///< of linear: which weight (two steps of one weight are tied)
  Role role = Role::Parameter;
  bool grad = true;
  int64_t columns = 4;  ///< of table
  double table = 1;     ///< its first element
};

struct Network {
  std::vector<Step> steps;
  std::vector<size_t> order;     ///< in which the steps are written; empty: as they are
  size_t dead = 0;               ///< how many ops nobody reads
  bool constants_apart = false;  ///< each use of a constant has a node of its own
  uint64_t names = 0;            ///< of tensors
  bool reversed_slots = false;
  bool swapped_outputs = false;
  bool updates = true;
};

Network randomNetwork(uint64_t seed);

/// Weights depend on `seed`.
Member memberOf(const Network& network, const std::string& name, uint64_t seed);

struct Edit {
  std::string name;
  bool changes = true;  ///< the function; else it must be accepted
  Network network;
};
/// One random edit that applies.
Edit randomEdit(const Network& network, Random& random);

}  // namespace chorus::test
