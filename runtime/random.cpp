#include "chorus/random.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/jit/runtime/operator.h>

#include "chorus/diagnostics.h"

namespace chorus {
namespace {

thread_local const RandomContext* current_context = nullptr;
/// Of an op that draws for some members of the context: which.
thread_local const std::vector<int64_t>* drawing_members = nullptr;

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

/// The values of one block of a mask: element i of the member is dropped iff word i is below
/// `threshold`.
struct MaskRule {
  uint64_t threshold;  ///< p * 2^32, so that p = 1 drops every word and p = 0 none
  double scale;
};

MaskRule maskRule(double p) {
  if (!(p >= 0 && p <= 1)) {
    throw Refused(
        error("dropout probability has to be between 0 and 1, but is " + std::to_string(p)));
  }
  return {static_cast<uint64_t>(std::llround(p * 4294967296.0)), p == 1 ? 0.0 : 1.0 / (1.0 - p)};
}

template <typename T>
void fillMask(T* out, int64_t numel, const RandomStream& stream, MaskRule rule) {
  const T kept = static_cast<T>(rule.scale);
  const int64_t blocks = (numel + 3) / 4;
  at::parallel_for(0, blocks, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const PhiloxCounter words = stream.block(static_cast<uint64_t>(b));
      const int64_t count = std::min<int64_t>(4, numel - 4 * b);
      for (int64_t j = 0; j < count; ++j) {
        out[4 * b + j] = words[j] < rule.threshold ? T(0) : kept;
      }
    }
  });
}

}  // namespace

