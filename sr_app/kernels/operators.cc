// Operators of our own for MindSpore's ops.Custom (func_type "aot"), on the CPU, float32:
//
//   conv3x3                   x, weight, bias -> y
//   conv3x3_backward_data     dy, weight      -> dx
//   conv3x3_backward_weights  x, dy           -> dweight, dbias
//
//   trunk                     x, weights, biases, settings -> y
//   trunk_fast, trunk_low     x, weights, biases, settings -> y, tape
//   trunk_backward            dy, tape, weights, biases, settings -> dx, dweights, dbiases
//
//   upsampler                 x, weights, biases, tail, tail_bias -> y
//   upsampler_training        x, weights, biases, tail, tail_bias -> y, tape
//   upsampler_backward        dy, tape, weights, tail -> dx, dweights, dbiases, dtail, dtail_bias
//
//   square_sum                gradients -> sum
//   adam                      weights, first moments, second moments, averages, gradients, numbers -> one
//
// A 3x3 convolution has stride 1 and zero padding 1. A trunk is EDSR's: blocks x + scale * conv(relu(
// conv(x))), a closing convolution and a skip around all; its l = 2 * blocks + 1 convolutions' weights are
// stacked. An upsampler is its end: stages of a convolution and a pixel shuffle, and the last convolution;
// the stages' weights are stacked. `settings` are the scale, and the slope of the ReLU's gradient where it
// is off. A trunk's tape holds what the backward needs: each block's input and, if fast, what its ReLU
// gives, which low computes again. An upsampler's holds what enters each stage and the last convolution.
//
// square_sum and adam (update.h) take lists of tensors, of any length and shapes; adam changes all but the
// gradients in place, and gives a 1 to depend on.
//
// Arrays come and go as MindSpore holds them (nchw, dense); inside they are pixels (winograd.h), the
// tape's too. Weights are packed at every call: nothing is kept that could become stale or be shared. All
// may be called from several threads at once.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "convolution.h"
#include "memory.h"
#include "pool.h"
#include "trunk.h"
#include "update.h"
#include "upsampler.h"
#include "winograd.h"

