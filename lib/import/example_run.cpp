#include "lib/import/example_run.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <mutex>

#include "lib/import/packed_example.h"
#include "lib/support/random_ops.h"

namespace chorus {
namespace {

using torch::jit::Stack;

c10::IValue mapTensors(const c10::IValue& value,
                       const std::function<at::Tensor(const at::Tensor&)>& map) {
  if (value.isTensor()) return value.toTensor().defined() ? map(value.toTensor()) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector()) list.push_back(map(t));
    return list;
  }
  if (value.isList() && value.toList().elementType()->cast<c10::OptionalType>()) {
    c10::impl::GenericList list(value.toList().elementType());
    for (const c10::IValue& item : value.toListRef()) list.push_back(mapTensors(item, map));
    return list;
  }
  return value;
}

/// Draws, and memory that nobody has written: what an example has says nothing about the next run.
bool isArbitrary(const Node* node) {
  const c10::FunctionSchema* schema = node->maybeSchema();
  if (!schema) return false;
  if (drawsFromCounters(node) || schema->name().find("empty") != std::string::npos) return true;
  const auto op =
      c10::Dispatcher::singleton().findSchema({schema->name(), schema->overload_name()});
  return op && op->hasTag(at::Tag::nondeterministic_seeded);
}

bool anyTensor(const c10::IValue& value) {
  if (!value.isList()) return value.isTensor();
  const auto items = value.toListRef();
  return std::any_of(items.begin(), items.end(), [](const auto& v) { return anyTensor(v); });
}

void setDevices(const Node* node, Stack& inputs, c10::DeviceType device) {
  const c10::FunctionSchema* schema = node->maybeSchema();
  const size_t named = schema ? schema->arguments().size() : 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool absent = i < named && schema->arguments()[i].name() == "device";
    if (inputs[i].isDevice() || absent) inputs[i] = c10::Device(device);
  }
}

/// Known numbers (0-d CPU tensors) may meet meta tensors, anything else has to be meta too.
c10::IValue withoutData(const c10::IValue& value) {
  return mapTensors(value, [](const at::Tensor& t) {
    return t.is_meta() || (t.dim() == 0) ? t : t.to(at::kMeta);
  });
}

bool anyTensor(const Stack& inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const c10::IValue& value) { return anyTensor(value); });
}

Stack onMeta(Stack values) {
  for (c10::IValue& value : values) {
    value = mapTensors(value, [](const at::Tensor& t) { return t.to(at::kMeta); });
  }
  return values;
}

bool areSmall(const Stack& values) {
  bool small = true;
  for (const c10::IValue& value : values) {
    mapTensors(value, [&](const at::Tensor& t) {
      small &= isSmall(t);
      return t;
    });
  }
  return small;
}

bool anyMeta(const Stack& inputs) {
  bool found = false;
  for (const c10::IValue& value : inputs) {
    mapTensors(value, [&](const at::Tensor& t) {
      found |= t.is_meta();
      return t;
    });
  }
  return found;
}

/// Convolutions have no meta kernel in C++. One row of zeros tells the sizes of many.
bool isConvolution(const Node* node) {
  const std::string name = node->kind().toUnqualString();
  return name.find("conv") != std::string::npos;
}

/// Rows of a batched convolution input; 0 if it has none.
int64_t takeOneRow(const Node* node, Stack& inputs) {
  if (!isConvolution(node) || inputs.size() < 2 || !inputs[0].isTensor() || !inputs[1].isTensor())
    return 0;
  const at::Tensor x = inputs[0].toTensor();
  if (x.dim() != inputs[1].toTensor().dim() || x.size(0) < 2) return 0;
  inputs[0] = x.narrow(0, 0, 1);
  return x.size(0);
}

bool isMask(const at::Tensor& t) {
  return t.scalar_type() == at::kBool || t.scalar_type() == at::kByte;
}

/// The op's shape depends on the values that it reads.
bool shapeIsData(const Node* node, const Stack& inputs) {
  static const std::set<std::string> always = {"nonzero",
                                               "nonzero_numpy",
                                               "argwhere",
                                               "masked_select",
                                               "_unique",
                                               "_unique2",
                                               "unique_dim",
                                               "unique_consecutive",
                                               "bincount",
                                               "where",
                                               "unique_dim_consecutive"};
  const std::string name = node->kind().toUnqualString();
  if (name == "where") return inputs.size() == 1;
  if (always.count(name)) return true;
  if (name == "repeat_interleave") {
    return inputs.at(0).isTensor() && (!inputs.at(1).isInt() || inputs.size() < 3);
  }
  if (name != "index" && name != "index_put") return false;
  const auto indices = inputs.at(1).toListRef();
  return std::any_of(indices.begin(), indices.end(), [](const c10::IValue& index) {
    return index.isTensor() && index.toTensor().defined() && isMask(index.toTensor());
  });
}

