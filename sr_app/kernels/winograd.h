// 3x3 convolution, stride 1, zero padding 1, float32, and its gradients, by Winograd's minimal filtering
// F(4x4, 3x3) (Lavin and Gray, 2016, section 4): a tile of 4x4 outputs takes 36 products per pair of
// channels in place of 144.
//
//   output   = A^T [ (G weight G^T) * (B^T tile B) ] A         tile: 6x6 inputs, tiles overlap by 2
//   dweight  = G^T [ (B^T tile B) * (A doutput A^T) ] G        summed over tiles
//   dinput   = the convolution of doutput with the weights turned by 180 degrees
//
// where * is, for each of the 36 places, a product of matrices over tiles and channels. The usual points
// (0, 1, -1, 2, -2, infinity) lose a digit; ours, 0, +-3/4, +-3/2 and infinity, keep the error within
// twice that of a plain sum in float32, at the same number of operations.
//
// Pictures are "pixels": (n, h, w, channels), channels padded with zeros to a multiple of `width`, so that
// a vector of channels lies together. A piece of work is a run of tiles that goes through all three
// stages in one thread, in memory that its cache holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "pool.h"

namespace winograd {

// ---- Vectors: one register, written in GCC's and Clang's vector extension

#if defined __AVX512F__ || defined SR_WIDE_VECTORS  // the latter, to test such code without the processor
constexpr size_t width = 16, tall = 12;
#else
constexpr size_t width = 8, tall = 6;
#endif
// `tall` x 2 vectors of sums stay in the registers of `multiply` (24 of 32, or 12 of 16).

typedef float Vector __attribute__((vector_size(width * sizeof(float))));
typedef float Unaligned
    __attribute__((vector_size(width * sizeof(float)), aligned(sizeof(float)), may_alias));

inline Vector load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<Unaligned*>(to) = value; }

inline size_t padded(size_t channels) { return (channels + width - 1) / width * width; }

// ---- The transforms, in one dimension, of vectors that lie `step` apart; in place

constexpr float a = 0.75f, b = 1.5f;  // the points besides 0 and infinity are +-a and +-b
constexpr float aa = a * a, bb = b * b;
constexpr float n0 = aa * bb, na = 2 * aa * (aa - bb), nb = 2 * bb * (bb - aa);

// B^T: 6 inputs -> 6.
template <size_t step>
inline void transform_inputs(Vector* v) {
  const Vector v0 = v[0], v1 = v[step], v2 = v[2 * step], v3 = v[3 * step], v4 = v[4 * step],
               v5 = v[5 * step];
  const Vector even_a = v4 - v2 * bb, odd_a = v3 - v1 * bb;
  const Vector even_b = v4 - v2 * aa, odd_b = v3 - v1 * aa;
  v[0] = v0 * (aa * bb) - v2 * (aa + bb) + v4;
  v[step] = even_a + odd_a * a;
  v[2 * step] = even_a - odd_a * a;
  v[3 * step] = even_b + odd_b * b;
  v[4 * step] = even_b - odd_b * b;
  v[5 * step] = v1 * (aa * bb) - v3 * (aa + bb) + v5;
}

// G: 3 weights -> 6; the last three places need not be set.
template <size_t step>
inline void transform_weights(Vector* v) {
  const Vector v0 = v[0], v1 = v[step], v2 = v[2 * step];
  const Vector even_a = (v0 + v2 * aa) * (1 / na), odd_a = v1 * (a / na);
  const Vector even_b = (v0 + v2 * bb) * (1 / nb), odd_b = v1 * (b / nb);
  v[0] = v0 * (1 / n0);
  v[step] = even_a + odd_a;
  v[2 * step] = even_a - odd_a;
  v[3 * step] = even_b + odd_b;
  v[4 * step] = even_b - odd_b;
  v[5 * step] = v2;
}

