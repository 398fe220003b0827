#include "lib/losses/common_target.h"

#include <algorithm>

#include "chorus/diagnostics.h"
#include "chorus/member.h"

namespace chorus::losses {
namespace {

using Sizes = std::vector<std::optional<int64_t>>;

/// Class numbers have the output's sizes without those of the classes.
Sizes withoutClasses(Sizes sizes) {
  if (!sizes.empty()) sizes.erase(sizes.begin() + (sizes.size() > 1 ? 1 : 0));
  return sizes;
}

/// nullopt: some size of one is not that of the other.
std::optional<Sizes> agreed(const Sizes& a, const Sizes& b) {
  if (a.empty() || b.empty()) return a.empty() ? b : a;
  if (a.size() != b.size()) return std::nullopt;
  Sizes both = a;
  for (size_t d = 0; d < a.size(); ++d) {
    if (a[d] && b[d] && *a[d] != *b[d]) return std::nullopt;
    if (!a[d]) both[d] = b[d];
  }
  return both;
}

std::string targetText(const TargetRule& rule) {
  if (rule.exact) return InputSpec{rule.exact->dtype, rule.exact->sizes, std::nullopt}.toString();
  const auto text = [&](at::ScalarType dtype, bool classes, size_t rank) {
    const Sizes sizes = targetSizes(rule, classes);
    return sizes.empty() ? "an array of rank " + std::to_string(rank)
                         : InputSpec{dtype, sizes, std::nullopt}.toString();
  };
  std::string all;
  if (rule.class_indices) all = "class numbers " + text(at::kLong, true, rule.index_rank);
  if (rule.dense_rank > 0)
    all += (all.empty() ? "" : " or ") + text(at::kFloat, false, rule.dense_rank);
  return all;
}

/// The rule of a target of one form, as if that loss took no other.
TargetRule asRule(const TargetRule& rule) {
  if (!rule.exact) return rule;
  TargetRule plain = rule;
  plain.class_indices = at::isIntegralType(rule.exact->dtype, true);
  plain.index_rank = plain.class_indices ? rule.exact->sizes.size() : 0;
  plain.dense_rank = plain.class_indices ? 0 : rule.exact->sizes.size();
  plain.sizes = rule.exact->sizes;
  if (plain.class_indices)
    plain.sizes.insert(plain.sizes.begin() + !plain.sizes.empty(), std::nullopt);
  return plain;
}

}  // namespace

std::vector<std::optional<int64_t>> targetSizes(const TargetRule& rule, bool class_numbers) {
  const Sizes sizes = class_numbers ? withoutClasses(rule.sizes) : rule.sizes;
  return sizes.size() == (class_numbers ? rule.index_rank : rule.dense_rank) ? sizes : Sizes();
}

TargetRule commonTarget(const Taker& first, const Taker& second) {
  const TargetRule a = asRule(first.rule), b = asRule(second.rule);
  const auto dense = agreed(a.sizes, b.sizes);
  const auto index = agreed(withoutClasses(a.sizes), withoutClasses(b.sizes));
  TargetRule both = first.rule;
  both.class_indices =
      a.class_indices && b.class_indices && a.index_rank == b.index_rank && index.has_value();
  both.dense_rank = dense && a.dense_rank == b.dense_rank ? a.dense_rank : 0;
  if (!both.class_indices && both.dense_rank == 0) {
    throw Refused(error("all terms of the loss see the same target, but '" + first.text +
                        "' takes " + targetText(first.rule) + " and '" + second.text + "' " +
                        targetText(second.rule))
                      .helpWith("a scripted loss takes all outputs and can make several targets of "
                                "one: forward(output0, output1, target)"));
  }
  if (dense) both.sizes = *dense;
  both.index_rank = both.class_indices ? a.index_rank : 0;
  if (b.classes) both.classes = std::min(*b.classes, both.classes.value_or(*b.classes));
  if (!both.class_indices) both.classes.reset();
  std::erase_if(both.ignored, [&](int64_t value) {
    return std::find(b.ignored.begin(), b.ignored.end(), value) == b.ignored.end();
  });
  if (!both.exact) both.exact = second.rule.exact;
  return both;
}

}  // namespace chorus::losses
