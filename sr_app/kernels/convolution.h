// A convolution with its weights: what the operators are built from. All data are pixels (winograd.h).
#pragma once

#include <algorithm>
#include <cstddef>

#include "pool.h"
#include "winograd.h"

namespace winograd {

class Convolution {
 public:
  // weights (outputs, inputs, 3, 3) and biases (outputs), as MindSpore holds them; `scale` multiplies the
  // outputs; `work` has room for work_size().
  Convolution(Pool& pool, const Field& field, const Channels& channels, const float* weights,
              const float* biases, float* work, float scale = 1)
      : pool_(pool),
        field_(field),
        channels_(channels),
        weights_(weights),
        biases_(biases),
        work_(work),
        scale_(scale) {}

  static size_t work_size(const Pool& pool, const Channels& channels) {
    return std::max(channels.packed() + channels.out(), sums_size(pool, channels));
  }

  // finish(value, pixel, channel) stores each vector of outputs.
  template <class Finish>
  void forward(const float* x, const Finish& finish) const {
    float* const biases = work_ + channels_.packed();
    for (size_t k = 0; k < channels_.out(); k++) {
      size_t output = 0;
      biases[k] = channels_.output(k, &output) ? scale_ * biases_[output] : 0;
    }
    pack<false>(pool_, weights_, channels_, scale_, work_);
    convolve(pool_, field_, x, channels_.in(), work_, channels_.out(),
             [&](Vector v, const Pixel& pixel, size_t k) { finish(v + load(biases + k), pixel, k); });
  }

  // The same for the gradient of the inputs.
  template <class Finish>
  void backward(const float* dy, const Finish& finish) const {
    pack<true>(pool_, weights_, channels_, scale_, work_);
    convolve(pool_, field_, dy, channels_.out(), work_, channels_.in(), finish);
  }

  // The gradients of weights and biases, as MindSpore holds them.
  void gradients(const float* x, const float* dy, float* dweights, float* dbiases) const {
    weight_gradients(pool_, field_, x, dy, channels_, scale_, work_, dweights, dbiases);
  }

 private:
  Pool& pool_;
  const Field field_;
  const Channels channels_;
  const float *const weights_, *const biases_;
  float* const work_;
  const float scale_;
};

// Where the vector of a pixel's channels from k on begins; a pixel has `channels`, padded.
inline size_t at(const Field& field, size_t channels, const Pixel& pixel, size_t k) {
  return field.number(pixel) * channels + k;
}

}  // namespace winograd
