// The operators over odd shapes, from several threads, in a forked process. Convolutions against sums
// written out, the fused operators against convolutions.
// tests/kernels/test_sanitizers.py builds it, with the sanitizers, and runs it. Silent when all is well.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" {
using Function = int(int, void**, int*, int64_t**, const char**, void*, void*);
Function conv3x3, conv3x3_backward_data, conv3x3_backward_weights;
Function trunk, trunk_fast, trunk_low, trunk_backward;
Function upsampler, upsampler_training, upsampler_backward;
void sr_start(int threads);
}

namespace {

void require(bool holds, const char* what, const std::string& where) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", where.c_str(), what);
  std::exit(1);
}

struct Array {
  std::vector<int64_t> shape;
  std::vector<float> values;

  explicit Array(std::vector<int64_t> sizes) : shape(std::move(sizes)) {
    size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    values.assign(count, NAN);
  }
  Array& fill(unsigned seed) {
    std::mt19937 random(seed);
    for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random);
    return *this;
  }
};

int call(Function* function, std::vector<Array*> arrays) {
  std::vector<void*> data;
  std::vector<int> ranks;
  std::vector<int64_t*> shapes;
  for (Array* array : arrays) {
    data.push_back(array->values.data());
    ranks.push_back(static_cast<int>(array->shape.size()));
    shapes.push_back(array->shape.data());
  }
  std::vector<const char*> types(arrays.size(), "float32");
  return function(static_cast<int>(arrays.size()), data.data(), ranks.data(), shapes.data(),
                  types.data(), nullptr, nullptr);
}

struct Case {
  int64_t n, c, h, w, o;
  Array x{{n, c, h, w}}, weight{{o, c, 3, 3}}, bias{{o}}, y{{n, o, h, w}};
  Array dy{{n, o, h, w}}, dx{{n, c, h, w}}, dweight{{o, c, 3, 3}}, dbias{{o}};

  Case(int64_t n_, int64_t c_, int64_t h_, int64_t w_, int64_t o_)
      : n(n_), c(c_), h(h_), w(w_), o(o_) {
    x.fill(1), weight.fill(2), bias.fill(3), dy.fill(4);
  }

  std::string name() const {
    std::string text = "n, c, h, w, o =";
    for (const int64_t size : {n, c, h, w, o}) text += " " + std::to_string(size);
    return text;
  }

  void run() {
    require(call(conv3x3, {&x, &weight, &bias, &y}) == 0, "forward fails", name());
    require(call(conv3x3_backward_data, {&dy, &weight, &dx}) == 0, "backward data fails", name());
    require(call(conv3x3_backward_weights, {&x, &dy, &dweight, &dbias}) == 0,
            "backward weights fails", name());
  }

  // All four results as sums in double: within 1e-5 of the largest sum of absolute terms, since the
  // transforms mix neighbours.
  void check() const {
    struct Sums {
      std::vector<double> sum, size;
      explicit Sums(const Array& of) : sum(of.values.size()), size(of.values.size()) {}
      void add(size_t at, double term) { sum[at] += term, size[at] += std::abs(term); }
    } ys(y), dxs(dx), dweights(dweight), dbiases(dbias);
    for (int64_t i = 0; i < n; i++)
      for (int64_t b = 0; b < o; b++)
        for (int64_t r = 0; r < h; r++)
          for (int64_t s = 0; s < w; s++) {
            const size_t out = static_cast<size_t>(((i * o + b) * h + r) * w + s);
            const double up = dy.values[out];
            ys.add(out, bias.values[static_cast<size_t>(b)]);
            dbiases.add(static_cast<size_t>(b), up);
            for (int64_t a = 0; a < c; a++)
              for (int64_t p = 0; p < 3; p++)
                for (int64_t q = 0; q < 3; q++) {
                  const int64_t row = r + p - 1, column = s + q - 1;
                  if (row < 0 || row >= h || column < 0 || column >= w) continue;
                  const size_t in = static_cast<size_t>(((i * c + a) * h + row) * w + column);
                  const size_t tap = static_cast<size_t>(((b * c + a) * 3 + p) * 3 + q);
                  ys.add(out, double(x.values[in]) * weight.values[tap]);
                  dxs.add(in, up * weight.values[tap]);
                  dweights.add(tap, up * x.values[in]);
                }
          }
    const auto compare = [&](const Sums& sums, const Array& found, const char* what) {
      const double largest = *std::max_element(sums.size.begin(), sums.size.end());
      for (size_t k = 0; k < sums.sum.size(); k++) {
        require(std::abs(found.values[k] - sums.sum[k]) <= 1e-5 * largest, what, name());
      }
    };
    compare(ys, y, "wrong y");
    compare(dxs, dx, "wrong dx");
    compare(dweights, dweight, "wrong dweight");
    compare(dbiases, dbias, "wrong dbias");
  }

