#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/normalize_ops.h>

#include "chorus/diagnostics.h"
#include "chorus/member.h"
#include "chorus/pass.h"

namespace chorus {
namespace {

using torch::jit::Graph;
using torch::jit::NamedValue;
using torch::jit::Node;
using torch::jit::Value;

using Ints = std::vector<int64_t>;
using Sizes = std::vector<std::optional<int64_t>>;

/// Where the arguments of one spelling of convolution stand; -1: it has none.
struct Spelling {
  const char* op;
  int64_t spatial;  ///< 0: the weight's rank less 2
  bool transposed;
  int stride, padding, dilation, transposed_at, output_padding, groups;
};

const Spelling* spellingOf(const Node* node) {
  static const std::vector<Spelling> table = {
      {"aten::conv1d", 1, false, 3, 4, 5, -1, -1, 6},
      {"aten::conv2d", 2, false, 3, 4, 5, -1, -1, 6},
      {"aten::conv3d", 3, false, 3, 4, 5, -1, -1, 6},
      {"aten::_convolution_mode", 0, false, 3, 4, 5, -1, -1, 6},
      {"aten::conv_transpose1d", 1, true, 3, 4, 7, -1, 5, 6},
      {"aten::conv_transpose2d", 2, true, 3, 4, 7, -1, 5, 6},
      {"aten::conv_transpose3d", 3, true, 3, 4, 7, -1, 5, 6},
      {"aten::_convolution", 0, false, 3, 4, 5, 6, 7, 8},
      {"aten::convolution", 0, false, 3, 4, 5, 6, 7, 8},
  };
  for (const Spelling& row : table) {
    if (std::string(row.op) == node->kind().toQualString()) return &row;
  }
  return nullptr;
}

/// A convolution on its way to the one spelling.
struct Convolution {
  Graph& graph;
  Node* node;
  int64_t spatial;
  Value* input;

  [[noreturn]] void refuse(const std::string& why) const {
    Message message = internalError(std::string(node->kind().toQualString()) + " " + why);
    message.place = placeOf(node);
    throw Refused(std::move(message));
  }

  const c10::TensorType& tensorType(size_t i) const {
    const auto* type = node->input(i)->type()->castRaw<c10::TensorType>();
    if (type == nullptr || !type->dim()) refuse("reads a tensor of unknown rank");
    return *type;
  }

  Value* emit(const char* op, const std::vector<NamedValue>& arguments, const c10::TypePtr& type) {
    Value* value = graph.insert(c10::Symbol::fromQualString(op), arguments);
    value->node()->copyMetadata(node);
    return value->setType(type);
  }

  /// The list in argument `i` as constants, one entry per spatial dim; nullopt where it is
  /// computed.
  std::optional<Ints> constantInts(int i) const {
    const auto constant = torch::jit::toIValue(node->input(static_cast<size_t>(i)));
    Ints ints;
    if (constant && constant->isInt()) {
      ints = {constant->toInt()};
    } else if (constant && constant->isIntList()) {
      ints = constant->toIntVector();
    } else {
      const Node* list = node->input(static_cast<size_t>(i))->node();
      if (list->kind() != c10::prim::ListConstruct) return std::nullopt;
      for (const Value* element : list->inputs()) {
        const auto known = torch::jit::toIValue(element);
        if (!known || !known->isInt()) return std::nullopt;
        ints.push_back(known->toInt());
      }
    }
    if (ints.size() == 1) ints.resize(static_cast<size_t>(spatial), ints[0]);
    return ints;
  }

