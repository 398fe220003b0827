#include "lib/support/random_ops.h"

#include <set>
#include <string>

#include "lib/support/value_types.h"

namespace chorus {
namespace {

using torch::jit::Node;

/// Ops that draw whatever their arguments are; those that can be switched off are in
/// `drawsFromCounters`.
const std::set<std::string> kAlwaysRandom = {"aten::bernoulli",
                                             "aten::rand",
                                             "aten::rand_like",
                                             "aten::randn",
                                             "aten::randn_like",
                                             "aten::randint",
                                             "aten::randint_like",
                                             "aten::randperm",
                                             "aten::normal",
                                             "aten::normal_functional",
                                             "aten::multinomial",
                                             "aten::poisson",
                                             "aten::binomial",
                                             "aten::exponential",
                                             "aten::uniform",
                                             "aten::geometric",
                                             "aten::cauchy",
                                             "aten::log_normal",
                                             "aten::random",
                                             "aten::_standard_gamma",
                                             "aten::_sample_dirichlet",
                                             "aten::native_dropout"};

/// A flag or probability that is not a constant counts as on.
bool isOn(const Node* node, const std::string& flag) {
  const auto value = constantArgument(node, flag);
  return !value || (value->isBool() && value->toBool());
}
bool isPositive(const Node* node, const std::string& probability) {
  const auto value = constantArgument(node, probability);
  return !value || (value->isDouble() && value->toDouble() > 0);
}

}  // namespace

bool isDropout(const Node* node) {
  static const std::set<std::string> names = {"aten::dropout", "aten::feature_dropout",
                                              "aten::alpha_dropout", "aten::feature_alpha_dropout"};
  return names.count(node->kind().toQualString()) > 0;
}

bool trains(const Node* dropout) { return isOn(dropout, "train"); }

bool drawsFromCounters(const Node* node) {
  const std::string op = node->kind().toQualString();
  if (kAlwaysRandom.count(op) || op == kKeptOp) return true;
  if (isDropout(node)) return trains(node) && isPositive(node, "p");
  if (op == "aten::rrelu") return isOn(node, "training");
  if (op == "aten::rrelu_with_noise") return isOn(node, "training");
  if (op == "aten::scaled_dot_product_attention") return isPositive(node, "dropout_p");
  if (op == "aten::lstm" || op == "aten::gru" || op == "aten::rnn_tanh" || op == "aten::rnn_relu") {
    return isOn(node, "train") && isPositive(node, "dropout");
  }
  return false;
}

}  // namespace chorus
