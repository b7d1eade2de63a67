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
// A 3x3 convolution has stride 1 and zero padding 1. A trunk is EDSR's: blocks x + scale * conv(relu(
// conv(x))), a closing convolution and a skip around all; its l = 2 * blocks + 1 convolutions' weights are
// stacked. `settings` are the scale and the slope of the ReLU's gradient on the negative side. The tape
// holds what the backward needs: each block's input and, if fast, what its ReLU gives, which low computes
// again.
//
// Arrays come and go as MindSpore holds them (nchw, dense); inside they are pixels (winograd.h), the
// tape's too. Weights are packed at every call: nothing is kept that could become stale or be shared. All
// may be called from several threads at once.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "pool.h"
#include "winograd.h"

namespace {

using winograd::Field;
using winograd::Vector;
using winograd::load;
using winograd::padded;
using winograd::store;

// ---- The operators as data: their tensors, inputs first, each with its shape in letters

struct Tensor {
  const char* name;
  const char* shape;
};

struct Operator {
  const char* name;
  int inputs, count;
  Tensor tensors[8];
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

// ---- Shapes

constexpr int64_t unknown = -1;       // MindSpore's mark of a size that only a run will show,
constexpr int64_t unknown_rank = -2;  // and, as {-2}, of a shape of which nothing is known
constexpr char letters[] = "nchwoltkp";

using Shape = std::vector<int64_t>;
using Sizes = std::array<int64_t, sizeof letters - 1>;  // of the letters

int64_t& size_of(Sizes& sizes, char letter) {
  return sizes[static_cast<size_t>(std::strchr(letters, letter) - letters)];
}

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
  }
  // What follows from others: a tape holds the input of each block and of the closing convolution.
  if (size_of(sizes, 'c') != unknown) {
    size_of(sizes, 'p') = static_cast<int64_t>(padded(static_cast<size_t>(size_of(sizes, 'c'))));
  }
  const int64_t layers = size_of(sizes, 'l');
  if (layers != unknown) {
    if (layers % 2 == 0) throw std::invalid_argument("weights of an even number of convolutions");
    size_of(sizes, 'k') = (layers + 1) / 2;
  }
  return sizes;
}

// ---- What lives as long as the process; never freed, so that nothing is used after its end

size_t wanted_threads = 1;  // sr_start sets it before anything runs

Pool& pool() {
  static Pool& made = *new Pool(wanted_threads);
  return made;
}

// ---- Memory

// Working memory, kept from call to call: mapping its pages anew took a tenth of a training step.
// A block serves one call at a time and grows to what the largest call needed; so there are as many
// as there were calls at once, of which `most` are kept, none of them over `largest` bytes.
class Block {
 public:
  explicit Block(size_t bytes) {
    {
      const std::lock_guard<std::mutex> lock(mutex());
      if (!kept().empty()) {
        memory_ = std::move(kept().back());
        kept().pop_back();
      }
    }
    if (memory_.bytes < bytes) {
      memory_.start.reset();  // before the larger one is taken
      memory_.start.reset(static_cast<char*>(std::aligned_alloc(alignment, bytes)));
      memory_.bytes = memory_.start ? bytes : 0;
      if (!memory_.start) throw std::bad_alloc();
    }
  }
  Block(const Block&) = delete;
  ~Block() {
    if (memory_.bytes == 0 || memory_.bytes > largest) return;
    const std::lock_guard<std::mutex> lock(mutex());
    if (kept().size() < most) kept().push_back(std::move(memory_));
  }

  char* start() const { return memory_.start.get(); }

