#include "chorus/member.h"

namespace chorus {
namespace {

const std::vector<std::pair<std::string, at::ScalarType>>& dtypes() {
  static const std::vector<std::pair<std::string, at::ScalarType>> names = {
      {"f16", at::kHalf},   {"bf16", at::kBFloat16},    {"f32", at::kFloat},
      {"f64", at::kDouble}, {"i8", at::kChar},          {"i16", at::kShort},
      {"i32", at::kInt},    {"i64", at::kLong},         {"u8", at::kByte},
      {"bool", at::kBool},  {"c64", at::kComplexFloat}, {"c128", at::kComplexDouble}};
  return names;
}

}  // namespace

std::string dtypeName(at::ScalarType dtype) {
  for (const auto& [name, known] : dtypes()) {
    if (known == dtype) return name;
  }
  return c10::toString(dtype);
}

std::optional<at::ScalarType> dtypeFromName(const std::string& name) {
  for (const auto& [known, dtype] : dtypes()) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

std::string InputSpec::toString() const {
  std::string text = dtypeName(dtype) + "[";
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d > 0) text += ",";
    text += sizes[d] ? std::to_string(*sizes[d]) : "N";
  }
  text += "]";
  return bound ? text + "<" + std::to_string(*bound) : text;
}

size_t OutputTree::leaves() const {
  if (kind == Kind::Tensor || kind == Kind::TensorInTraining || kind == Kind::TensorInEval)
    return 1;
  size_t count = 0;
  for (const OutputTree& child : children) count += child.leaves();
  return count;
}

}  // namespace chorus
