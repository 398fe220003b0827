#include "tools/chorus-opt/text_ir.h"

#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <sstream>

namespace chorus {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Source;
using torch::jit::SourceRange;

constexpr const char* kSeparator = "// -----";

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string trimmed(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t");
  return first == std::string::npos
             ? ""
             : line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

// A statement is a node; the printer and the parser keep one per line, inner blocks behind their
// node.
bool isNode(const std::string& line) {
  if (line.empty() || line[0] == '#' || line.rfind("graph(", 0) == 0 ||
      line.rfind("return", 0) == 0) {
    return false;
  }
  if (line.rfind("->", 0) == 0 || line.rfind("block", 0) == 0) return false;
  const size_t call = line.find('(');
  return line.find("::") != std::string::npos && call != std::string::npos;
}

void collectNodes(Block* block, std::vector<Node*>& nodes) {
  for (Node* node : block->nodes()) {
    nodes.push_back(node);
    for (Block* inner : node->blocks()) collectNodes(inner, nodes);
  }
}

void placeNodes(Graph& graph, const Segment& segment, const std::string& text,
                const std::string& file) {
  std::vector<Node*> nodes;
  collectNodes(graph.block(), nodes);
  const auto source = std::make_shared<Source>(segment.text, file, segment.first_line);
  std::vector<std::pair<size_t, size_t>> ranges;
  size_t start = 0;
  const std::vector<std::string> clean = linesOf(text);
  const std::vector<std::string> written = linesOf(segment.text);
  for (size_t i = 0; i < clean.size(); ++i) {
    if (isNode(trimmed(clean[i]))) ranges.emplace_back(start, start + written[i].size());
    start += written[i].size() + 1;
  }
  if (ranges.size() != nodes.size()) return;
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i]->setSourceRange(SourceRange(source, ranges[i].first, ranges[i].second));
  }
}

// LibTorch's parse errors show the place as text: the line whose copy stands above the marks "~~~".
size_t errorLine(const std::string& what, const std::vector<std::string>& lines) {
  std::string above;
  for (const std::string& line : linesOf(what)) {
    if (line.find("~~~") != std::string::npos || line.find("<--- HERE") != std::string::npos) break;
    above = trimmed(line);
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!above.empty() && trimmed(lines[i]) == above) return i;
  }
  return 0;
}

}  // namespace

std::vector<Segment> splitSegments(const std::string& text, bool split) {
  std::vector<Segment> segments(1);
  const std::vector<std::string> lines = linesOf(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (split && trimmed(lines[i]) == kSeparator) {
      segments.push_back({"", i + 2});
      continue;
    }
    segments.back().text += lines[i] + "\n";
  }
  return segments;
}

std::string withoutComments(const std::string& text) {
  std::string kept;
  bool quoted = false, comment = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') quoted = comment = false;
    if (!comment && c == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    if (!quoted && !comment && c == '/' && i + 1 < text.size() && text[i + 1] == '/')
      comment = true;
    if (!comment) kept += c;
  }
  return kept;
}

std::shared_ptr<Graph> parseSegment(const Segment& segment, const std::string& file) {
  const std::string text = withoutComments(segment.text);
  auto graph = std::make_shared<Graph>();
  try {
    std::unordered_map<std::string, torch::jit::Value*> names;
    torch::jit::parseIR(text, graph.get(), names);
    // The parser forgets the names of what nodes give.
    for (const auto& [name, value] : names) {
      if (!std::isdigit(static_cast<unsigned char>(name[0]))) value->setDebugName(name);
    }
  } catch (const std::exception& failure) {
    const std::string what = failure.what();
    Place place;
    place.source = file + ":" + std::to_string(segment.first_line + errorLine(what, linesOf(text)));
    throw Refused(
        error("this is not TorchScript IR: " + trimmed(what.substr(0, what.find('\n'))), place));
  }
  placeNodes(*graph, segment, text, file);
  return graph;
}

size_t lineOf(const Message& message) {
  const std::string& source = message.place.source;
  const size_t colon = source.rfind(':');
  if (colon == std::string::npos) return 0;
  size_t line = 0;
  for (char c : source.substr(colon + 1)) {
    if (c < '0' || c > '9') return 0;
    line = line * 10 + static_cast<size_t>(c - '0');
  }
  return line;
}

}  // namespace chorus
