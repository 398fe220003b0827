#include "tools/common/run_tool.h"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>

#include "chorus/diagnostics.h"
#include "lib/support/atomic_file.h"
#include "tools/common/command_line.h"
#include "tools/common/patient_threads.h"

namespace chorus {

std::string quotedForShell(const std::string& argument) {
  const bool plain = !argument.empty() && argument.find_first_not_of(
                                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                              "0123456789_-+=,.:/@%") == std::string::npos;
  if (plain) return argument;
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

namespace {

// Returns the name of the file, or "" where the current folder cannot be written to.
std::string writeReproducer(const std::string& tool, const std::vector<std::string>& arguments,
                            const std::string& details) {
  const std::string file = "chorus-reproducer-" + tool + ".txt";
  std::ofstream out(file);
  std::error_code ignored;
  out << "# " << tool << " " << versionText() << "\n";
  out << "cd " << quotedForShell(std::filesystem::current_path(ignored).string()) << "\n" << tool;
  for (const std::string& argument : arguments) out << " " << quotedForShell(argument);
  out << "\n\n" << details << "\n";
  out.close();
  return out ? file : "";
}

int internalFailure(const std::string& tool, const std::vector<std::string>& arguments,
                    const std::string& text, const std::string& details) {
  Message message = internalError(text.substr(0, text.find_last_not_of(" \n") + 1));
  message.note("this is a bug of chorus, not of your input");
  const std::string file = writeReproducer(tool, arguments, details);
  if (!file.empty())
    message.helpWith("please report it with the file " + file + ", which says how to repeat it");
  std::cerr << format(message);
  return 70;
}

int outOfMemory() {
  std::cerr << format(error("not enough memory").helpWith("fewer members at a time need less"));
  return 1;
}

bool saysOutOfMemory(const std::string& what) {
  return what.find("DefaultCPUAllocator: can't allocate memory") != std::string::npos;
}

}  // namespace

int runTool(const std::string& name, int argc, char** argv,
            const std::function<int(const std::vector<std::string>&)>& body) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  waitPatiently();
  removeTemporaryFilesOnSignal();
  // The profiling executor warms up over three calls, for seconds on a long graph, and gains
  // nothing here.
  torch::jit::getProfilingMode() = false;
  try {
    return body(arguments);
  } catch (const Refused& refused) {
    for (const Message& message : refused.messages()) std::cerr << format(message);
    if (refused.exitCode() == 70) {
      const std::string file = writeReproducer(name, arguments, refused.what());
      if (!file.empty()) std::cerr << "  help: please report it with the file " << file << "\n";
    }
    return refused.exitCode();
  } catch (const std::bad_alloc&) {
    return outOfMemory();
  } catch (const c10::OutOfMemoryError&) {
    return outOfMemory();
  } catch (const c10::Error& failure) {
    if (saysOutOfMemory(failure.what_without_backtrace())) return outOfMemory();
    return internalFailure(name, arguments, failure.what_without_backtrace(), failure.what());
  } catch (const std::exception& failure) {
    if (saysOutOfMemory(failure.what())) return outOfMemory();
    return internalFailure(name, arguments, failure.what(), failure.what());
  }
}

}  // namespace chorus
