#include "test/unit/mutation_networks.h"

#include <torch/csrc/jit/ir/irparser.h>

#include <numeric>

#include "lib/support/hash.h"

namespace chorus::test {
namespace {

const std::vector<std::string> kActivations = {"relu", "tanh", "sigmoid", "sin"};
const std::vector<std::string> kOps = {
    "linear", "linear", "linear", "act", "leaky",   "scale",      "shift",      "clamp",
    "table",  "add",    "sub",    "mul", "softmax", "layer_norm", "batch_norm", "branch"};

bool isBinary(const std::string& op) { return op == "add" || op == "sub" || op == "mul"; }

/// Writes one graph. Constants are written where they are first met, at the top.
class Text {
 public:
  Text(const Network& network, bool train) : network_(network), train_(train) {}

  std::string graph(const std::vector<std::string>& slots) {
    std::vector<size_t> order = network_.order;
    if (order.empty()) {
      order.resize(network_.steps.size());
      std::iota(order.begin(), order.end(), 0);
    }
    for (const size_t i : order) step(i);
    for (size_t d = 0; d < network_.dead; ++d) {
      body_ += "  %dead" + std::to_string(d) + " : Float(*, 4) = aten::exp(%v" +
               std::to_string(d % (network_.steps.size() + 1)) + ")\n";
    }
    std::string text = "graph(%v0 : Float(*, 4)";
    for (const std::string& slot : slots) text += ", %" + slot + " : Tensor";
    std::string results = value(network_.steps.size());
    const std::string second = value(network_.steps.size() / 2);
    results = network_.swapped_outputs ? second + ", " + results : results + ", " + second;
    for (const std::string& update : updates_) results += ", " + update;
    return text + "):\n" + constants_ + body_ + "  return (" + results + ")\n";
  }

 private:
  static std::string value(size_t i) { return "%v" + std::to_string(i); }

  std::string constant(const std::string& type, const std::string& literal) {
    std::string& name = known_[type + literal];
    if (!name.empty() && !network_.constants_apart) return name;
    name = "%c" + std::to_string(n_constants_++);
    constants_ += "  " + name + " : " + type + " = prim::Constant" + literal + "()\n";
    return name;
  }
  std::string number(double x) {
    std::ostringstream text;
    text.precision(17);
    text << std::showpoint << x;
    return constant("float", "[value=" + text.str() + "]");
  }
  std::string whole(int64_t x) { return constant("int", "[value=" + std::to_string(x) + "]"); }
  std::string flag(bool x) { return constant("bool", x ? "[value=1]" : "[value=0]"); }
  std::string none() { return constant("NoneType", ""); }
  std::string four() { return constant("int[]", "[value=[4]]"); }

  void emit(size_t i, const std::string& op, const std::string& arguments) {
    body_ += "  " + value(i + 1) + " : Float(*, 4) = aten::" + op + "(" + arguments + ")\n";
  }

  void batchNorm(size_t i, const Step& s, const std::string& x) {
    const std::string n = std::to_string(i);
    const std::string slots = ", %g" + n + ", %h" + n + ", %mean" + n + ", %var" + n + ", ";
    const std::string numbers = number(s.momentum) + ", " + number(s.number);
    if (!train_) {
      return emit(i, "batch_norm", x + slots + flag(false) + ", " + numbers + ", " + flag(true));
    }
    const std::string results = value(i + 1) + " : Float(*, 4), %sm" + n + " : Float(4), %sv" + n +
                                " : Float(4), %nm" + n + " : Float(4), %nv" + n + " : Float(4)";
    body_ += "  " + results + " = aten::_native_batch_norm_legit_functional(" + x + slots +
             flag(true) + ", " + numbers + ")\n";
    if (!network_.updates) return;
    updates_.push_back("%nm" + n);
    updates_.push_back("%nv" + n);
  }

  void branch(size_t i, const Step& s, const std::string& x) {
    const std::string n = std::to_string(i);
    const std::string other = s.kind == "tanh" ? "sin" : "tanh";
    body_ += "  %rows" + n + " : int = aten::size(" + x + ", " + whole(0) + ")\n";
    body_ += "  %big" + n + " : bool = aten::gt(%rows" + n + ", " + whole(s.dim) + ")\n";
    body_ += "  " + value(i + 1) + " : Float(*, 4) = prim::If(%big" + n + ")\n";
    body_ += "    block0():\n      %then" + n + " : Float(*, 4) = aten::" + s.kind + "(" + x +
             ")\n      -> (%then" + n + ")\n";
    body_ += "    block1():\n      %else" + n + " : Float(*, 4) = aten::" + other + "(" + x +
             ")\n      -> (%else" + n + ")\n";
  }

