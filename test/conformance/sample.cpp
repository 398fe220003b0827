#include "test/conformance/sample.h"

#include <ATen/CPUGeneratorImpl.h>

#include "test/conformance/run.h"

namespace chorus::conformance {
namespace {

using torch::jit::NamedValue;

constexpr int64_t kBatch = 4, kOtherBatch = 3;

Value* sizeValue(Graph& graph, const Argument::Size& size) {
  if (!size.computed) return graph.insertConstant(size.value);
  return graph.insert(c10::aten::size,
                      {graph.inputs().at(static_cast<size_t>(size.tensor)), size.value});
}

Value* tensorListValue(Graph& graph, const std::vector<int64_t>& tensors) {
  std::vector<Value*> values;
  bool optional = false;
  for (const int64_t tensor : tensors) {
    optional = optional || tensor < 0;
    values.push_back(tensor < 0 ? graph.insertConstant(c10::IValue())
                                : graph.inputs().at(static_cast<size_t>(tensor)));
  }
  const c10::TypePtr element =
      optional ? c10::TypePtr(c10::OptionalType::ofTensor()) : c10::TensorType::get();
  return graph.insertNode(graph.createList(element, values))->output();
}

NamedValue argumentValue(Graph& graph, const Argument& argument) {
  switch (argument.kind) {
    case Argument::Kind::Value:
      return NamedValue(argument.value);
    case Argument::Kind::Tensor:
      return NamedValue(graph.inputs().at(static_cast<size_t>(argument.tensors[0])));
    case Argument::Kind::Tensors:
      return NamedValue(tensorListValue(graph, argument.tensors));
    case Argument::Kind::Size:
      return NamedValue(sizeValue(graph, argument.sizes[0]));
    case Argument::Kind::Ints:
      break;
  }
  const bool computed = std::ranges::any_of(argument.sizes, &Argument::Size::computed);
  std::vector<Value*> values;
  std::vector<int64_t> ints;
  for (const auto& size : argument.sizes) {
    if (computed) values.push_back(sizeValue(graph, size));
    ints.push_back(size.value);
  }
  if (!computed) return NamedValue(c10::IValue(ints));
  return NamedValue(graph.insertNode(graph.createList(c10::IntType::get(), values))->output());
}

std::vector<at::Tensor> drawAll(const Sample& sample, int64_t n) {
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < sample.tensors.size(); ++i)
    tensors.push_back(sample.tensors[i].draw(n, i));
  return tensors;
}

/// dtype and sizes of a tensor at batch size 4, where another batch size gives another size:
/// unknown.
c10::TypePtr typeOf(const at::Tensor& tensor, const at::Tensor& at_other_batch) {
  std::vector<std::optional<int64_t>> sizes;
  std::vector<std::optional<int64_t>> strides(static_cast<size_t>(tensor.dim()));
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    const bool follows = i >= at_other_batch.dim() || tensor.size(i) != at_other_batch.size(i);
    sizes.push_back(follows ? std::nullopt : std::optional(tensor.size(i)));
  }
  return c10::TensorType::create(tensor.scalar_type(), std::nullopt,
                                 c10::VaryingShape<int64_t>(sizes),
                                 c10::VaryingShape<int64_t>(strides), std::nullopt);
}

void setType(Value* value, const c10::IValue& known, const c10::IValue& at_other_batch) {
  if (known.isTensor()) value->setType(typeOf(known.toTensor(), at_other_batch.toTensor()));
}

}  // namespace

std::vector<int64_t> TensorSpec::sizesAt(int64_t n) const {
  std::vector<int64_t> found;
  for (const auto& size : sizes) found.push_back(size.value_or(n));
  return found;
}

at::Tensor TensorSpec::draw(int64_t n, uint64_t seed) const {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed * 7919 + 17);
  const auto shape = sizesAt(n);
  if (at::isFloatingType(dtype)) {
    at::Tensor x = values == Values::Any ? at::randn(shape, generator, at::kDouble)
                                         : at::rand(shape, generator, at::kDouble);
    if (values == Values::Positive) x = x + 0.5;
    if (values == Values::Unit) x = x * 0.9 + 0.05;
    return x.to(dtype);
  }
  if (dtype == at::kBool) return at::rand(shape, generator) > 0.5;
  const int64_t low = values == Values::Any ? -5 : values == Values::Positive ? 1 : 0;
  const int64_t high = values == Values::Below ? bound : 6;
  return at::randint(low, high, shape, generator, at::kLong).to(dtype);
}

bool Sample::followsBatch() const {
  for (const TensorSpec& tensor : tensors) {
    for (const auto& size : tensor.sizes) {
      if (!size) return true;
    }
  }
  return false;
}

std::shared_ptr<Graph> memberGraph(const Sample& sample) {
  auto graph = std::make_shared<Graph>();
  for (size_t i = 0; i < sample.tensors.size(); ++i) graph->addInput("x" + std::to_string(i));
  std::vector<NamedValue> positional, keywords;
  for (const Argument& argument : sample.arguments) {
    const NamedValue value = argumentValue(*graph, argument);
    if (argument.name.empty()) {
      positional.push_back(value);
    } else {
      keywords.emplace_back(argument.name, value.value(*graph));
    }
  }
  Value* result = graph->insert(c10::Symbol::fromQualString(sample.op), positional, keywords);
  Node* op = result->node();
  if (op->kind() == c10::prim::TupleConstruct) {
    const std::vector<Value*> outputs = op->inputs().vec();
    op->destroy();
    for (Value* output : outputs) graph->registerOutput(output);
  } else {
    graph->registerOutput(result);
  }

  const auto inputs = drawAll(sample, kBatch), other_inputs = drawAll(sample, kOtherBatch);
  for (size_t i = 0; i < inputs.size(); ++i)
    setType(graph->inputs()[i], inputs[i], other_inputs[i]);
  const auto outputs = runGraph(graph, inputs), other_outputs = runGraph(graph, other_inputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    setType(graph->outputs()[i], outputs[i], other_outputs[i]);
  return graph;
}

}  // namespace chorus::conformance