PhiloxCounter philox(PhiloxCounter c, PhiloxKey key) {
  // Multipliers and Weyl increments of the paper, table 2 and section 3.1.
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * c[0];
    const uint64_t product1 = kMultiplier1 * c[2];
    c = {high(product1) ^ c[1] ^ key[0], low(product1), high(product0) ^ c[3] ^ key[1],
         low(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return c;
}

RandomStream RandomStream::of(Purpose purpose, uint64_t run_seed, uint64_t member_seed,
                              uint64_t step, uint64_t node) {
  // Two keyed bijections absorb all five numbers into the 128 bits of key and nonce.
  const PhiloxCounter seeds =
      philox({low(run_seed), high(run_seed), low(member_seed), high(member_seed)},
             {static_cast<uint32_t>(purpose), 0});
  PhiloxCounter place =
      philox({low(step), high(step), low(node), high(node)}, {seeds[0], seeds[1]});
  return {{place[0] ^ seeds[2], place[1] ^ seeds[3]}, {place[2], place[3]}};
}

PhiloxCounter RandomStream::block(uint64_t index) const {
  return philox({low(index), high(index), nonce[0], nonce[1]}, key);
}

uint32_t RandomDraws::next() {
  if (index_ % 4 == 0) words_ = stream_.block(index_ / 4);
  return words_[index_++ % 4];
}

uint64_t RandomDraws::below(uint64_t bound) {
  // Words are masked to the bits that `bound` needs and drawn again where they are too large: no
  // modulo bias.
  uint64_t mask = bound - 1;
  for (int shift = 1; shift < 64; shift *= 2) mask |= mask >> shift;
  while (true) {
    uint64_t word = next();
    if (high(mask) != 0) word |= uint64_t{next()} << 32;
    word &= mask;
    if (word < bound) return word;
  }
}

at::Tensor randomOrder(int64_t n, RandomStream stream) {
  at::Tensor order = at::arange(n, at::kLong);
  int64_t* rows = order.data_ptr<int64_t>();
  RandomDraws draws(stream);
  for (int64_t i = n - 1; i > 0; --i) {
    std::swap(rows[i], rows[draws.below(static_cast<uint64_t>(i) + 1)]);
  }
  return order;
}

at::Tensor sharedOrder(int64_t n, uint64_t run_seed, uint64_t epoch) {
  return randomOrder(n, RandomStream::of(Purpose::SharedOrder, run_seed, 0, epoch, 0));
}

at::Tensor memberOrder(int64_t n, uint64_t run_seed, uint64_t member_seed, uint64_t epoch) {
  return randomOrder(n, RandomStream::of(Purpose::MemberOrder, run_seed, member_seed, epoch, 0));
}

RandomScope::RandomScope(const RandomContext& context) : outer_(current_context) {
  current_context = &context;
}
RandomScope::~RandomScope() { current_context = outer_; }

namespace {

/// Draws a tensor of like's sizes: `fill(out, stream, member)` writes a member's elements,
/// row-major.
template <typename Fill>
at::Tensor drawMembers(const at::Tensor& like, at::ScalarType dtype, int64_t node, bool stacked,
                       const Fill& fill) {
  const RandomContext* context = current_context;
  if (!context) throw Refused(internalError("a random op of chorus runs outside of a RandomScope"));
  const size_t members = stacked ? static_cast<size_t>(like.size(0)) : 1;
  const std::vector<int64_t>* rows = drawing_members;
  const size_t expected = rows ? rows->size() : context->member_seeds.size();
  if (expected != members || context->steps.size() != context->member_seeds.size()) {
    throw Refused(internalError("a random op of chorus draws for " + std::to_string(members) +
                                " members, but the run has " + std::to_string(expected)));
  }
  const auto numberOf = [&](size_t k) -> uint64_t {
    if (context->one_node) return 0;
    const bool own = k < context->nodes.size() && !context->nodes[k].empty();
    return static_cast<uint64_t>(own ? context->nodes[k].at(static_cast<size_t>(node)) : node);
  };
  at::Tensor drawn =
      at::empty(like.sizes(), like.options().dtype(dtype).device(at::kCPU).requires_grad(false));
  for (size_t i = 0; i < members; ++i) {
    const size_t k = rows ? static_cast<size_t>(rows->at(i)) : i;
    const RandomStream stream =
        RandomStream::of(Purpose::Mask, context->run_seed, context->member_seeds.at(k),
                         static_cast<uint64_t>(context->steps.at(k)), numberOf(k));
    fill(stacked ? drawn.select(0, static_cast<int64_t>(i)) : drawn, stream, i);
  }
  return like.device().is_cpu() ? drawn : drawn.to(like.device());
}

/// One rule per member, or one for all.
at::Tensor drawMasks(const at::Tensor& like, const std::vector<MaskRule>& rules, int64_t node,
                     bool stacked) {
  return drawMembers(like, like.scalar_type(), node, stacked,
                     [&](const at::Tensor& out, const RandomStream& stream, size_t k) {
                       AT_DISPATCH_FLOATING_TYPES_AND2(
                           at::kHalf, at::kBFloat16, out.scalar_type(), "keep_mask", [&] {
                             fillMask(out.data_ptr<scalar_t>(), out.numel(), stream,
                                      rules[rules.size() == 1 ? 0 : k]);
                           });
                     });
}

/// Element i of a member is `number(words 2i, 2i+1)` of its stream.
template <typename Number>
at::Tensor drawNumbers(const at::Tensor& like, int64_t node, bool stacked, const Number& number) {
  // Computed in fp64, so that a member's fp32 and fp64 copies draw the same numbers but for
  // rounding.
  at::Tensor drawn =
      drawMembers(like, at::kDouble, node, stacked,
                  [&](const at::Tensor& out, const RandomStream& stream, size_t) {
                    double* data = out.data_ptr<double>();
                    const int64_t numel = out.numel();
                    at::parallel_for(0, (numel + 1) / 2, 2048, [&](int64_t begin, int64_t end) {
                      for (int64_t b = begin; b < end; ++b) {
                        const PhiloxCounter words = stream.block(static_cast<uint64_t>(b));
                        data[2 * b] = number(words[0], words[1]);
                        if (2 * b + 1 < numel) data[2 * b + 1] = number(words[2], words[3]);
                      }
                    });
                  });
  const bool floating = c10::isFloatingType(like.scalar_type());
  return floating ? drawn.to(like.scalar_type()) : drawn.to(at::kFloat);
}

}  // namespace

at::Tensor uniformNumbers(const at::Tensor& like, int64_t node, bool stacked) {
  // 24 bits, so that no rounding to f32 gives 1; f16 and bf16 members get numbers that round down.
  const bool wide = like.scalar_type() == at::kDouble;
  at::Tensor numbers = drawNumbers(like, node, stacked, [&](uint32_t a, uint32_t b) {
    const double first = static_cast<double>(a >> 8) / 16777216.0;
    return wide ? first + static_cast<double>(b >> 3) / 9007199254740992.0 : first;
  });
  if (numbers.scalar_type() == at::kHalf || numbers.scalar_type() == at::kBFloat16) {
    const double below_one = numbers.scalar_type() == at::kHalf ? 1 - 1.0 / 2048 : 1 - 1.0 / 256;
    numbers.clamp_max_(below_one);
  }
  return numbers;
}

at::Tensor gaussianNumbers(const at::Tensor& like, int64_t node, bool stacked) {
  // Box and Muller: both words of an element make one number, so that no element depends on its
  // neighbour.
  constexpr double kUnit = 1.0 / 4294967296.0, kTurn = 6.283185307179586;
  return drawNumbers(like, node, stacked, [](uint32_t a, uint32_t b) {
    const double radius = std::sqrt(-2 * std::log((static_cast<double>(a) + 1) * kUnit));
    return radius * std::cos(kTurn * static_cast<double>(b) * kUnit);
  });
}

at::Tensor keepMask(const at::Tensor& like, double p, int64_t node, bool stacked) {
  return drawMasks(like, {maskRule(p)}, node, stacked);
}

at::Tensor keptElements(const at::Tensor& like, const at::Tensor& p, int64_t node, bool stacked) {
  const at::Tensor each = p.detach().to(at::kCPU, at::kDouble).contiguous().flatten();
  std::vector<MaskRule> rules;
  for (int64_t k = 0; k < each.numel(); ++k) {
    rules.push_back(maskRule(each.data_ptr<double>()[k]));
    rules.back().scale = 1;
  }
  if (rules.size() != (stacked ? static_cast<size_t>(like.size(0)) : 1)) {
    throw Refused(internalError("chorus::kept has " + std::to_string(rules.size()) +
                                " probabilities, not one per member"));
  }
  return drawMasks(like, rules, node, stacked);
}

namespace {

class DrawingScope {
 public:
  explicit DrawingScope(const std::vector<int64_t>& members) { drawing_members = &members; }
  ~DrawingScope() { drawing_members = nullptr; }
  DrawingScope(const DrawingScope&) = delete;
  DrawingScope& operator=(const DrawingScope&) = delete;
};

/// Registers `chorus::NAME(ARGUMENTS) -> Tensor`, and `chorus::NAME_of(ARGUMENTS, int[] members)`
/// for the members of the context that `like` [M,...] is stacked for.
void registerDraw(const std::string& name, const std::string& arguments,
                  const std::function<void(torch::jit::Stack&)>& draw) {
  torch::jit::registerOperator(
      torch::jit::Operator("chorus::" + name + "(" + arguments + ") -> Tensor", draw,
                           c10::AliasAnalysisKind::FROM_SCHEMA));
  torch::jit::registerOperator(torch::jit::Operator(
      "chorus::" + name + "_of(" + arguments + ", int[] members) -> Tensor",
      [draw](torch::jit::Stack& stack) {
        const std::vector<int64_t> members = torch::jit::pop(stack).toIntVector();
        const DrawingScope scope(members);
        draw(stack);
      },
      c10::AliasAnalysisKind::FROM_SCHEMA));
}

void registerNumbers(const char* name, at::Tensor (*draw)(const at::Tensor&, int64_t, bool)) {
  registerDraw(name, "Tensor like, int node, bool stacked", [draw](torch::jit::Stack& stack) {
    const bool stacked = torch::jit::pop(stack).toBool();
    const int64_t node = torch::jit::pop(stack).toInt();
    const at::Tensor like = torch::jit::pop(stack).toTensor();
    torch::jit::push(stack, draw(like, node, stacked));
  });
}

}  // namespace

void registerRandomOps() {
  static const bool registered = [] {
    registerDraw("keep_mask", "Tensor like, float p, int node, bool stacked",
                 [](torch::jit::Stack& stack) {
                   const bool stacked = torch::jit::pop(stack).toBool();
                   const int64_t node = torch::jit::pop(stack).toInt();
                   const double p = torch::jit::pop(stack).toDouble();
                   const at::Tensor like = torch::jit::pop(stack).toTensor();
                   torch::jit::push(stack, keepMask(like, p, node, stacked));
                 });
    registerDraw("kept", "Tensor like, Tensor p, int node, bool stacked",
                 [](torch::jit::Stack& stack) {
                   const bool stacked = torch::jit::pop(stack).toBool();
                   const int64_t node = torch::jit::pop(stack).toInt();
                   const at::Tensor p = torch::jit::pop(stack).toTensor();
                   const at::Tensor like = torch::jit::pop(stack).toTensor();
                   torch::jit::push(stack, keptElements(like, p, node, stacked));
                 });
    registerNumbers("uniform", uniformNumbers);
    registerNumbers("gaussian", gaussianNumbers);
    return true;
  }();
  static_cast<void>(registered);
}

}  // namespace chorus
