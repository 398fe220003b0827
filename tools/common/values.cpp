#include "tools/common/values.h"

#include <charconv>
#include <cmath>

#include "chorus/diagnostics.h"

namespace chorus {
namespace {

template <class Number>
Number parse(const std::string& what, const std::string& text, const char* kind) {
  const std::string digits = trimmed(text);
  const char* first = digits.data() + (digits.starts_with("+") ? 1 : 0);
  Number number{};
  const auto [end, failure] = std::from_chars(first, digits.data() + digits.size(), number);
  if (failure == std::errc::result_out_of_range) {
    throw Refused(error(what + ": '" + text + "' is out of range"));
  }
  if (failure != std::errc() || end != digits.data() + digits.size()) {
    throw Refused(error(what + ": '" + text + "' is not " + kind));
  }
  return number;
}

template <class Value, class Parse>
std::vector<Value> parseAll(const std::vector<std::string>& texts, Parse parseOne) {
  std::vector<Value> values;
  for (const std::string& text : texts) values.push_back(parseOne(text));
  return values;
}

std::string countOf(size_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

}  // namespace

std::string trimmed(const std::string& text) {
  const char* const blanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::vector<std::string> splitText(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

double parseNumber(const std::string& what, const std::string& text) {
  const double number = parse<double>(what, text, "a number");
  if (std::isnan(number)) throw Refused(error(what + ": '" + text + "' is not a number"));
  return number;
}

std::vector<std::string> oneOrKTexts(const std::string& option, const std::string& text, size_t k,
                                     char separator) {
  std::vector<std::string> texts = splitText(text, separator);
  if (texts.size() != 1 && texts.size() != k) {
    throw Refused(
        error(option + " has " + countOf(texts.size(), "value") + " for " + countOf(k, "member"))
            .note("give one value for all members, or one for each"));
  }
  if (texts.size() == 1) texts.resize(k, texts.front());
  return texts;
}

std::vector<double> oneOrK(const std::string& option, const std::string& text, size_t k) {
  return parseAll<double>(oneOrKTexts(option, text, k),
                          [&](const std::string& one) { return parseNumber(option, one); });
}

std::vector<int64_t> oneOrKIntegers(const std::string& option, const std::string& text, size_t k) {
  return parseAll<int64_t>(oneOrKTexts(option, text, k), [&](const std::string& one) {
    return parse<int64_t>(option, one, "an integer");
  });
}

std::vector<uint64_t> oneOrKSeeds(const std::string& option, const std::string& text, size_t k) {
  return parseAll<uint64_t>(oneOrKTexts(option, text, k), [&](const std::string& one) {
    return parse<uint64_t>(option, one, "an integer from 0 to 2^64-1");
  });
}

std::vector<std::pair<double, double>> oneOrKPairs(const std::string& option,
                                                   const std::string& text, size_t k) {
  using Pair = std::pair<double, double>;
  return parseAll<Pair>(oneOrKTexts(option, text, k, ';'), [&](const std::string& one) {
    const std::vector<std::string> parts = splitText(one, ',');
    if (parts.size() != 2) {
      throw Refused(
          error(option + ": '" + one + "' is not a pair of numbers")
              .note("a pair is written 0.9,0.999; pairs of several members are separated by ';'"));
    }
    return Pair{parseNumber(option, parts[0]), parseNumber(option, parts[1])};
  });
}

std::pair<std::string, std::string> splitAssignment(const std::string& option,
                                                    const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Refused(usage(option + ": '" + text + "' is not of the form NAME=VALUE"));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace chorus
