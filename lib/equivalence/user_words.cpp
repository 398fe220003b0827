// Ops and constants under the names that users know.
#include <ATen/core/ivalue.h>

#include <charconv>

#include "lib/equivalence/explain.h"
#include "lib/equivalence/text.h"

namespace chorus::equivalence {
namespace {

std::string pythonFloat(double value) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string pythonList(const char* open, at::ArrayRef<c10::IValue> elements, const char* close) {
  std::string text;
  for (const c10::IValue& element : elements) {
    text += cat({text.empty() ? "" : ", ", pythonText(element)});
  }
  return cat({open, text, close});
}

std::string convolutionName(const IndexedGraph& graph, const IndexedMember& member,
                            const IndexedNode& node) {
  const Wire& transposed = node.operands[6];
  const bool is_transposed =
      transposed.kind == Wire::Kind::Literal && graph.nodes[transposed.index].label == "b1";
  const std::string name = is_transposed ? "conv_transpose" : "conv";
  const Wire& weight = node.operands[1];
  if (weight.kind == Wire::Kind::Slot) {
    const int64_t rank = member.member->slots[weight.index].value.dim();
    return cat({name, std::to_string(rank - 2), "d"});
  }
  const auto type = node.node->inputs()[1]->type()->cast<c10::TensorType>();
  const auto rank = type ? type->dim() : std::nullopt;
  return rank ? cat({name, std::to_string(*rank - 2), "d"}) : name;
}

}  // namespace

std::string pythonText(const c10::IValue& value) {
  if (value.isNone()) return "None";
  if (value.isBool()) return value.toBool() ? "True" : "False";
  if (value.isInt()) return std::to_string(value.toInt());
  if (value.isDouble()) return pythonFloat(value.toDouble());
  if (value.isString()) return cat({"'", value.toStringRef(), "'"});
  if (value.isDevice()) return value.toDevice().str();
  if (value.isList()) return pythonList("[", value.toListRef(), "]");
  if (value.isTuple()) return pythonList("(", value.toTupleRef().elements().asArrayRef(), ")");
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    return cat({"(", pythonFloat(number.real()), number.imag() < 0 ? "" : "+",
                pythonFloat(number.imag()), "j)"});
  }
  return value.tagKind();
}

std::string userName(const IndexedGraph& graph, const IndexedMember& member,
                     const IndexedNode& node) {
  const std::string kind = node.node->kind().toQualString();
  if (kind == "aten::convolution") return convolutionName(graph, member, node);
  if (kind == "aten::_native_batch_norm_legit_functional") return "batch_norm";
  if (kind == "prim::ListConstruct") return "a list";
  const size_t colons = kind.find("::");
  const size_t begin = colons == std::string::npos ? 0 : colons + 2;
  return kind.substr(kind.find_first_not_of('_', begin));
}

}  // namespace chorus::equivalence