  bool same_results(const Case& other) const {
    return y.values == other.y.values && dx.values == other.dx.values &&
           dweight.values == other.dweight.values && dbias.values == other.dbias.values;
  }
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const int64_t n : {1, 3})
    for (const int64_t c : {1, 3, 16})
      for (const int64_t o : {1, 8, 13}) {
        result.emplace_back(n, c, 1, 1, o);
        result.emplace_back(n, c, 7, 13, o);
      }
  result.emplace_back(1, 3, 1, 4096, 8);
  result.emplace_back(1, 8, 4096, 1, 3);
  result.emplace_back(2, 32, 23, 29, 64);
  result.emplace_back(1, 64, 16, 16, 64);
  return result;
}

void from_threads(const std::vector<Case>& wanted) {
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      for (size_t k = 0; k < wanted.size(); k++) {
        const Case& right = wanted[(k + 7 * t) % wanted.size()];
        Case mine(right.n, right.c, right.h, right.w, right.o);
        mine.run();
        require(mine.same_results(right), "other results in a thread", mine.name());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// It has none of its parent's threads and must not wait for them.
void from_a_fork(const std::vector<Case>& wanted) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    for (const Case& right : wanted) {
      Case mine(right.n, right.c, right.h, right.w, right.o);
      mine.run();
      require(mine.same_results(right), "other results in a fork", mine.name());
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  require(status == 0, "the child fails", "a forked process");
}

void require_close(const Array& found, const Array& wanted, const char* what, const std::string& where) {
  float largest = 0;
  for (const float value : wanted.values) largest = std::max(largest, std::abs(value));
  for (size_t k = 0; k < wanted.values.size(); k++) {
    require(std::abs(found.values[k] - wanted.values[k]) <= 1e-5f * largest, what, where);
  }
}

Array part(const Array& stack, int64_t k) {
  Array result({stack.shape.begin() + 1, stack.shape.end()});
  const auto size = static_cast<std::ptrdiff_t>(result.values.size());
  std::copy_n(stack.values.begin() + k * size, size, result.values.begin());
  return result;
}

Array convolved(Array x, Array weight, Array bias) {
  Array y({x.shape[0], weight.shape[0], x.shape[2], x.shape[3]});
  require(call(conv3x3, {&x, &weight, &bias, &y}) == 0, "conv3x3 fails", "convolved");
  return y;
}

int64_t padded(int64_t channels, int64_t width) { return (channels + width - 1) / width * width; }

void trunk_case(int64_t n, int64_t c, int64_t h, int64_t w, int64_t blocks, int64_t width) {
  const std::string where = "trunk of " + std::to_string(c);
  const int64_t layers = 2 * blocks + 1;
  Array x({n, c, h, w}), weights({layers, c, c, 3, 3}), biases({layers, c}), settings({2});
  x.fill(1), weights.fill(2), biases.fill(3);
  settings.values = {0.5f, 0.01f};
  Array wanted = x;
  for (int64_t block = 0; block < blocks; block++) {
    Array inside = convolved(wanted, part(weights, 2 * block), part(biases, 2 * block));
    for (float& value : inside.values) value = std::max(value, 0.0f);
    const Array added = convolved(inside, part(weights, 2 * block + 1), part(biases, 2 * block + 1));
    for (size_t k = 0; k < wanted.values.size(); k++) wanted.values[k] += 0.5f * added.values[k];
  }
  wanted = convolved(wanted, part(weights, layers - 1), part(biases, layers - 1));
  for (size_t k = 0; k < wanted.values.size(); k++) wanted.values[k] += x.values[k];

  Array y(x.shape), fast(x.shape), low(x.shape), dy(x.shape);
  Array whole({layers, n, h, w, padded(c, width)}), half({blocks + 1, n, h, w, padded(c, width)});
  dy.fill(4);
  require(call(trunk, {&x, &weights, &biases, &settings, &y}) == 0, "fails", where);
  require(call(trunk_fast, {&x, &weights, &biases, &settings, &fast, &whole}) == 0, "fails", where);
  require(call(trunk_low, {&x, &weights, &biases, &settings, &low, &half}) == 0, "fails", where);
  require_close(y, wanted, "wrong y", where);
  require(fast.values == y.values && low.values == y.values, "results differ by the tape", where);
  Array dx[2] = {Array(x.shape), Array(x.shape)};
  Array dweights[2] = {Array(weights.shape), Array(weights.shape)};
  Array dbiases[2] = {Array(biases.shape), Array(biases.shape)};
  for (int k = 0; k < 2; k++) {
    require(call(trunk_backward, {&dy, k ? &half : &whole, &weights, &biases, &settings, &dx[k],
                                  &dweights[k], &dbiases[k]}) == 0, "backward fails", where);
  }
  require(dx[0].values == dx[1].values && dweights[0].values == dweights[1].values &&
              dbiases[0].values == dbiases[1].values, "gradients differ by the tape", where);
  for (const Array* each : {&dx[0], &dweights[0], &dbiases[0]}) {
    for (const float value : each->values) require(std::isfinite(value), "not all written", where);
  }
}

void upsampler_case(int64_t n, int64_t c, int64_t h, int64_t w, int64_t factor, int64_t stages,
                    int64_t width) {
  const std::string where = "upsampler of " + std::to_string(c);
  const int64_t q = factor * factor * c;
  int64_t all = 1, kept = 1;
  for (int64_t k = 0; k < stages; k++) all *= factor, kept += all * all;
  Array x({n, c, h, w}), weights({stages, q, c, 3, 3}), biases({stages, q}), tail({3, c, 3, 3}), bias({3});
  x.fill(1), weights.fill(2), biases.fill(3), tail.fill(4), bias.fill(5);
  Array wanted = x;
  for (int64_t stage = 0; stage < stages; stage++) {
    const Array before = convolved(wanted, part(weights, stage), part(biases, stage));
    const int64_t hh = before.shape[2], ww = before.shape[3];
    wanted = Array({n, c, factor * hh, factor * ww});
    for (int64_t k = 0; k < static_cast<int64_t>(before.values.size()); k++) {
      const int64_t xx = k % ww, yy = k / ww % hh, channel = k / (ww * hh) % q, i = k / (ww * hh * q);
      const int64_t row = yy * factor + channel % (factor * factor) / factor;
      const int64_t column = xx * factor + channel % factor, to = channel / (factor * factor);
      wanted.values[static_cast<size_t>(((i * c + to) * factor * hh + row) * factor * ww + column)] =
          before.values[static_cast<size_t>(k)];
    }
  }
  wanted = convolved(wanted, tail, bias);
  Array y(wanted.shape), again(wanted.shape), dy(wanted.shape), tape({kept, n, h, w, padded(c, width)});
  Array dx(x.shape), dweights(weights.shape), dbiases(biases.shape), dtail(tail.shape), dbias(bias.shape);
  dy.fill(6);
  require(call(upsampler, {&x, &weights, &biases, &tail, &bias, &y}) == 0, "fails", where);
  require(call(upsampler_training, {&x, &weights, &biases, &tail, &bias, &again, &tape}) == 0, "fails",
          where);
  require_close(y, wanted, "wrong y", where);
  require(again.values == y.values, "results differ by the tape", where);
  require(call(upsampler_backward, {&dy, &tape, &weights, &tail, &dx, &dweights, &dbiases, &dtail,
                                    &dbias}) == 0, "backward fails", where);
  for (const Array* each : {&dx, &dweights, &dbiases, &dtail, &dbias}) {
    for (const float value : each->values) require(std::isfinite(value), "not all written", where);
  }
}

void fused(int64_t width) {
  for (const int64_t c : {1, 5, 8, 16, 33}) {
    for (const int64_t side : {1, 4, 7}) {
      trunk_case(2, c, side, side + 2, c % 3, width);
      upsampler_case(2, c, side, side + 2, 2 + c % 2, 1 + side % 2, width);
    }
  }
}

}  // namespace

// Words: the number of floats in a vector, and "fork" to do that, too.
int main(int count, char** words) {
  require(count > 1, "a vector's width is needed", "start");
  sr_start(3);
  std::vector<Case> all = cases();
  for (Case& each : all) {
    each.run();
    each.check();
  }
  fused(std::atoi(words[1]));
  from_threads(all);
  if (count > 2 && std::strcmp(words[2], "fork") == 0) from_a_fork(all);
}