// A^T: 6 products -> 4 outputs, in the first four places.
template <size_t step>
inline void transform_products(Vector* v) {
  const Vector sum_a = v[step] + v[2 * step], difference_a = v[step] - v[2 * step];
  const Vector sum_b = v[3 * step] + v[4 * step], difference_b = v[3 * step] - v[4 * step];
  v[0] = v[0] + sum_a + sum_b;
  v[step] = difference_a * a + difference_b * b;
  v[2 * step] = sum_a * aa + sum_b * bb;
  v[3 * step] = difference_a * (a * aa) + difference_b * (b * bb) + v[5 * step];
}

// A: the gradients of 4 outputs -> 6; the last two places need not be set.
template <size_t step>
inline void transform_gradients(Vector* v) {
  const Vector v0 = v[0], v1 = v[step], v2 = v[2 * step], v3 = v[3 * step];
  const Vector even_a = v0 + v2 * aa, odd_a = v1 * a + v3 * (a * aa);
  const Vector even_b = v0 + v2 * bb, odd_b = v1 * b + v3 * (b * bb);
  v[step] = even_a + odd_a;
  v[2 * step] = even_a - odd_a;
  v[3 * step] = even_b + odd_b;
  v[4 * step] = even_b - odd_b;
  v[5 * step] = v3;
}

// G^T: 6 sums of products -> the gradients of 3 weights, in the first three places.
template <size_t step>
inline void transform_sums(Vector* v) {
  const Vector sum_a = (v[step] + v[2 * step]) * (1 / na);
  const Vector difference_a = (v[step] - v[2 * step]) * (1 / na);
  const Vector sum_b = (v[3 * step] + v[4 * step]) * (1 / nb);
  const Vector difference_b = (v[3 * step] - v[4 * step]) * (1 / nb);
  v[0] = v[0] * (1 / n0) + sum_a + sum_b;
  v[step] = difference_a * a + difference_b * b;
  v[2 * step] = sum_a * aa + sum_b * bb + v[5 * step];
}

// ---- The product of matrices

