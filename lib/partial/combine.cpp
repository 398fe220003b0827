#include "lib/partial/combine.h"

#include "lib/batching/clone_node.h"
#include "lib/import/specialize.h"
#include "lib/support/choice.h"

namespace chorus::partial {
namespace {

using torch::jit::WithInsertPoint;

class Combiner {
 public:
  Combiner(const Outline& all, const SlotTable& table, size_t mode, size_t lead,
           const Numbers& numbers)
      : all_(all),
        table_(table),
        m_(mode),
        mode_(all.modes[mode]),
        lead_(lead),
        numbers_(numbers),
        graph_(std::make_shared<Graph>()) {}

  CanonicalGraph run() {
    addInputs();
    findUpdates();
    const size_t last = mode_.common.size();
    for (size_t c = 0; c <= last; ++c) {
      addChoice(c);
      if (c < last) addCommon(c);
    }
    CanonicalGraph made;
    made.graph = graph_;
    made.n_inputs = all_.variants[0]->inputs.size();
    made.n_outputs = sequence(0).canonical->n_outputs;
    for (size_t i = 0; i < made.n_outputs; ++i) {
      Join values;
      for (const Sequence& s : mode_.sequences) values.push_back(s.canonical->graph->outputs()[i]);
      graph_->registerOutput(joined(values));
    }
    for (const auto& [slot, value] : updated_) {
      made.updates.push_back(slot);
      graph_->registerOutput(value);
    }
    return made;
  }

 private:
  const Sequence& sequence(size_t v) const { return mode_.sequences[v]; }
  const Item* apart(size_t v, const Value* value) const {
    const auto found = sequence(v).index.find(value->node());
    if (found == sequence(v).index.end() || mode_.common_of[v][found->second] != kApart)
      return nullptr;
    return &sequence(v).items[found->second];
  }

  void addInputs() {
    for (size_t i = 0; i < all_.variants[0]->inputs.size(); ++i) {
      const Value* input = sequence(0).canonical->graph->inputs()[i];
      inputs_.push_back(graph_->addInput()->setType(c10::unshapedType(input->type())));
    }
    for (size_t i = 0; i < table_.slots.size(); ++i)
      slots_.push_back(graph_->addInput()->setType(c10::TensorType::get()));
  }

  /// Slots that this mode updates, in the gaps where their new values are made.
  void findUpdates() {
    for (size_t n = 0; n < table_.slots.size(); ++n) {
      const FusedSlot& slot = table_.slots[n];
      if (!slot.traits.updated[m_]) continue;
      updated_[n] = slots_[n];
      for (size_t v = 0; v < slot.of.size(); ++v) {
        if (!slot.of[v]) continue;
        const Value* value = sequence(v).updateOf(*slot.of[v]);
        own_updates_[mode_.availableAt(v, value)][n][v] = value;
      }
    }
  }

  // What common ops read.

  Value* literal(const Value* value) {
    Node* node = const_cast<Node*>(value->node());  // only reads it
    return graph_->insertNode(graph_->createClone(node, [&](Value* v) { return literal(v); }))
        ->output();
  }

  Value* joined(const Join& values) {
    std::vector<size_t> numbers;
    for (size_t v = 0; v < values.size(); ++v) {
      if (const auto slot = sequence(v).slotOf(values[v])) numbers.push_back(*slot);
    }
    if (numbers.size() == values.size() && all_.areOneSlot(numbers))
      return slots_.at(table_.number[0][numbers[0]]);
    if (mode_.isCommon(values)) return commonValue(0, values[0]);
    return joins_.at(values);
  }

  /// A model input, or the result of a common op.
  Value* commonValue(size_t v, const Value* value) {
    if (sequence(v).isInput(value)) return inputs_.at(value->offset());
    const size_t item = sequence(v).index.at(value->node());
    return common_.at(mode_.common_of[v][item]).at(value->offset());
  }

  std::optional<c10::IValue> ownNumber(size_t v, const Node* node, size_t operand) const {
    if (v != lead_ || !numbers_) return std::nullopt;
    return numbers_(node, operand);
  }

