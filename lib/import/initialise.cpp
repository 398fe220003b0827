#include "chorus/initialise.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

namespace chorus {
namespace {

/// The tensors that a layer owns, and the stream they are drawn from, in PyTorch's order.
class Layer {
 public:
  Layer(const Member& member, const std::string& path, at::Generator& generator,
        std::vector<at::Tensor>& values, std::vector<bool>& done)
      : member_(member),
        prefix_(path.empty() ? "" : path + "."),
        generator_(generator),
        values_(values),
        done_(done) {}

  /// Undefined if the layer has no such tensor. A tied tensor is drawn by each of its owners, as in
  /// PyTorch.
  at::Tensor tensor(const std::string& name) const {
    const auto at = find(name);
    if (!at) return {};
    done_[*at] = true;
    return values_[*at];
  }
  void uniform(const std::string& name, double bound) const {
    if (const at::Tensor t = tensor(name); t.defined()) t.uniform_(-bound, bound, generator_);
  }
  void normal(const std::string& name) const {
    if (const at::Tensor t = tensor(name); t.defined()) t.normal_(0, 1, generator_);
  }
  void fill(const std::string& name, double value) const {
    if (const at::Tensor t = tensor(name); t.defined()) t.fill_(value);
  }
  /// Every tensor of the layer, in order of definition.
  void uniformAll(double bound) const {
    for (size_t i = 0; i < member_.slots.size(); ++i) {
      const std::string& name = member_.slots[i].name;
      const bool own =
          name.starts_with(prefix_) && name.find('.', prefix_.size()) == std::string::npos;
      if (!own || member_.slots[i].role != Role::Parameter) continue;
      done_[i] = true;
      values_[i].uniform_(-bound, bound, generator_);
    }
  }
  /// Rows that an embedding pads with are zero.
  std::optional<int64_t> paddingIndex() const {
    const auto slot = find("weight");
    if (!slot) return std::nullopt;
    for (const auto& use : member_.train.slotInput(*slot)->uses()) {
      if (use.user->kind() != c10::aten::embedding) continue;
      const auto index = torch::jit::toIValue(use.user->inputs().at(2));
      if (index && index->isInt() && index->toInt() >= 0) return index->toInt();
    }
    return std::nullopt;
  }

 private:
  std::optional<size_t> find(const std::string& name) const {
    const std::string path = prefix_ + name;
    for (size_t i = 0; i < member_.slots.size(); ++i) {
      const TensorSlot& slot = member_.slots[i];
      if (slot.name == path || std::count(slot.aliases.begin(), slot.aliases.end(), path)) return i;
    }
    return std::nullopt;
  }

  const Member& member_;
  std::string prefix_;
  at::Generator& generator_;
  std::vector<at::Tensor>& values_;
  std::vector<bool>& done_;
};

/// kaiming_uniform_(a=sqrt(5)) for the weight, 1/sqrt(fan_in) for the bias; in PyTorch's own order
/// of operations.
void linearOrConvolution(const Layer& layer) {
  const at::Tensor weight = layer.tensor("weight");
  if (!weight.defined()) return;
  const double fan_in = static_cast<double>(weight.numel() / std::max<int64_t>(weight.size(0), 1));
  const double a = std::sqrt(5.0);
  const double gain = std::sqrt(2.0 / (1 + a * a));
  layer.uniform("weight", std::sqrt(3.0) * (gain / std::sqrt(fan_in)));
  if (fan_in > 0) layer.uniform("bias", 1 / std::sqrt(fan_in));
}

void normalisation(const Layer& layer) {
  layer.fill("running_mean", 0);
  layer.fill("running_var", 1);
  layer.fill("num_batches_tracked", 0);
  layer.fill("weight", 1);
  layer.fill("bias", 0);
}

void embedding(const Layer& layer) {
  layer.normal("weight");
  if (const auto index = layer.paddingIndex()) layer.tensor("weight").select(0, *index).fill_(0);
}

void bilinear(const Layer& layer) {
  const at::Tensor weight = layer.tensor("weight");
  if (!weight.defined()) return;
  const double bound = 1 / std::sqrt(static_cast<double>(weight.size(1)));
  layer.uniform("weight", bound);
  layer.uniform("bias", bound);
}

void recurrent(const Layer& layer, const std::string& hidden_weight) {
  const at::Tensor weight = layer.tensor(hidden_weight);
  if (weight.defined() && weight.size(1) > 0)
    layer.uniformAll(1.0 / std::sqrt(static_cast<double>(weight.size(1))));
}

bool reset(const Layer& layer, const std::string& type) {
  const auto is = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return type == name; });
  };
  if (is({"Linear", "NonDynamicallyQuantizableLinear", "Conv1d", "Conv2d", "Conv3d",
          "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"})) {
    linearOrConvolution(layer);
  } else if (is({"BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "InstanceNorm1d",
                 "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "GroupNorm", "RMSNorm"})) {
    normalisation(layer);
  } else if (is({"Embedding", "EmbeddingBag"})) {
    embedding(layer);
  } else if (is({"Bilinear"})) {
    bilinear(layer);
  } else if (is({"LSTM", "GRU", "RNN"})) {
    recurrent(layer, "weight_hh_l0");
  } else if (is({"LSTMCell", "GRUCell", "RNNCell"})) {
    recurrent(layer, "weight_hh");
  } else {
    return false;
  }
  return true;
}

void remarkOnSpread(const Member& member, size_t i, const at::Tensor& drawn,
                    std::vector<Message>& remarks) {
  if (drawn.numel() < 100 || !drawn.is_floating_point()) return;
  const double there = member.slots[i].value.detach().std().item<double>(),
               here = drawn.std().item<double>();
  if (here <= 0 || std::abs(there / here - 1) <= 0.2) return;
  remarks.push_back(remark(c10::str("'", member.slots[i].name, "' has a spread of ", there,
                                    " in the file, and the layer's default has ", here,
                                    ": the network may initialise it otherwise"),
                           Place{member.path, "", "", ""}));
}

}  // namespace

std::vector<at::Tensor> initialise(const Member& member, uint64_t seed,
                                   std::vector<Message>* remarks) {
  at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(seed);
  std::vector<at::Tensor> values;
  for (const TensorSlot& slot : member.slots) values.push_back(slot.value.detach().clone());
  std::vector<bool> done(values.size(), false);
  for (const ModuleRecord& module : member.modules) {
    reset(Layer(member, module.path, generator, values, done), module.type);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (member.slots[i].role == Role::Parameter && !done[i]) {
      throw Refused(unsupported("--init reset: it is not known how to initialise '" +
                                    member.slots[i].name + "'",
                                Place{member.path, "", "", ""})
                        .helpWith("draw the members in Python and give K files"));
    }
    if (remarks && done[i]) remarkOnSpread(member, i, values[i], *remarks);
    if (member.slots[i].requires_grad) values[i].requires_grad_(true);
  }
  return values;
}

}  // namespace chorus
