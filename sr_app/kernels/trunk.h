// EDSR's trunk: residual blocks x + scale * conv(relu(conv(x))), a closing convolution and a skip around
// all (Lim et al., 2017, figures 2c and 3), with its gradients. All data are pixels.
#pragma once

#include <cstddef>

#include "convolution.h"

namespace winograd {

// What the backward needs: the input of each block and of the closing convolution, and, where `step` is 2,
// what each block's ReLU gives, which is computed again otherwise.
struct Tape {
  float* start;
  size_t size, step;

  float* input(size_t block) const { return start + block * step * size; }
  float* inside(size_t block) const { return input(block) + size; }
  bool whole() const { return step == 2; }
};

class Trunk {
 public:
  // weights (2 * blocks + 1, features, features, 3, 3) and biases (2 * blocks + 1, features); settings:
  // scale, and the slope of the ReLU's gradient where it is off. `work` has room for a convolution's.
  Trunk(Pool& pool, const Field& field, size_t features, size_t layers, const float* weights,
        const float* biases, const float* settings, float* work)
      : pool_(pool),
        field_(field),
        channels_{features, features},
        blocks_(layers / 2),
        scale_(settings[0]),
        slope_(settings[1]),
        weights_(weights),
        biases_(biases),
        work_(work) {}

  // y, from x in `before`; `x` and `y` are worked in.
  void infer(const float* before, float* x, float* y) const {
    const float* entering = before;
    for (size_t block = 0; block < blocks_; block++, entering = x) {
      first(block, entering, y);
      second(block, y, entering, x);
    }
    close(entering, before, y);
  }

  // y, from x in the tape's first input; fills the tape. `y` is worked in.
  void forward(const Tape& tape, float* y) const {
    for (size_t block = 0; block < blocks_; block++) {
      float* const inside = tape.whole() ? tape.inside(block) : y;
      first(block, tape.input(block), inside);
      second(block, inside, tape.input(block), tape.input(block + 1));
    }
    close(tape.input(blocks_), tape.input(0), y);
  }

  // dx from dy, and the gradients of weights and biases. `inside` and `d` are worked in, and `again`
  // where the tape isn't whole.
  void backward(const Tape& tape, const float* dy, float* d, float* inside, float* again, float* dx,
                float* dweights, float* dbiases) const {
    const auto gradients = [&](size_t layer, const float* x, const float* dy_) {
      convolution(layer).gradients(x, dy_, dweights + layer * 9 * channels_.inputs * channels_.inputs,
                                   dbiases + layer * channels_.inputs);
    };
    gradients(2 * blocks_, tape.input(blocks_), dy);
    convolution(2 * blocks_).backward(dy, [&](Vector v, const Pixel& pixel, size_t k) {
      store(d + place(pixel, k), v);
    });
    for (size_t block = blocks_; block-- > 0;) {
      if (!tape.whole()) first(block, tape.input(block), again);
      const float* const h = tape.whole() ? tape.inside(block) : again;
      gradients(2 * block + 1, h, d);
      convolution(2 * block + 1).backward(d, [&](Vector v, const Pixel& pixel, size_t k) {
        const size_t here = place(pixel, k);
        store(inside + here, load(h + here) > 0 ? v : v * slope_);
      });
      gradients(2 * block, tape.input(block), inside);
      convolution(2 * block).backward(inside, [&](Vector v, const Pixel& pixel, size_t k) {
        const size_t here = place(pixel, k);
        store(d + here, v + load(d + here));
      });
    }
    pool_.run(field_.n * field_.h, [&](size_t row) {
      const size_t size = field_.w * channels_.in();
      for (size_t k = row * size; k < (row + 1) * size; k++) dx[k] = d[k] + dy[k];
    });
  }

 private:
  Convolution convolution(size_t layer) const {
    const bool scaled = layer % 2 == 1;  // the second of a block
    return {pool_, field_, channels_, weights_ + layer * 9 * channels_.inputs * channels_.inputs,
            biases_ + layer * channels_.inputs, work_, scaled ? scale_ : 1};
  }

  size_t place(const Pixel& pixel, size_t k) const { return at(field_, channels_.in(), pixel, k); }

  // y = relu(conv(x))
  void first(size_t block, const float* x, float* y) const {
    convolution(2 * block).forward(x, [&](Vector v, const Pixel& pixel, size_t k) {
      store(y + place(pixel, k), v > 0 ? v : Vector{});
    });
  }

  // y = before + scale * conv(x); y may be `before`.
  void second(size_t block, const float* x, const float* before, float* y) const {
    add(convolution(2 * block + 1), x, before, y);
  }
  void close(const float* x, const float* before, float* y) const {
    add(convolution(2 * blocks_), x, before, y);
  }
  void add(const Convolution& by, const float* x, const float* before, float* y) const {
    by.forward(x, [&](Vector v, const Pixel& pixel, size_t k) {
      const size_t here = place(pixel, k);
      store(y + here, v + load(before + here));
    });
  }

  Pool& pool_;
  const Field field_;
  const Channels channels_;
  const size_t blocks_;
  const float scale_, slope_;
  const float *const weights_, *const biases_;
  float* const work_;
};

}  // namespace winograd
