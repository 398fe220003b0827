#include "lib/batching/dims.h"
#include "lib/batching/families.h"
#include "lib/batching/fold.h"
#include "lib/batching/spectra.h"

namespace chorus {
namespace {

/// fftn(x, s?, dim?, norm?): without dims, all of them, or as many of the last as `s` has entries.
/// fftshift(x, dim?): without dims, all.
RuleResult overDims(RuleContext& context) {
  const size_t at = context.indexOf("dim");
  const auto dims = context.constant(at);
  if (!dims) return context.decline("computed dim");
  if (!dims->isNone()) return dimShift()(context);
  int64_t count = context.rank(0);
  if (context.has("s") && !context.isNone(context.indexOf("s"))) {
    const auto sizes = context.constantInts(context.indexOf("s"));
    if (!sizes) return context.decline("computed sizes");
    count = static_cast<int64_t>(sizes->size());
  }
  if (count == 0) return context.decline("a tensor without dims");
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.stacked(0);
  inputs[at] = context.constantOf(dimRange(-count, -1));
  return stackedResults(context.emitSame(inputs));
}

/// stft(x [N,L] or [L], ..., window), istft(x [N,F,T] or [F,T], ..., window): K goes into N or
/// takes its place. With windows of the members' own: spectra.cpp.
BatchingRule overSignals(int64_t rank) {
  return [rank](RuleContext& context) -> RuleResult {
    if (context.rank(0) != rank && context.rank(0) != rank + 1)
      return context.decline("a signal of another rank");
    if (isStacked(context, context.indexOf("window"))) return windowed(context, rank == 2);
    return context.rank(0) == rank ? elementwise(context) : onFoldedBatch(context);
  };
}

}  // namespace

RuleRows fourier() {
  const char* family = "dim-shift";
  return concatenated({
      rowsOf(family, dimShift(),
             {"fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_hfft", "fft_ihfft", "fft_fft2",
              "fft_ifft2", "fft_rfft2", "fft_irfft2", "fft_hfft2", "fft_ihfft2"}),
      rowsOf(family, overDims,
             {"fft_fftn", "fft_ifftn", "fft_rfftn", "fft_irfftn", "fft_hfftn", "fft_ihfftn",
              "fft_fftshift", "fft_ifftshift"}),
      rowsOf("fold-into-N", overSignals(1), {"stft"}),
      rowsOf("fold-into-N", overSignals(2), {"istft"}),
  });
}

}  // namespace chorus
