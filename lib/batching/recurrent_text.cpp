#include "lib/batching/recurrent_text.h"

#include "lib/batching/recurrent_parts.h"

namespace chorus {
namespace {

// Measured on a Xeon with AVX-512, N = 1..64, H = 16..128: up to here a member's own kernel is the
// faster one.
const char* const kFewMembers = "12";

std::string number(int64_t i) { return std::to_string(i); }

// The bias of the input is one more column, for a row of ones: adding it costs a pass over all T
// steps otherwise. x [I,(T N)] or [K,I,(T N)] -> T times [K,G,N]
const char* const kProject = R"py(
def with_ones(x: Tensor) -> Tensor:
    return torch.constant_pad_nd(x, [0, 0, 0, 1], 1.0)

def with_bias(w: Tensor, b: Tensor) -> Tensor:
    return torch.cat([w, b.unsqueeze(2)], 2)

def project(x: Tensor, w: Tensor, t: int, n: int) -> List[Tensor]:
    return torch.matmul(w, x).unflatten(-1, [t, n]).unbind(-2)

def first_state(h: Tensor, at: int, directions: int) -> Tensor:
    return h.narrow(1, at, directions).permute(1, 0, 3, 2).flatten(0, 1)

def last_state(h: Tensor, directions: int) -> Tensor:
    return h.unflatten(0, [directions, -1]).permute(1, 0, 3, 2)
)py";

struct Layer {
  const RecurrentForm& form;
  int64_t directions() const { return form.bidirectional ? 2 : 1; }
  int64_t perDirection() const { return 2 + 2 * form.biases + form.projections; }

  std::string parameter(int64_t direction, int64_t i) const {
    return "p[" + number(direction * perDirection() + i) + "]";
  }
  /// Of both directions: members of their own.
  std::string both(int64_t i) const {
    return form.bidirectional ? "torch.cat([" + parameter(0, i) + ", " + parameter(1, i) + "], 0)"
                              : parameter(0, i);
  }
  std::string projection(int64_t direction) const {
    std::string w = parameter(direction, 0);
    if (form.biases) {
      // The GRU's hidden bias stands inside a product with the reset gate.
      const bool sum = form.cell != Cell::Gru;
      const std::string b = parameter(direction, 2);
      w = "with_bias(" + w + ", " + (sum ? b + " + " + parameter(direction, 3) : b) + ")";
    }
    return "project(x, " + w + ", t, n)";
  }
  std::string text() const;
};

std::string Layer::text() const {
  std::string text =
      "\ndef layer(x: Tensor, t: int, n: int, h: Tensor, c: Tensor, p: List[Tensor]) -> "
      "Tuple[Tensor, Tensor, Tensor]:\n    w = " +
      both(1) + "\n    size = w.size(1) // " + (form.cell == Cell::Lstm ? "4" : "3") + "\n";
  if (form.biases) text += "    x = with_ones(x)\n";
  if (form.biases && form.cell == Cell::Gru) text += "    b = " + both(3) + ".unsqueeze(2)\n";
  if (form.projections) text += "    q = " + both(form.biases ? 4 : 2) + "\n";
  text += "    forth = " + projection(0) + "\n";
  if (form.bidirectional) text += "    back = " + projection(1) + "\n";
  text += "    steps: List[Tensor] = []\n    for at in range(t):\n        s = ";
  text += form.bidirectional ? "torch.cat([forth[at], back[t - 1 - at]], 0)\n" : "forth[at]\n";
  text += recurrentStepText(form.cell, form.biases, form.projections, "        ");
  text += "        steps.append(h)\n    y = torch.stack(steps, 2)\n";
  if (form.bidirectional) {
    text += "    a, z = y.chunk(2, 0)\n    y = torch.cat([a, z.flip([2])], 1)\n";
  }
  return text + "    return y.flatten(2), h, c\n";
}

/// The op itself, member by member.
std::string wholeKernelText(const RecurrentForm& form) {
  const auto flag = [](bool value) { return std::string(value ? ", True" : ", False"); };
  return R"py(
def member_by_member(x: Tensor, h0: Tensor, c0: Tensor, params: List[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    own: List[List[Tensor]] = []
    for p in params:
        own.append(p.unbind(0))
    h, c = h0.unbind(0), c0.unbind(0)
)py" + std::string(form.stacked_input ? "    xs = x.unbind(0)\n" : "") +
         R"py(    ys: List[Tensor] = []
    hs: List[Tensor] = []
    cs: List[Tensor] = []
    for k in range(h0.size(0)):
        weights: List[Tensor] = []
        for p in own:
            weights.append(p[k])
        y, a, b = torch.lstm()py" +
         (form.stacked_input ? "xs[k]" : "x") + ", [h[k], c[k]], weights" + flag(form.biases) +
         ", " + number(form.layers) + ", 0.0" + flag(form.train) + flag(form.bidirectional) +
         flag(form.batch_first) + R"py()
        ys.append(y)
        hs.append(a)
        cs.append(b)
    return torch.stack(ys), torch.stack(hs), torch.stack(cs)
)py";
}

}  // namespace

