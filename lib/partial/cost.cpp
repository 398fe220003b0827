#include "lib/partial/cost.h"

namespace chorus::partial {
namespace {

constexpr double kOp = 4;          ///< microseconds to call an op
constexpr double kDirections = 3;  ///< calls of an op in a step: forward, and two backward
constexpr double kBytes = 8e3;     ///< copied in a microsecond
constexpr int64_t kRows = 32;      ///< where a size follows the batch

/// Views and lists cost nothing that would count.
bool computes(const Item& item) {
  static const std::set<std::string> views = {
      "view",      "reshape", "flatten", "unflatten", "transpose", "permute", "t",
      "select",    "slice",   "squeeze", "unsqueeze", "expand",    "detach",  "alias",
      "expand_as", "chunk",   "narrow",  "movedim",   "unbind",    "split"};
  return !item.loose && !item.node->kind().is_prim() &&
         !views.contains(item.node->kind().toUnqualString());
}

double bytesOf(const Value* value) {
  const auto* type = value->type()->castRaw<c10::TensorType>();
  if (type == nullptr || !type->dim()) return 0;
  double bytes =
      type->scalarType() ? static_cast<double>(c10::elementSize(*type->scalarType())) : 4;
  for (size_t d = 0; d < *type->dim(); ++d)
    bytes *= static_cast<double>(type->sizes()[d].value_or(kRows));
  return bytes;
}

size_t total(const std::vector<size_t>& members) {
  size_t k = 0;
  for (const size_t count : members) k += count;
  return k;
}

/// Values of common ops that the blocks of a gap read, as the first variant's that does.
std::set<const Value*> readsOf(const ModeOutline& mode, size_t gap) {
  std::set<const Value*> reads;
  std::set<std::pair<size_t, size_t>> seen;  // common op, output
  const auto read = [&](size_t v, const Value* value) {
    const auto made = mode.sequences[v].index.find(value->node());
    if (made == mode.sequences[v].index.end()) return;
    const size_t c = mode.common_of[v][made->second];
    if (c != kApart && seen.emplace(c, value->offset()).second) reads.insert(value);
  };
  for (size_t v = 0; v < mode.sequences.size(); ++v) {
    for (size_t i = 0; i < mode.gap_of[v].size(); ++i) {
      if (mode.common_of[v][i] != kApart || mode.gap_of[v][i] != gap) continue;
      for (const Value* value : mode.sequences[v].items[i].reads) read(v, value);
    }
  }
  for (const auto& [join, at] : mode.joins) {
    for (size_t v = 0; v < join.size() && at == gap; ++v) read(v, join[v]);
  }
  return reads;
}

/// Bringing members together or apart: one value, forward and backward.
double copyCost(const Value* value, size_t k, size_t variants) {
  return 2 * static_cast<double>(k) * bytesOf(value) / kBytes +
         kOp * static_cast<double>(2 + variants);
}

std::set<size_t> gapsOf(const ModeOutline& mode) {
  std::set<size_t> gaps;
  for (const auto& [join, gap] : mode.joins) gaps.insert(gap);
  return gaps;
}

double savedBy(const ModeOutline& mode, size_t begin, size_t end, size_t& ops) {
  ops = 0;
  for (size_t c = begin; c < end; ++c) ops += computes(mode.item(c, 0));
  return static_cast<double>(ops * (mode.sequences.size() - 1)) * kOp * kDirections;
}

std::string rounded(double value) { return std::to_string(static_cast<int64_t>(value + 0.5)); }

}  // namespace

std::optional<Island> costlyIsland(const Outline& all, const std::vector<size_t>& members) {
  const size_t k = total(members);
  for (size_t m = 0; m < 2; ++m) {
    const ModeOutline& mode = all.modes[m];
    const std::set<size_t> gaps = gapsOf(mode);
    for (auto gap = gaps.begin(); gap != gaps.end() && std::next(gap) != gaps.end(); ++gap) {
      const size_t begin = *gap, end = *std::next(gap);
      size_t ops = 0;
      const double saved = savedBy(mode, begin, end, ops);
      double spent = 0;
      for (const auto& [join, at] : mode.joins) {
        if (at == begin) spent += copyCost(join[0], k, members.size());
      }
      for (const Value* value : readsOf(mode, end)) spent += copyCost(value, k, members.size());
      if (saved >= spent) continue;
      Island island{m, {}, ""};
      for (size_t c = begin; c < end; ++c) island.ops.insert(c);
      island.note = c10::str(ops, ops == 1 ? " op" : " ops", " of the ", m == 0 ? "train" : "eval",
                             " graph between two places that differ ", ops == 1 ? "is" : "are",
                             " computed apart, too: about ", rounded(saved), " us saved, ",
                             rounded(spent), " us of copies");
      return island;
    }
  }
  return std::nullopt;
}

Balance balanceOf(const Outline& all, const std::vector<size_t>& members) {
  const ModeOutline& mode = all.modes[0];
  Balance balance;
  balance.saved = savedBy(mode, 0, mode.common.size(), balance.common);
  for (size_t v = 0; v < mode.sequences.size(); ++v) {
    size_t apart = 0;
    for (size_t i = 0; i < mode.gap_of[v].size(); ++i) {
      apart += mode.common_of[v][i] == kApart && computes(mode.sequences[v].items[i]);
    }
    balance.apart.push_back(apart);
  }
  for (const auto& [join, gap] : mode.joins)
    balance.spent += copyCost(join[0], total(members), members.size());
  for (const size_t gap : gapsOf(mode)) {
    for (const Value* value : readsOf(mode, gap))
      balance.spent += copyCost(value, total(members), members.size());
  }
  return balance;
}

void requireWorthwhile(const Outline& all, const std::vector<size_t>& members) {
  if (balanceOf(all, members).common > 0) return;
  throw Refused(error("--partial: the members have no op in common that is worth fusing",
                      Place{all.variants.back()->path})
                    .helpWith("--group trains members apart that differ"));
}

}  // namespace chorus::partial
