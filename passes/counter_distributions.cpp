#include "passes/counter_distributions.h"

#include <torch/csrc/jit/ir/constants.h>

#include <functional>

namespace chorus {
namespace {

using torch::jit::Graph;
using torch::jit::NamedValue;
using torch::jit::Node;
using torch::jit::Value;

struct Draw {
  Graph& graph;
  Node* node;
  int64_t index;

  Value* emit(const char* op, const std::vector<NamedValue>& arguments,
              const std::vector<NamedValue>& named = {}) {
    Value* value = graph.insert(c10::Symbol::fromQualString(op), arguments, named);
    value->node()->copyMetadata(node);
    return value->setType(numberType());
  }
  Value* emitBool(const char* op, const std::vector<NamedValue>& arguments) {
    Value* value = emit(op, arguments);
    const auto type = value->type()->cast<c10::TensorType>();
    return type ? value->setType(type->withScalarType(at::kBool)) : value;
  }
  /// The output's type; float where it is none of the floating dtypes.
  c10::TypePtr numberType() const {
    const auto type = node->output()->type()->cast<c10::TensorType>();
    if (!type || !type->scalarType() || c10::isFloatingType(*type->scalarType()))
      return node->output()->type();
    return type->withScalarType(at::kFloat);
  }

  /// Built by hand: the runtime registers the op, this library does not know it.
  Value* fromCounter(const char* op, Value* like) {
    Node* made = graph.insertNode(
        graph.create(c10::Symbol::fromQualString(op),
                     {like, graph.insertConstant(index), graph.insertConstant(false)}));
    made->copyMetadata(node);
    made->output()->setType(numberType());
    return made->output();
  }
  Value* uniform(Value* like) { return fromCounter("chorus::uniform", like); }
  Value* gaussian(Value* like) { return fromCounter("chorus::gaussian", like); }

  bool has(const char* name) const {
    return node->schema().argumentIndexWithName(name).has_value();
  }
  Value* input(const char* name) const {
    return node->input(static_cast<size_t>(*node->schema().argumentIndexWithName(name)));
  }
  Value* self() const { return node->input(0); }

  /// Of the output's type.
  Value* as(Value* value, Value* like) {
    return emit("aten::type_as", {value, like})->setType(node->output()->type());
  }