// c (tall, columns of `across` vectors) = or += a (tall, depth) b (depth, columns); strides in floats.
template <size_t rows, size_t across, bool add>
inline void multiply(const float* left, size_t row, size_t step, const float* right, size_t right_step,
                     float* result, size_t result_row, size_t depth) {
  Vector sums[rows][across];
#pragma GCC unroll 16
  for (size_t r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (size_t k = 0; k < across; k++) {
      sums[r][k] = add ? load(result + r * result_row + k * width) : Vector{};
    }
  }
  for (size_t d = 0; d < depth; d++) {
    Vector values[across];
#pragma GCC unroll 2
    for (size_t k = 0; k < across; k++) values[k] = load(right + d * right_step + k * width);
#pragma GCC unroll 16
    for (size_t r = 0; r < rows; r++) {
      const float factor = left[r * row + d * step];
#pragma GCC unroll 2
      for (size_t k = 0; k < across; k++) sums[r][k] += factor * values[k];
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (size_t k = 0; k < across; k++) store(result + r * result_row + k * width, sums[r][k]);
  }
}

template <size_t across, bool add>
void multiply_rows(const float* left, size_t rows, size_t row, size_t step, const float* right,
                   size_t right_step, float* result, size_t result_row, size_t depth) {
  const auto some = [&](size_t r, auto function) {
    function(left + r * row, row, step, right, right_step, result + r * result_row, result_row, depth);
  };
  size_t r = 0;
  for (; r + tall <= rows; r += tall) some(r, multiply<tall, across, add>);
  for (; r + 4 <= rows; r += 4) some(r, multiply<4, across, add>);
  for (; r < rows; r++) some(r, multiply<1, across, add>);
}

// ---- Tiles

struct Pixel {
  size_t image, y, x;
};

struct Field {  // the sizes of pictures, without channels
  size_t n, h, w;

  size_t pixels() const { return n * h * w; }
  size_t number(const Pixel& of) const { return (of.image * h + of.y) * w + of.x; }
  Field times(size_t factor) const { return {n, factor * h, factor * w}; }
  size_t down() const { return (h + 3) / 4; }
  size_t across() const { return (w + 3) / 4; }
  size_t tiles() const { return n * down() * across(); }
};

constexpr size_t places = 36;

// Tiles in a piece of work. Many, so that the packed weights and the sums (36 x inputs x outputs, from
// the processor's shared cache) are passed through seldom; few, so that the transformed tiles stay in a
// core's own cache, and that each thread has some pieces.
inline size_t tiles_at_once(size_t most, const Field& field, size_t threads) {
  const size_t fair = field.tiles() / (2 * threads);
  return std::max(std::min(most, fair) / tall, size_t{1}) * tall;
}

// Floats from one of the 36 places to the next. The 16 keep them from falling on the same lines of the
// first cache, which took a tenth of the time.
inline size_t plane_size(size_t tiles, size_t channels) { return tiles * channels + 16; }

// Memory of this thread, for a piece of work; grows to what the largest piece needed.
inline float* scratch(size_t floats) {
  static thread_local std::unique_ptr<float, void (*)(void*)> memory{nullptr, std::free};
  static thread_local size_t size = 0;
  if (size < floats) {
    size = 0;
    memory.reset();
    const size_t bytes = (floats * sizeof(float) + 63) / 64 * 64;
    memory.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
    if (!memory) throw std::bad_alloc();
    size = floats;
  }
  return memory.get();
}

// Where a tile lies.
struct Tile {
  Tile(const Field& field, size_t number)
      : image(number / (field.down() * field.across())),
        y(4 * (number / field.across() % field.down())),
        x(4 * (number % field.across())),
        rows(std::min<size_t>(4, field.h - y)),
        columns(std::min<size_t>(4, field.w - x)) {}

  size_t image, y, x;
  size_t rows, columns;  // of it that lie inside of the picture
};

// B^T tile B of the tiles first ... last - 1 -> (36, tiles, channels).
inline void transform_tiles(const Field& field, const float* pixels, size_t channels, size_t first,
                            size_t last, float* border, float* result) {
  const size_t plane = plane_size(last - first, channels);
  for (size_t number = first; number < last; number++) {
    const Tile tile(field, number);
    const float* const image = pixels + tile.image * field.h * field.w * channels;
    const float* from = border;
    size_t row = 6 * channels;
    if (tile.y > 0 && tile.x > 0 && tile.y + 5 <= field.h && tile.x + 5 <= field.w) {
      from = image + ((tile.y - 1) * field.w + tile.x - 1) * channels;
      row = field.w * channels;
    } else {  // copied to where there are zeros around the picture
      for (size_t i = 0; i < 6; i++) {
        for (size_t j = 0; j < 6; j++) {
          float* const to = border + (i * 6 + j) * channels;
          const size_t y = tile.y + i - 1, x = tile.x + j - 1;  // below 0 they are very large
          if (y < field.h && x < field.w) {
            std::memcpy(to, image + (y * field.w + x) * channels, channels * sizeof(float));
          } else {
            std::memset(to, 0, channels * sizeof(float));
          }
        }
      }
    }
    for (size_t c = 0; c < channels; c += width) {
      Vector v[places];
#pragma GCC unroll 6
      for (size_t j = 0; j < 6; j++) {
#pragma GCC unroll 6
        for (size_t i = 0; i < 6; i++) v[i * 6 + j] = load(from + i * row + j * channels + c);
        transform_inputs<6>(v + j);
      }
#pragma GCC unroll 6
      for (size_t i = 0; i < 6; i++) {
        transform_inputs<1>(v + i * 6);
#pragma GCC unroll 6
        for (size_t j = 0; j < 6; j++) {
          store(result + (i * 6 + j) * plane + (number - first) * channels + c, v[i * 6 + j]);
        }
      }
    }
  }
}

// ---- Weights

// A convolution's channels. The outputs may be `groups` sets of channels, as a pixel shuffle wants them:
// MindSpore's number of channel c of group g is c * groups + g; in pixels each group is padded, and they
// follow one another.
struct Channels {
  size_t inputs, outputs, groups = 1;

  size_t in() const { return padded(inputs); }
  size_t group() const { return padded(outputs / groups); }
  size_t out() const { return groups * group(); }
  size_t packed() const { return places * in() * out(); }

  // MindSpore's number of the output that lies at `place` of a pixel, if there is one.
  bool output(size_t place, size_t* number) const {
    *number = place % group() * groups + place / group();
    return place % group() < outputs / groups;
  }
};

// G weight G^T, packed for `convolve`: 36 places, each in panels of two vectors of columns (the last
// panel may have one), a panel (depth, columns). `weights` are (outputs, inputs, 3, 3); depth is inputs
// and columns are outputs, or turned, for the gradient of the inputs: the other way about, the weights
// turned by 180 degrees. All are multiplied by `scale`.
template <bool turned>
void pack(Pool& pool, const float* weights, const Channels& channels, float scale, float* packed) {
  const size_t rows = turned ? channels.out() : channels.in();
  const size_t columns = turned ? channels.in() : channels.out();
  const auto pack_row = [=](size_t row) {
    for (size_t k = 0; k < columns; k += width) {
      Vector v[places] = {};
      for (size_t lane = 0; lane < width; lane++) {
        const size_t input = turned ? k + lane : row;
        size_t output = 0;
        if (!channels.output(turned ? row : k + lane, &output) || input >= channels.inputs) continue;
        const float* const from = weights + 9 * (output * channels.inputs + input);
#pragma GCC unroll 9
        for (size_t tap = 0; tap < 9; tap++) {
          v[tap / 3 * 6 + tap % 3][lane] = scale * from[turned ? 8 - tap : tap];
        }
      }
#pragma GCC unroll 3
      for (size_t j = 0; j < 3; j++) transform_weights<6>(v + j);
      const size_t panel = k / (2 * width) * (2 * width), across = std::min(2 * width, columns - panel);
      float* const to = packed + panel * rows + row * across + k - panel;
#pragma GCC unroll 6
      for (size_t i = 0; i < 6; i++) {
        transform_weights<1>(v + i * 6);
#pragma GCC unroll 6
        for (size_t j = 0; j < 6; j++) store(to + (i * 6 + j) * rows * columns, v[i * 6 + j]);
      }
    }
  };
  constexpr size_t some = 8;  // rows to a piece of work: a vector's width or half of it
  pool.run(rows / some, [&](size_t piece) {
    for (size_t row = piece * some; row < (piece + 1) * some; row++) pack_row(row);
  });
}

// ---- The convolution

// finish(value, pixel, channel) is given each vector of sums, and its pixel and first channel in the
// output; it stores it, after what else is to be done. Channels are padded.
template <class Finish>
void convolve(Pool& pool, const Field& field, const float* pixels, size_t inputs, const float* packed,
              size_t outputs, const Finish& finish) {
  const size_t at_once = tiles_at_once(24, field, pool.threads());
  const size_t pieces = (field.tiles() + at_once - 1) / at_once;
  pool.run(pieces, [&](size_t piece) {
    const size_t first = piece * at_once, last = std::min(first + at_once, field.tiles());
    const size_t tiles = last - first;
    const size_t in_plane = plane_size(tiles, inputs), out_plane = plane_size(tiles, outputs);
    float* const border = scratch(places * (inputs + in_plane + out_plane));
    float* const transformed = border + places * inputs;
    float* const products = transformed + places * in_plane;
    transform_tiles(field, pixels, inputs, first, last, border, transformed);
    for (size_t place = 0; place < places; place++) {
      const auto columns = [&](size_t k, size_t step, auto function) {
        function(transformed + place * in_plane, tiles, inputs, 1,
                 packed + place * inputs * outputs + k * inputs, step,
                 products + place * out_plane + k, outputs, inputs);
      };
      size_t k = 0;
      for (; k + 2 * width <= outputs; k += 2 * width) columns(k, 2 * width, multiply_rows<2, false>);
      if (k < outputs) columns(k, width, multiply_rows<1, false>);
    }
    for (size_t number = first; number < last; number++) {
      const Tile tile(field, number);
      for (size_t k = 0; k < outputs; k += width) {
        Vector v[places];
#pragma GCC unroll 6
        for (size_t j = 0; j < 6; j++) {
#pragma GCC unroll 6
          for (size_t i = 0; i < 6; i++) {
            v[i * 6 + j] = load(products + (i * 6 + j) * out_plane + (number - first) * outputs + k);
          }
          transform_products<6>(v + j);
        }
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) {
          transform_products<1>(v + i * 6);
#pragma GCC unroll 4
          for (size_t j = 0; j < 4; j++) {
            if (i < tile.rows && j < tile.columns) {
              finish(v[i * 6 + j], Pixel{tile.image, tile.y + i, tile.x + j}, k);
            }
          }
        }
      }
    }
  });
}

