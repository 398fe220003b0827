#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples fourier() {
  return {
      "fft_fft(f32[4,4])",
      "fft_ifft(f32[4,4])",
      "fft_rfft(f32[4,4])",
      "fft_ihfft(f32[4,4])",
      "fft_fft(c64[4,4], none, 0)",
      "fft_ifft(c64[4,4], none, 0)",
      "fft_irfft(c64[4,4], none, 0)",
      "fft_hfft(c64[4,4], none, 0)",
      "fft_fft2(f32[4,4,4])",
      "fft_ifft2(f32[4,4,4])",
      "fft_rfft2(f32[4,4,4])",
      "fft_ihfft2(f32[4,4,4])",
      "fft_fft2(c64[4,4,4], none, [0,1])",
      "fft_irfft2(c64[4,4,4], none, [0,1])",
      "fft_hfft2(c64[4,4,4], none, [0,1])",
      "fft_fftn(f32[4,4,4])",
      "fft_ifftn(f32[4,4,4])",
      "fft_rfftn(f32[4,4,4])",
      "fft_ihfftn(f32[4,4,4])",
      "fft_fftn(c64[4,4,4], [4,4])",
      "fft_irfftn(c64[4,4,4], [4,4])",
      "fft_hfftn(c64[4,4,4], [4,4])",
      "fft_fftshift(f32[4,4])",
      "fft_fftshift(f32[4,4], [1])",
      "fft_ifftshift(f32[4,4])",
      "fft_ifftshift(f32[4,4], [0])",
      "stft(f32[16], 4, 2, 4, none, false, true, true)",
      "stft(f32[N,16], 4, 2, 4, none, false, true, true)",
      "stft(f32[N,16], 4, 2, 4, f32[4], false, true, true)",
      "stft(f32[16], 4, 1, 3, f32[3], true, false, true)",
      "stft(f32[4,16], 4, 2, 4, f32[4], true, 'reflect', true, true, false)",
      "stft(f32[16], 5, 3, 4, f32[4], true, 'constant', false, true, true)",
      "istft(c64[N,3,4], 4, 2, 4, f32[4]+, true, false, true)",
      "istft(c64[3,4], 5, 2, 4, f32[4]+, true, true, true, 6)",
      "istft(c64[4,4], 4, 1, 4, f32[4]+, false, false, false)",
      "istft(c64[4,4,5], 4, 1, 3, f32[3]+, true, false, false, none, true)",
      "istft(c64[3,4], 4, 2, 4, none, true, false, true)",
      "istft(c64[N,3,4], 4, 2, 4, none, true, false, true)",
  };
}

}  // namespace chorus::conformance::samples