namespace {

using winograd::at;
using winograd::Channels;
using winograd::Convolution;
using winograd::Field;
using winograd::padded;
using winograd::Pixel;
using winograd::store;
using winograd::Tape;
using winograd::Trunk;
using winograd::Upsampler;
using winograd::Vector;

// ---- The operators as data: their tensors, inputs first, each with its shape in letters

struct Tensor {
  const char* name;
  const char* shape;
};

struct Operator {
  const char* name;
  int inputs, count;
  Tensor tensors[9];
};

constexpr Operator conv3x3_forward{
    "conv3x3", 3, 4, {{"x", "nchw"}, {"weight", "oc33"}, {"bias", "o"}, {"y", "nohw"}}};
constexpr Operator conv3x3_data{
    "conv3x3_backward_data", 2, 3, {{"dy", "nohw"}, {"weight", "oc33"}, {"dx", "nchw"}}};
constexpr Operator conv3x3_weights{"conv3x3_backward_weights",
                                   2,
                                   4,
                                   {{"x", "nchw"}, {"dy", "nohw"}, {"dweight", "oc33"}, {"dbias", "o"}}};

constexpr Tensor stacked = {"weights", "lcc33"}, stacked_biases = {"biases", "lc"};
constexpr Tensor settings = {"settings", "2"};
constexpr Operator trunk_inference{
    "trunk", 4, 5, {{"x", "nchw"}, stacked, stacked_biases, settings, {"y", "nchw"}}};
constexpr Operator trunk_keeping_all{
    "trunk_fast",
    4,
    6,
    {{"x", "nchw"}, stacked, stacked_biases, settings, {"y", "nchw"}, {"tape", "lnhwp"}}};
constexpr Operator trunk_keeping_inputs{
    "trunk_low",
    4,
    6,
    {{"x", "nchw"}, stacked, stacked_biases, settings, {"y", "nchw"}, {"tape", "knhwp"}}};
constexpr Operator trunk_gradient{"trunk_backward",
                                  5,
                                  8,
                                  {{"dy", "nchw"},
                                   {"tape", "tnhwp"},
                                   stacked,
                                   stacked_biases,
                                   settings,
                                   {"dx", "nchw"},
                                   {"dweights", "lcc33"},
                                   {"dbiases", "lc"}}};

constexpr Operator upsampler_inference{"upsampler",
                                       5,
                                       6,
                                       {{"x", "nchw"},
                                        {"weights", "sqc33"},
                                        {"biases", "sq"},
                                        {"tail", "oc33"},
                                        {"tail_bias", "o"},
                                        {"y", "noHW"}}};
constexpr Operator upsampler_keeping{"upsampler_training",
                                      5,
                                      7,
                                      {{"x", "nchw"},
                                       {"weights", "sqc33"},
                                       {"biases", "sq"},
                                       {"tail", "oc33"},
                                       {"tail_bias", "o"},
                                       {"y", "noHW"},
                                       {"tape", "mnhwp"}}};
constexpr Operator upsampler_gradient{"upsampler_backward",
                                      4,
                                      9,
                                      {{"dy", "noHW"},
                                       {"tape", "mnhwp"},
                                       {"weights", "sqc33"},
                                       {"tail", "oc33"},
                                       {"dx", "nchw"},
                                       {"dweights", "sqc33"},
                                       {"dbiases", "sq"},
                                       {"dtail", "oc33"},
                                       {"dtail_bias", "o"}}};

// ---- Shapes

constexpr int64_t unknown = -1;       // MindSpore's mark of a size that only a run will show,
constexpr int64_t unknown_rank = -2;  // and, as {-2}, of a shape of which nothing is known
constexpr char letters[] = "nchwoltkpsqrmHW";

using Shape = std::vector<int64_t>;
using Sizes = std::array<int64_t, sizeof letters - 1>;  // of the letters

size_t place_of(char letter) { return static_cast<size_t>(std::strchr(letters, letter) - letters); }
int64_t& size_of(Sizes& sizes, char letter) { return sizes[place_of(letter)]; }
int64_t size_of(const Sizes& sizes, char letter) { return sizes[place_of(letter)]; }

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

Shape spell(Sizes sizes, const char* shape) {
  Shape result;
  for (; *shape; shape++) result.push_back(is_digit(*shape) ? *shape - '0' : size_of(sizes, *shape));
  return result;
}

std::string text(const Shape& shape) {
  std::string result;
  for (const int64_t size : shape) {
    result += (result.empty() ? "" : ", ") + (size == unknown ? "?" : std::to_string(size));
  }
  return "(" + result + ")";
}

// Set a size, or throw if it is another one already.
void derive(Sizes& sizes, char letter, int64_t value) {
  int64_t& size = size_of(sizes, letter);
  if (size != unknown && size != value) {
    throw std::invalid_argument(std::string("size ") + letter + " is " + std::to_string(size) +
                                ", but must be " + std::to_string(value) + " by the others");
  }
  size = value;
}

// Sizes that follow from others: p of a tape's pixels, k of a trunk's tape that keeps inputs alone, and of
// an upsampler the factor r of a stage, the sizes H and W of what comes out, and m of its tape.
void derive_all(Sizes& sizes) {
  const int64_t c = size_of(sizes, 'c'), l = size_of(sizes, 'l'), q = size_of(sizes, 'q');
  if (c != unknown) derive(sizes, 'p', static_cast<int64_t>(padded(static_cast<size_t>(c))));
  if (l != unknown) {
    if (l % 2 == 0) throw std::invalid_argument("weights of an even number of convolutions");
    derive(sizes, 'k', (l + 1) / 2);
  }
  const int64_t stages = size_of(sizes, 's'), h = size_of(sizes, 'h'), w = size_of(sizes, 'w');
  if (c == unknown || q == unknown || stages == unknown) return;
  int64_t factor = 1, all = 1, kept = 1;
  while (factor * factor * c < q) factor++;
  if (factor * factor * c != q) {
    throw std::invalid_argument("weights whose outputs are not inputs times a square");
  }
  derive(sizes, 'r', factor);
  if (stages > 8) throw std::invalid_argument("over 8 stages");
  for (int64_t stage = 0; stage < stages; stage++) {
    all *= factor;
    kept += all * all;
  }
  derive(sizes, 'm', kept);
  if (h != unknown) derive(sizes, 'H', all * h);
  if (w != unknown) derive(sizes, 'W', all * w);
}

// The sizes that the first `count` tensors agree on, some of them maybe not known yet; throws where
// they don't agree.
Sizes agree(const Operator& op, int count, const int* ranks, const int64_t* const* shapes,
            bool maybe_unknown) {
  Sizes sizes;
  sizes.fill(unknown);
  for (int i = 0; i < count; i++) {
    const Tensor& tensor = op.tensors[i];
    const Shape found(shapes[i], shapes[i] + ranks[i]);
    if (maybe_unknown && found == Shape{unknown_rank}) continue;
    bool fits = found.size() == std::strlen(tensor.shape);
    for (size_t k = 0; fits && k < found.size(); k++) {
      int64_t digit = tensor.shape[k] - '0';
      int64_t& size = is_digit(tensor.shape[k]) ? digit : size_of(sizes, tensor.shape[k]);
      if (size == unknown) size = found[k];
      fits = (maybe_unknown && found[k] == unknown) || (found[k] == size && size > 0);
    }
    if (!fits) {
      std::string known;
      for (size_t letter = 0; letter < sizes.size(); letter++) {
        if (sizes[letter] != unknown) {
          known += (known.empty() ? ", where " : ", ") + std::string(1, letters[letter]) + " = " +
                   std::to_string(sizes[letter]);
        }
      }
      throw std::invalid_argument(std::string(tensor.name) + " has the shape " + text(found) +
                                  ", needed is " + tensor.shape + known);
    }
    derive_all(sizes);
  }
  return sizes;
}

// ---- What lives as long as the process; never freed, so that nothing is used after its end

size_t wanted_threads = 1;  // sr_start sets it before anything runs

Pool& pool() {
  static Pool& made = *new Pool(wanted_threads);
  return made;
}

// ---- The operators' work: data are the tensors' values, in the order of the tables

const float* in(void* const* data, size_t place) { return static_cast<const float*>(data[place]); }
float* out(void* const* data, size_t place) { return static_cast<float*>(data[place]); }

size_t size(const Sizes& sizes, char letter) {
  return static_cast<size_t>(size_of(sizes, letter));
}

Field field_of(const Sizes& sizes, const char* letters_of_it = "nhw") {
  return {size(sizes, letters_of_it[0]), size(sizes, letters_of_it[1]), size(sizes, letters_of_it[2])};
}

void run_conv3x3(const Sizes& sizes, void* const* data) {
  const Field field = field_of(sizes);
  const Channels channels{size(sizes, 'c'), size(sizes, 'o')};
  const Parts parts{field.pixels() * channels.in(), field.pixels() * channels.out(),
                    Convolution::work_size(pool(), channels)};
  float* const y = parts[1];
  winograd::to_pixels(pool(), field, in(data, 0), channels.inputs, parts[0]);
  Convolution(pool(), field, channels, in(data, 1), in(data, 2), parts[2])
      .forward(parts[0], [&](Vector v, const Pixel& pixel, size_t k) {
        store(y + at(field, channels.out(), pixel, k), v);
      });
  winograd::to_planes(pool(), field, y, channels.outputs, out(data, 3));
}

void run_conv3x3_data(const Sizes& sizes, void* const* data) {
  const Field field = field_of(sizes);
  const Channels channels{size(sizes, 'c'), size(sizes, 'o')};
  const Parts parts{field.pixels() * channels.out(), field.pixels() * channels.in(),
                    Convolution::work_size(pool(), channels)};
  float* const dx = parts[1];
  winograd::to_pixels(pool(), field, in(data, 0), channels.outputs, parts[0]);
  Convolution(pool(), field, channels, in(data, 1), nullptr, parts[2])
      .backward(parts[0], [&](Vector v, const Pixel& pixel, size_t k) {
        store(dx + at(field, channels.in(), pixel, k), v);
      });
  winograd::to_planes(pool(), field, dx, channels.inputs, out(data, 2));
}

void run_conv3x3_weights(const Sizes& sizes, void* const* data) {
  const Field field = field_of(sizes);
  const Channels channels{size(sizes, 'c'), size(sizes, 'o')};
  const Parts parts{field.pixels() * channels.in(), field.pixels() * channels.out(),
                    Convolution::work_size(pool(), channels)};
  winograd::to_pixels(pool(), field, in(data, 0), channels.inputs, parts[0]);
  winograd::to_pixels(pool(), field, in(data, 1), channels.outputs, parts[1]);
  Convolution(pool(), field, channels, nullptr, nullptr, parts[2])
      .gradients(parts[0], parts[1], out(data, 2), out(data, 3));
}

size_t trunk_work(size_t features) { return Convolution::work_size(pool(), {features, features}); }

Trunk trunk_of(const Sizes& sizes, void* const* data, size_t weights, float* work) {
  return {pool(),           field_of(sizes),       size(sizes, 'c'),      size(sizes, 'l'),
          in(data, weights), in(data, weights + 1), in(data, weights + 2), work};
}

void run_trunk(const Sizes& sizes, void* const* data) {
  const Field field = field_of(sizes);
  const size_t features = size(sizes, 'c'), each = field.pixels() * padded(features);
  const Parts parts{each, each, each, trunk_work(features)};
  winograd::to_pixels(pool(), field, in(data, 0), features, parts[0]);
  trunk_of(sizes, data, 1, parts[3]).infer(parts[0], parts[1], parts[2]);
  winograd::to_planes(pool(), field, parts[2], features, out(data, 4));
}

template <size_t step>
void run_trunk_with_tape(const Sizes& sizes, void* const* data) {
  const Field field = field_of(sizes);
  const size_t features = size(sizes, 'c'), each = field.pixels() * padded(features);
  const Parts parts{each, trunk_work(features)};
  const Tape tape{out(data, 5), each, step};
  winograd::to_pixels(pool(), field, in(data, 0), features, tape.input(0));
  trunk_of(sizes, data, 1, parts[1]).forward(tape, parts[0]);
  winograd::to_planes(pool(), field, parts[0], features, out(data, 4));
}

void run_trunk_backward(const Sizes& sizes, void* const* data) {
  const Field field = field_of(sizes);
  const size_t features = size(sizes, 'c'), each = field.pixels() * padded(features);
  const bool whole = size(sizes, 't') == size(sizes, 'l');
  if (!whole && size(sizes, 't') != size(sizes, 'k')) throw std::invalid_argument("tape is of another trunk");
  const Parts parts{each, each, each, whole ? 0 : each, trunk_work(features)};
  const Tape tape{out(data, 1), each, whole ? size_t{2} : size_t{1}};
  winograd::to_pixels(pool(), field, in(data, 0), features, parts[0]);
  trunk_of(sizes, data, 2, parts[4])
      .backward(tape, parts[0], parts[1], parts[2], parts[3], parts[1], out(data, 6), out(data, 7));
  winograd::to_planes(pool(), field, parts[1], features, out(data, 5));
}

Upsampler upsampler_of(const Sizes& sizes, const float* weights, const float* biases, const float* tail,
                       const float* tail_biases, float* work) {
  return {pool(),           field_of(sizes),   size(sizes, 'c'), size(sizes, 'o'), size(sizes, 's'),
          size(sizes, 'r'), weights,           biases,           tail,             tail_biases,
          work};
}

size_t upsampler_work(const Sizes& sizes) {
  return Upsampler::work_size(pool(), size(sizes, 'c'), size(sizes, 'o'), size(sizes, 'r'));
}

void upsample(const Sizes& sizes, void* const* data, float* tape, float* y, float* work) {
  const Field field = field_of(sizes), larger = field_of(sizes, "nHW");
  winograd::to_pixels(pool(), field, in(data, 0), size(sizes, 'c'), tape);
  upsampler_of(sizes, in(data, 1), in(data, 2), in(data, 3), in(data, 4), work).forward(tape, y);
  winograd::to_planes(pool(), larger, y, size(sizes, 'o'), out(data, 5));
}

void run_upsampler(const Sizes& sizes, void* const* data) {
  const size_t kept = size(sizes, 'm') * field_of(sizes).pixels() * size(sizes, 'p');
  const Parts parts{kept, field_of(sizes, "nHW").pixels() * padded(size(sizes, 'o')), upsampler_work(sizes)};
  upsample(sizes, data, parts[0], parts[1], parts[2]);
}

void run_upsampler_with_tape(const Sizes& sizes, void* const* data) {
  const Parts parts{field_of(sizes, "nHW").pixels() * padded(size(sizes, 'o')), upsampler_work(sizes)};
  upsample(sizes, data, out(data, 6), parts[0], parts[1]);
}

void run_upsampler_backward(const Sizes& sizes, void* const* data) {
  const Field field = field_of(sizes), larger = field_of(sizes, "nHW");
  const size_t features = size(sizes, 'c'), large = larger.pixels() * padded(features);
  const Parts parts{larger.pixels() * padded(size(sizes, 'o')), large,
                    large / (size(sizes, 'r') * size(sizes, 'r')), field.pixels() * padded(features),
                    upsampler_work(sizes)};
  winograd::to_pixels(pool(), larger, in(data, 0), size(sizes, 'o'), parts[0]);
  upsampler_of(sizes, in(data, 2), nullptr, in(data, 3), nullptr, parts[4])
      .backward(out(data, 1), parts[0], parts[1], parts[2], parts[3], out(data, 5), out(data, 6),
                out(data, 7), out(data, 8));
  winograd::to_planes(pool(), field, parts[3], features, out(data, 4));
}

// ---- What MindSpore calls

[[noreturn]] void not_float32(const Tensor& tensor) {
  throw std::invalid_argument(std::string(tensor.name) + " is not float32");
}

// 0, or what MindSpore raises as an error; the reason goes to stderr, for MindSpore passes none on.
// Want of memory has its own number: `inference/upscale.py` knows it, and takes smaller tiles.
template <class Work>
int guarded(const char* name, const Work& work) noexcept {
  try {
    work();
    return 0;
  } catch (const std::bad_alloc& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return ENOMEM;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
  } catch (...) {
    std::fprintf(stderr, "%s: unknown error\n", name);
  }
  return 1;
}

using Work = void(const Sizes&, void* const*);

int launch(const Operator& op, Work* work, int count, void** data, const int* ranks, int64_t** shapes,
           const char** types) noexcept {
  return guarded(op.name, [&] {
    if (count != op.count) {
      throw std::invalid_argument(std::to_string(count) + " tensors, needed are " +
                                  std::to_string(op.count) + ", inputs and outputs");
    }
    for (int i = 0; i < count; i++) {
      if (std::strcmp(types[i], "float32") != 0) not_float32(op.tensors[i]);
    }
    work(agree(op, count, ranks, shapes, false), data);
  });
}

// The sizes of `lists` lists of tensors of the same shapes, which come first.
std::vector<size_t> sizes_of(size_t lists, size_t tensors, const int* ranks, int64_t** shapes,
                             const char** types) {
  std::vector<size_t> result;
  for (size_t i = 0; i < lists * tensors; i++) {
    if (std::strcmp(types[i], "float32") != 0) throw std::invalid_argument("a tensor is not float32");
    size_t size = 1;
    for (int k = 0; k < ranks[i]; k++) size *= static_cast<size_t>(shapes[i][k]);
    if (i < tensors) result.push_back(size);
    if (size != result[i % tensors]) throw std::invalid_argument("the lists' tensors differ in size");
  }
  return result;
}

int launch_square_sum(int count, void** data, const int* ranks, int64_t** shapes, const char** types) {
  return guarded("square_sum", [&] {
    if (count < 2) throw std::invalid_argument("no gradients");
    const std::vector<size_t> sizes = sizes_of(1, static_cast<size_t>(count) - 1, ranks, shapes, types);
    float* const result = out(data, sizes.size());
    *result = update::square_sum(pool(), sizes, reinterpret_cast<const float* const*>(data));
  });
}

int launch_adam(int count, void** data, const int* ranks, int64_t** shapes, const char** types) {
  return guarded("adam", [&] {
    const size_t tensors = count < 7 ? 0 : static_cast<size_t>(count - 2) / 5;
    if (tensors == 0 || static_cast<size_t>(count) != 5 * tensors + 2) {
      throw std::invalid_argument("five lists of the same length and `numbers` are needed");
    }
    const std::vector<size_t> sizes = sizes_of(5, tensors, ranks, shapes, types);
    update::Numbers numbers;
    if (ranks[5 * tensors] != 1 || shapes[5 * tensors][0] != sizeof numbers / sizeof(float)) {
      throw std::invalid_argument("`numbers` are not seven");
    }
    std::memcpy(&numbers, data[5 * tensors], sizeof numbers);
    float** const lists = reinterpret_cast<float**>(data);
    update::adam(pool(), sizes, numbers, lists, lists + tensors, lists + 2 * tensors, lists + 3 * tensors,
                 lists + 4 * tensors);
    *out(data, 5 * tensors + 1) = 1;
  });
}

// An output's shape, and all types, from the inputs', before a run: in PyNative at every call, else when
// a graph is compiled, with sizes yet unknown, and again when they are known. MindSpore turns what is
// thrown here into its own exception, with the text.
Shape infer_shape(const Operator& op, const int* ranks, int64_t** shapes, int output) {
  try {
    return spell(agree(op, op.inputs, ranks, shapes, true), op.tensors[op.inputs + output].shape);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string(op.name) + ": " + error.what());
  }
}

