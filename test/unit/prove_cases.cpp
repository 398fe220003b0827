#include "test/unit/prove_cases.h"

#include <torch/csrc/jit/ir/irparser.h>

#include "lib/support/hash.h"

namespace chorus::test {
namespace {

// N = C = K = H = W in spirit: every size is 4, so that nothing is told apart by its shape alone.
const char* const kTrain = R"(
graph(%x : Float(*, 4, 4, 4), %w1 : Tensor, %b1 : Tensor, %g : Tensor, %h : Tensor, %mean : Tensor, %var : Tensor,
      %w2 : Tensor, %w3 : Tensor, %c : Tensor, %count : Tensor, %spare : Tensor):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %yes : bool = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
  %momentum : float = prim::Constant[value=0.1]()
  %eps : float = prim::Constant[value=0.001]()
  %p : float = prim::Constant[value=0.5]()
  %none : NoneType = prim::Constant()
  %1 : Tensor = aten::convolution(%x, %w1, %b1, %ones, %ones, %ones, %no, %zeros, %one)
  %2 : Tensor, %3 : Tensor, %4 : Tensor, %5 : Tensor, %6 : Tensor = aten::_native_batch_norm_legit_functional(%1, %g, %h, %mean, %var, %yes, %momentum, %eps)
  %7 : Tensor = aten::matmul(%2, %w2)
  %8 : Tensor = aten::matmul(%2, %w3)
  %9 : Tensor = aten::add(%7, %8, %one)
  %10 : Tensor = aten::relu(%9)
  %11 : Tensor = aten::dropout(%10, %p, %yes)
  %12 : Tensor = aten::mul(%11, %c)
  %13 : Tensor = aten::softmax(%12, %one, %none)
  %14 : Tensor = aten::add(%count, %one, %one)
  return (%13, %5, %6, %14)
)";

const char* const kEval = R"(
graph(%x : Float(*, 4, 4, 4), %w1 : Tensor, %b1 : Tensor, %g : Tensor, %h : Tensor, %mean : Tensor, %var : Tensor,
      %w2 : Tensor, %w3 : Tensor, %c : Tensor, %count : Tensor, %spare : Tensor):
  %one : int = prim::Constant[value=1]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %no : bool = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %momentum : float = prim::Constant[value=0.1]()
  %eps : float = prim::Constant[value=0.001]()
  %none : NoneType = prim::Constant()
  %1 : Tensor = aten::convolution(%x, %w1, %b1, %ones, %ones, %ones, %no, %zeros, %one)
  %2 : Tensor = aten::batch_norm(%1, %g, %h, %mean, %var, %no, %momentum, %eps, %yes)
  %7 : Tensor = aten::matmul(%2, %w2)
  %8 : Tensor = aten::matmul(%2, %w3)
  %9 : Tensor = aten::add(%7, %8, %one)
  %10 : Tensor = aten::relu(%9)
  %12 : Tensor = aten::mul(%10, %c)
  %13 : Tensor = aten::softmax(%12, %one, %none)
  return (%13)
)";

CanonicalGraph parse(const Net& net, const std::string& text, bool with_updates) {
  CanonicalGraph result;
  result.graph = std::make_shared<Graph>();
  torch::jit::parseIR(text, result.graph.get());
  result.n_inputs = net.inputs.size();
  if (with_updates) result.updates = net.updates;
  result.n_outputs = result.graph->outputs().size() - result.updates.size();
  return result;
}

Net inBoth(const std::string& what, const std::string& by) {
  Net net = network();
  net.train = replaced(net.train, what, by);
  net.eval = replaced(net.eval, what, by);
  return net;
}

Net inTrain(const std::string& what, const std::string& by) {
  Net net = network();
  net.train = replaced(net.train, what, by);
  return net;
}

Net inEval(const std::string& what, const std::string& by) {
  Net net = network();
  net.eval = replaced(net.eval, what, by);
  return net;
}

template <typename Change>
Net with(Change change) {
  Net net = network();
  change(net);
  return net;
}

const char* const kConv =
    "%1 : Tensor = aten::convolution(%x, %w1, %b1, %ones, %ones, %ones, %no, %zeros, %one)";

Net otherConv(const std::string& constant, const std::string& call) {
  return inBoth(kConv, constant + "\n  %1 : Tensor = aten::convolution" + call);
}

}  // namespace

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  TORCH_CHECK(at != std::string::npos, "no '", what, "' in the test's graph");
  return text.replace(at, what.size(), by);
}

TensorSlot slot(const std::string& name, std::vector<int64_t> sizes, Role role) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  const auto start = static_cast<double>(hashText(name) % 100);
  TensorSlot result;
  result.name = name;
  result.role = role;
  result.value = (at::arange(count, at::kFloat) + start).reshape(sizes);
  result.requires_grad = role == Role::Parameter;
  return result;
}

Member memberOf(const Net& net, const std::string& name) {
  Member member;
  member.name = name;
  member.path = name + ".pt";
  member.inputs = net.inputs;
  member.slots = net.slots;
  member.output = net.output;
  member.train = parse(net, net.train, true);
  member.eval = parse(net, net.eval.empty() ? net.train : net.eval, net.eval.empty());
  return member;
}