  void addCommon(size_t c) {
    const Item& item = mode_.item(c, lead_);
    std::vector<Value*> operands;
    for (size_t i = 0; i < item.reads.size(); ++i) {
      if (const auto number = ownNumber(lead_, item.node, i)) {
        operands.push_back(graph_->insertConstant(*number));
      } else if (sequence(lead_).literals.contains(item.reads[i])) {
        operands.push_back(literal(item.reads[i]));
      } else {
        Join values;
        for (size_t v = 0; v < mode_.sequences.size(); ++v)
          values.push_back(mode_.item(c, v).reads[i]);
        operands.push_back(joined(values));
      }
    }
    Node* copy = graph_->insertNode(cloneNode(*graph_, item.node, operands));
    common_.push_back(copy->outputs().vec());
  }

  // Gaps.

  /// Joins of a gap in an order of their own, whatever addresses their values have.
  std::vector<const Join*> joinsOf(size_t gap) const {
    std::map<std::vector<size_t>, const Join*> ordered;
    for (const auto& [join, at] : mode_.joins) {
      if (at != gap) continue;
      std::vector<size_t> key;
      for (size_t v = 0; v < join.size(); ++v) {
        const auto made = sequence(v).index.find(join[v]->node());
        key.push_back(made == sequence(v).index.end() ? 0 : made->second + 1);
        key.push_back(join[v]->offset());
      }
      ordered[key] = &join;
    }
    std::vector<const Join*> joins;
    for (const auto& [key, join] : ordered) joins.push_back(join);
    return joins;
  }

  void addChoice(size_t gap) {
    const std::vector<const Join*> joins = joinsOf(gap);
    std::map<size_t, std::map<size_t, const Value*>> updates;  // slot -> variant -> value
    if (const auto found = own_updates_.find(gap); found != own_updates_.end())
      updates = found->second;
    // A common value that all variants give a common slot needs no choice.
    std::erase_if(updates,
                  [&](const auto& update) { return updateDirectly(update.first, update.second); });
    if (joins.empty() && updates.empty()) return;
    const size_t variants = mode_.sequences.size();
    Node* choice = graph_->insertNode(createChoice(*graph_, variants));
    for (size_t v = 0; v < variants; ++v) {
      torch::jit::Block* block = choice->blocks()[v];
      const WithInsertPoint inside(block);
      local_.clear();
      emitApart(v, gap, joins, updates);
      for (const Join* join : joins) block->registerOutput(resolve(v, (*join)[v]));
      for (const auto& [slot, values] : updates) {
        const auto mine = values.find(v);
        block->registerOutput(mine == values.end() ? updated_.at(slot)
                                                   : newRow(v, slot, resolve(v, mine->second)));
      }
    }
    for (const Join* join : joins) joins_[*join] = choice->addOutput()->setType((*join)[0]->type());
    for (const auto& [slot, values] : updates)
      updated_[slot] = choice->addOutput()->setType(c10::TensorType::get());
  }

  bool updateDirectly(size_t slot, const std::map<size_t, const Value*>& values) {
    if (table_.slots[slot].packed || values.size() != mode_.sequences.size()) return false;
    Join join;
    for (const auto& [v, value] : values) join.push_back(value);
    if (!mode_.isCommon(join)) return false;
    updated_[slot] = commonValue(0, join[0]);
    return true;
  }

  /// The ops of a gap that its results need, in order.
  void emitApart(size_t v, size_t gap, const std::vector<const Join*>& joins,
                 const std::map<size_t, std::map<size_t, const Value*>>& updates) {
    std::set<size_t> needed;
    std::vector<const Value*> work;
    for (const Join* join : joins) work.push_back((*join)[v]);
    for (const auto& [slot, values] : updates) {
      if (values.contains(v)) work.push_back(values.at(v));
    }
    while (!work.empty()) {
      const Value* value = work.back();
      work.pop_back();
      const Item* item = apart(v, value);
      if (item == nullptr) continue;
      const size_t index = sequence(v).index.at(item->node);
      if (!item->loose && mode_.gap_of[v][index] != gap) continue;
      if (!needed.insert(index).second) continue;
      work.insert(work.end(), item->reads.begin(), item->reads.end());
    }
    for (const size_t index : needed) {
      const Item& item = sequence(v).items[index];
      Node* copy = graph_->insertNode(graph_->createClone(
          const_cast<Node*>(item.node), [&](Value* value) { return resolve(v, value); }));
      for (size_t i = 0; i < item.node->inputs().size(); ++i) {
        const auto number = ownNumber(v, item.node, i);
        if (!number) continue;
        const WithInsertPoint before(copy);
        copy->replaceInput(i, graph_->insertConstant(*number));
      }
      for (size_t i = 0; i < item.node->outputs().size(); ++i)
        local_[item.node->output(i)] = copy->output(i);
    }
  }