constexpr int float32 = 43;  // kNumberTypeFloat32 of MindSpore's enum TypeId
using Types = std::vector<int>;

int infer_type(const Operator& op, const Types& types) {
  for (size_t i = 0; i < types.size() && i < static_cast<size_t>(op.inputs); i++) {
    if (types[i] != float32) not_float32(op.tensors[i]);
  }
  return float32;
}

}  // namespace

// An operator for MindSpore is three functions: NAME, NAMEInferShape and NAMEInferType. With one output
// the latter give a shape and a type, with more a list of them.
#define LAUNCH(NAME, OPERATOR, WORK)                                                                    \
  int NAME(int count, void** data, int* ranks, int64_t** shapes, const char** types, void*, void*) {    \
    return launch(OPERATOR, WORK, count, data, ranks, shapes, types);                                   \
  }
#define SHAPES [[maybe_unused]] int *ranks, [[maybe_unused]] int64_t **shapes, void *
#define SHAPE(OPERATOR, OUTPUT) infer_shape(OPERATOR, ranks, shapes, OUTPUT)
#define ONE_OUTPUT(NAME, OPERATOR, WORK)                                                                \
  LAUNCH(NAME, OPERATOR, WORK)                                                                          \
  Shape NAME##InferShape(SHAPES) { return SHAPE(OPERATOR, 0); }                                         \
  int NAME##InferType(Types types, void*) { return infer_type(OPERATOR, types); }
