// What is done with gradients once they are there: the sum of their squares, and the update of weights,
// Adam's moments and the weights' moving average, each in one pass over many tensors. As single operators
// of MindSpore, hundreds of them, they took a tenth of a training step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "pool.h"

namespace update {

// A list of tensors, cut into pieces of work of about the same size.
class Pieces {
 public:
  explicit Pieces(const std::vector<size_t>& sizes) {
    for (size_t tensor = 0; tensor < sizes.size(); tensor++) {
      for (size_t begin = 0; begin < sizes[tensor]; begin += most) {
        all_.push_back({tensor, begin, std::min(begin + most, sizes[tensor])});
      }
    }
  }

  struct Piece {
    size_t tensor, begin, end;
  };

  template <class Work>
  void run(Pool& pool, const Work& work) const {
    const size_t runs = (all_.size() + in_a_run - 1) / in_a_run;
    pool.run(runs, [&](size_t run) {
      const size_t end = std::min((run + 1) * in_a_run, all_.size());
      for (size_t k = run * in_a_run; k < end; k++) work(k, all_[k]);
    });
  }
  size_t count() const { return all_.size(); }

 private:
  static constexpr size_t most = size_t{1} << 14, in_a_run = 8;  // weights and biases alternate
  std::vector<Piece> all_;
};

// In double, in an order that doesn't depend on the threads.
inline float square_sum(Pool& pool, const std::vector<size_t>& sizes, const float* const* gradients) {
  const Pieces pieces(sizes);
  std::vector<double> sums(pieces.count());
  pieces.run(pool, [&](size_t number, const Pieces::Piece& piece) {
    double lanes[8] = {};
    const float* const values = gradients[piece.tensor];
    size_t k = piece.begin;
    for (; k + 8 <= piece.end; k += 8) {
      for (size_t lane = 0; lane < 8; lane++) {
        lanes[lane] += static_cast<double>(values[k + lane]) * static_cast<double>(values[k + lane]);
      }
    }
    double sum = 0;
    for (; k < piece.end; k++) sum += static_cast<double>(values[k]) * static_cast<double>(values[k]);
    for (const double lane : lanes) sum += lane;
    sums[number] = sum;
  });
  double sum = 0;
  for (const double each : sums) sum += each;
  return static_cast<float>(sum);
}

struct Numbers {  // as the operator is given them, in this order
  float factor;   // on the gradients: the clip's
  float rate;     // with the corrections of both biases: rate * sqrt(1 - beta2^t) / (1 - beta1^t)
  float beta1, beta2;
  float epsilon;  // times sqrt(1 - beta2^t)
  float decay;    // of the average
  float wanted;   // 0: change nothing
};

// As a function of its own, with copies of the numbers, so that the compiler makes vectors of it.
inline void step(const Numbers by, size_t size, float* __restrict weight, float* __restrict first,
                 float* __restrict second, float* __restrict average, const float* __restrict gradient) {
  for (size_t k = 0; k < size; k++) {
    const float g = by.factor * gradient[k];
    const float m = first[k] + (1 - by.beta1) * (g - first[k]);
    const float v = second[k] + (1 - by.beta2) * (g * g - second[k]);
    const float w = weight[k] - by.rate * m / (std::sqrt(v) + by.epsilon);
    first[k] = m;
    second[k] = v;
    weight[k] = w;
    average[k] += (1 - by.decay) * (w - average[k]);
  }
}

// Adam (Kingma and Ba, 2015, end of section 2) and the average, in place.
inline void adam(Pool& pool, const std::vector<size_t>& sizes, const Numbers& by, float* const* weights,
                 float* const* firsts, float* const* seconds, float* const* averages,
                 const float* const* gradients) {
  if (!(by.wanted > 0)) return;
  Pieces(sizes).run(pool, [&](size_t, const Pieces::Piece& piece) {
    step(by, piece.end - piece.begin, weights[piece.tensor] + piece.begin,
         firsts[piece.tensor] + piece.begin, seconds[piece.tensor] + piece.begin,
         averages[piece.tensor] + piece.begin, gradients[piece.tensor] + piece.begin);
  });
}

}  // namespace update