  void step(size_t i) {
    const Step& s = network_.steps[i];
    const std::string x = value(s.args[0]), y = value(s.args.back());
    const std::string n = std::to_string(i), w = std::to_string(s.weight);
    if (s.op == "linear") emit(i, "linear", x + ", %w" + w + ", " + (s.bias ? "%b" + n : none()));
    if (s.op == "act") emit(i, s.kind, x);
    if (s.op == "leaky") emit(i, "leaky_relu", x + ", " + number(s.number));
    if (s.op == "scale") emit(i, "mul", x + ", " + number(s.number));
    if (s.op == "shift") emit(i, "add", x + ", " + number(s.number) + ", " + whole(1));
    if (s.op == "clamp") emit(i, "clamp", x + ", " + number(-s.number) + ", " + number(s.number));
    if (s.op == "table") emit(i, "mul", x + ", %t" + n);
    if (s.op == "add" || s.op == "sub") emit(i, s.op, x + ", " + y + ", " + whole(1));
    if (s.op == "mul") emit(i, "mul", x + ", " + y);
    if (s.op == "softmax") emit(i, "softmax", x + ", " + whole(s.dim) + ", " + none());
    if (s.op == "layer_norm") {
      emit(i, "layer_norm",
           x + ", " + four() + ", " + none() + ", " + none() + ", " + number(s.number) + ", " +
               flag(false));
    }
    if (s.op == "batch_norm") batchNorm(i, s, x);
    if (s.op == "branch") branch(i, s, x);
  }

