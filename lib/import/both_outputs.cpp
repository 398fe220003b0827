#include "lib/import/both_outputs.h"

namespace chorus {
namespace {

using Kind = OutputTree::Kind;

/// Output `at` becomes an empty tensor.
void insertEmpty(CanonicalGraph& canonical, size_t at) {
  Graph& graph = *canonical.graph;
  const torch::jit::WithInsertPoint end(graph.return_node());
  Value* empty = graph.insert(c10::aten::zeros, {std::vector<int64_t>{0}});
  empty->setType(c10::TensorType::create(
      at::kFloat, std::nullopt, c10::VaryingShape<int64_t>(std::vector<int64_t>{0}),
      c10::VaryingShape<int64_t>(std::vector<int64_t>{1}), std::nullopt));
  graph.return_node()->insertInput(at, empty);
  ++canonical.n_outputs;
}

class Merging {
 public:
  Merging(Specialized& train, Specialized& eval, const std::string& file)
      : train_(train), eval_(eval), file_(file) {}

  OutputTree merge(const OutputTree& train, const OutputTree& eval, Kind parent) {
    const bool nothing = train.kind == Kind::None || eval.kind == Kind::None;
    if (nothing && parent != Kind::Tuple) {
      throw Refused(unsupported("the model returns a value that is not a tensor (None)", place()));
    }
    OutputTree both = train;
    if (train.kind == Kind::None && eval.kind == Kind::Tensor) {
      insertEmpty(train_.canonical, next_++);
      both.kind = Kind::TensorInEval;
      return both;
    }
    if (train.kind == Kind::Tensor && eval.kind == Kind::None) {
      insertEmpty(eval_.canonical, next_++);
      both.kind = Kind::TensorInTraining;
      return both;
    }
    if (train.kind != eval.kind || train.keys != eval.keys ||
        train.children.size() != eval.children.size()) {
      throw Refused(
          unsupported("the model returns other things in eval mode than in train mode", place()));
    }
    if (train.kind == Kind::Tensor) ++next_;
    for (size_t i = 0; i < both.children.size(); ++i)
      both.children[i] = merge(train.children[i], eval.children[i], both.kind);
    return both;
  }

 private:
  Place place() const { return {file_, "", "", ""}; }

  Specialized& train_;
  Specialized& eval_;
  const std::string& file_;
  size_t next_ = 0;  ///< index of the next tensor
};

}  // namespace

OutputTree bothOutputs(Specialized& train, Specialized& eval, const std::string& file) {
  const OutputTree ours = train.output, theirs = eval.output;
  return Merging(train, eval, file).merge(ours, theirs, Kind::Tensor);
}

}  // namespace chorus