  static constexpr size_t alignment = 64;
  static size_t rounded(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

 private:
  struct Memory {
    std::unique_ptr<char, void (*)(void*)> start{nullptr, std::free};
    size_t bytes = 0;
  };
  static constexpr size_t most = 4, largest = size_t{1} << 28;

  static std::mutex& mutex() {
    static std::mutex& made = *new std::mutex;
    return made;
  }
  static std::vector<Memory>& kept() {
    static std::vector<Memory>& made = *[] {
      auto* const blocks = new std::vector<Memory>;
      blocks->reserve(most);  // so that to keep one never fails
      return blocks;
    }();
    return made;
  }

  Memory memory_;
};

// ---- The operators' work

size_t u(int64_t size) { return static_cast<size_t>(size); }

struct Case {  // of a call: what its letters stand for
  explicit Case(Sizes sizes)
      : field{u(size_of(sizes, 'n')), u(size_of(sizes, 'h')), u(size_of(sizes, 'w'))},
        inputs(u(size_of(sizes, 'c'))),
        outputs(u(size_of(sizes, 'o'))),
        layers(u(size_of(sizes, 'l'))),
        tape(u(size_of(sizes, 't'))) {}

  Field field;
  size_t inputs, outputs, layers, tape;
};

// The parts of a call's memory: each on a line of the cache of its own.
class Parts {
 public:
  explicit Parts(std::initializer_list<size_t> floats) : block_(bytes(floats)) {
    char* next = block_.start();
    for (const size_t count : floats) {
      starts_.push_back(reinterpret_cast<float*>(next));
      next += Block::rounded(count * sizeof(float));
    }
  }
  float* operator[](size_t part) const { return starts_[part]; }

 private:
  static size_t bytes(std::initializer_list<size_t> floats) {
    size_t sum = 0;
    for (const size_t count : floats) sum += Block::rounded(count * sizeof(float));
    return sum;
  }
  Block block_;
  std::vector<float*> starts_;
};

size_t packed_size(size_t inputs, size_t outputs) {
  return winograd::places * padded(inputs) * padded(outputs);
}

const float* in(void* const* data, size_t place) { return static_cast<const float*>(data[place]); }
float* out(void* const* data, size_t place) { return static_cast<float*>(data[place]); }

void pad_biases(const float* biases, size_t count, float scale, float* to) {
  std::fill(to, to + padded(count), 0.0f);
  for (size_t k = 0; k < count; k++) to[k] = scale * biases[k];
}

void run_conv3x3(const Case& of, void* const* data) {
  const size_t pixels = of.field.pixels(), inputs = padded(of.inputs), outputs = padded(of.outputs);
  const Parts parts{pixels * inputs, pixels * outputs, packed_size(inputs, outputs), outputs};
  float *const x = parts[0], *const y = parts[1], *const packed = parts[2], *const biases = parts[3];
  winograd::to_pixels(pool(), of.field, in(data, 0), of.inputs, x);
  winograd::pack(pool(), in(data, 1), of.outputs, of.inputs, false, 1, packed);
  pad_biases(in(data, 2), of.outputs, 1, biases);
  winograd::convolve(pool(), of.field, x, inputs, packed, outputs, [=](Vector v, size_t at, size_t k) {
    store(y + at, v + load(biases + k));
  });
  winograd::to_planes(pool(), of.field, y, of.outputs, out(data, 3));
}

void run_conv3x3_data(const Case& of, void* const* data) {
  const size_t pixels = of.field.pixels(), inputs = padded(of.inputs), outputs = padded(of.outputs);
  const Parts parts{pixels * outputs, pixels * inputs, packed_size(inputs, outputs)};
  float *const dy = parts[0], *const dx = parts[1], *const packed = parts[2];
  winograd::to_pixels(pool(), of.field, in(data, 0), of.outputs, dy);
  winograd::pack(pool(), in(data, 1), of.outputs, of.inputs, true, 1, packed);
  winograd::convolve(pool(), of.field, dy, outputs, packed, inputs,
                     [=](Vector v, size_t at, size_t) { store(dx + at, v); });
  winograd::to_planes(pool(), of.field, dx, of.inputs, out(data, 2));
}

void run_conv3x3_weights(const Case& of, void* const* data) {
  const size_t pixels = of.field.pixels();
  const Parts parts{pixels * padded(of.inputs), pixels * padded(of.outputs),
                    pool().threads() * winograd::sums_size(of.inputs, of.outputs)};
  winograd::to_pixels(pool(), of.field, in(data, 0), of.inputs, parts[0]);
  winograd::to_pixels(pool(), of.field, in(data, 1), of.outputs, parts[1]);
  winograd::weight_gradients(pool(), of.field, parts[0], of.inputs, parts[1], of.outputs, 1, parts[2],
                             out(data, 2), out(data, 3));
}

// A trunk's convolutions, one at a time, on pixels.
class Trunk {
 public:
  Trunk(const Case& of, const float* weights, const float* biases, const float* settings, float* packed,
        float* padded_biases)
      : field(of.field),
        features(of.inputs),
        channels(padded(of.inputs)),
        blocks((of.layers - 1) / 2),
        scale(settings[0]),
        slope(settings[1]),
        weights_(weights),
        biases_(biases),
        packed_(packed),
        padded_biases_(padded_biases) {}