  const Network& network_;
  bool train_;
  std::string constants_, body_;
  std::map<std::string, std::string> known_;
  size_t n_constants_ = 0;
  std::vector<std::string> updates_;
};

/// `what`: its name in the graph.
struct NamedSlot {
  std::string what;
  TensorSlot slot;
};

at::Tensor numbers(const std::string& what, uint64_t seed, at::IntArrayRef sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  const auto shift = static_cast<double>(mixHash(hashText(what), seed) % 1000);
  return at::sin(at::arange(count, at::kFloat) * 1.7 + shift).reshape(sizes);
}

std::vector<NamedSlot> slotsOf(const Network& network, uint64_t seed) {
  std::vector<NamedSlot> slots;
  std::set<std::string> seen;
  const auto add = [&](const std::string& what, at::Tensor value, Role role, bool grad) {
    if (!seen.insert(what).second) return;
    TensorSlot slot;
    const uint64_t number = mixHash(hashText(what), network.names) % 10000;
    slot.name =
        network.names == 0 ? "layer." + what : "other." + std::to_string(number) + "." + what;
    slot.role = role;
    slot.value = std::move(value);
    slot.requires_grad = grad;
    slots.push_back({what, slot});
  };
  for (size_t i = 0; i < network.steps.size(); ++i) {
    const Step& s = network.steps[i];
    const std::string n = std::to_string(i), w = "w" + std::to_string(s.weight);
    const auto vector = [&](const std::string& what) { return numbers(what, seed, {4}); };
    if (s.op == "linear") {
      add(w, numbers(w, seed, {4, 4}), s.role, s.grad && s.role == Role::Parameter);
      if (s.bias) add("b" + n, vector("b" + n), Role::Parameter, true);
    }
    if (s.op == "table") {
      at::Tensor table = at::arange(s.columns, at::kFloat) + static_cast<double>(i) / 8;
      table[0] = s.table;
      add("t" + n, table, Role::Constant, false);
    }
    if (s.op != "batch_norm") continue;
    add("g" + n, vector("g" + n), Role::Parameter, true);
    add("h" + n, vector("h" + n), Role::Parameter, true);
    add("mean" + n, vector("mean" + n), Role::Buffer, false);
    add("var" + n, vector("var" + n).abs() + 0.5, Role::Buffer, false);
  }
  if (network.reversed_slots) std::ranges::reverse(slots);
  return slots;
}

CanonicalGraph graphOf(const Network& network, bool train, const std::vector<NamedSlot>& slots) {
  std::vector<std::string> names;
  for (const NamedSlot& slot : slots) names.push_back(slot.what);
  CanonicalGraph canonical;
  canonical.graph = std::make_shared<Graph>();
  torch::jit::parseIR(Text(network, train).graph(names), canonical.graph.get());
  canonical.n_inputs = 1;
  canonical.n_outputs = 2;
  for (size_t s = 0; s < slots.size(); ++s) {
    canonical.slotInput(s)->setType(c10::TensorType::create(slots[s].slot.value));
  }
  if (!train || !network.updates) return canonical;
  std::vector<size_t> order = network.order;
  for (size_t i = 0; order.size() < network.steps.size(); ++i) order.push_back(i);
  for (const size_t i : order) {
    if (network.steps[i].op != "batch_norm") continue;
    for (const char* name : {"mean", "var"}) {
      const auto is_it = [&](const NamedSlot& s) { return s.what == name + std::to_string(i); };
      canonical.updates.push_back(
          static_cast<size_t>(std::ranges::find_if(slots, is_it) - slots.begin()));
    }
  }
  return canonical;
}

/// A random order in which every step comes behind what it reads.
std::vector<size_t> randomOrder(const Network& network, Random& random) {
  std::vector<size_t> order;
  std::set<size_t> open;
  for (size_t i = 0; i < network.steps.size(); ++i) open.insert(i);
  while (!open.empty()) {
    std::vector<size_t> ready;
    for (const size_t i : open) {
      const auto waits = [&](size_t v) { return v > 0 && open.contains(v - 1); };
      if (std::ranges::none_of(network.steps[i].args, waits)) ready.push_back(i);
    }
    order.push_back(ready[below(random, ready.size())]);
    open.erase(order.back());
  }
  return order;
}

std::optional<size_t> choose(const Network& network, Random& random,
                             const std::set<std::string>& ops) {
  std::vector<size_t> found;
  for (size_t i = 0; i < network.steps.size(); ++i) {
    if (ops.contains(network.steps[i].op)) found.push_back(i);
  }
  if (found.empty()) return std::nullopt;
  return found[below(random, found.size())];
}

template <typename T>
T other(Random& random, const std::vector<T>& values, const T& value) {
  std::vector<T> rest = values;
  std::erase(rest, value);
  return rest[below(random, rest.size())];
}

using Change = std::function<bool(Network&, Random&)>;
struct Row {
  const char* name;
  bool changes;
  Change apply;  ///< false where it does not apply
};

/// An edit of one step of some kind.
Change ofStep(std::set<std::string> ops, std::function<bool(Network&, Step&, Random&)> edit) {
  return [ops = std::move(ops), edit = std::move(edit)](Network& network, Random& random) {
    const auto at = choose(network, random, ops);
    return at && edit(network, network.steps[*at], random);
  };
}

std::vector<Row> valueEdits() {
  const std::set<std::string> numbered = {"leaky", "scale",      "shift",
                                          "clamp", "layer_norm", "batch_norm"};
  return {
      {"number", true,
       ofStep(numbered,
              [](Network&, Step& s, Random& r) {
                s.number *= other<double>(r, {0.5, 2, 3, 0.25}, 1);
                return true;
              })},
      {"momentum", true,
       ofStep({"batch_norm"},
              [](Network&, Step& s, Random&) {
                s.momentum = 0.4;
                return true;
              })},
      {"activation", true,
       ofStep({"act"},
              [](Network&, Step& s, Random& r) {
                s.kind = other(r, kActivations, s.kind);
                return true;
              })},
      {"dim", true,
       ofStep({"softmax"},
              [](Network&, Step& s, Random&) {
                s.dim = 1 - s.dim;
                return true;
              })},
      {"block of an If", true,
       ofStep({"branch"},
              [](Network&, Step& s, Random& r) {
                s.kind = other(r, kActivations, s.kind);
                return true;
              })},
      {"condition of an If", true,
       ofStep({"branch"},
              [](Network&, Step& s, Random&) {
                ++s.dim;
                return true;
              })},
      {"element of a table", true,
       ofStep({"table"},
              [](Network&, Step& s, Random&) {
                s.table += 1;
                return true;
              })},
      {"shape of a table", true,
       ofStep({"table"},
              [](Network&, Step& s, Random&) {
                s.columns = 5 - s.columns;
                return true;
              })},
      {"op", true,
       ofStep({"add", "sub", "mul"},
              [](Network&, Step& s, Random& r) {
                s.op = other<std::string>(r, {"add", "sub", "mul"}, s.op);
                return true;
              })},
  };
}

std::vector<Row> structureEdits() {
  return {
      {"wiring", true,
       [](Network& n, Random& r) {
         const size_t at = below(r, n.steps.size());
         size_t& arg = n.steps[at].args[below(r, n.steps[at].args.size())];
         const size_t to = below(r, at + 1);
         return std::exchange(arg, to) != to;
       }},
      {"operands of sub", true,
       ofStep({"sub"},
              [](Network&, Step& s, Random&) {
                std::ranges::reverse(s.args);
                return s.args[0] != s.args[1];
              })},
      {"tie", true,
       ofStep({"linear"},
              [](Network& n, Step& s, Random& r) {
                const auto from = choose(n, r, {"linear"});
                const Step& source = n.steps[*from];
                if (source.weight == s.weight) return false;
                s.weight = source.weight;
                s.role = source.role;
                s.grad = source.grad;
                return true;
              })},
      {"role", true,
       ofStep({"linear"},
              [](Network&, Step& s, Random&) {
                s.role = Role::Buffer;
                return true;
              })},
      {"requires_grad", true,
       ofStep({"linear"},
              [](Network&, Step& s, Random&) {
                s.grad = false;
                return true;
              })},
      {"bias", true,
       ofStep({"linear"},
              [](Network&, Step& s, Random&) {
                s.bias = false;
                return true;
              })},
      {"outputs", true, [](Network& n, Random&) { return n.swapped_outputs = true; }},
      {"updates", true,
       [](Network& n, Random& r) {
         n.updates = false;
         return choose(n, r, {"batch_norm"}).has_value();
       }},
  };
}

std::vector<Row> harmlessEdits() {
  return {
      {"names", false, [](Network& n, Random& r) { return (n.names = 1 + r()) > 0; }},
      {"dead code", false, [](Network& n, Random& r) { return (n.dead = 1 + below(r, 4)) > 0; }},
      {"order of nodes", false,
       [](Network& n, Random& r) {
         n.order = randomOrder(n, r);
         return true;
       }},
      {"order of tensors", false, [](Network& n, Random&) { return n.reversed_slots = true; }},
      {"constants", false, [](Network& n, Random&) { return n.constants_apart = true; }},
      {"commutative operands", false,
       ofStep({"add", "mul"},
              [](Network&, Step& s, Random&) {
                std::ranges::reverse(s.args);
                return true;
              })},
  };
}

}  // namespace

Network randomNetwork(uint64_t seed) {
  Random random(static_cast<uint32_t>(seed));
  Network network;
  const size_t length = 6 + below(random, 10);
  std::vector<size_t> unread = {0};
  for (size_t i = 0; i < length; ++i) {
    const auto pick = [&] {
      if (unread.empty() || below(random, 10) < 3) return below(random, i + 1);
      const size_t at = below(random, unread.size());
      const size_t value = unread[at];
      unread.erase(unread.begin() + static_cast<std::ptrdiff_t>(at));
      return value;
    };
    Step step;
    step.op = kOps[below(random, kOps.size())];
    step.args = {pick()};
    if (isBinary(step.op)) step.args.push_back(pick());
    step.kind = kActivations[below(random, kActivations.size())];
    step.number = 0.25 + static_cast<double>(below(random, 4)) / 4;
    step.dim = step.op == "branch" ? 2 : 1;
    step.weight = i;
    network.steps.push_back(step);
    unread.push_back(i + 1);
  }
  for (; unread.size() > 1; unread.push_back(network.steps.size())) {
    Step join;
    join.op = "add";
    join.args = {unread[0], unread[1]};
    unread.erase(unread.begin(), unread.begin() + 2);
    network.steps.push_back(join);
  }
  Step last;
  last.op = "linear";
  last.args = {unread[0]};
  last.weight = network.steps.size();
  network.steps.push_back(last);
  return network;
}

Member memberOf(const Network& network, const std::string& name, uint64_t seed) {
  const std::vector<NamedSlot> slots = slotsOf(network, seed);
  Member member;
  member.name = name;
  member.path = name + ".pt";
  member.seed = seed;
  member.inputs = {{at::kFloat, {std::nullopt, 4}, std::nullopt}};
  member.output.kind = OutputTree::Kind::Tuple;
  member.output.children = {OutputTree{}, OutputTree{}};
  for (const NamedSlot& slot : slots) member.slots.push_back(slot.slot);
  member.train = graphOf(network, true, slots);
  member.eval = graphOf(network, false, slots);
  return member;
}

Edit randomEdit(const Network& network, Random& random) {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all = valueEdits();
    for (const auto& more : {structureEdits(), harmlessEdits()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  while (true) {
    const Row& row = rows[below(random, rows.size())];
    Network changed = network;
    if (row.apply(changed, random)) return {row.name, row.changes, changed};
  }
}

}  // namespace chorus::test
