#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>

#include "chorus/checker.h"
#include "chorus/equivalence.h"
#include "test/unit/prove_cases.h"

namespace chorus::test {
namespace {

/// A graph in the making: lines in the order of making, or shuffled as far as operands allow.
class Sketch {
 public:
  /// `twist`: seeds how operands of sums are exchanged and slots renamed; 0: not at all.
  explicit Sketch(uint64_t twist) : twist_(twist), random_(twist) {}

  std::string weight() {
    slots_.push_back(slot("w" + std::to_string(slots_.size()), {4, 4}));
    return "%w" + std::to_string(slots_.size() - 1);
  }
  std::string unary(const std::string& op, const std::string& x) {
    return line(op + "(" + x + ")");
  }
  std::string linear(const std::string& x) {
    return line("aten::matmul(" + x + ", " + weight() + ")");
  }
  std::string add(std::string a, std::string b) {
    if (twist_ != 0 && random_() % 2 == 1) std::swap(a, b);
    return line("aten::add(" + a + ", " + b + ", %one)");
  }
  /// A balanced tree, of the values in another order where twisted.
  std::string sum(std::vector<std::string> values, bool may_reorder = true) {
    if (twist_ != 0 && may_reorder) std::ranges::shuffle(values, random_);
    while (values.size() > 1) {
      std::vector<std::string> next;
      for (size_t i = 0; i + 1 < values.size(); i += 2)
        next.push_back(add(values[i], values[i + 1]));
      if (values.size() % 2 == 1) next.push_back(values.back());
      values = next;
    }
    return values[0];
  }

  Member member(const std::string& result) {
    Net net;
    std::vector<size_t> order(slots_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (twist_ != 0) std::ranges::shuffle(order, random_);
    std::string head = "graph(%x : Tensor";
    for (const size_t i : order) {
      head += ", %w" + std::to_string(i) + " : Tensor";
      net.slots.push_back(slots_[i]);
      net.slots.back().name = (twist_ != 0 ? "other" : "own") + std::to_string(net.slots.size());
    }
    net.train = head + "):\n  %one : int = prim::Constant[value=1]()\n" + body_ + "  return (" +
                result + ")\n";
    return memberOf(net, "m");
  }
  size_t size() const { return count_; }

 private:
  std::string line(const std::string& expression) {
    const std::string name = "%v" + std::to_string(count_++);
    body_ += "  " + name + " : Tensor = " + expression + "\n";
    return name;
  }

  uint64_t twist_;
  std::mt19937_64 random_;
  std::string body_;
  std::vector<TensorSlot> slots_;
  size_t count_ = 0;
};

using Shape = std::function<std::string(Sketch&, size_t)>;

std::string towers(Sketch& sketch, size_t n) {  // n / 50 towers of 50 nodes
  std::vector<std::string> tops;
  for (size_t i = 0; i < std::max<size_t>(n / 50, 2); ++i) {
    std::string x = "%x";
    for (size_t j = 0; j < 25; ++j) x = sketch.unary("aten::relu", sketch.linear(x));
    tops.push_back(x);
  }
  return sketch.sum(tops);
}

std::string bipartite(Sketch& sketch,
                      size_t n) {  // every a_i + b_j, with one weight per row and column
  const auto side = static_cast<size_t>(std::sqrt(static_cast<double>(n) / 2));
  std::vector<std::string> a, b, sums;
  for (size_t i = 0; i < side; ++i) {
    a.push_back(sketch.linear("%x"));
    b.push_back(sketch.linear("%x"));
  }
  for (const std::string& left : a) {
    for (const std::string& right : b) sums.push_back(sketch.add(left, right));
  }
  return sketch.sum(sums, false);
}

std::string equalLeaves(Sketch& sketch, size_t n) {
  std::vector<std::string> leaves;
  for (size_t i = 0; i < n / 2; ++i) leaves.push_back(sketch.unary("aten::relu", "%x"));
  return sketch.sum(leaves);
}

std::string ladder(Sketch& sketch, size_t n) {  // two equal rails that are added at every rung
  std::string left = sketch.linear("%x"), right = sketch.linear("%x");
  for (size_t i = 0; i < n / 4; ++i) {
    const std::string rung = sketch.add(left, right);
    left = sketch.unary("aten::relu", rung);
    right = sketch.unary("aten::relu", sketch.add(right, left));
  }
  return sketch.add(left, right);
}

double proveSeconds(const Shape& shape, size_t n, size_t k, size_t& nodes, bool& equal) {
  std::vector<Member> members;
  for (size_t i = 0; i < k; ++i) {
    Sketch sketch(i);
    const std::string result = shape(sketch, n);
    nodes = sketch.size();
    members.push_back(sketch.member(result));
  }
  const auto start = std::chrono::steady_clock::now();
  try {
    const Certificate certificate = prove(members);
    equal = checkCertificate(certificate, members).empty();
  } catch (const Refused& refused) {
    equal = false;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Symmetric {
  const char* name;
  Shape shape;
};
void PrintTo(const Symmetric& s, std::ostream* out) { *out << s.name; }

class ProveSymmetric : public testing::TestWithParam<Symmetric> {};

/// Twisted copies are proved equal, and the time grows about as the nodes do.
TEST_P(ProveSymmetric, NearLinearInNodesAndMembers) {
  size_t nodes = 0;
  bool equal = false;
  const double small = proveSeconds(GetParam().shape, 2500, 2, nodes, equal);
  EXPECT_TRUE(equal) << nodes << " nodes";
  const double large = proveSeconds(GetParam().shape, 20000, 2, nodes, equal);
  EXPECT_TRUE(equal) << nodes << " nodes";
  EXPECT_GE(nodes, 18000u);
  const double three = proveSeconds(GetParam().shape, 2500, 5, nodes, equal);
  EXPECT_TRUE(equal);
  std::cout << GetParam().name << ": 2500 nodes " << small << " s, 20000 nodes " << large
            << " s, 5 members of 2500 " << three << " s\n";
  EXPECT_LT(large, 10.0);
  EXPECT_LT(large, 8 * 4 * std::max(small, 0.02));
  EXPECT_LT(three, 4 * 4 * std::max(small, 0.02));
}

INSTANTIATE_TEST_SUITE_P(Prove, ProveSymmetric,
                         testing::Values(Symmetric{"towers", towers},
                                         Symmetric{"bipartite", bipartite},
                                         Symmetric{"equal_leaves", equalLeaves},
                                         Symmetric{"ladder", ladder}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace chorus::test