Net network() {
  Net net;
  net.train = kTrain;
  net.eval = kEval;
  net.inputs = {{at::kFloat, {std::nullopt, 4, 4, 4}, std::nullopt}};
  net.slots = {slot("conv.weight", {4, 4, 3, 3}),
               slot("conv.bias", {4}),
               slot("bn.weight", {4}),
               slot("bn.bias", {4}),
               slot("bn.running_mean", {4}, Role::Buffer),
               slot("bn.running_var", {4}, Role::Buffer),
               slot("left.weight", {4, 4}),
               slot("right.weight", {4, 4}),
               slot("constant.0", {4, 4}, Role::Constant),
               slot("bn.num_batches_tracked", {}, Role::Buffer),
               slot("spare", {4}, Role::Buffer)};
  net.updates = {4, 5, 9};
  return net;
}

std::vector<Case> refusedCases() {
  const std::string twos = "%twos : int[] = prim::Constant[value=[2, 2]]()";
  std::vector<Case> cases = {
      {"Activation", inBoth("aten::relu", "aten::tanh"), "tanh here, elsewhere relu", "C2"},
      {"Stride", otherConv(twos, "(%x, %w1, %b1, %twos, %ones, %ones, %no, %zeros, %one)"),
       "conv2d 'stride' is [2, 2], elsewhere [1, 1]", "C4"},
      {"Padding", otherConv(twos, "(%x, %w1, %b1, %ones, %twos, %ones, %no, %zeros, %one)"),
       "conv2d 'padding' is [2, 2], elsewhere [1, 1]", "C4"},
      {"Dilation", otherConv(twos, "(%x, %w1, %b1, %ones, %ones, %twos, %no, %zeros, %one)"),
       "conv2d 'dilation' is [2, 2], elsewhere [1, 1]", "C4"},
      {"StrideAsList",
       otherConv("%two : int = prim::Constant[value=2]()\n  %twos : int[] = "
                 "prim::ListConstruct(%two, %two)",
                 "(%x, %w1, %b1, %twos, %ones, %ones, %no, %zeros, %one)"),
       "conv2d 'stride' is [2, 2], elsewhere [1, 1]", "C4"},
      {"StrideComputed",
       otherConv("%n : int = aten::size(%x, %one)\n  %twos : int[] = prim::ListConstruct(%n, %n)",
                 "(%x, %w1, %b1, %twos, %ones, %ones, %no, %zeros, %one)"),
       "conv2d 'stride' is computed (the result of a list), elsewhere [1, 1]", "C4"},
      {"Bias", otherConv("", "(%x, %w1, %none, %ones, %ones, %ones, %no, %zeros, %one)"),
       "conv2d has no 'bias': parameter 'conv.bias' is missing", "C5"},
      {"Training", with([](Net& net) {
         net.train = replaced(
             net.train,
             "%2 : Tensor, %3 : Tensor, %4 : Tensor, %5 : Tensor, %6 : Tensor = "
             "aten::_native_batch_norm_legit_functional(%1, %g, %h, %mean, %var, %yes, %momentum, "
             "%eps)",
             "%2 : Tensor = aten::batch_norm(%1, %g, %h, %mean, %var, %no, %momentum, %eps, %yes)");
         net.train = replaced(net.train, "%13, %5, %6, %14", "%13, %14");
         net.updates = {9};
       }),
       "batch_norm 'training' is False, elsewhere True", "C4"},
      {"RunningStatistics", with([](Net& net) {
         net.train = replaced(net.train,
                              "%2 : Tensor, %3 : Tensor, %4 : Tensor, %5 : Tensor, %6 : Tensor = "
                              "aten::_native_batch_norm_legit_functional(%1, %g, %h, %mean, %var, "
                              "%yes, %momentum, %eps)",
                              "%2 : Tensor = aten::batch_norm(%1, %g, %h, %none, %none, %yes, "
                              "%momentum, %eps, %yes)");
         net.train = replaced(net.train, "%13, %5, %6, %14", "%13, %14");
         net.updates = {9};
       }),
       "batch_norm has no running statistics, elsewhere it has (buffer 'bn.running_mean')", "C5"},
      {"DropoutMode", inTrain("%10, %p, %yes", "%10, %p, %no"),
       "dropout 'train' is False, elsewhere True", "C4"},
      {"SoftmaxDim", with([](Net& net) {
         net.train = replaced(net.train, "aten::softmax(%12, %one", "aten::softmax(%12, %zero");
       }),
       "softmax 'dim' is 0, elsewhere 1", "C4"},
      {"OnlyInEval", inEval("aten::relu", "aten::sigmoid"),
       "sigmoid here, elsewhere relu (in eval mode)", "C2"},
      {"AlphaIsFloat",
       inBoth("%9 : Tensor = aten::add(%7, %8, %one)",
              "%f : float = prim::Constant[value=1.]()\n  %9 : Tensor = aten::add(%7, %8, %f)"),
       "add 'alpha' is 1.0, elsewhere 1", "C4"},
      {"Wiring", inBoth("aten::add(%7, %8", "aten::add(%7, %7"),
       "add 'other' is the result of matmul a second time, elsewhere the result of matmul", "C3"},
      {"ResidualLost",
       inBoth("%10 : Tensor = aten::relu(%9)",
              "%r : Tensor = aten::relu(%9)\n  %10 : Tensor = aten::add(%9, %r, %one)"),
       "add here, elsewhere relu", "C2"},
      {"NotCommutative", inBoth("aten::matmul(%2, %w2)", "aten::matmul(%w2, %2)"),
       "matmul 'self' is parameter 'left.weight', elsewhere the result of batch_norm", "C3"},
      {"OtherStatistic", inTrain("%13, %5, %6, %14", "%13, %6, %5, %14"),
       "the new value of 'bn.running_mean' is output 4 of batch_norm, elsewhere output 3 of "
       "batch_norm",
       "C3"},
      {"NoCounter", with([](Net& net) {
         net.train = replaced(net.train, "%13, %5, %6, %14", "%13, %5, %6");
         net.updates = {4, 5};
       }),
       "'bn.num_batches_tracked' is not updated, elsewhere it is", "C11"},
      {"Tied", inBoth("aten::matmul(%2, %w3)", "aten::matmul(%2, %w2)"),
       "matmul 'other' is parameter 'left.weight' a second time (tied), elsewhere two tensors, "
       "'left.weight' and 'right.weight'",
       "C8"},
      {"Shape", with([](Net& net) {
         net.slots[0] = slot("conv.weight", {4, 4, 5, 5});
       }),
       "'conv.weight' has shape [4, 4, 5, 5], elsewhere [4, 4, 3, 3]", "C6"},
      {"Dtype", with([](Net& net) { net.slots[6].value = net.slots[6].value.to(at::kDouble); }),
       "'left.weight' has dtype f64, elsewhere f32", "C6"},
      {"Role", with([](Net& net) { net.slots[6].role = Role::Buffer; }),
       "'left.weight' is a buffer, elsewhere a parameter", "C7"},
      {"RequiresGrad", with([](Net& net) { net.slots[0].requires_grad = false; }),
       "'conv.weight' has 'requires_grad' False, elsewhere True", "C7"},
      {"Names", with([](Net& net) { net.slots[6].aliases = {"head.weight"}; }),
       "'left.weight' has 2 names (tied), elsewhere 1", "C8"},
      {"UnusedShape", with([](Net& net) { net.slots[10] = slot("spare", {3}, Role::Buffer); }),
       "'spare' has shape [3], elsewhere [4]", "C6"},
      {"Input", with([](Net& net) { net.inputs[0].sizes[1] = 3; }),
       "the input is f32[N,3,4,4], elsewhere f32[N,4,4,4]", "C1"},
      {"InputDtype", with([](Net& net) { net.inputs[0].dtype = at::kDouble; }),
       "the input is f64[N,4,4,4], elsewhere f32[N,4,4,4]", "C1"},
      {"InputRank", with([](Net& net) { net.inputs[0].sizes.pop_back(); }),
       "the input is f32[N,4,4], elsewhere f32[N,4,4,4]", "C1"},
      {"InputBound", with([](Net& net) { net.inputs[0].bound = 7; }),
       "the bound on values of the input is 7, elsewhere none", "C1"},
      {"Outputs", with([](Net& net) {
         net.train = replaced(net.train, "return (%13,", "return (%13, %12,");
         net.eval = replaced(net.eval, "return (%13", "return (%13, %12");
         net.output = {OutputTree::Kind::Tuple, {{}, {}}, {}};
       }),
       "the number of outputs is 2, elsewhere 1", "C10"},
      {"Tuple", with([](Net& net) {
         net.output = {OutputTree::Kind::Tuple, {{}}, {}};
       }),
       "the result is arranged in another way", "C10"},
      {"Missing", with([](Net& net) {
         net.train = replaced(net.train, ", %spare : Tensor", "");
         net.eval = replaced(net.eval, ", %spare : Tensor", "");
         net.slots.pop_back();
       }),
       "the number of tensors is 10, elsewhere 11: 'spare' is missing", "C12"},
  };
  return cases;
}

std::vector<Carried> carriedCases() {
  return {
      {"Eps", inBoth("value=0.001", "value=1e-05"), 2, 0},
      {"Momentum", inTrain("value=0.1", "value=0.2"), 1, 0},
      {"DropoutP", inTrain("value=0.5", "value=0.25"), 1, 0},
      {"Alpha",
       inBoth("%9 : Tensor = aten::add(%7, %8, %one)",
              "%two : int = prim::Constant[value=2]()\n  %9 : Tensor = aten::add(%7, %8, %two)"),
       2, 0},
      {"Constant", with([](Net& net) {
         net.slots[8].value = net.slots[8].value.clone();
         net.slots[8].value[2][3] += 0.5;
       }),
       0, 1},
      {"MinusZero", with([](Net& net) {
         net.slots[8].value = net.slots[8].value.clone();
         net.slots[8].value[0][0] = -0.0;
       }),
       0, 1},
  };
}

}  // namespace chorus::test