  /// Zeros of the sizes and dtype that the factory names, or in `dtype`.
  Value* zeros(std::optional<at::ScalarType> dtype = std::nullopt) {
    std::vector<NamedValue> arguments, named;
    if (has("size")) {
      arguments.emplace_back(input("size"));
    } else {
      Node* list = graph.insertNode(graph.createList(c10::IntType::get(), {input("n")}));
      arguments.emplace_back(list->output());
    }
    for (const char* name : {"dtype", "layout", "device", "pin_memory"}) {
      if (dtype && std::string(name) == "dtype")
        named.emplace_back(name, static_cast<int64_t>(*dtype));
      else if (has(name))
        named.emplace_back(name, input(name));
    }
    return emit("aten::zeros", arguments, named);
  }
  /// `self`, in the dtype that is asked for.
  Value* like() {
    if (!has("dtype") || input("dtype")->mustBeNone()) return self();
    return emit("aten::zeros_like", {self()}, {NamedValue("dtype", input("dtype"))});
  }
  /// An int64 output needs more digits than a float's.
  Value* integers(Value* like, Value* low, Value* high) {
    Value* span = graph.insert(c10::aten::sub, {high, low});
    Value* scaled = emit("aten::floor", {emit("aten::mul", {uniform(like), span})});
    return emit("aten::add", {scaled, low});
  }
};

// u in [0,1) is below p with probability p: never where p = 0, always where p = 1.
Value* bernoulli(Draw& d) {
  Value* p = d.has("p") ? d.input("p") : d.self();
  return d.as(d.emitBool("aten::lt", {d.uniform(d.self()), p}), d.self());
}
Value* rand(Draw& d) { return d.uniform(d.zeros()); }
Value* randn(Draw& d) { return d.gaussian(d.zeros()); }
Value* randLike(Draw& d) { return d.uniform(d.like()); }
Value* randnLike(Draw& d) { return d.gaussian(d.like()); }

Value* uniformBetween(Draw& d) {
  Value* span = d.graph.insert(c10::aten::sub, {d.input("to"), d.input("from")});
  return d.emit("aten::add", {d.emit("aten::mul", {d.uniform(d.self()), span}), d.input("from")});
}

Value* normal(Draw& d) {
  if (!d.has("mean") || !d.has("std")) return nullptr;
  Value* mean = d.input("mean");
  Value* deviation = d.input("std");
  const bool tensors = mean->type()->kind() == c10::TypeKind::TensorType;
  const bool spread = deviation->type()->kind() == c10::TypeKind::TensorType;
  if (tensors && spread) {
    // One draw per element of the broadcast of both.
    Value* both = d.emit("aten::add", {mean, deviation});
    return d.emit("aten::addcmul", {mean, d.gaussian(both), deviation});
  }
  Value* like = tensors ? mean : spread ? deviation : d.has("size") ? d.zeros() : d.self();
  return d.emit("aten::add", {d.emit("aten::mul", {d.gaussian(like), deviation}), mean});
}

Value* logNormal(Draw& d) { return d.emit("aten::exp", {normal(d)}); }

// log(1 - u): minus a number of the exponential distribution
Value* minusExponential(Draw& d) {
  return d.emit("aten::log1p", {d.emit("aten::neg", {d.uniform(d.self())})});
}

// -log(1 - u) / lambda, by inversion
Value* exponential(Draw& d) {
  return d.emit("aten::div", {d.emit("aten::neg", {minusExponential(d)}), d.input("lambd")});
}

// floor(log(1 - u) / log(1 - p)) + 1: trials up to the first success
Value* geometric(Draw& d) {
  Value* base = d.graph.insert(c10::aten::log1p, {d.graph.insert(c10::aten::neg, {d.input("p")})});
  Value* trials = d.emit("aten::floor", {d.emit("aten::div", {minusExponential(d), base})});
  return d.as(d.emit("aten::add", {trials, 1}), d.self());
}

// median + sigma tan(pi (u - 1/2))
Value* cauchy(Draw& d) {
  constexpr double kPi = 3.14159265358979323846;
  Value* centred = d.emit("aten::sub", {d.uniform(d.self()), 0.5});
  Value* tangent = d.emit("aten::tan", {d.emit("aten::mul", {centred, kPi})});
  return d.emit("aten::add", {d.emit("aten::mul", {tangent, d.input("sigma")}), d.input("median")});
}

// The least k whose P(X <= k) = Q(k + 1, rate) is above u, by bisection between bounds that leave
// out less than 1e-16 of all. The bounds are 24 deviations apart: at rates below 1e12 fewer than
// 2^26 numbers. A rate below zero gives NaN.
Value* poisson(Draw& d) {
  constexpr int kHalvings = 26;
  const auto in = [&](at::ScalarType dtype, Value* value) {
    const auto type = value->type()->cast<c10::TensorType>();
    return type ? value->setType(type->withScalarType(dtype)) : value;
  };
  const auto emit = [&](const char* op, const std::vector<NamedValue>& arguments) {
    return in(at::kDouble, d.emit(op, arguments));
  };
  Value* rate =
      emit("aten::to", {d.emit("aten::detach", {d.self()}), static_cast<int64_t>(at::kDouble)});
  Value* u = in(at::kDouble, d.uniform(rate));
  Value* spread = emit("aten::add", {emit("aten::mul", {emit("aten::sqrt", {rate}), 12.0}), 40.0});
  Value* low =
      emit("aten::clamp_min", {emit("aten::floor", {emit("aten::sub", {rate, spread})}), 0});
  Value* high = emit("aten::floor", {emit("aten::add", {rate, spread})});
  for (int i = 0; i < kHalvings; ++i) {
    Value* middle = emit("aten::mul", {emit("aten::add", {low, high}), 0.5});
    middle = emit("aten::floor", {middle});
    Value* next = emit("aten::add", {middle, 1.0});
    Value* below = emit("aten::special_gammaincc", {next, rate});
    Value* enough = in(at::kBool, d.emit("aten::gt", {below, u}));
    low = emit("aten::where", {enough, low, next});
    high = emit("aten::where", {enough, middle, high});
  }
  return d.as(emit("aten::add", {low, emit("aten::mul", {spread, 0.0})}), d.self());
}

/// Without bounds the numbers are as long as the dtype: not made of uniform ones.
Value* random(Draw& d) {
  if (!d.has("to") || d.input("to")->mustBeNone()) return nullptr;
  Value* low = d.has("from") ? d.input("from") : d.graph.insertConstant(0);
  Value* high = d.input("to");
  if (high->type()->kind() == c10::TypeKind::OptionalType)
    high = d.graph.insert(c10::aten::_unwrap_optional, {high});
  Value* wide = d.emit("aten::zeros_like", {d.self()},
                       {NamedValue("dtype", static_cast<int64_t>(at::kDouble))});
  return d.as(d.integers(wide, low, high), d.self());
}

// Without replacement: the largest of p / e, where e is exponential. With: where u falls in the
// sums of p.
Value* multinomial(Draw& d) {
  const auto replacement = torch::jit::toIValue(d.input("replacement"));
  if (!replacement) return nullptr;
  if (!replacement->toBool()) {
    Value* e = d.emit("aten::neg", {minusExponential(d)});
    Value* order = d.emit("aten::div", {d.self(), d.emit("aten::clamp_min", {e, 1e-30})});
    order = d.emit("aten::argsort", {order, -1, true});
    return d.emit("aten::narrow", {order, -1, 0, d.input("num_samples")})
        ->setType(d.node->output()->type());
  }
  Value* sums = d.emit("aten::cumsum", {d.self(), -1});
  sums = d.emit("aten::div", {sums, d.emit("aten::narrow", {sums, -1, -1, 1})});
  Value* first = d.emit("aten::narrow", {d.self(), -1, 0, 1});
  Value* like = d.emit("aten::repeat_interleave", {first, d.input("num_samples"), -1});
  return d.emit("aten::searchsorted", {sums, d.uniform(like)}, {NamedValue("right", true)})
      ->setType(d.node->output()->type());
}

Value* randint(Draw& d) {
  Value* low = d.has("low") ? d.input("low") : d.graph.insertConstant(0);
  Value* numbers = d.integers(d.zeros(at::kDouble), low, d.input("high"));
  return d.as(numbers, d.zeros())->setType(d.node->output()->type());
}
Value* randintLike(Draw& d) {
  Value* low = d.has("low") ? d.input("low") : d.graph.insertConstant(0);
  Value* wide = d.emit("aten::zeros_like", {d.self()},
                       {NamedValue("dtype", static_cast<int64_t>(at::kDouble))});
  return d.as(d.integers(wide, low, d.input("high")), d.like());
}

// The order of n uniform numbers.
Value* randperm(Draw& d) {
  Value* numbers = d.uniform(d.zeros(at::kDouble));
  return d.emit("aten::argsort", {numbers})->setType(d.node->output()->type());
}

// Negative elements times a number between lower and upper.
Value* leakyByChance(Draw& d) {
  Value* span = d.graph.insert(c10::aten::sub, {d.input("upper"), d.input("lower")});
  Value* slope =
      d.emit("aten::add", {d.emit("aten::mul", {d.uniform(d.self()), span}), d.input("lower")});
  Value* negative = d.emit("aten::mul", {d.self(), slope});
  Value* positive = d.emitBool("aten::ge", {d.self(), 0.0});
  return d.emit("aten::where", {positive, d.self(), negative});
}

Value* rrelu(Draw& d) {
  if (torch::jit::toIValue(d.input("training"))) return leakyByChance(d);
  // The module's own flag, in code that is not specialised.
  Node* branch = d.graph.insertNode(d.graph.create(c10::prim::If, {d.input("training")}, 1));
  branch->output()->setType(d.node->output()->type());
  torch::jit::Block* drawn = branch->addBlock();
  torch::jit::Block* mean = branch->addBlock();
  {
    const torch::jit::WithInsertPoint here(drawn);
    drawn->registerOutput(leakyByChance(d));
  }
  {
    const torch::jit::WithInsertPoint here(mean);
    mean->registerOutput(
        d.emit("aten::rrelu", {d.self(), d.input("lower"), d.input("upper"), false}));
  }
  return branch->output();
}

const std::map<std::string, std::function<Value*(Draw&)>>& table() {
  static const std::map<std::string, std::function<Value*(Draw&)>> rows = {
      {"aten::bernoulli", bernoulli},
      {"aten::rand", rand},
      {"aten::randn", randn},
      {"aten::rand_like", randLike},
      {"aten::randn_like", randnLike},
      {"aten::uniform", uniformBetween},
      {"aten::normal", normal},
      {"aten::normal_functional", normal},
      {"aten::exponential", exponential},
      {"aten::log_normal", logNormal},
      {"aten::geometric", geometric},
      {"aten::cauchy", cauchy},
      {"aten::poisson", poisson},
      {"aten::random", random},
      {"aten::multinomial", multinomial},
      {"aten::randint", randint},
      {"aten::randint_like", randintLike},
      {"aten::randperm", randperm},
      {"aten::rrelu", rrelu},
  };
  return rows;
}

std::string functionalName(const Node* node) {
  std::string op = node->kind().toQualString();
  if (!op.empty() && op.back() == '_') op.pop_back();
  return op;
}

}  // namespace

bool isDistribution(const Node* node) { return table().count(functionalName(node)) > 0; }

Value* drawnValue(Node* node, int64_t index) {
  const auto row = table().find(functionalName(node));
  if (row == table().end()) return nullptr;
  Draw draw{*node->owningGraph(), node, index};
  return row->second(draw);
}

}  // namespace chorus
