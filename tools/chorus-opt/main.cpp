#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "chorus/batch_graph.h"
#include "chorus/import.h"
#include "chorus/pass.h"
#include "chorus/random.h"
#include "lib/support/marker_ops.h"
#include "tools/chorus-opt/dump.h"
#include "tools/chorus-opt/expectations.h"
#include "tools/chorus-opt/ops_table.h"
#include "tools/chorus-opt/run_graph.h"
#include "tools/chorus-opt/steps.h"
#include "tools/chorus-opt/text_ir.h"
#include "tools/common/command_line.h"
#include "tools/common/run_tool.h"

namespace chorus {
namespace {

using torch::jit::Graph;

constexpr const char* kSummary =
    "Runs passes on TorchScript's text IR. Passes are flags by their names (--layout), run in the "
    "order given;\n"
    "--canonical and --fused run a whole pipeline; --batch=0,2-5 fuses the graph with these inputs "
    "stacked.";

constexpr const char* kExamples =
    "chorus-opt graph.ir --normalize-aliases --canonical-order\n"
    "chorus-opt graph.ir --batch=0,2 --layout --print-changed\n"
    "chorus-opt --dump model.pt | chorus-opt - -split-input-file --batch=1-62 --fused\n"
    "chorus-opt test.ir -split-input-file -verify-diagnostics --normalize-aliases\n"
    "chorus-opt --list";

struct Options {
  std::string file = "-";
  std::string dump;
  std::vector<std::string> inputs;
  std::vector<std::string> disabled;
  bool list = false, ops = false, markdown = false, split = false, verify = false, run = false;
  bool print_after_all = false, print_changed = false, time_passes = false;
  uint64_t seed = 0;
  int64_t members = 2;
};

void addOptions(CLI::App& app, Options& options) {
  app.add_option("FILE", options.file, "text IR; - is standard input");
  app.add_flag("--list", options.list, "print the passes and end");
  app.add_flag("--ops", options.ops, "print what becomes of each operator and end");
  app.add_flag("--markdown", options.markdown,
               "with --list or --ops: as docs/reference/passes.md or ops.md");
  app.add_option("--dump", options.dump, "print the canonical graphs of an archive and end");
  app.add_option("--input", options.inputs, "with --dump: as of chorus-fuse");
  app.add_option("--disable", options.disabled, "leave out this optional pass or batching rule");
  app.add_flag("--print-after-all", options.print_after_all,
               "the graph after each step, on stderr");
  app.add_flag("--print-changed", options.print_changed,
               "the graph after each step that changed it");
  app.add_flag("--time-passes", options.time_passes, "milliseconds of each step, on stderr");
  app.add_flag("--split-input-file", options.split,
               "graphs between lines '// -----', each by itself");
  app.add_flag("--verify-diagnostics", options.verify,
               "check '// expected-error {{...}}' comments");
  app.add_flag("--run", options.run, "run the result on random inputs and print the outputs");
  app.add_option("--seed", options.seed, "of the random inputs")->transform(seedNumber());
  app.add_option("--members", options.members, "K of stacked inputs for --run")
      ->transform(integerFrom(1, 1'000'000));
}

std::string readAll(const std::string& file) {
  std::ostringstream text;
  if (file == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Refused(error(file + ": cannot be read"));
  text << stream.rdbuf();
  return text.str();
}

/// One graph on its way.
struct Work {
  const Options& options;
  std::shared_ptr<Graph> graph;
  std::vector<c10::IValue> inputs;  ///< for --run
};

void batch(Work& work, const Step& step) {
  std::vector<bool> stacked(work.graph->inputs().size());
  for (size_t i : step.stacked) {
    if (i >= stacked.size()) {
      throw Refused(usage("--batch names input " + std::to_string(i) + " of " +
                          std::to_string(stacked.size())));
    }
    stacked[i] = true;
  }
  if (work.options.run) {
    work.inputs = randomInputs(*work.graph, work.options.seed, stacked, work.options.members);
  }
  const std::set<std::string> disabled(work.options.disabled.begin(), work.options.disabled.end());
  work.graph = batchGraph(*work.graph, stacked, false, disabled).graph;
}

void runStep(Work& work, const Step& step, const std::set<std::string>& disabled_passes) {
  const std::string name = step.pass.empty() ? "batch" : step.pass;
  const std::string before = work.options.print_changed ? work.graph->toString(false) : "";
  const auto start = std::chrono::steady_clock::now();
  if (step.pass.empty())
    batch(work, step);
  else
    runPasses(work.graph, {step.pass}, disabled_passes);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  if (work.options.time_passes) std::fprintf(stderr, "%10.3f ms  %s\n", time.count(), name.c_str());
  if (!work.options.print_after_all && !work.options.print_changed) return;
  const std::string after = work.graph->toString(false);
  if (work.options.print_changed && after == before) {
    std::cerr << "// after " << name << ": no change\n";
    return;
  }
  std::cerr << "// after " << name << "\n" << after;
}

std::string process(const Options& options, const std::vector<Step>& steps,
                    const Segment& segment) {
  Work work{options, parseSegment(segment, options.file), {}};
  if (options.run) work.inputs = randomInputs(*work.graph, options.seed);
  std::set<std::string> disabled_passes;
  for (const std::string& name : options.disabled) {
    if (findPass(name)) disabled_passes.insert(name);
  }
  for (const Step& step : steps) runStep(work, step, disabled_passes);
  if (options.run) return runGraph(work.graph, work.inputs, options.seed);
  return work.graph->toString(false);
}

// A segment without a graph, e.g. the RUN lines in front of the first.
bool isBlank(const Segment& segment) {
  return withoutComments(segment.text).find_first_not_of(" \t\r\n") == std::string::npos;
}

int processAll(const Options& options, const std::vector<Step>& steps) {
  int code = 0;
  bool first = true;
  for (const Segment& segment : splitSegments(readAll(options.file), options.split)) {
    if (isBlank(segment)) continue;
    if (!first) std::cout << "// -----\n";
    first = false;
    std::vector<Message> messages;
    try {
      std::cout << process(options, steps, segment);
    } catch (const Refused& refused) {
      if (!options.verify && !options.split) throw;
      messages = refused.messages();
      if (!options.verify) code = std::max(code, refused.exitCode());
    }
    if (!options.verify) {
      for (const Message& message : messages) std::cerr << format(message);
      continue;
    }
    const auto expected = readExpectations(segment, options.file);
    for (const std::string& problem : compareDiagnostics(expected, messages, options.file)) {
      std::cerr << problem << "\n";
      code = 1;
    }
  }
  return code;
}

int dump(const Options& options) {
  ImportOptions import;
  for (const std::string& text : options.inputs) import.inputs.push_back(parseInputSpec(text));
  std::cout << dumpMember(importTorchScript(options.dump, import));
  return 0;
}

// -split-input-file and -verify-diagnostics are written with one dash in every test of this kind.
void takeOneDash(std::vector<std::string>& arguments) {
  for (std::string& argument : arguments) {
    if (argument == "-split-input-file" || argument == "-verify-diagnostics")
      argument = "-" + argument;
  }
}

int optimise(std::vector<std::string> arguments) {
  registerMarkerOps();
  registerRandomOps();
  takeOneDash(arguments);
  const std::vector<Step> steps = takeSteps(arguments);
  CommandLine cli("chorus-opt", kSummary, kExamples);
  Options options;
  addOptions(cli.app, options);
  if (!cli.parse(arguments)) return 0;
  if (options.list) {
    std::cout << (options.markdown ? passTableMarkdown() : passTableText());
    return 0;
  }
  if (options.ops) {
    std::cout << (options.markdown ? opsTableMarkdown() : opsTableText());
    return 0;
  }
  if (!options.dump.empty()) return dump(options);
  return processAll(options, steps);
}

}  // namespace
}  // namespace chorus

int main(int argc, char** argv) {
  return chorus::runTool("chorus-opt", argc, argv, chorus::optimise);
}