  size_t size() const { return field.pixels() * channels; }

  // y = relu(conv(x))
  void first(size_t block, const float* x, float* y) const {
    prepare(2 * block, 1, false);
    const float* const biases = padded_biases_;
    run(x, [=](Vector v, size_t at, size_t k) {
      v += load(biases + k);
      store(y + at, v > 0 ? v : Vector{});
    });
  }

  // y = before + scale * conv(x); y may be `before`
  void second(size_t layer, float scale_, const float* x, const float* before, float* y) const {
    prepare(layer, scale_, false);
    const float* const biases = padded_biases_;
    run(x, [=](Vector v, size_t at, size_t k) {
      store(y + at, v + load(biases + k) + load(before + at));
    });
  }

  // dx = the gradient through scale * conv and the ReLU that gave y
  void back_second(size_t block, const float* dy, const float* y, float* dx) const {
    prepare(2 * block + 1, scale, true);
    const Vector leak = Vector{} + slope;
    run(dy, [=](Vector v, size_t at, size_t) {
      store(dx + at, load(y + at) > 0 ? v : v * leak);
    });
  }

  // dx = the gradient through conv
  void back_last(const float* dy, float* dx) const {
    prepare(2 * blocks, 1, true);
    run(dy, [=](Vector v, size_t at, size_t) { store(dx + at, v); });
  }

  // dx += the gradient through conv
  void back_first(size_t block, const float* dy, float* dx) const {
    prepare(2 * block, 1, true);
    run(dy, [=](Vector v, size_t at, size_t) { store(dx + at, v + load(dx + at)); });
  }

  const Field field;
  const size_t features, channels, blocks;
  const float scale, slope;

 private:
  void prepare(size_t layer, float factor, bool turned) const {
    winograd::pack(pool(), weights_ + layer * 9 * features * features, features, features, turned, factor,
                   packed_);
    pad_biases(biases_ + layer * features, features, factor, padded_biases_);
  }

  template <class Finish>
  void run(const float* x, const Finish& finish) const {
    winograd::convolve(pool(), field, x, channels, packed_, channels, finish);
  }

  const float *weights_, *biases_;
  float *packed_, *padded_biases_;
};

// Where x, as it enters a block, and what the block's ReLU gives are kept.
struct Tape {
  float* start;
  size_t size, step;  // step: 2, or 1 where only the former is kept

