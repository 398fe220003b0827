#include "tools/common/json_text.h"

#include <iterator>
#include <set>
#include <vector>

#include "chorus/diagnostics.h"
#include "lib/support/names.h"

namespace chorus {
namespace {

using nlohmann::json;

/// Counts the lines that the parser has read.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  size_t* line;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    *line += *at++ == '\n';
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
};

}  // namespace

json parseJsonText(const std::string& file, const std::string& text) {
  size_t line = 1;
  std::vector<std::set<std::string>> open;  // the keys so far of the objects around
  const auto watch = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key) {
      const auto key = value.get<std::string>();
      if (!open.back().insert(key).second) {
        throw Refused(error("the key '" + printable(key) + "' is there twice in one object",
                            Place{file + ":" + std::to_string(line)}));
      }
    }
    return true;
  };
  const char* const begin = text.data();
  return json::parse(CountingIterator{begin, &line}, CountingIterator{begin + text.size(), &line},
                     watch, /*allow_exceptions=*/false);
}

}  // namespace chorus
