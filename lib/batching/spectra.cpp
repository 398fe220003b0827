#include "lib/batching/spectra.h"

#include "lib/batching/families.h"
#include "lib/batching/script_code.h"

namespace chorus {
namespace {

/// x [K,N,L], w [K,W]; the window stands in the middle of a frame.
/// frames [K,N,T,n] * [K,1,1,n] -> [K,N,F,T]
std::string forwardText(bool pads, bool whole) {
  std::string text =
      "def windowed(x: Tensor, w: Tensor, n: int, hop: int, pad: int, mode: str, norm: str) -> "
      "Tensor:\n";
  if (pads) text += "    x = torch.pad(x, [pad, pad], mode)\n";
  text += R"py(    left = (n - w.size(1)) // 2
    w = torch.constant_pad_nd(w, [left, n - w.size(1) - left], 0.0)
    frames = x.unfold(-1, n, hop) * w.unsqueeze(1).unsqueeze(1)
)py";
  return text + "    return torch.fft_" + (whole ? "fft" : "rfft") +
         "(frames, None, -1, norm).transpose(-1, -2)\n";
}

/// x [K,N,F,T] -> [K,N,L]: the frames are laid over each other, and so are the squares of the
/// window, by which the sum is divided.
std::string inverseText(bool has_length, bool whole) {
  std::string text =
      R"py(def windowed(x: Tensor, w: Tensor, n: int, hop: int, start: int, length: int, norm: str) -> Tensor:
    count = x.size(-1)
    all = n + hop * (count - 1)
    left = (n - w.size(1)) // 2
    w = torch.constant_pad_nd(w, [left, n - w.size(1) - left], 0.0)
    x = x.transpose(-1, -2)
)py";
  text += whole ? "    frames = torch.fft_ifft(x, None, -1, norm)\n"
                : "    frames = torch.fft_irfft(x[..., :n // 2 + 1], n, -1, norm)\n";
  text += R"py(    sizes = [x.size(0), x.size(1), all]
    y = torch.unfold_backward(frames * w.unsqueeze(1).unsqueeze(1), sizes, 2, n, hop)
    square = w.pow(2).unsqueeze(1).expand([-1, count, -1])
    over = torch.unfold_backward(square, [x.size(0), all], 1, n, hop)
)py";
  text += has_length ? "    end = start + length\n" : "    end = all - start\n";
  text += "    y = y[..., start:end] / over[..., start:end].unsqueeze(1)\n";
  // What is asked for behind the last frame is zero.
  if (has_length) text += "    y = torch.constant_pad_nd(y, [0, length - y.size(-1)], 0.0)\n";
  return text + "    return y\n";
}

/// Constants among the arguments; None where one is not given.
struct Arguments {
  RuleContext& context;
  bool known = true;

  c10::IValue of(const char* name, const c10::IValue& otherwise) {
    if (!context.has(name)) return otherwise;
    const auto value = context.constant(context.indexOf(name));
    if (!value) known = false;
    return !value || value->isNone() ? otherwise : *value;
  }
};

}  // namespace

RuleResult windowed(RuleContext& context, bool inverse) {
  Arguments given{context};
  const auto number = [&](const char* name, int64_t otherwise) {
    const c10::IValue value = given.of(name, otherwise);
    return value.isInt() ? value.toInt() : otherwise;
  };
  const auto flag = [&](const char* name, bool otherwise) {
    return given.of(name, otherwise).toBool();
  };
  const size_t at = context.indexOf("window");
  const auto window = context.dtype(at), signal = context.dtype(0);
  const int64_t n = number("n_fft", 0), hop = number("hop_length", n / 4);
  const bool center = flag("center", context.has("center") && inverse);
  const bool complex_window = window && at::isComplexType(*window);
  const bool complex = complex_window || (signal && at::isComplexType(*signal));
  const bool wants_complex = flag("return_complex", !inverse && complex);
  const bool onesided = flag("onesided", !complex);
  const std::string norm = flag("normalized", false) ? "ortho" : "backward";
  const std::string mode = given.of("pad_mode", std::string("constant")).toStringRef();
  const int64_t length = number("length", -1);
  if (!given.known || !window || !signal) return context.decline("computed arguments");
  if (flag("align_to_window", false)) return context.decline("frames aligned to the window");
  const bool bare = context.rank(0) == (inverse ? 2 : 1);  // without N
  Value* x = context.stacked(0);
  if (bare) x = context.emit("aten::unsqueeze", {x, 1});
  std::vector<Value*> inputs = {x, context.stacked(at), context.constantOf(n),
                                context.constantOf(hop),
                                context.constantOf(center ? n / 2 : int64_t{0})};
  inputs.push_back(inverse ? context.constantOf(length) : context.constantOf(mode));
  inputs.push_back(context.constantOf(norm));
  const std::string text =
      inverse ? inverseText(length >= 0, wants_complex) : forwardText(center, !onesided);
  Value* y = emitScript(context, text, "windowed", inputs).front();
  if (bare) y = context.emit("aten::squeeze", {y, 1});
  if (!inverse && !wants_complex) y = context.emit("aten::view_as_real", {y});
  return stackedResults({y});
}

}  // namespace chorus