  Value* fullList(int i, int64_t otherwise) {
    if (i < 0) return graph.insertConstant(Ints(static_cast<size_t>(spatial), otherwise));
    if (const auto ints = constantInts(i)) return graph.insertConstant(*ints);
    return node->input(static_cast<size_t>(i));
  }
};

c10::TypePtr withSizes(const Value* like, const Sizes& sizes) {
  const auto& type = like->type()->expectRef<c10::TensorType>();
  return c10::TensorType::create(type.scalarType(), type.device(), c10::SymbolicShape(sizes), {},
                                 type.requiresGrad());
}

Sizes sizesOf(const Value* value) {
  const auto& type = value->type()->expectRef<c10::TensorType>();
  if (const auto sizes = type.sizes().sizes()) return *sizes;
  return Sizes(type.dim().value_or(0));
}

// 'same' pads dilation * (kernel - 1) in all, half of it on the left; one more on the right where
// that is odd.
Value* samePadding(Convolution& conv, const Spelling& spelling) {
  const auto dilation = conv.constantInts(spelling.dilation);
  const Sizes weight = sizesOf(conv.node->input(1));
  if (!dilation) conv.refuse("has padding='same' and a computed dilation");
  Ints left, pad;
  Sizes padded = sizesOf(conv.input);
  bool odd = false;
  for (int64_t d = conv.spatial - 1; d >= 0; --d) {
    const auto at = static_cast<size_t>(d);
    if (!weight[at + 2]) conv.refuse("has padding='same' and a weight of unknown size");
    const int64_t total = (*dilation)[at] * (*weight[at + 2] - 1);
    left.insert(left.begin(), total / 2);
    pad.insert(pad.end(), {0, total % 2});
    odd = odd || total % 2 != 0;
    auto& size = padded[padded.size() - static_cast<size_t>(conv.spatial) + at];
    if (size) *size += total % 2;
  }
  if (odd) {
    conv.input =
        conv.emit("aten::constant_pad_nd", {conv.input, pad, 0}, withSizes(conv.input, padded));
  }
  return conv.graph.insertConstant(left);
}

Value* paddingOf(Convolution& conv, const Spelling& spelling) {
  const auto constant =
      torch::jit::toIValue(conv.node->input(static_cast<size_t>(spelling.padding)));
  if (!constant || !constant->isString()) return conv.fullList(spelling.padding, 0);
  const std::string mode = constant->toStringRef();
  if (mode == "same") return samePadding(conv, spelling);
  if (mode != "valid") conv.refuse("has padding='" + mode + "'");
  return conv.graph.insertConstant(Ints(static_cast<size_t>(conv.spatial), 0));
}

void normalizeConvolution(Graph& graph, Node* node, const Spelling& spelling) {
  const torch::jit::WithInsertPoint here(node);
  Convolution conv{graph, node, spelling.spatial, node->input(0)};
  if (conv.spatial == 0) conv.spatial = static_cast<int64_t>(*conv.tensorType(1).dim()) - 2;
  const bool unbatched = static_cast<int64_t>(*conv.tensorType(0).dim()) == conv.spatial + 1;
  Sizes sizes = sizesOf(node->output());
  if (unbatched) {
    Sizes batched = sizesOf(conv.input);
    batched.insert(batched.begin(), 1);
    conv.input = conv.emit("aten::unsqueeze", {conv.input, 0}, withSizes(conv.input, batched));
    sizes.insert(sizes.begin(), 1);
  }
  Value* padding = paddingOf(conv, spelling);
  Value* transposed = spelling.transposed_at < 0
                          ? graph.insertConstant(spelling.transposed)
                          : node->input(static_cast<size_t>(spelling.transposed_at));
  const std::vector<NamedValue> arguments = {conv.input,
                                             node->input(1),
                                             node->input(2),
                                             conv.fullList(spelling.stride, 1),
                                             padding,
                                             conv.fullList(spelling.dilation, 1),
                                             transposed,
                                             conv.fullList(spelling.output_padding, 0),
                                             node->input(static_cast<size_t>(spelling.groups))};
  c10::TypePtr type = unbatched ? withSizes(node->output(), sizes) : node->output()->type();
  Value* result = conv.emit("aten::convolution", arguments, type);
  if (unbatched) result = conv.emit("aten::squeeze", {result, 0}, node->output()->type());
  if (node->output()->hasDebugName()) result->copyMetadata(node->output());
  node->output()->replaceAllUsesWith(result);
  node->destroy();
}

bool isSlice(const Node* node) {
  return (node->kind() == c10::aten::slice || node->kind() == c10::aten::slice_scatter) &&
         node->output()->type()->kind() == c10::TypeKind::TensorType;
}

/// The ends that are left out, as a trace writes them.
void normalizeSlice(Graph& graph, Node* node) {
  const int64_t all = std::numeric_limits<int64_t>::max();
  for (const auto& [name, number] : {std::pair{"start", int64_t{0}}, std::pair{"end", all}}) {
    const size_t i = *node->schema().argumentIndexWithName(name);
    const auto literal = torch::jit::toIValue(node->input(i));
    if (!literal || !literal->isNone()) continue;
    const torch::jit::WithInsertPoint here(node);
    node->replaceInput(i, graph.insertConstant(number));
  }
}

void normalizeBlock(Graph& graph, torch::jit::Block& block) {
  for (auto it = block.nodes().begin(); it != block.nodes().end();) {
    Node* node = *it++;
    for (torch::jit::Block* inner : node->blocks()) normalizeBlock(graph, *inner);
    const Spelling* spelling = spellingOf(node);
    if (spelling)
      normalizeConvolution(graph, node, *spelling);
    else if (isSlice(node))
      normalizeSlice(graph, node);
  }
}

void run(std::shared_ptr<Graph>& graph) {
  torch::jit::NormalizeOps(graph);
  normalizeBlock(*graph, *graph->block());
}

}  // namespace

Pass normalize_aliases() {
  return {
      .name = "normalize-aliases",
      .summary = "gives each operation one name and one list of arguments",
      .description =
          "    absolute(x)                          ==>  abs(x), and LibTorch's other aliases\n"
          "    conv2d(x, w, b, s, p, d, g)          ==>  convolution(x, w, b, s, p, d, False, [0, "
          "0], g)\n"
          "    conv_transpose2d(x, w, b, s, p, o, g, d)\n"
          "                                         ==>  convolution(x, w, b, s, p, d, True, o, "
          "g)\n"
          "    _convolution(x, ..., g, flags)       ==>  convolution(x, ..., g)\n"
          "    slice(x, d, None, None, step)        ==>  slice(x, d, 0, 9223372036854775807, "
          "step)\n"
          "\n"
          "for 1, 2 and 3 dims. Lists get one entry per spatial dim. padding='valid' is 0; "
          "padding='same' is\n"
          "dilation * (kernel - 1) in all, behind a constant_pad_nd where that is odd. An input "
          "without batch dim\n"
          "gets one, and the result loses it. The ranks of input and weight must be known.",
      .optional = false,
      .run = run,
  };
}

}  // namespace chorus