#define MORE_OUTPUTS(NAME, OPERATOR, WORK, ...)                                                         \
  LAUNCH(NAME, OPERATOR, WORK)                                                                          \
  std::vector<Shape> NAME##InferShape(SHAPES) { return {__VA_ARGS__}; }                                 \
  Types NAME##InferType(Types types, void*) {                                                           \
    return Types(static_cast<size_t>((OPERATOR).count - (OPERATOR).inputs), infer_type(OPERATOR, types)); \
  }

#pragma GCC visibility push(default)
extern "C" {

// To be called once, before all else, with the number of threads.
void sr_start(int threads) { wanted_threads = static_cast<size_t>(threads); }

// What this library was compiled for.
const char* sr_instructions(void) {
#if defined __AVX512F__
  return "AVX-512";
#elif defined __AVX2__ && defined __FMA__
  return "AVX2";
#else
  return "SSE";
#endif
}

ONE_OUTPUT(conv3x3, conv3x3_forward, run_conv3x3)
ONE_OUTPUT(conv3x3_backward_data, conv3x3_data, run_conv3x3_data)
MORE_OUTPUTS(conv3x3_backward_weights, conv3x3_weights, run_conv3x3_weights, SHAPE(conv3x3_weights, 0),
             SHAPE(conv3x3_weights, 1))
ONE_OUTPUT(trunk, trunk_inference, run_trunk)
MORE_OUTPUTS(trunk_fast, trunk_keeping_all, run_trunk_with_tape<2>, SHAPE(trunk_keeping_all, 0),
             SHAPE(trunk_keeping_all, 1))
MORE_OUTPUTS(trunk_low, trunk_keeping_inputs, run_trunk_with_tape<1>, SHAPE(trunk_keeping_inputs, 0),
             SHAPE(trunk_keeping_inputs, 1))
MORE_OUTPUTS(trunk_backward, trunk_gradient, run_trunk_backward, SHAPE(trunk_gradient, 0),
             SHAPE(trunk_gradient, 1), SHAPE(trunk_gradient, 2))

#define OF_LISTS(NAME)                                                                                  \
  int NAME(int count, void** data, int* ranks, int64_t** shapes, const char** types, void*, void*) {    \
    return launch_##NAME(count, data, ranks, shapes, types);                                            \
  }                                                                                                     \
  Shape NAME##InferShape(SHAPES) { return {1}; }                                                        \
  int NAME##InferType(Types, void*) { return float32; }
OF_LISTS(square_sum)
OF_LISTS(adam)

ONE_OUTPUT(upsampler, upsampler_inference, run_upsampler)
MORE_OUTPUTS(upsampler_training, upsampler_keeping, run_upsampler_with_tape,
             SHAPE(upsampler_keeping, 0), SHAPE(upsampler_keeping, 1))
MORE_OUTPUTS(upsampler_backward, upsampler_gradient, run_upsampler_backward, SHAPE(upsampler_gradient, 0),
             SHAPE(upsampler_gradient, 1), SHAPE(upsampler_gradient, 2), SHAPE(upsampler_gradient, 3),
             SHAPE(upsampler_gradient, 4))

}  // extern "C"
#pragma GCC visibility pop