  /// Variant v's value within the block that is being made.
  Value* resolve(size_t v, const Value* value) {
    if (const auto found = local_.find(value); found != local_.end()) return found->second;
    if (sequence(v).literals.contains(value)) return literal(value);
    if (const auto slot = sequence(v).slotOf(value)) return local_[value] = ownTensor(v, *slot);
    if (apart(v, value) == nullptr) return commonValue(v, value);
    const Join* carrier = mode_.carrier(v, value);
    if (carrier == nullptr)
      throw Refused(internalError("a value of --partial is read where it is not"));
    return joins_.at(*carrier);
  }

  /// A packed tensor: the first numbers of the row, in the tensor's shape.
  Value* ownTensor(size_t v, size_t slot) {
    const size_t n = table_.number[v][slot];
    if (!table_.slots[n].packed) return slots_[n];
    const std::vector<int64_t> sizes = all_.variants[v]->slots[slot].value.sizes().vec();
    Value* row =
        graph_->insert(c10::aten::slice, {slots_[n], 0, 0, c10::multiply_integers(sizes), 1});
    return graph_->insert(c10::aten::reshape, {row, sizes});
  }

  /// The way back.
  Value* newRow(size_t v, size_t slot, Value* value) {
    const FusedSlot& packed = table_.slots[slot];
    if (!packed.packed) return value;
    const int64_t numel = all_.variants[v]->slots[*packed.of[v]].value.numel();
    Value* flat = graph_->insert(c10::aten::reshape, {value, std::vector<int64_t>{-1}});
    const std::vector<int64_t> pad = {0, packed.sizes[0] - numel};
    return graph_->insert(c10::aten::constant_pad_nd, {flat, pad, 0});
  }

  const Outline& all_;
  const SlotTable& table_;
  size_t m_;
  const ModeOutline& mode_;
  size_t lead_;
  const Numbers& numbers_;
  std::shared_ptr<Graph> graph_;
  std::vector<Value*> inputs_, slots_;
  std::vector<std::vector<Value*>> common_;  ///< results of common ops
  std::map<Join, Value*> joins_;
  std::map<size_t, Value*> updated_;  ///< slot -> its newest value
  /// gap -> slot -> variant -> value that it makes
  std::map<size_t, std::map<size_t, std::map<size_t, const Value*>>> own_updates_;
  std::unordered_map<const Value*, Value*> local_;
};

}  // namespace

CanonicalGraph combine(const Outline& all, const SlotTable& table, size_t mode, size_t lead,
                       const Numbers& numbers) {
  return Combiner(all, table, mode, lead, numbers).run();
}

CanonicalGraph canonicalChoices(const std::shared_ptr<Graph>& lowered, const CanonicalGraph& like,
                                const std::vector<InputSpec>& inputs, std::vector<TensorSlot> slots,
                                bool training, int64_t batch, size_t variants) {
  TensorSlot variant;
  variant.name = "chorus::variant";
  variant.role = Role::Buffer;
  variant.value = at::zeros({}, at::kLong);
  slots.push_back(variant);
  CanonicalGraph made = recanonicalise(lowered, inputs, std::move(slots), training, batch);
  made.graph = raiseChoices(*made.graph, variants);
  made.n_inputs = like.n_inputs;
  made.n_outputs = like.n_outputs;
  made.updates = like.updates;
  return made;
}

}  // namespace chorus::partial
