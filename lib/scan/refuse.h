// How the parts of the scan refuse a file.
#pragma once

#include <string>

#include "chorus/diagnostics.h"

namespace chorus::scan {

/// "PATH: error: TEXT"
inline Refused refused(const std::string& path, std::string text) {
  return Refused(error(std::move(text), Place{path, "", "", ""}));
}

/// The three lines that export a model, for files that hold weights or a pickle instead of a graph.
inline const char* exportHelp() {
  return "export the model itself:\n"
         "        model.train()\n"
         "        traced = torch.jit.trace(model, example_inputs)\n"
         "        traced.save(\"model.pt\")";
}

}  // namespace chorus::scan
