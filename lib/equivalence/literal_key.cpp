#include <bit>
#include <cmath>

#include "lib/equivalence/indexed_graph.h"
#include "lib/equivalence/text.h"

namespace chorus::equivalence {
namespace {

std::string floatKey(double value) {
  if (std::isnan(value)) return "nan";
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(std::bit_cast<uint64_t>(value)));
  return text;
}

std::optional<std::string> scalarKey(const c10::IValue& value) {
  if (value.isNone()) return "n";
  if (value.isBool()) return value.toBool() ? "b1" : "b0";
  if (value.isInt()) return cat({"i", std::to_string(value.toInt())});
  if (value.isDouble()) return cat({"d", floatKey(value.toDouble())});
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    return cat({"c", floatKey(number.real()), ",", floatKey(number.imag())});
  }
  if (value.isString()) {
    const std::string& text = value.toStringRef();
    return cat({"s", std::to_string(text.size()), ":", text});
  }
  if (value.isDevice()) return cat({"v", value.toDevice().str()});
  return std::nullopt;
}

}  // namespace

std::optional<std::string> literalKey(const c10::IValue& value) {
  if (!value.isList() && !value.isTuple()) return scalarKey(value);
  const auto elements =
      value.isList() ? value.toListRef() : value.toTupleRef().elements().asArrayRef();
  std::string key = value.isList() ? "[" : "(";
  for (const c10::IValue& element : elements) {
    const std::optional<std::string> part = scalarKey(element);
    if (!part) return std::nullopt;
    if (key.size() > 1) key += ",";
    key += *part;
  }
  return key + (value.isList() ? "]" : ")");
}

}  // namespace chorus::equivalence