std::string recurrentStepText(Cell cell, bool biases, bool projections, const std::string& indent) {
  const auto lines = [&](std::initializer_list<const char*> all) {
    std::string text;
    for (const char* line : all) text += indent + line + "\n";
    return text;
  };
  if (cell == Cell::Tanh) return lines({"h = torch.tanh(torch.baddbmm(s, w, h))"});
  if (cell == Cell::Relu) return lines({"h = torch.relu(torch.baddbmm(s, w, h))"});
  if (cell == Cell::Gru) {
    return lines({"a, m = torch.split_with_sizes(s, [2 * size, size], 1)",
                  biases ? "u = torch.baddbmm(b, w, h)" : "u = torch.bmm(w, h)",
                  "v, e = torch.split_with_sizes(u, [2 * size, size], 1)",
                  "r, z = torch.unsafe_chunk(torch.sigmoid(a + v), 2, 1)",
                  "h = torch.lerp(torch.tanh(torch.addcmul(m, r, e)), h, z)"});
  }
  return lines({"g = torch.baddbmm(s, w, h)",
                "a, m, o = torch.split_with_sizes(g, [2 * size, size, size], 1)",
                "i, f = torch.unsafe_chunk(torch.sigmoid(a), 2, 1)",
                "c = torch.addcmul(f * c, i, torch.tanh(m))",
                "h = torch.sigmoid(o) * torch.tanh(c)"}) +
         (projections ? lines({"h = torch.bmm(q, h)"}) : "");
}

std::string recurrentHelpersText() { return kProject; }

std::string recurrentText(const RecurrentForm& form) {
  const Layer layer{form};
  std::string text = kProject + layer.text();
  if (form.whole_kernel) text += wholeKernelText(form);
  text +=
      "\ndef recurrent(x: Tensor, h0: Tensor, c0: Tensor, params: List[Tensor]) -> Tuple[Tensor, "
      "Tensor, Tensor]:\n";
  if (form.whole_kernel) {
    text += std::string("    if x.is_cpu and h0.size(0) <= ") + kFewMembers +
            ":\n        y, h_n, c_n = member_by_member(x, h0, c0, params)\n    else:\n        y, "
            "h_n, c_n = all_members(x, h0, c0, params)\n    return y, h_n, c_n\n";
    text.insert(text.rfind("\ndef recurrent"), "\n$all");
  }
  // [T,N,I] or [N,T,I] -> [I,(T N)]
  const std::string time = form.batch_first ? "-2" : "-3", rows = form.batch_first ? "-3" : "-2";
  const std::string k = form.stacked_input ? "0, " : "";
  const int64_t first = form.stacked_input ? 1 : 0;
  const std::string order = k + number(first + 2) + ", " + number(first + form.batch_first) + ", " +
                            number(first + !form.batch_first);
  std::string body = "    t = x.size(" + time + ")\n    n = x.size(" + rows +
                     ")\n    y = x.permute([" + order + "]).flatten(-2)\n";
  std::string hs, cs;
  const int64_t directions = layer.directions(), width = directions * layer.perDirection();
  for (int64_t l = 0; l < form.layers; ++l) {
    const std::string at = number(l * directions) + ", " + number(directions);
    const std::string id = number(l);
    body += "    y, h" + id + "_, c" + id + "_ = layer(y, t, n, first_state(h0, " + at +
            "), first_state(c0, " + at + "), params[" + number(l * width) + ":" +
            number((l + 1) * width) + "])\n";
    hs += (l ? ", " : "") + ("last_state(h" + id + "_, " + number(directions) + ")");
    cs += (l ? ", " : "") + ("last_state(c" + id + "_, " + number(directions) + ")");
  }
  // [K,(D H),(T N)] -> [K,T,N,(D H)] or [K,N,T,(D H)]
  body += std::string("    y = y.unflatten(2, [t, n]).permute(0, ") +
          (form.batch_first ? "3, 2" : "2, 3") + ", 1)\n    return y, torch.cat([" + hs +
          "], 1), torch.cat([" + cs + "], 1)\n";
  if (!form.whole_kernel) return text + body;
  const std::string all =
      "def all_members(x: Tensor, h0: Tensor, c0: Tensor, params: List[Tensor]) -> Tuple[Tensor, "
      "Tensor, Tensor]:\n" +
      body;
  return text.replace(text.find("$all"), 4, all);
}

std::string cellText(Cell cell, bool biases) {
  // [N,I] or [K,N,I] -> [K,G,N]
  std::string text =
      "\ndef cell(x: Tensor, h: Tensor, c: Tensor, p: List[Tensor]) -> Tuple[Tensor, Tensor]:\n"
      "    w = p[1]\n    size = w.size(1) // " +
      std::string(cell == Cell::Lstm ? "4" : "3") +
      "\n    h = h.transpose(1, 2)\n    c = c.transpose(1, 2)\n"
      "    s = torch.matmul(p[0], x.transpose(-1, -2))\n";
  if (biases) {
    text += cell == Cell::Gru ? "    s = s + p[2].unsqueeze(2)\n    b = p[3].unsqueeze(2)\n"
                              : "    s = s + (p[2] + p[3]).unsqueeze(2)\n";
  }
  return text + recurrentStepText(cell, biases, false, "    ") +
         "    return h.transpose(1, 2), c.transpose(1, 2)\n";
}

}  // namespace chorus