/// Data for such an op: all true, all different. The second example is one less in each of these,
/// so that the size shows as one that is not fixed.
at::Tensor exampleData(const at::Tensor& like, bool second, bool counts) {
  if (!like.is_meta()) return like;
  const auto options = like.options().device(at::kCPU);
  at::Tensor data = like.scalar_type() == at::kBool || like.scalar_type() == at::kByte || counts
                        ? at::ones(like.sizes(), options)
                        : at::arange(1, like.numel() + 1, options).view(like.sizes());
  if (!second || data.numel() == 0) return data;
  at::Tensor flat = data.view(-1);
  flat[0] = counts || data.numel() == 1 || data.scalar_type() == at::kBool ? at::zeros({}, options)
                                                                           : flat[-1].clone();
  return data;
}

/// In place of meta tensors: zeros, or where an op divides by them, ones.
Stack onCpu(const Stack& inputs, int64_t value_of_all) {
  Stack stack;
  for (const c10::IValue& value : inputs) {
    c10::IValue mapped = value.isDevice() ? c10::IValue(c10::Device(at::kCPU)) : value;
    stack.push_back(mapTensors(mapped, [value_of_all](const at::Tensor& t) {
      return t.is_meta() ? at::full(t.sizes(), value_of_all, t.options().device(at::kCPU)) : t;
    }));
  }
  return stack;
}

/// Masks in place of those without data: all of them, and the indices beside them, name as many
/// places. One less in the second example, unless an index says how many.
c10::IValue exampleMasks(const c10::IValue& indices, bool second) {
  std::optional<int64_t> fixed;
  int64_t most = std::numeric_limits<int64_t>::max();
  mapTensors(indices, [&](const at::Tensor& t) {
    if (!isMask(t)) {
      if (t.dim() > 0 && t.size(-1) > 1) fixed = t.size(-1);
    } else if (!t.is_meta()) {
      fixed = t.count_nonzero().item<int64_t>();
    } else {
      most = std::min(most, t.numel());
    }
    return t;
  });
  const int64_t count = std::min(most, fixed.value_or(std::max<int64_t>(most - second, 0)));
  return mapTensors(indices, [&](const at::Tensor& t) {
    if (!t.is_meta()) return t;
    at::Tensor data = at::zeros(t.sizes(), t.options().device(at::kCPU));
    if (isMask(t)) data.view(-1).narrow(0, 0, count).fill_(1);
    return data;
  });
}

/// x[masks], and x[masks] = values, whose sizes are those of x whatever the masks are.
Stack runOnMasks(const Node* node, torch::jit::Operation& operation, const Stack& inputs,
                 bool second) {
  const std::string name = node->kind().toUnqualString();
  if (name == "index_put") return onMeta({inputs.at(0)});
  Stack stack = onCpu({inputs.at(0)}, 0);
  stack.push_back(exampleMasks(inputs.at(1), second));
  operation(stack);
  return onMeta(std::move(stack));
}

Stack runOnData(const Node* node, torch::jit::Operation& operation, const Stack& inputs,
                bool second) {
  const std::string name = node->kind().toUnqualString();
  if (name == "index" || name == "index_put") return runOnMasks(node, operation, inputs, second);
  Stack stack;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool counts = name == "repeat_interleave" && (i == 1 || !inputs.at(1).isTensor());
    // The size of the result is given: all repeats are of the first.
    const bool told = counts && inputs.back().isInt();
    const bool zero =
        second && !told && name.find("unique") == std::string::npos && name != "bincount";
    stack.push_back(mapTensors(inputs[i], [&](const at::Tensor& t) {
      at::Tensor data = exampleData(t, second && !told, counts);
      if (told && t.is_meta() && data.numel() > 0) data.zero_().view(-1)[0] = inputs.back().toInt();
      if (zero && t.is_meta() && data.numel() > 0 && i == 0) data.view(-1)[0].zero_();
      return data;
    }));
  }
  operation(stack);
  return onMeta(std::move(stack));
}

/// What runOnZeros depends on, as text; nullopt where that is more than sizes, dtypes and numbers.
std::optional<std::string> signatureOf(const Node* node, const Stack& inputs) {
  std::ostringstream text;
  text << node->kind().toQualString() << "." << node->schema().overload_name();
  for (const c10::IValue& value : inputs) {
    if (value.isTensor() && value.toTensor().defined()) {
      const at::Tensor& t = value.toTensor();
      if (!t.is_meta()) return std::nullopt;
      text << "|" << t.scalar_type() << t.sizes() << t.strides();
    } else if (value.isTensorList() || value.isGenericDict() || value.isObject()) {
      return std::nullopt;
    } else {
      text << "|" << value;
    }
  }
  return text.str();
}

