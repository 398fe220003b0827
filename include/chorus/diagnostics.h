// What chorus says to its user. Libraries never print and never exit: they throw `Refused`, or hand
// remarks to a `Diagnostics` sink, and the tools print them in the form of docs/contract.md.
#pragma once

#include <exception>
#include <string>
#include <vector>

namespace chorus {

/// The kinds of message. `Unsupported` is a gap of chorus (exit 3), `Error` a fault of the input (exit 1),
/// `Usage` a fault of the command line (exit 2), `Internal` a bug of chorus (exit 70).
enum class Severity { Remark, Warning, Error, Usage, Unsupported, Internal };

/// The user's own place. Every field may be empty.
struct Place {
  std::string file;         ///< the member file, e.g. "model_3.pt"
  std::string source;       ///< Python place, e.g. "net.py:41"
  std::string source_line;  ///< the text of that line
  std::string module_path;  ///< e.g. "layer1.0.conv2"
};

/// One message: a headline, and optionally notes and one help line.
struct Message {
  Severity severity = Severity::Error;
  std::string text;
  Place place;
  std::string condition;  ///< number in the fusion contract, e.g. "C4"
  std::vector<std::string> notes;
  std::string help;

  Message& note(std::string text);
  Message& helpWith(std::string text);
};

Message error(std::string text, Place place = {});
Message usage(std::string text);
Message unsupported(std::string text, Place place = {});
Message internalError(std::string text);
Message remark(std::string text, Place place = {});
Message warning(std::string text, Place place = {});

/// Thrown when the work cannot go on; carries everything there is to say about it (at least one message).
class Refused : public std::exception {
 public:
  explicit Refused(Message message);
  explicit Refused(std::vector<Message> messages);
  const char* what() const noexcept override { return what_.c_str(); }
  const std::vector<Message>& messages() const { return messages_; }
  /// 1, 2, 3 or 70: the exit code of the most severe message.
  int exitCode() const;

 private:
  std::vector<Message> messages_;
  std::string what_;
};

/// Collects remarks and warnings while the work goes on.
class Diagnostics {
 public:
  void add(Message message) { messages_.push_back(std::move(message)); }
  const std::vector<Message>& messages() const { return messages_; }

 private:
  std::vector<Message> messages_;
};

/// The message as the user reads it (design: majority first, source line below, then notes, then help).
///
///     model_3.pt: net.py:41: error: member 3 differs from the other 7: conv2d 'stride' is [2, 2], ... [C4]
///         41 |         x = self.conv2(x)
///       note: ...
///       help: ...
std::string format(const Message& message);

/// Of `candidates`, the one nearest to `name` by edit distance, or "" where none is near.
std::string nearest(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace chorus
