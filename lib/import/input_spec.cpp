#include <cctype>

#include "chorus/import.h"

namespace chorus {
namespace {

[[noreturn]] void refuseSpec(const std::string& text, const std::string& why) {
  throw Refused(usage("--input '" + text + "': " + why)
                    .helpWith("write dtype and sizes, e.g. f32[N,3,32,32], or i64[N,16]<30522 with "
                              "a bound on the values"));
}

std::optional<int64_t> parseSize(const std::string& text) {
  if (text.empty() || text.size() > 15 ||
      !std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); })) {
    return std::nullopt;
  }
  return std::stoll(text);
}

}  // namespace

InputSpec parseInputSpec(const std::string& text) {
  std::string clean;
  for (const char c : text) {
    if (!std::isspace(static_cast<unsigned char>(c))) clean += c;
  }
  const size_t open = clean.find('['), close = clean.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) {
    refuseSpec(text, "no [sizes]");
  }
  InputSpec spec;
  const auto dtype = dtypeFromName(clean.substr(0, open));
  if (!dtype) {
    refuseSpec(text, "unknown dtype '" + clean.substr(0, open) +
                         "'; there are f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool c64 c128");
  }
  spec.dtype = *dtype;
  std::string inside = clean.substr(open + 1, close - open - 1);
  size_t at = 0;
  while (!inside.empty() && at <= inside.size()) {
    const size_t comma = std::min(inside.find(',', at), inside.size());
    const std::string size = inside.substr(at, comma - at);
    at = comma + 1;
    if (size == "N") {
      spec.sizes.push_back(std::nullopt);
    } else if (const auto number = parseSize(size)) {
      spec.sizes.push_back(*number);
    } else {
      refuseSpec(text, "'" + size + "' is neither a size nor N");
    }
  }
  const std::string rest = clean.substr(close + 1);
  if (rest.empty()) return spec;
  spec.bound = rest[0] == '<' ? parseSize(rest.substr(1)) : std::nullopt;
  if (!spec.bound) refuseSpec(text, "'" + rest + "' is not a bound such as <30522");
  return spec;
}

}  // namespace chorus
