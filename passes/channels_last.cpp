#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

#include "chorus/pass.h"
#include "lib/support/value_types.h"

namespace chorus {
namespace {

using torch::jit::Graph;
using torch::jit::NamedValue;
using torch::jit::Node;
using torch::jit::Value;

/// A convolution over [N,C,H,W]: the only rank that the format exists for in all of LibTorch's
/// kernels. Its lists have one entry per dim of the image.
bool isOfImages(const Node* node) {
  if (node->kind() != c10::aten::convolution) return false;
  const auto stride = constantArgument(node, "stride");
  return stride && stride->isIntList() && stride->toIntList().size() == 2;
}

bool isOf(const Node* node, c10::Symbol op, int64_t first, int64_t second) {
  return node->kind() == op && node->inputs().size() == 3 &&
         torch::jit::constant_as<int64_t>(node->input(1)) == first &&
         torch::jit::constant_as<int64_t>(node->input(2)) == second;
}

/// The K-first value that `value` is the lowered chorus::merge of; nullptr where it is none.
Value* mergedFrom(const Value* value) {
  if (!isOf(value->node(), c10::aten::flatten, 1, 2)) return nullptr;
  const Node* transpose = value->node()->input(0)->node();
  return isOf(transpose, c10::aten::transpose, 0, 1) ? transpose->input(0) : nullptr;
}

/// Sizes of a weight [O,I,h,w], or of [K,O,I,h,w] that it is the merged form of; the last three of
/// them are the member's own.
std::vector<int64_t> sizesOfWeight(const Value* weight) {
  if (weight->node()->kind() == c10::aten::flatten) weight = weight->node()->input(0);
  const auto type = weight->type()->cast<c10::TensorType>();
  std::vector<int64_t> sizes;
  if (!type || !type->sizes().sizes()) return sizes;
  for (const auto& size : *type->sizes().sizes()) sizes.push_back(size.value_or(-1));
  return sizes;
}

bool isAll(const std::optional<c10::IValue>& list, int64_t number) {
  return list && list->isIntList() &&
         std::ranges::all_of(list->toIntVector(), [&](int64_t i) { return i == number; });
}

/// A kernel of one pixel that skips some, over fewer channels than a vector has lanes (16 at most).
///
/// Of such a one, channels last, oneDNN writes the gradient of the weight past the end of its
/// workspace (https://github.com/uxlfoundation/oneDNN/issues/6035, AVX2, also in oneDNN 3.14).
bool skipsPixels(const Node* node) {
  constexpr int64_t kLanes = 16;
  const std::vector<int64_t> weight = sizesOfWeight(node->input(1));
  const auto transposed = constantArgument(node, "transposed");
  if (weight.size() < 4 || !transposed || transposed->toBool()) return false;
  const auto own = weight.end() - 3;  // I,h,w
  return own[0] < kLanes && own[1] == 1 && own[2] == 1 &&
         isAll(constantArgument(node, "padding"), 0) && !isAll(constantArgument(node, "stride"), 1);
}

Value* emit(Graph& graph, const Node* from, c10::Symbol op, std::vector<NamedValue> arguments) {
  return graph.insert(op, arguments, {}, from->sourceRange());
}

void run(std::shared_ptr<Graph>& graph) {
  for (Node* node : graph->nodes()) {
    if (!isOfImages(node)) continue;
    torch::jit::WithInsertPoint here(node);
    Value* x = node->input(0);
    Value* k_first = mergedFrom(x);
    if (k_first) {
      // [K,N,C,H,W] -> [N,H,W,K,C] -> [N,H,W,(K C)] -> [N,(K C),H,W]
      const std::vector<int64_t> last = {1, 3, 4, 0, 2}, back = {0, 3, 1, 2};
      x = emit(*graph, node, c10::aten::permute, {k_first, last});
      x = emit(*graph, node, c10::aten::flatten, {x, 3, 4});
      x = emit(*graph, node, c10::aten::permute, {x, back});
    }
    if (skipsPixels(node)) {
      const std::vector<int64_t> stride = constantArgument(node, "stride")->toIntVector();
      for (const size_t d : {0, 1}) {
        const int64_t dim = static_cast<int64_t>(d) + 2;
        x = emit(*graph, node, c10::aten::slice, {x, dim, 0, c10::IValue(), stride[d]});
      }
      node->replaceInput(*node->schema().argumentIndexWithName("stride"),
                         graph->insertConstant(std::vector<int64_t>{1, 1}));
    }
    Value* format = graph->insertConstant(static_cast<int64_t>(c10::MemoryFormat::ChannelsLast));
    Node* made = graph->insertNode(graph->create(c10::aten::contiguous, {x, format}));
    made->copyMetadata(node);
    made->output()->setType(node->input(0)->type());
    node->replaceInput(0, made->output());
  }
}

}  // namespace

Pass channels_last() {
  return {
      .name = "channels-last",
      .summary = "convolutions of images read and write channels last",
      .description =
          "    convolution(x, ...)         ==>  convolution(contiguous(x, channels_last), ...)\n"
          "    convolution(merge(x), ...)  ==>  the same of x.permute(1, 3, 4, 0, 2).flatten(3)\n"
          "                                     .permute(0, 3, 1, 2): one copy, not two\n"
          "\n"
          "for images (two dims behind the channels). Ops behind keep the format, so only the "
          "first of a chain copies. A grouped\n"
          "convolution in the default format is slower than its groups one by one (forward and "
          "backward, CPU: 0.4 to 0.9 times as\n"
          "fast); channels last it is 0.9 to 2.5 times as fast.\n"
          "\n"
          "    convolution(x, 1x1 kernel, stride=s, ...)\n"
          "      ==>  convolution(contiguous(x[:, :, ::s, ::s], channels_last), ..., stride=1)\n"
          "\n"
          "of fewer than 16 channels: oneDNN's gradient of such a weight writes past the end of a "
          "workspace (its issue 6035).",
      .run = run};
}

}  // namespace chorus
