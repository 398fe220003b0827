// The walk behind specialize(): one object per (member, mode). Its parts:
//   specializer.cpp     graphs, calls, attributes, results
//   control_flow.cpp    branches, loops, with-blocks
//   undecided.cpp       branches and loops that stay in the graph
//   containers.cpp      lists, tuples, dicts
//   operators.cpp       ops on tensors and numbers
//   functionalize.cpp   in-place ops
//   views.cpp           what a write through a view does to its base
//   modes.cpp           what depends on train and eval: dropout, batch norm
#pragma once

#include "lib/import/abstract_value.h"
#include "lib/import/specialize.h"

namespace chorus {

class Specializer {
 public:
  Specializer(const SpecializeRequest& request, const torch::jit::Module* self);
  Specialized run(const Graph& code);

 private:
  using Frame = std::unordered_map<const Value*, AbstractPtr>;
  using CellPtr = std::shared_ptr<TensorCell>;
  using Arguments = std::vector<AbstractPtr>;

  /// An op about to be performed: the node that asks for it, the name after functionalisation, its
  /// arguments.
  struct Call {
    const Node* node;
    std::string name;  ///< "aten::add"
    Arguments arguments;
    const c10::FunctionSchema* schema;
  };

  // specializer.cpp
  AbstractPtr defaultOf(size_t argument);
  std::vector<AbstractPtr> runGraph(const Graph& graph, const Arguments& arguments);
  void runBlock(const torch::jit::Block& block, Frame& frame);
  void runNode(const Node& node, Frame& frame);
  AbstractPtr attribute(const Node& node, const AbstractPtr& owner);
  void setAttribute(const Node& node, const AbstractPtr& owner, const AbstractPtr& value);
  std::vector<AbstractPtr> callMethod(const Node& node, const Arguments& arguments);
  std::vector<AbstractPtr> callFunction(const Node& node, const Arguments& arguments);
  AbstractPtr constant(const Node& node);
  AbstractPtr constantTensor(const at::Tensor& tensor);
  Specialized finish(const AbstractPtr& result);
  OutputTree flattenOutput(const AbstractPtr& result, std::vector<Value*>& into);

  // control_flow.cpp
  void runIf(const Node& node, Frame& frame);
  void runLoop(const Node& node, Frame& frame);
  void runRaise(const Node& node, const Arguments& arguments);
  /// True: the first block; nullopt: it depends on data or on the batch size.
  std::optional<bool> decide(const Node& node, const AbstractPtr& condition);
  bool runGradMode(const Node& node, const Arguments& arguments);

  // undecided.cpp
  /// What running a block of an undecided node left behind.
  struct BlockRun {
    torch::jit::Block* block;
    Arguments named;                            ///< the results as the code has them
    Arguments results;                          ///< frozen: their tensors are values of the block
    std::vector<std::vector<CellPtr>> sources;  ///< per result: whose memory from outside it may be
    std::map<CellPtr, TensorCell> written;      ///< tensors from outside, as they are at its end
  };
  using Snapshot = std::vector<std::pair<CellPtr, TensorCell>>;
  Snapshot snapshot();
  BlockRun runInto(torch::jit::Block* into, const torch::jit::Block& code, Frame& frame,
                   const std::vector<const Value*>& results);
  AbstractPtr freeze(const AbstractPtr& a);
  void markMet(const std::vector<std::vector<CellPtr>>& sources, const AbstractPtr& result);
  void runUndecidedIf(const Node& node, Frame& frame);
  AbstractPtr meet(Node* branch, const AbstractPtr& condition, const BlockRun& a, const BlockRun& b,
                   const AbstractPtr& x, const AbstractPtr& y);
  CellPtr meetTensors(Node* branch, const AbstractPtr& condition, const BlockRun& a,
                      const BlockRun& b, const TensorCell& x, const TensorCell& y);
  /// A loop from iteration `begin` on.
  struct LoopStart {
    AbstractPtr trips, go;
    Arguments carried;
    int64_t begin = 0;
  };
  struct LoopShape;
  void runUndecidedLoop(const Node& node, Frame& frame, const LoopStart& start);
  bool tryLoop(const Node& node, Frame& frame, const LoopStart& start, LoopShape& shape);
  AbstractPtr enterLoop(const AbstractPtr& init, Node* loop, LoopShape& shape);
  bool settle(const Node& node, const AbstractPtr& inside, const AbstractPtr& result,
              LoopShape& shape);
  AbstractPtr leaveLoop(const AbstractPtr& inside, const AbstractPtr& result, Node* loop,
                        LoopShape& shape);
  Value* number(const AbstractPtr& a, const c10::TypePtr& wanted);
  CellPtr newCell();

  // containers.cpp
  /// True if the node works on a container that the walk keeps itself; then outputs are set.
  bool runContainer(const Node& node, const Arguments& arguments,
                    std::vector<AbstractPtr>& outputs);
  void refuseOutsider(const Node& node, const AbstractPtr& container) const;
  bool runListOp(const Node& node, const Arguments& arguments, std::vector<AbstractPtr>& outputs);
  bool runDictOp(const Node& node, const Arguments& arguments, std::vector<AbstractPtr>& outputs);
  AbstractPtr fromIValues(const c10::IValue& first, const c10::IValue& second,
                          const c10::TypePtr& type);