// ---- The gradients of weights and biases

// A dy A^T of the tiles first ... last - 1 -> (36, tiles, channels); their sums are added to `sums`.
inline void transform_gradient_tiles(const Field& field, const float* pixels, size_t channels,
                                     size_t first, size_t last, float* result, float* sums) {
  const size_t plane = plane_size(last - first, channels);
  for (size_t number = first; number < last; number++) {
    const Tile tile(field, number);
    const float* const from =
        pixels + ((tile.image * field.h + tile.y) * field.w + tile.x) * channels;
    for (size_t c = 0; c < channels; c += width) {
      Vector v[places];
      Vector sum = load(sums + c);
#pragma GCC unroll 4
      for (size_t j = 0; j < 4; j++) {
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) {
          const bool inside = i < tile.rows && j < tile.columns;
          v[i * 6 + j] = inside ? load(from + (i * field.w + j) * channels + c) : Vector{};
          sum += v[i * 6 + j];
        }
        transform_gradients<6>(v + j);
      }
      store(sums + c, sum);
#pragma GCC unroll 6
      for (size_t i = 0; i < 6; i++) {
        transform_gradients<1>(v + i * 6);
#pragma GCC unroll 6
        for (size_t j = 0; j < 6; j++) {
          store(result + (i * 6 + j) * plane + (number - first) * channels + c, v[i * 6 + j]);
        }
      }
    }
  }
}

