// A sample of one op: the op and its arguments as a line of text, from which a one-node member
// graph is made.
//
//   add(f32[4,4], f32[4], alpha=2)
//   view(f32[N,4,4], [@0.0, -1])           @0.1: size 1 of tensor 0, computed in the graph
//   index(f32[4,4,4], {none, i64[4]<4})    {...}: a list of tensors
//   sum(f32[4], dtype=f64)
//
// A tensor is dtype[sizes]; the size N is 4 (and once 3), and unknown to the types. Values: normal,
// integers -5..5;
// `+` positive, `~` in (0,1), `<n` integers in [0,n); `=` normal, no gradient
// (a buffer). After ` ; ` come flags:
//
//   per-member   the rule declines; the loop over K is what is tested
//   mixed        the rule declines some stacked/shared choices
//   shared       results may be shared though an operand is stacked: only its sizes or dtype are
//   read shapes       values are not defined, only sizes and dtypes are compared no-poison    the
//   law "other members may hold NaN" does not apply (the op checks its input)
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chorus/member.h"

namespace chorus::conformance {

struct TensorSpec {
  enum class Values { Any, Positive, Unit, Below };
  at::ScalarType dtype = at::kFloat;
  std::vector<std::optional<int64_t>> sizes;  ///< nullopt: N
  Values values = Values::Any;
  int64_t bound = 0;
  bool differentiable = true;

  std::vector<int64_t> sizesAt(int64_t n) const;
  at::Tensor draw(int64_t n, uint64_t seed) const;
};

/// One argument. Tensors are numbers into Sample::tensors, -1 is None.
struct Argument {
  enum class Kind { Value, Tensor, Tensors, Ints, Size };
  struct Size {
    bool computed = false;
    int64_t value = 0;  ///< the size, or the dim of
    int64_t tensor = 0;
  };
  std::string name;  ///< empty: positional
  Kind kind = Kind::Value;
  c10::IValue value;
  std::vector<int64_t> tensors;
  std::vector<Size> sizes;  ///< of Ints, Size
};

struct Sample {
  std::string text;
  std::string op;  ///< "aten::add"
  std::vector<Argument> arguments;
  std::vector<TensorSpec> tensors;
  std::set<std::string> flags;

  bool has(const std::string& flag) const { return flags.contains(flag); }
  bool followsBatch() const;
};

/// Throws std::runtime_error with the text and the place in it.
Sample parseSample(const std::string& text);

/// What a file of samples/ returns: its lines.
using Samples = std::vector<std::string>;
/// The member's graph: an input per tensor, then the op. Types as the importer would give them.
std::shared_ptr<Graph> memberGraph(const Sample& sample);

}  // namespace chorus::conformance

namespace chorus {
const std::vector<conformance::Samples>& sampleTable();  // generated from the files of samples/
}