  // operators.cpp
  std::vector<AbstractPtr> runOperator(const Node& node, const Arguments& arguments);
  std::vector<AbstractPtr> perform(const Call& call);
  std::vector<AbstractPtr> foldPlain(const Call& call);
  bool areEqualForAll(const Call& call) const;
  std::vector<AbstractPtr> readMetadata(const Call& call);
  std::vector<AbstractPtr> emit(const Call& call);
  std::vector<AbstractPtr> emit(const Node* at, const std::string& name,
                                const Arguments& arguments);
  AbstractPtr emitOne(const Node* at, const std::string& name, const Arguments& arguments);
  AbstractPtr wrapOutput(Node* made, size_t index, const c10::IValue& first,
                         const c10::IValue& second, bool varies);
  /// `tensor` in `dtype`.
  AbstractPtr autocast(const Call& call);
  AbstractPtr cast(const Node* at, const AbstractPtr& tensor, const AbstractPtr& dtype);
  c10::IValue concrete(const AbstractPtr& a, bool second) const;
  Value* materialize(const AbstractPtr& a, const c10::TypePtr& wanted = nullptr);
  Value* device();

  // contents.cpp
  bool isReadOfContents(const Call& call) const;
  std::vector<AbstractPtr> readContents(const Call& call);
  std::vector<AbstractPtr> withNumbersAsTensors(const Call& given);
  void readPlaces(Call& call) const;
  bool takesTensor(const std::string& name, size_t i) const;

  // functionalize.cpp
  std::vector<AbstractPtr> runInPlace(const Call& call);
  AbstractPtr inPlaceResult(const Call& call);
  AbstractPtr copied(const Call& call, const AbstractPtr& source);
  AbstractPtr drawn(const Call& call);
  std::vector<AbstractPtr> reshapeInPlace(const Call& call);
  std::vector<AbstractPtr> writeOut(const Call& call, size_t out);
  Value* read(const CellPtr& cell);
  void write(const CellPtr& cell, const AbstractPtr& contents, const Node* at);
  void store(const CellPtr& cell, const AbstractPtr& contents, const Node* at);
  void forget(const CellPtr& cell);
  void forgetViews(const CellPtr& cell);
  void forgetNumbers(const CellPtr& cell, const CellPtr& contents);
  AbstractPtr withHistory(const CellPtr& cell, const AbstractPtr& contents, const Node* at);
  bool tracksGradient(const Value* value) const;
  void requireWritable(const TensorCell& cell, const Node* at) const;

  // views.cpp
  void linkViews(const Arguments& arguments, const std::vector<AbstractPtr>& outputs);
  Value* replay(const CellPtr& view);
  AbstractPtr writeThrough(const CellPtr& view, const AbstractPtr& contents, const Node* at);
  AbstractPtr joinParts(const CellPtr& view, const AbstractPtr& contents, const Node* at);
  AbstractPtr scatterThrough(const CellPtr& view, const AbstractPtr& contents, const Node* at);

  // modes.cpp
  bool applyMode(Call& call, std::vector<AbstractPtr>& outputs);
  std::vector<AbstractPtr> trainBatchNorm(const Call& call, bool flipped);
  std::vector<AbstractPtr> trainInstanceNorm(const Call& call);
  AbstractPtr movingAverage(const Call& call, const AbstractPtr& old, const AbstractPtr& batch,
                            const AbstractPtr& momentum);
  void countBatch(const Call& call, const CellPtr& running_mean);
  bool isCounterOfTrace(const Call& call) const;
  void plainCount(Call& call) const;

  // Places and messages.
  Place place(const Node* node) const;
  void stamp(Node* made, const Node* from);
  [[noreturn]] void refuse(const Node* node, const std::string& text) const;
  [[noreturn]] void refuseUnsupported(const Node* node, const std::string& text) const;
  Place batchFixingPlace(const Node* failed) const;

  const SpecializeRequest& request_;
  const torch::jit::Module* self_;
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  std::vector<TensorSlot> slots_;
  std::vector<CellPtr> slot_cells_;
  std::map<size_t, CellPtr> rebound_;  ///< slot -> what the code assigned to its name
  std::vector<CellPtr> views_;
  std::map<std::string, size_t> slot_by_path_;       ///< names and aliases
  std::vector<std::string> module_path_;             ///< of the calls being walked
  std::vector<torch::jit::SourceRange> call_sites_;  ///< one per call being walked
  std::map<std::string, torch::jit::ScopePtr> scopes_;
  Value* device_ = nullptr;
  int no_grad_ = 0;
  int undecided_ = 0;                             ///< blocks of undecided nodes being walked
  std::vector<std::weak_ptr<TensorCell>> cells_;  ///< all that were made
};

/// A tensor, perhaps None, or a list of such.
bool isTensorType(const c10::TypePtr& type);

}  // namespace chorus