// Floats that `weight_gradients` works in: a set of sums for each thread. The tiles are shared out by the
// number of threads alone, so that results are the same from run to run.
inline size_t sums_size(const Pool& pool, const Channels& channels) {
  return pool.threads() * (channels.packed() + channels.out());
}

// dweights (outputs, inputs, 3, 3) and dbiases (outputs), both multiplied by `scale`; `sums` has room for
// sums_size().
inline void weight_gradients(Pool& pool, const Field& field, const float* pixels, const float* gradient,
                             const Channels& channels, float scale, float* sums, float* dweights,
                             float* dbiases) {
  const size_t depth = channels.in(), across = channels.out(), size = channels.packed() + across;
  const size_t shares = pool.threads();
  const size_t at_once = tiles_at_once(48, field, shares);
  pool.run(shares, [&](size_t share) {
    const size_t begin = field.tiles() * share / shares, end = field.tiles() * (share + 1) / shares;
    float* const mine = sums + share * size;
    float* const of_biases = mine + channels.packed();
    std::memset(of_biases, 0, across * sizeof(float));
    if (begin == end) std::memset(mine, 0, channels.packed() * sizeof(float));
    float* const border =
        scratch(places * (depth + plane_size(at_once, depth) + plane_size(at_once, across)));
    float* const transformed = border + places * depth;
    for (size_t first = begin; first < end; first += at_once) {
      const size_t last = std::min(first + at_once, end), tiles = last - first;
      const size_t in_plane = plane_size(tiles, depth), out_plane = plane_size(tiles, across);
      float* const gradients = transformed + places * in_plane;
      transform_tiles(field, pixels, depth, first, last, border, transformed);
      transform_gradient_tiles(field, gradient, across, first, last, gradients, of_biases);
      for (size_t place = 0; place < places; place++) {
        const auto columns = [&](size_t k, auto function) {
          function(transformed + place * in_plane, depth, 1, depth,
                   gradients + place * out_plane + k, across,
                   mine + place * depth * across + k, across, tiles);
        };
        const bool add = first > begin;
        size_t k = 0;
        for (; k + 2 * width <= across; k += 2 * width) {
          columns(k, add ? multiply_rows<2, true> : multiply_rows<2, false>);
        }
        if (k < across) columns(k, add ? multiply_rows<1, true> : multiply_rows<1, false>);
      }
    }
  });
  constexpr size_t some = 8;
  pool.run(depth / some, [&](size_t piece) {
    const size_t row = piece * some;
    for (size_t d = row; d < std::min(row + some, channels.inputs); d++) {
      for (size_t k = 0; k < across; k += width) {
        Vector v[places];
        for (size_t place = 0; place < places; place++) {
          v[place] = Vector{};
          for (size_t share = 0; share < shares; share++) {
            v[place] += load(sums + share * size + (place * depth + d) * across + k);
          }
        }
#pragma GCC unroll 6
        for (size_t j = 0; j < 6; j++) transform_sums<6>(v + j);
#pragma GCC unroll 3
        for (size_t i = 0; i < 3; i++) transform_sums<1>(v + i * 6);
        for (size_t lane = 0; lane < width; lane++) {
          size_t output = 0;
          if (!channels.output(k + lane, &output)) continue;
          float* const to = dweights + 9 * (output * channels.inputs + d);
#pragma GCC unroll 9
          for (size_t tap = 0; tap < 9; tap++) to[tap] = scale * v[tap / 3 * 6 + tap % 3][lane];
        }
      }
    }
  });
  for (size_t k = 0; k < across; k++) {
    size_t output = 0;
    if (!channels.output(k, &output)) continue;
    float sum = 0;
    for (size_t share = 0; share < shares; share++) sum += sums[share * size + channels.packed() + k];
    dbiases[output] = scale * sum;
  }
}