  float* input(size_t block) const { return start + block * step * size; }
  float* inside(size_t block) const { return input(block) + size; }
};

void run_trunk(const Case& of, void* const* data) {
  const size_t size = of.field.pixels() * padded(of.inputs);
  const Parts parts{size, size, size, packed_size(of.inputs, of.inputs), padded(of.inputs)};
  float *const before = parts[0], *const x = parts[1], *const h = parts[2];
  const Trunk trunk(of, in(data, 1), in(data, 2), in(data, 3), parts[3], parts[4]);
  winograd::to_pixels(pool(), of.field, in(data, 0), of.inputs, before);
  for (size_t block = 0; block < trunk.blocks; block++) {
    const float* const entering = block == 0 ? before : x;
    trunk.first(block, entering, h);
    trunk.second(2 * block + 1, trunk.scale, h, entering, x);
  }
  trunk.second(2 * trunk.blocks, 1, trunk.blocks == 0 ? before : x, before, h);
  winograd::to_planes(pool(), of.field, h, of.inputs, out(data, 4));
}

template <size_t step>
void run_trunk_with_tape(const Case& of, void* const* data) {
  const size_t size = of.field.pixels() * padded(of.inputs);
  const Parts parts{size, packed_size(of.inputs, of.inputs), padded(of.inputs)};
  const Trunk trunk(of, in(data, 1), in(data, 2), in(data, 3), parts[1], parts[2]);
  const Tape tape{out(data, 5), size, step};
  winograd::to_pixels(pool(), of.field, in(data, 0), of.inputs, tape.input(0));
  for (size_t block = 0; block < trunk.blocks; block++) {
    float* const h = step == 2 ? tape.inside(block) : parts[0];
    trunk.first(block, tape.input(block), h);
    trunk.second(2 * block + 1, trunk.scale, h, tape.input(block), tape.input(block + 1));
  }
  trunk.second(2 * trunk.blocks, 1, tape.input(trunk.blocks), tape.input(0), parts[0]);
  winograd::to_planes(pool(), of.field, parts[0], of.inputs, out(data, 4));
}

void run_trunk_backward(const Case& of, void* const* data) {
  const size_t size = of.field.pixels() * padded(of.inputs), features = of.inputs;
  const bool all = of.tape == of.layers;
  if (!all && of.tape != (of.layers + 1) / 2) throw std::invalid_argument("tape is of another trunk");
  const Parts parts{size, size, size, all ? 0 : size, packed_size(features, features), padded(features),
                    pool().threads() * winograd::sums_size(features, features)};
  float *const dy = parts[0], *const d = parts[1], *const inside = parts[2];
  const Trunk trunk(of, in(data, 2), in(data, 3), in(data, 4), parts[4], parts[5]);
  const Tape tape{out(data, 1), size, all ? size_t{2} : size_t{1}};
  const auto weights = [&](size_t layer, float scale, const float* x, const float* gradient) {
    winograd::weight_gradients(pool(), of.field, x, features, gradient, features, scale, parts[6],
                               out(data, 6) + layer * 9 * features * features,
                               out(data, 7) + layer * features);
  };
  winograd::to_pixels(pool(), of.field, in(data, 0), features, dy);
  weights(2 * trunk.blocks, 1, tape.input(trunk.blocks), dy);
  trunk.back_last(dy, d);
  for (size_t block = trunk.blocks; block-- > 0;) {
    const float* h = parts[3];
    if (all) {
      h = tape.inside(block);
    } else {
      trunk.first(block, tape.input(block), parts[3]);
    }
    weights(2 * block + 1, trunk.scale, h, d);
    trunk.back_second(block, d, h, inside);
    weights(2 * block, 1, tape.input(block), inside);
    trunk.back_first(block, inside, d);
  }
  for (size_t k = 0; k < size; k++) d[k] += dy[k];
  winograd::to_planes(pool(), of.field, d, features, out(data, 5));
}

// ---- What MindSpore calls

[[noreturn]] void not_float32(const Tensor& tensor) {
  throw std::invalid_argument(std::string(tensor.name) + " is not float32");
}

using Work = void(const Case&, void* const*);

// 0, or what MindSpore raises as an error; the reason goes to stderr, for MindSpore passes none on.
int launch(const Operator& op, Work* work, int count, void** data, const int* ranks, int64_t** shapes,
           const char** types) noexcept {
  try {
    if (count != op.count) {
      throw std::invalid_argument(std::to_string(count) + " tensors, needed are " +
                                  std::to_string(op.count) + ", inputs and outputs");
    }
    for (int i = 0; i < count; i++) {
      if (std::strcmp(types[i], "float32") != 0) not_float32(op.tensors[i]);
    }
    work(Case(agree(op, count, ranks, shapes, false)), data);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", op.name, error.what());
  } catch (...) {
    std::fprintf(stderr, "%s: unknown error\n", op.name);
  }
  return 1;
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
#define SHAPES int *ranks, int64_t **shapes, void *
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

}  // extern "C"
#pragma GCC visibility pop
