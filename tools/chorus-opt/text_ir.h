// TorchScript's text IR as files: segments, comments, lines.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <vector>

#include "chorus/diagnostics.h"

namespace chorus {

/// A part of a file between two lines `// -----`, or the whole file.
struct Segment {
  std::string text;
  size_t first_line = 1;  ///< of the file
};

std::vector<Segment> splitSegments(const std::string& text, bool split);

/// The text without `// ...` comments (not inside string literals); every line keeps its number.
std::string withoutComments(const std::string& text);

/// Parses one graph. Its nodes get `file:line` as source range. Throws Refused (error) where the
/// text is not IR.
std::shared_ptr<torch::jit::Graph> parseSegment(const Segment& segment, const std::string& file);

/// A line of the file that a message is about; 0: it names none.
size_t lineOf(const Message& message);

}  // namespace chorus