// ---- Between MindSpore's layout and ours

// (n, channels, h, w) -> pixels, channels padded with zeros.
inline void to_pixels(Pool& pool, const Field& field, const float* planes, size_t channels, float* pixels) {
  const size_t depth = padded(channels), plane = field.h * field.w;
  pool.run(field.n * field.h, [&](size_t row) {
    const size_t image = row / field.h, y = row % field.h;
    const float* const from = planes + image * channels * plane + y * field.w;
    float* const to = pixels + row * field.w * depth;
    for (size_t c = 0; c < depth; c += width) {
      for (size_t x = 0; x < field.w; x++) {
        Vector v = {};
        if (c + width <= channels) {
#pragma GCC unroll 16
          for (size_t lane = 0; lane < width; lane++) v[lane] = from[(c + lane) * plane + x];
        } else {
          for (size_t lane = 0; c + lane < channels; lane++) v[lane] = from[(c + lane) * plane + x];
        }
        store(to + x * depth + c, v);
      }
    }
  });
}

// Pixels -> (n, channels, h, w).
inline void to_planes(Pool& pool, const Field& field, const float* pixels, size_t channels, float* planes) {
  const size_t depth = padded(channels), plane = field.h * field.w;
  pool.run(field.n * field.h, [&](size_t row) {
    const size_t image = row / field.h, y = row % field.h;
    const float* const from = pixels + row * field.w * depth;
    float* const to = planes + image * channels * plane + y * field.w;
    for (size_t c = 0; c < channels; c += width) {
      for (size_t x = 0; x < field.w; x++) {
        const Vector v = load(from + x * depth + c);
        if (c + width <= channels) {
#pragma GCC unroll 16
          for (size_t lane = 0; lane < width; lane++) to[(c + lane) * plane + x] = v[lane];
        } else {
          for (size_t lane = 0; c + lane < channels; lane++) to[(c + lane) * plane + x] = v[lane];
        }
      }
    }
  });
}

}  // namespace winograd
