// Packed steps: a step has the rows of the sequences that are that long, [K,G,n_t]; the longest
// stand first. Forwards the rows at the end of the states are done when a step has fewer; backwards
// they begin when a step has more.
#include "lib/batching/recurrent_parts.h"

namespace chorus {
namespace {

std::string number(int64_t i) { return std::to_string(i); }

const char* const kSizes = R"py(
def rows_of_steps(batch_sizes: Tensor) -> List[int]:
    rows: List[int] = []
    for t in range(batch_sizes.size(0)):
        rows.append(int(batch_sizes[t]))
    return rows
)py";

/// What a direction takes beside its steps and states, by name, and its parameter there.
std::string ownWeights(const RecurrentForm& form, bool types) {
  const std::string type = types ? ": Tensor" : "";
  std::string text = "w" + type;
  if (form.biases && form.cell == Cell::Gru) text += ", b" + type;
  if (form.projections) text += ", q" + type;
  return text;
}

std::string directionText(const RecurrentForm& form, bool back) {
  const bool lstm = form.cell == Cell::Lstm;
  std::string text = std::string("\ndef ") + (back ? "backwards" : "forwards") +
                     "(parts: List[Tensor], h0: Tensor, c0: Tensor, " + ownWeights(form, true) +
                     ") -> Tuple[Tensor, Tensor, Tensor]:\n    size = w.size(1) // " +
                     (lstm ? "4" : "3") +
                     "\n    steps: List[Tensor] = []\n    hs: List[Tensor] = []\n    cs: "
                     "List[Tensor] = []\n    count = len(parts)\n";
  if (back) {
    text += "    h = h0.narrow(2, 0, 0)\n    c = c0.narrow(2, 0, 0)\n";
  } else {
    text += "    h = h0\n    c = c0\n";
  }
  text += std::string("    for t in range(count):\n        s = parts[") +
          (back ? "count - 1 - t" : "t") +
          "]\n        n = s.size(2)\n        m = h.size(2)\n        if n " + (back ? ">" : "<") +
          " m:\n";
  for (const std::string state : {"h", "c"}) {
    if (state == "c" && !lstm) continue;
    text += back ? "            " + state + " = torch.cat([" + state + ", " + state +
                       "0.narrow(2, m, n - m)], 2)\n"
                 : "            " + state + "s.append(" + state +
                       ".narrow(2, n, m - n))\n            " + state + " = " + state +
                       ".narrow(2, 0, n)\n";
  }
  text += recurrentStepText(form.cell, form.biases, form.projections, "        ");
  text += "        steps.append(h)\n";
  if (back) return text + "    steps.reverse()\n    return torch.cat(steps, 2), h, c\n";
  text += "    hs.append(h)\n    hs.reverse()\n    h = torch.cat(hs, 2)\n";
  if (!lstm) return text + "    return torch.cat(steps, 2), h, h\n";
  return text +
         "    cs.append(c)\n    cs.reverse()\n    return torch.cat(steps, 2), h, torch.cat(cs, "
         "2)\n";
}

/// y, h and c of one direction of one layer. `i`: which of all states.
std::string callText(const RecurrentForm& form, int64_t i, bool back) {
  const int64_t width = 2 + 2 * form.biases + form.projections;
  const auto parameter = [&](int64_t j) { return "params[" + number(i * width + j) + "]"; };
  std::string w = parameter(0);
  if (form.biases) {
    // The GRU's hidden bias stands inside a product with the reset gate.
    const bool sum = form.cell != Cell::Gru;
    w = "with_bias(" + w + ", " + parameter(2) + (sum ? " + " + parameter(3) : "") + ")";
  }
  std::string weights = parameter(1);
  if (form.biases && form.cell == Cell::Gru) weights += ", " + parameter(3) + ".unsqueeze(2)";
  if (form.projections) weights += ", " + parameter(form.biases ? 4 : 2);
  const std::string id = number(i);
  return "    y" + id + "_, h" + id + "_, c" + id + "_ = " + (back ? "backwards" : "forwards") +
         "(torch.matmul(" + w + ", x).split_with_sizes(rows, -1), first_state(h0, " + id +
         ", 1), first_state(c0, " + id + ", 1), " + weights + ")\n";
}

}  // namespace

std::string packedRecurrentText(const RecurrentForm& form) {
  std::string text = recurrentHelpersText() + kSizes + directionText(form, false);
  if (form.bidirectional) text += directionText(form, true);
  text +=
      "\ndef recurrent(data: Tensor, batch_sizes: Tensor, h0: Tensor, c0: Tensor, params: "
      "List[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:\n    rows = rows_of_steps(batch_sizes)\n"
      "    x = data.transpose(-1, -2)\n";
  std::string hs, cs;
  const int64_t directions = form.bidirectional ? 2 : 1;
  for (int64_t i = 0; i < form.layers * directions; i += directions) {
    if (form.biases) text += "    x = with_ones(x)\n";
    for (int64_t d = 0; d < directions; ++d) {
      const std::string id = number(i + d);
      text += callText(form, i + d, d == 1);
      hs += (hs.empty() ? "" : ", ") + ("last_state(h" + id + "_, 1)");
      cs += (cs.empty() ? "" : ", ") + ("last_state(c" + id + "_, 1)");
    }
    text += form.bidirectional
                ? "    x = torch.cat([y" + number(i) + "_, y" + number(i + 1) + "_], 1)\n"
                : "    x = y" + number(i) + "_\n";
  }
  return text + "    return x.transpose(1, 2), torch.cat([" + hs + "], 1), torch.cat([" + cs +
         "], 1)\n";
}

}  // namespace chorus