/// Results by signature: members of one network, both examples and both modes ask the same again
/// and again.
class Remembered {
 public:
  std::optional<Stack> find(const std::string& signature) {
    const std::scoped_lock lock(mutex_);
    const auto found = results_.find(signature);
    if (found == results_.end()) return std::nullopt;
    Stack fresh;
    for (const c10::IValue& value : found->second) {
      fresh.push_back(mapTensors(value, [](const at::Tensor& t) { return at::empty_like(t); }));
    }
    return fresh;
  }
  void add(const std::string& signature, const Stack& results) {
    const std::scoped_lock lock(mutex_);
    results_.emplace(signature, results);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, Stack> results_;
};

Stack computeOnZeros(torch::jit::Operation& operation, const Stack& inputs) {
  Stack stack = onCpu(inputs, 0);
  try {
    operation(stack);
  } catch (const std::exception&) {
    stack = onCpu(inputs, 1);
    operation(stack);
  }
  return onMeta(std::move(stack));
}

Stack runOnZeros(const Node* node, torch::jit::Operation& operation, const Stack& inputs) {
  static Remembered remembered;
  const std::optional<std::string> signature = signatureOf(node, inputs);
  if (signature) {
    if (auto known = remembered.find(*signature)) return *known;
  }
  Stack results = computeOnZeros(operation, inputs);
  if (signature) remembered.add(*signature, results);
  return results;
}

Stack runOnMeta(const Node* node, torch::jit::Operation& operation, Stack inputs, bool second) {
  if (worksOnPackedSteps(node)) return runOnPackedSteps(node, std::move(inputs), second);
  for (c10::IValue& value : inputs) value = withoutData(value);
  if (anyMeta(inputs) && shapeIsData(node, inputs)) {
    return runOnData(node, operation, inputs, second);
  }
  const int64_t rows = anyMeta(inputs) ? takeOneRow(node, inputs) : 0;
  const Stack kept = inputs;
  if (rows > 0) {
    at::Tensor one = runOnZeros(node, operation, kept).at(0).toTensor();
    std::vector<int64_t> sizes = one.sizes().vec();
    sizes[0] = rows;
    return {at::empty(sizes, one.options())};
  }
  try {
    operation(inputs);
    return inputs;
  } catch (const c10::NotImplementedError&) {
    return runOnZeros(node, operation, kept);
  }
}

/// All contents are known: those of the result are, if it is small.
Stack runOnNumbers(torch::jit::Operation& operation, const Node* node, Stack inputs) {
  setDevices(node, inputs, at::kCPU);
  operation(inputs);
  return isArbitrary(node) || !areSmall(inputs) ? onMeta(std::move(inputs)) : inputs;
}

}  // namespace

Stack runOnExamples(const Node* node, Stack inputs, bool second) {
  at::NoGradGuard no_grad;
  torch::jit::Operation operation = node->getOperation();
  const bool creates =
      std::any_of(node->outputs().begin(), node->outputs().end(),
                  [](const Value* v) { return v->type()->isSubtypeOf(*c10::TensorType::get()); });
  if (anyMeta(inputs)) {
    if (creates) setDevices(node, inputs, at::kMeta);
    return runOnMeta(node, operation, std::move(inputs), second);
  }
  if (anyTensor(inputs) || !creates) return runOnNumbers(operation, node, std::move(inputs));
  Stack sizes = inputs;
  setDevices(node, sizes, at::kMeta);
  sizes = runOnMeta(node, operation, std::move(sizes), second);
  return areSmall(sizes) ? runOnNumbers(operation, node, std::move(inputs)) : sizes;
}

void knowBoth(Stack& first, Stack& second) {
  if (anyMeta(first) == anyMeta(second)) return;
  first = onMeta(std::move(first));
  second = onMeta(std::move(second));
}

std::string failureText(const std::exception& failure) {
  const auto* own = dynamic_cast<const c10::Error*>(&failure);
  const std::string text = own ? own->what_without_backtrace() : failure.what();
  // The interpreter's exceptions end with the reason, behind a traceback.
  if (const size_t reason = text.rfind("\nRuntimeError: "); reason != std::string::npos) {
    const size_t from = text.find(' ', reason) + 1;
    return text.substr(from, text.find('\n', from) - from);
  }
  const size_t begin = text.find_first_not_of("\n ");
  return begin == std::string::npos ? "no reason is given"
                                    : text.substr(begin, text.find('\n', begin) - begin);
}

c10::TensorTypePtr typeOf(const at::Tensor& first, const at::Tensor& second) {
  std::vector<std::optional<int64_t>> sizes;
  for (int64_t d = 0; d < first.dim(); ++d) {
    const bool fixed = d < second.dim() && first.size(d) == second.size(d);
    sizes.push_back(fixed ? std::optional<int64_t>(first.size(d)) : std::nullopt);
  }
  const c10::VaryingShape<int64_t> strides(first.dim());
  return c10::TensorType::create(first.scalar_type(), std::nullopt,
                                 c10::VaryingShape<int64_t>(sizes), strides, std::nullopt);
}

at::Tensor exampleOf(const TensorSlot& slot) {
  const at::Tensor value = slot.value.detach();
  return slot.role == Role::Constant && isSmall(value) ? value : value.to(at::kMeta);
}

at::Tensor exampleOf(const InputSpec& spec, int64_t n) {
  std::vector<int64_t> sizes;
  for (const auto& size : spec.sizes) sizes.push_back(size.value_or(n));
  return at::empty(sizes, at::TensorOptions(spec.dtype).device(at::kMeta));
}

}  // namespace chorus
