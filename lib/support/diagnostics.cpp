#include "chorus/diagnostics.h"

#include <algorithm>
#include <numeric>

namespace chorus {
namespace {

const char* word(Severity severity) {
  switch (severity) {
    case Severity::Remark:
      return "remark";
    case Severity::Warning:
      return "warning";
    case Severity::Error:
      return "error";
    case Severity::Usage:
      return "error";
    case Severity::Unsupported:
      return "unsupported";
    case Severity::Internal:
      return "internal error";
  }
  return "error";
}

int exitCodeOf(Severity severity) {
  switch (severity) {
    case Severity::Usage:
      return 2;
    case Severity::Unsupported:
      return 3;
    case Severity::Internal:
      return 70;
    default:
      return 1;
  }
}

Message make(Severity severity, std::string text, Place place = {}) {
  Message message;
  message.severity = severity;
  message.text = std::move(text);
  message.place = std::move(place);
  return message;
}

size_t editDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

Message& Message::note(std::string text) {
  notes.push_back(std::move(text));
  return *this;
}

Message& Message::helpWith(std::string text) {
  help = std::move(text);
  return *this;
}

Message error(std::string text, Place place) {
  return make(Severity::Error, std::move(text), std::move(place));
}
Message usage(std::string text) { return make(Severity::Usage, std::move(text)); }
Message unsupported(std::string text, Place place) {
  return make(Severity::Unsupported, std::move(text), std::move(place));
}
Message internalError(std::string text) { return make(Severity::Internal, std::move(text)); }
Message remark(std::string text, Place place) {
  return make(Severity::Remark, std::move(text), std::move(place));
}
Message warning(std::string text, Place place) {
  return make(Severity::Warning, std::move(text), std::move(place));
}

Refused::Refused(Message message) : Refused(std::vector<Message>{std::move(message)}) {}

Refused::Refused(std::vector<Message> messages) : messages_(std::move(messages)) {
  for (const Message& message : messages_) what_ += format(message);
}

int Refused::exitCode() const {
  int code = 0;
  for (const Message& message : messages_) code = std::max(code, exitCodeOf(message.severity));
  return code;
}

std::string format(const Message& message) {
  const Place& place = message.place;
  std::string text;
  if (!place.file.empty()) text += place.file + ": ";
  if (!place.source.empty()) text += place.source + ": ";
  text += std::string(word(message.severity)) + ": " + message.text;
  if (!message.condition.empty()) text += " [" + message.condition + "]";
  text += "\n";
  if (!place.source_line.empty()) {
    const size_t colon = place.source.rfind(':');
    const std::string number = colon == std::string::npos ? "" : place.source.substr(colon + 1);
    text += "    " + number + " |  " + place.source_line + "\n";
  }
  for (const std::string& note : message.notes) text += "  note: " + note + "\n";
  if (!message.help.empty()) text += "  help: " + message.help + "\n";
  return text;
}

namespace {

/// Without dashes in front, in small letters, words joined by '-'.
std::string plainName(const std::string& name) {
  std::string plain;
  for (const char c : name) {
    if (c == '-' && plain.empty()) continue;
    const int small = std::tolower(static_cast<unsigned char>(c));
    plain += c == '_' || c == ' ' ? '-' : static_cast<char>(small);
  }
  return plain;
}

/// "wd" of "weight-decay"; empty for one word.
std::string initials(const std::string& plain) {
  std::string letters;
  for (size_t i = 0; i < plain.size(); ++i) {
    if (plain[i] != '-' && (i == 0 || plain[i - 1] == '-')) letters += plain[i];
  }
  return letters.size() > 1 ? letters : "";
}

}  // namespace

std::string nearest(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string plain = plainName(name);
  for (const std::string& candidate : candidates) {
    if (plainName(candidate) == plain) return candidate;
  }
  for (const std::string& candidate : candidates) {
    const std::string other = plainName(candidate);
    if (!plain.empty() && (initials(other) == plain || initials(plain) == other)) return candidate;
  }
  std::string best;
  // Names of two letters have nothing in common at a distance of two.
  const size_t shorter = std::max<size_t>(plain.size(), 1) - 1;
  size_t best_distance = std::min(std::max<size_t>(2, name.size() / 3), shorter) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = editDistance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace chorus
