// chorus._core: archives in, archives out. chorus/__init__.py is what users see.
#include <torch/csrc/utils/pybind.h>

#include <sstream>

#include "lib/support/atomic_file.h"
#include "tools/chorus-fuse/fusing.h"
#include "tools/common/command_line.h"
#include "tools/common/report.h"
#include "tools/python-module/function.h"
#include "lib/support/memory_file.h"

namespace chorus {
namespace {

namespace py = pybind11;

PyObject* error_type = nullptr;

std::string joined(const std::vector<Message>& messages) {
  std::string text;
  for (const Message& message : messages) text += format(message);
  return text.empty() ? text : text.substr(0, text.size() - 1);  // without the last line feed
}

[[noreturn]] void raise(const std::vector<Message>& messages, int exit_code) {
  const py::object raised = py::reinterpret_steal<py::object>(
      PyObject_CallFunction(error_type, "s", joined(messages).c_str()));
  raised.attr("exit_code") = exit_code;
  PyErr_SetObject(error_type, raised.ptr());
  throw py::error_already_set();
}

/// Runs `body`, which needs no Python, without the lock; what it refuses becomes chorus.Error.
template <typename Body>
auto guarded(const Body& body) {
  std::vector<Message> messages;
  int exit_code = 70;
  try {
    const py::gil_scoped_release unlocked;
    return body();
  } catch (const Refused& refused) {
    messages = refused.messages();
    exit_code = refused.exitCode();
  } catch (const std::exception& failure) {
    messages = {internalError(failure.what())};
  }
  raise(messages, exit_code);
}

struct FuseResult {
  std::string archive;
  std::string report;                                      ///< JSON
  std::vector<std::pair<std::string, std::string>> heard;  ///< kind and text of what was said
};

std::string kindOf(const Message& message) {
  return message.severity == Severity::Warning ? "warning" : "remark";
}

FuseOptions parsed(const std::vector<std::string>& arguments) {
  CommandLine line("chorus.fuse", "", "");
  FuseOptions options;
  addFuseOptions(line, options);
  std::vector<std::string> all = {"models", "-o", "fused"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  line.parse(all);
  return options;
}

/// A model's own name in messages, not the memory that its archive lies in.
void rename(Message& message, const std::vector<std::string>& paths,
            const std::vector<std::string>& names) {
  const auto replace = [&](std::string& text) {
    for (size_t i = 0; i < paths.size(); ++i) {
      for (size_t at = text.find(paths[i]); at != std::string::npos; at = text.find(paths[i], at)) {
        text.replace(at, paths[i].size(), names[i]);
      }
    }
  };
  replace(message.text);
  replace(message.place.file);
  replace(message.help);
  for (std::string& note : message.notes) replace(note);
}

FuseResult fuse(const std::vector<std::string>& archives, const std::vector<std::string>& names,
                const std::vector<std::string>& arguments,
                const std::map<std::string, at::Tensor>& loss_tensors) {
  return guarded([&] {
    FuseResult result;
    FuseOptions options = parsed(arguments);
    options.members = names;
    checkFuseOptions(options);
    std::vector<MemoryFile> files;
    std::vector<std::string> paths;
    for (const std::string& archive : archives) {
      files.emplace_back(archive);
      paths.push_back(files.back().path());
    }
    setListener([&](Message message) {
      rename(message, paths, names);
      result.heard.emplace_back(kindOf(message), format(message));
    });
    try {
      std::vector<Member> members = importMembers(paths, names, options);
      sayRemarks(members, !options.training.loss.empty());
      const Fused fused = fuseMembers(members, options, loss_tensors);
      std::ostringstream stream;
      writeFused(fused.model, stream);
      result.archive = stream.str();
      result.report = reportJson(fused, options).dump();
    } catch (const Refused& refused) {
      std::vector<Message> messages = refused.messages();
      for (Message& message : messages) rename(message, paths, names);
      throw Refused(std::move(messages));
    }
    return result;
  });
}

py::list decisionList(const std::vector<Decision>& decisions) {
  py::list list;
  for (const Decision& d : decisions) {
    const char* kind = d.kind == Decision::Kind::Shared  ? "shared"
                       : d.kind == Decision::Kind::Fused ? "fused"
                                                         : "per member";
    list.append(py::make_tuple(d.op, kind, d.reason));
  }
  return list;
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  error_type = PyErr_NewExceptionWithDoc(
      "chorus.Error", "What chorus refuses, as its tools say it; exit_code as of the tools.",
      PyExc_ValueError, nullptr);
  m.attr("Error") = py::reinterpret_borrow<py::object>(error_type);
  setListener([](const Message&) {});
  m.def("fuse", [](const std::vector<std::string>& archives, const std::vector<std::string>& names,
                   const std::vector<std::string>& arguments,
                   const std::map<std::string, at::Tensor>& loss_tensors) {
    const FuseResult result = fuse(archives, names, arguments, loss_tensors);
    return py::make_tuple(py::bytes(result.archive), py::str(result.report), result.heard);
  });
  // For the conformance driver: one function, batched in as many ways as one asks for.
  py::class_<Function>(m, "Function")
      .def(py::init([](const std::string& archive) {
        return guarded([&] { return std::make_unique<Function>(archive); });
      }))
      .def("run",
           [](const Function& self, const std::vector<bool>& stacked,
              const std::vector<at::Tensor>& tensors) {
             const auto run = guarded([&] { return self.run(stacked, tensors); });
             return py::make_tuple(run.outputs, decisionList(run.decisions));
           })
      .def("text", [](const Function& self, const std::vector<bool>& stacked) {
        return guarded([&] { return self.text(stacked); });
      });
}

}  // namespace chorus
