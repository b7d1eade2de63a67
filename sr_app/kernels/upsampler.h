// EDSR's end: stages of a convolution and a pixel shuffle (Shi et al., 2016, section 2.2), and the last
// convolution, with its gradients. All data are pixels. The shuffle costs nothing: the channels of a stage
// are put where they belong as they are stored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "convolution.h"

namespace winograd {

// Stores the gradient of what enters a stage as that of what the stage before gives, unshuffled.
struct Unshuffle {
  Field smaller;
  Channels stage;
  size_t factor;
  float* to;

  void operator()(Vector v, const Pixel& pixel, size_t k) const {
    const size_t group = pixel.y % factor * factor + pixel.x % factor;
    const Pixel before{pixel.image, pixel.y / factor, pixel.x / factor};
    store(to + at(smaller, stage.out(), before, group * stage.group() + k), v);
  }
};

class Upsampler {
 public:
  // stages (stages, factor^2 * features, features, 3, 3), their biases (stages, factor^2 * features), tail
  // (outputs, features, 3, 3), its biases (outputs). `work` has room for work_size().
  Upsampler(Pool& pool, const Field& field, size_t features, size_t outputs, size_t stages, size_t factor,
            const float* weights, const float* biases, const float* tail, const float* tail_biases,
            float* work)
      : pool_(pool),
        field_(field),
        stage_{features, factor * factor * features, factor * factor},
        tail_{features, outputs},
        stages_(stages),
        factor_(factor),
        weights_(weights),
        biases_(biases),
        tail_weights_(tail),
        tail_biases_(tail_biases),
        work_(work) {}

  static size_t work_size(const Pool& pool, size_t features, size_t outputs, size_t factor) {
    return std::max(
        Convolution::work_size(pool, {features, factor * factor * features, factor * factor}),
        Convolution::work_size(pool, {features, outputs}));
  }

  // The sizes of the pictures that enter a stage, or, after the last stage, the tail.
  Field field(size_t stage) const {
    Field result = field_;
    for (size_t k = 0; k < stage; k++) result = result.times(factor_);
    return result;
  }

  // What enters each stage and the tail, one after the other; of these the first is given.
  float* input(float* tape, size_t stage) const {
    for (size_t k = 0; k < stage; k++) tape += field(k).pixels() * stage_.in();
    return tape;
  }

  void forward(float* tape, float* y) const {
    for (size_t stage = 0; stage < stages_; stage++) {
      float* const to = input(tape, stage + 1);
      const Field larger = field(stage + 1);
      convolution(stage).forward(input(tape, stage), [&](Vector v, const Pixel& pixel, size_t k) {
        const size_t group = k / stage_.group(), c = k % stage_.group();  // of the stage's outputs
        const Pixel shuffled{pixel.image, pixel.y * factor_ + group / factor_,
                             pixel.x * factor_ + group % factor_};
        store(to + at(larger, stage_.in(), shuffled, c), v);
      });
    }
    const Field last = field(stages_);
    tail().forward(input(tape, stages_), [&](Vector v, const Pixel& pixel, size_t k) {
      store(y + at(last, tail_.out(), pixel, k), v);
    });
  }

  // dx from dy, and the gradients of weights and biases. `large` and `small` are worked in: as large as
  // what enters the tail, and as what enters the stage before it.
  void backward(float* tape, const float* dy, float* large, float* small, float* dx, float* dweights,
                float* dbiases, float* dtail, float* dtail_biases) const {
    tail().gradients(input(tape, stages_), dy, dtail, dtail_biases);
    float *given = large, *next = small;
    tail().backward(dy, Unshuffle{field(stages_ - 1), stage_, factor_, given});
    for (size_t stage = stages_; stage-- > 0; std::swap(given, next)) {
      convolution(stage).gradients(input(tape, stage), given,
                                   dweights + stage * 9 * stage_.outputs * stage_.inputs,
                                   dbiases + stage * stage_.outputs);
      if (stage > 0) {
        convolution(stage).backward(given, Unshuffle{field(stage - 1), stage_, factor_, next});
      } else {
        convolution(stage).backward(given, [&](Vector v, const Pixel& pixel, size_t k) {
          store(dx + at(field_, stage_.in(), pixel, k), v);
        });
      }
    }
  }

 private:
  Convolution convolution(size_t stage) const {
    return {pool_, field(stage), stage_, weights_ + stage * 9 * stage_.outputs * stage_.inputs,
            biases_ + stage * stage_.outputs, work_};
  }
  Convolution tail() const {
    return {pool_, field(stages_), tail_, tail_weights_, tail_biases_, work_};
  }

  Pool& pool_;
  const Field field_;
  const Channels stage_, tail_;
  const size_t stages_, factor_;
  const float *const weights_, *const biases_, *const tail_weights_, *const tail_biases_;
  float* const work_;
};

}  // namespace winograd
