#include "tools/chorus-opt/expectations.h"

#include <regex>
#include <sstream>

namespace chorus {
namespace {

std::string kindOf(Severity severity) {
  if (severity == Severity::Remark) return "remark";
  if (severity == Severity::Warning) return "warning";
  return "error";
}

std::string placed(const std::string& file, size_t line) {
  return line == 0 ? file : file + ":" + std::to_string(line);
}

/// A message, or one of its notes, as an expectation sees it.
struct Produced {
  std::string kind, text;
  size_t line = 0;
  bool met = false;
};

std::vector<Produced> flatten(const std::vector<Message>& messages) {
  std::vector<Produced> produced;
  for (const Message& message : messages) {
    const size_t line = lineOf(message);
    produced.push_back({kindOf(message.severity), message.text, line});
    for (const std::string& note : message.notes) produced.push_back({"note", note, line});
  }
  return produced;
}

bool meets(const Produced& produced, const Expectation& expected) {
  return !produced.met && produced.kind == expected.kind && produced.line == expected.line &&
         produced.text.find(expected.text) != std::string::npos;
}

}  // namespace

std::vector<Expectation> readExpectations(const Segment& segment, const std::string& file) {
  static const std::regex pattern(
      R"(expected-(error|warning|remark|note)\s*(?:@(\+\d+|-\d+|unknown))?\s*\{\{(.*?)\}\})");
  std::vector<Expectation> expectations;
  std::istringstream stream(segment.text);
  size_t line = segment.first_line;
  for (std::string text; std::getline(stream, text); ++line) {
    const size_t before = expectations.size();
    for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
      const std::string where = (*it)[2];
      size_t wanted = line;
      if (where == "unknown")
        wanted = 0;
      else if (!where.empty())
        wanted = static_cast<size_t>(static_cast<long>(line) + std::stol(where));
      expectations.push_back({(*it)[1], (*it)[3], wanted, line});
    }
    if (before == expectations.size() && text.find("// expected-") != std::string::npos) {
      Place place;
      place.source = placed(file, line);
      throw Refused(error("cannot read this expectation", place)
                        .helpWith("// expected-error @+1 {{part of the message}}"));
    }
  }
  return expectations;
}

std::vector<std::string> compareDiagnostics(const std::vector<Expectation>& expected,
                                            const std::vector<Message>& messages,
                                            const std::string& file) {
  std::vector<Produced> produced = flatten(messages);
  std::vector<std::string> problems;
  for (const Expectation& wanted : expected) {
    const auto found = std::find_if(produced.begin(), produced.end(),
                                    [&](const Produced& one) { return meets(one, wanted); });
    if (found != produced.end()) {
      found->met = true;
      continue;
    }
    problems.push_back(placed(file, wanted.at) + ": expected " + wanted.kind +
                       " was not produced: " + wanted.text);
  }
  for (const Produced& one : produced) {
    if (one.met || one.kind == "note") continue;
    problems.push_back(placed(file, one.line) + ": unexpected " + one.kind + ": " + one.text);
  }
  return problems;
}

}  // namespace chorus
