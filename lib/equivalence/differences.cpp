#include "lib/equivalence/differences.h"

#include <torch/csrc/jit/ir/constants.h>

#include "lib/equivalence/explain.h"
#include "lib/equivalence/text.h"
#include "lib/support/names.h"
#include "lib/support/role_name.h"

namespace chorus::equivalence {
namespace {

std::string sizesText(at::IntArrayRef sizes) {
  std::string text;
  for (const int64_t size : sizes) text += cat({text.empty() ? "" : ", ", std::to_string(size)});
  return cat({"[", text, "]"});
}

/// Attributes that decide shapes or what is computed at all; they can never be carried per member.
bool decidesShape(const std::string& op, const std::string& name) {
  static const std::set<std::string> names = {
      "stride",         "padding",     "dilation",   "groups",      "transposed",
      "output_padding", "kernel_size", "chunks",     "dim",         "dims",
      "dim0",           "dim1",        "size",       "sizes",       "shape",
      "repeats",        "start_dim",   "end_dim",    "keepdim",     "ceil_mode",
      "scale_factor",   "num_classes", "split_size", "output_size", "implicit"};
  static const std::set<std::string> ranges = {"aten::arange", "aten::slice", "aten::range",
                                               "aten::narrow"};
  const bool is_bound = name == "start" || name == "end" || name == "step" || name == "length";
  return names.count(name) != 0 || (is_bound && ranges.count(op) != 0);
}

std::optional<Finding> inputFinding(const std::string& name, const InputSpec& major,
                                    const InputSpec& odd) {
  if (major.dtype != odd.dtype || major.sizes != odd.sizes) {
    return Finding{cat({name, " is ", odd.toString(), kElsewhere, major.toString()}),
                   "C1",
                   {"--input gives dtype and shape where the example in a file does not fit"}};
  }
  if (major.bound == odd.bound) return std::nullopt;
  const auto text = [](const std::optional<int64_t>& bound) {
    return bound ? std::to_string(*bound) : std::string("none");
  };
  return Finding{cat({"the bound on values of ", name, " is ", text(odd.bound), kElsewhere,
                      text(major.bound)}),
                 "C1"};
}

/// The first element whose bytes differ.
Finding constantFinding(const TensorSlot& major, const TensorSlot& odd, const std::string& reader) {
  const at::Tensor x = major.value.detach().cpu().contiguous().flatten();
  const at::Tensor y = odd.value.detach().cpu().contiguous().flatten();
  const char* bytes_x = static_cast<const char*>(x.const_data_ptr());
  const char* bytes_y = static_cast<const char*>(y.const_data_ptr());
  const auto byte = std::mismatch(bytes_x, bytes_x + x.nbytes(), bytes_y).first - bytes_x;
  const int64_t element =
      std::min<int64_t>(byte / static_cast<int64_t>(x.element_size()), x.numel() - 1);
  const auto value = [&](const at::Tensor& tensor) {
    const at::Scalar scalar = tensor[element].item();
    return scalar.isFloatingPoint() ? pythonText(scalar.toDouble())
                                    : pythonText(c10::IValue(scalar));
  };
  return {cat({reader, " is the constant tensor ", inQuotes(odd.name), " ",
               sizesText(odd.value.sizes()), ", whose element ", std::to_string(element), " is ",
               value(y), kElsewhere, value(x)}),
          "C9"};
}

}  // namespace

std::optional<Finding> interfaceFinding(const Member& major, const Member& odd) {
  if (major.inputs.size() != odd.inputs.size()) {
    return Finding{cat({"the number of inputs is ", std::to_string(odd.inputs.size()), kElsewhere,
                        std::to_string(major.inputs.size())}),
                   "C1"};
  }
  for (size_t i = 0; i < major.inputs.size(); ++i) {
    const std::string name =
        major.inputs.size() == 1 ? "the input" : cat({"input ", std::to_string(i)});
    if (const auto finding = inputFinding(name, major.inputs[i], odd.inputs[i])) return finding;
  }
  const bool same_count = major.train.n_outputs == odd.train.n_outputs;
  if (same_count && major.output == odd.output && major.eval.n_outputs == odd.eval.n_outputs) {
    return std::nullopt;
  }
  if (same_count)
    return Finding{"the result is arranged in another way (tuple, list, dict or its keys)", "C10"};
  return Finding{cat({"the number of outputs is ", std::to_string(odd.train.n_outputs), kElsewhere,
                      std::to_string(major.train.n_outputs)}),
                 "C10"};
}

Finding slotFinding(const TensorSlot& major, const TensorSlot& odd, const std::string& reader) {
  const std::string name = inQuotes(odd.name);
  if (major.role != odd.role) {
    return {cat({name, " is a ", roleName(odd.role), kElsewhere, "a ", roleName(major.role)}),
            "C7"};
  }
  if (major.requires_grad != odd.requires_grad) {
    const auto text = [](bool value) { return value ? "True" : "False"; };
    return {cat({name, " has 'requires_grad' ", text(odd.requires_grad), kElsewhere,
                 text(major.requires_grad)}),
            "C7"};
  }
  if (major.aliases.size() != odd.aliases.size()) {
    return {cat({name, " has ", std::to_string(1 + odd.aliases.size()),
                 odd.aliases.empty() ? " name" : " names (tied)", kElsewhere,
                 std::to_string(1 + major.aliases.size())}),
            "C8"};
  }
  if (major.value.sizes() != odd.value.sizes()) {
    return {cat({name, " has shape ", sizesText(odd.value.sizes()), kElsewhere,
                 sizesText(major.value.sizes())}),
            "C6"};
  }
  if (major.value.scalar_type() != odd.value.scalar_type()) {
    return {cat({name, " has dtype ", dtypeName(odd.value.scalar_type()), kElsewhere,
                 dtypeName(major.value.scalar_type())}),
            "C6"};
  }
  return constantFinding(major, odd, reader);
}

bool isNone(const IndexedGraph& graph, const Wire& wire) {
  return wire.kind == Wire::Kind::Literal && graph.nodes[wire.index].label == "n";
}

Finding presenceFinding(const std::string& op, const std::string& argument, const std::string& what,
                        bool missing) {
  const bool statistics = op == "batch_norm" && argument.rfind("running", 0) == 0;
  if (statistics && missing) {
    return {cat({"batch_norm has no running statistics", kElsewhere, "it has (", what, ")"}), "C5"};
  }
  if (statistics) {
    return {cat({"batch_norm has running statistics (", what, ")", kElsewhere, "it has none"}),
            "C5"};
  }
  if (missing) return {cat({op, " has no ", inQuotes(argument), ": ", what, " is missing"}), "C5"};
  return {cat({op, " has a ", inQuotes(argument), " (", what, ")", kElsewhere, "it has none"}),
          "C5"};
}

Finding tieFinding(const std::string& here, const std::string& partner, const std::string& reverse,
                   const std::string& mine) {
  if (partner.empty()) {
    return {
        cat({here, " a second time (tied)", kElsewhere, "two tensors, ", reverse, " and ", mine}),
        "C8"};
  }
  if (reverse.empty()) {
    return {cat({here, " beside ", partner, kElsewhere, mine, " a second time (tied)"}), "C8"};
  }
  return {cat({here, kElsewhere, "what corresponds to ", partner}), "C8"};
}

bool mayVaryBy(const IndexedNode* node, const std::string& name) {
  const auto* schema = node ? node->node->maybeSchema() : nullptr;
  const auto index = schema ? schema->argumentIndexWithName(name) : std::nullopt;
  return index && static_cast<size_t>(*index) < node->varying.size() && node->varying[*index];
}

Finding slotListFinding(const Member& major, const Member& odd,
                        const std::vector<std::string>& missing,
                        const std::vector<std::string>& extra) {
  const bool lacks = missing.size() > extra.size();
  return {cat({"the number of tensors is ", std::to_string(odd.slots.size()), kElsewhere,
               std::to_string(major.slots.size()), ": ",
               inQuotes(lacks ? missing.front() : extra.front()),
               lacks ? " is missing" : " is not in the others"}),
          "C12"};
}

std::string recurrentNote(const Node* reader, const TensorSlot& major, const TensorSlot& odd) {
  static const std::map<std::string, int64_t> gates = {
      {"aten::lstm", 4}, {"aten::gru", 3}, {"aten::rnn_tanh", 1}, {"aten::rnn_relu", 1}};
  const auto found = gates.find(reader->kind().toQualString());
  const at::IntArrayRef x = major.value.sizes(), y = odd.value.sizes();
  if (found == gates.end() || x.empty() || x.size() != y.size() || x == y) return "";
  const auto text = [&](const char* name, int64_t mine, int64_t theirs) {
    return cat({"the ", std::string(reader->kind().toUnqualString()), "'s ", name, " is ",
                std::to_string(mine), kElsewhere, std::to_string(theirs)});
  };
  if (x[0] != y[0]) return text("hidden_size", y[0] / found->second, x[0] / found->second);
  return text("input_size", y[1], x[1]);
}

bool isSize(const std::string& argument) {
  return argument == "size" || argument == "shape" || argument == "sizes";
}

std::string attributeNote(const std::string& op, const std::string& name,
                          const IndexedNode& literal, bool varies) {
  if (varies) {
    return cat({inQuotes(name),
                " may be each member's own, but all are ints or all are floats: "
                "here an int does not count as a float"});
  }
  if (decidesShape(op, name)) {
    return cat({inQuotes(name), " decides the result's shape, so all members must agree on it"});
  }
  const char kind = literal.label.front();
  if (kind != 'd' && kind != 'i' && kind != 'c') {
    return cat({inQuotes(name), " decides what is computed, so all members must agree on it"});
  }
  return cat({inQuotes(name), " of this op has one value for all members"});
}

std::string describe(const IndexedMember& member, size_t mode, const Wire& wire) {
  const IndexedGraph& graph = member.graphs[mode];
  switch (wire.kind) {
    case Wire::Kind::Input:
      return member.member->inputs.size() == 1
                 ? "the model's input"
                 : cat({"the model's input ", std::to_string(wire.index)});
    case Wire::Kind::Slot: {
      const TensorSlot& slot = member.member->slots[wire.index];
      return cat({roleName(slot.role), " ", inQuotes(slot.name)});
    }
    case Wire::Kind::Literal:
      return literalText(graph.nodes[wire.index]);
    case Wire::Kind::Node: {
      const IndexedNode& node = graph.nodes[wire.index];
      const std::string place = placeOf(node.node).source;
      const std::string which = wire.output == 0
                                    ? "the result of "
                                    : cat({"output ", std::to_string(wire.output), " of "});
      const std::string text = cat({which, userName(graph, member, node)});
      return place.empty() ? text : cat({text, " (", place, ")"});
    }
  }
  return "";
}

std::string literalText(const IndexedNode& node) {
  if (node.node->kind() == torch::jit::prim::Constant) {
    return pythonText(*torch::jit::toIValue(node.node->output()));
  }
  std::string text;
  for (const Value* element : node.node->inputs()) {
    text += cat({text.empty() ? "" : ", ", pythonText(*torch::jit::toIValue(element))});
  }
  return cat({"[", text, "]"});
}

std::string inQuotes(const std::string& name) { return cat({"'", printable(name), "'"}); }

}  // namespace chorus::equivalence
