// -verify-diagnostics: messages are part of the test file.
//
//     %y : Tensor = aten::conv2d(...)   // expected-error {{reads a tensor of unknown rank}}
//     // expected-error @+1 {{...}}     the next line; @-1 the one before; @unknown: a message that
//     names no line
//
// The text is a part of the message's headline. Kinds: error, warning, remark, note; every message
// but notes must be expected, and every expectation must come true.
#pragma once

#include <string>
#include <vector>

#include "chorus/diagnostics.h"
#include "tools/chorus-opt/text_ir.h"

namespace chorus {

struct Expectation {
  std::string kind;  ///< "error", "warning", "remark", "note"
  std::string text;
  size_t line = 0;  ///< 0: the message names no line
  size_t at = 0;    ///< where the expectation itself stands
};

/// Throws Refused (error) where an expectation cannot be read.
std::vector<Expectation> readExpectations(const Segment& segment, const std::string& file);

/// What does not agree: "FILE:LINE: unexpected error: ...", "FILE:LINE: expected error was not
/// produced: ...". Empty: all is as expected.
std::vector<std::string> compareDiagnostics(const std::vector<Expectation>& expected,
                                            const std::vector<Message>& produced,
                                            const std::string& file);

}  // namespace chorus
