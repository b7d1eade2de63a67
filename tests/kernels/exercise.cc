// The operators over odd shapes, from several threads, in a forked process: against sums written out.
// tests/kernels/test_sanitizers.py builds it, with the sanitizers, and runs it. Silent when all is well.

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
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
const char* conv3x3_start(int threads);
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

  // All four results as sums in double: within 1e-5 of the sum of the absolute terms.
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
      for (size_t k = 0; k < sums.sum.size(); k++) {
        require(std::abs(found.values[k] - sums.sum[k]) <= 1e-5 * sums.size[k] + 1e-30, what, name());
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

void more_shapes_than_are_kept() {
  for (int64_t w = 1; w < 150; w++) {
    Case each(1, 2, 3, w, 3);
    each.run();
    each.check();
  }
}

}  // namespace

int main(int count, char** words) {
  require(conv3x3_start(3) == nullptr, "it says it can't", "start");
  std::vector<Case> all = cases();
  for (Case& each : all) {
    each.run();
    each.check();
  }
  from_threads(all);
  more_shapes_than_are_kept();
  if (count > 1 && std::strcmp(words[1], "fork") == 0) from_a_fork(all);
}
