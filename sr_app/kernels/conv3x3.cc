// 3x3 convolution with bias, stride 1, zero padding 1, float32: three operators for MindSpore's
// ops.Custom (func_type "aot") that let oneDNN choose the layout of the data. MindSpore's own
// convolution pins plain layouts, for which oneDNN has slow kernels only.
//
//   conv3x3                   x, weight, bias -> y
//   conv3x3_backward_data     dy, weight      -> dx
//   conv3x3_backward_weights  x, dy           -> dweight, dbias
//
// Arrays come and go as MindSpore holds them (nchw, dense). Where the chosen layout is another one,
// they are reordered in memory that is lent to the call, the weights too, at every call: nothing is
// kept that could become stale or be shared. All may be called from several threads at once.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "onednn.h"
#include "pool.h"

namespace {

// ---- The operators as data: their tensors, inputs first, each with its shape in letters

struct Tensor {
  int argument;  // oneDNN's number for it
  const char* name;
  const char* shape;
};

struct Operator {
  const char* name;
  int inputs, count;
  Tensor tensors[4];
};

constexpr Operator forward{"conv3x3",
                           3,
                           4,
                           {{DNNL_ARG_SRC, "x", "nchw"},
                            {DNNL_ARG_WEIGHTS, "weight", "oc33"},
                            {DNNL_ARG_BIAS, "bias", "o"},
                            {DNNL_ARG_DST, "y", "nohw"}}};
constexpr Operator backward_data{"conv3x3_backward_data",
                                 2,
                                 3,
                                 {{DNNL_ARG_DIFF_DST, "dy", "nohw"},
                                  {DNNL_ARG_WEIGHTS, "weight", "oc33"},
                                  {DNNL_ARG_DIFF_SRC, "dx", "nchw"}}};
constexpr Operator backward_weights{"conv3x3_backward_weights",
                                    2,
                                    4,
                                    {{DNNL_ARG_SRC, "x", "nchw"},
                                     {DNNL_ARG_DIFF_DST, "dy", "nohw"},
                                     {DNNL_ARG_DIFF_WEIGHTS, "dweight", "oc33"},
                                     {DNNL_ARG_DIFF_BIAS, "dbias", "o"}}};

// ---- Shapes

constexpr int64_t unknown = -1;       // MindSpore's mark of a size that only a run will show,
constexpr int64_t unknown_rank = -2;  // and, as {-2}, of a shape of which nothing is known
constexpr char letters[] = "nchwo";

using Shape = std::vector<int64_t>;
using Sizes = std::array<int64_t, 5>;  // of the letters

int64_t& size_of(Sizes& sizes, char letter) {
  return sizes[std::strchr(letters, letter) - letters];
}

Shape spell(Sizes sizes, const char* shape) {
  Shape result;
  for (; *shape; shape++) result.push_back(*shape == '3' ? 3 : size_of(sizes, *shape));
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
      int64_t three = 3;
      int64_t& size = tensor.shape[k] == '3' ? three : size_of(sizes, tensor.shape[k]);
      if (size == unknown) size = found[k];
      fits = (maybe_unknown && found[k] == unknown) || (found[k] == size && size > 0);
    }
    if (!fits) {
      throw std::invalid_argument(std::string(tensor.name) + " has the shape " + text(found) +
                                  ", needed is " + tensor.shape + " with n, c, h, w, o = " +
                                  text(Shape(sizes.begin(), sizes.end())));
    }
  }
  return sizes;
}

// ---- oneDNN's objects, which free themselves, and its errors as exceptions

void check(dnnl_status_t status, const char* what) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success) {
    throw std::runtime_error(std::string("oneDNN can't make or run ") + what + ", status " +
                             std::to_string(status));
  }
}

template <class T>
using Owner = std::unique_ptr<T, dnnl_status_t (*)(T*)>;

template <class T, class Create, class... Arguments>
Owner<T> make(const char* what, dnnl_status_t (*destroy)(T*), Create create, Arguments... arguments) {
  T* made = nullptr;
  check(create(&made, arguments...), what);
  return Owner<T>(made, destroy);
}

using Layout = Owner<dnnl_memory_desc>;
using Description = Owner<dnnl_primitive_desc>;

Layout layout(const Shape& shape, dnnl_format_tag_t tag) {
  dnnl_dims_t sizes{};
  std::copy(shape.begin(), shape.end(), sizes);
  return make("a layout", dnnl_memory_desc_destroy, dnnl_memory_desc_create_with_tag,
              static_cast<int>(shape.size()), static_cast<const int64_t*>(sizes), dnnl_f32, tag);
}

Layout plain(const Shape& shape) { return layout(shape, shape.size() == 1 ? dnnl_a : dnnl_abcd); }

// ---- What lives as long as the process; never freed, so that nothing is used after its end

int wanted_threads = 1;  // conv3x3_start sets it before anything runs

Pool& pool() {
  static Pool& made = *new Pool(wanted_threads);
  return made;
}

dnnl_engine_t engine() {
  static const dnnl_engine_t made = [] {
    dnnl_engine_t result = nullptr;
    check(dnnl_engine_create(&result, dnnl_cpu, 0), "an engine");
    return result;
  }();
  return made;
}

// oneDNN cuts a primitive's work by a number that belongs to the thread which makes the primitive.
// MindSpore's own operators are made on the same threads, so it is put back.
class Concurrency {
 public:
  Concurrency() {
    check(dnnl_threadpool_interop_get_max_concurrency(&before_), "a thread count");
    check(dnnl_threadpool_interop_set_max_concurrency(pool().get_num_threads()), "a thread count");
  }
  Concurrency(const Concurrency&) = delete;
  ~Concurrency() { dnnl_threadpool_interop_set_max_concurrency(before_); }

 private:
  int before_ = 0;
};

// ---- One call

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

// The memory and the stream of a call.
class Call {
 public:
  explicit Call(size_t bytes)
      : block_(bytes),
        next_(block_.start()),
        stream_(make("a stream", dnnl_stream_destroy, dnnl_threadpool_interop_stream_create,
                     engine(), static_cast<void*>(&pool()))) {}

  void* take(size_t bytes) {
    void* const taken = next_;
    next_ += Block::rounded(bytes);
    return taken;
  }

  dnnl_memory_t tensor(const_dnnl_memory_desc_t layout, void* data) {
    tensors_.push_back(
        make("a tensor", dnnl_memory_destroy, dnnl_memory_create, layout, engine(), data));
    return tensors_.back().get();
  }

  dnnl_stream_t stream() const { return stream_.get(); }

 private:
  Block block_;
  char* next_;
  Owner<dnnl_stream> stream_;
  std::vector<Owner<dnnl_memory>> tensors_;
};

// A convolution or a reorder, ready to run.
class Step {
 public:
  explicit Step(Description description)
      : description_(std::move(description)),
        primitive_(make("a primitive", dnnl_primitive_destroy, dnnl_primitive_create,
                        static_cast<const_dnnl_primitive_desc_t>(description_.get()))) {}

  const_dnnl_memory_desc_t layout(dnnl_query_t query, int index) const {
    return dnnl_primitive_desc_query_md(description_.get(), query, index);
  }

  size_t scratch() const { return dnnl_memory_desc_get_size(layout(dnnl_query_scratchpad_md, 0)); }

  void run(Call& call, void* scratch, std::vector<dnnl_exec_arg_t> tensors) const {
    if (this->scratch() > 0) {
      tensors.push_back(
          {DNNL_ARG_SCRATCHPAD, call.tensor(layout(dnnl_query_scratchpad_md, 0), scratch)});
    }
    check(dnnl_primitive_execute(primitive_.get(), call.stream(), static_cast<int>(tensors.size()),
                                 tensors.data()),
          "a primitive");
  }

 private:
  Description description_;
  Owner<dnnl_primitive> primitive_;
};

// ---- An operator for one shape

class Plan {
 public:
  Plan(const Operator& op, const Sizes& sizes)
      : op_(op),
        attributes_(make("attributes", dnnl_primitive_attr_destroy, dnnl_primitive_attr_create)) {
    const Concurrency concurrency;
    // oneDNN's own scratch memory belongs to the thread that makes a primitive; ours to the call.
    check(dnnl_primitive_attr_set_scratchpad_mode(attributes_.get(), dnnl_scratchpad_mode_user),
          "the scratch memory's mode");
    convolution_ = std::make_unique<Step>(describe(sizes));
    scratch_ = convolution_->scratch();
    for (int i = 0; i < op.count; i++) place(i, spell(sizes, op.tensors[i].shape));
  }

  // data: the tensors' values, inputs first.
  void run(void* const* data) const {
    Call call(Block::rounded(scratch_) + bytes_);
    void* const scratch = call.take(scratch_);
    std::vector<dnnl_exec_arg_t> arguments;
    std::vector<std::pair<const Step*, std::vector<dnnl_exec_arg_t>>> last;
    for (int i = 0; i < op_.count; i++) {
      const Place& place = places_[i];
      dnnl_memory_t tensor = call.tensor(place.outside.get(), data[i]);
      if (place.reorder) {
        const dnnl_memory_t inside = call.tensor(place.inside, call.take(place.bytes));
        const bool input = i < op_.inputs;
        std::vector<dnnl_exec_arg_t> both{{DNNL_ARG_SRC, input ? tensor : inside},
                                          {DNNL_ARG_DST, input ? inside : tensor}};
        if (input) {
          place.reorder->run(call, scratch, std::move(both));
        } else {
          last.emplace_back(place.reorder.get(), std::move(both));
        }
        tensor = inside;
      }
      arguments.push_back({op_.tensors[i].argument, tensor});
    }
    convolution_->run(call, scratch, std::move(arguments));
    for (auto& [reorder, both] : last) reorder->run(call, scratch, std::move(both));
    check(dnnl_stream_wait(call.stream()), "a stream");
  }

 private:
  struct Place {
    Layout outside;                   // as MindSpore holds the tensor
    const_dnnl_memory_desc_t inside;  // as the convolution wants it
    size_t bytes;
    std::unique_ptr<Step> reorder;  // none where the two are the same
  };

  Description describe(const Sizes& sizes) const {
    const auto any = [&](const char* shape) { return layout(spell(sizes, shape), dnnl_format_tag_any); };
    const Layout x = any("nchw"), weight = any("oc33"), y = any("nohw");
    const Layout bias = plain(spell(sizes, "o"));
    static constexpr dnnl_dims_t ones{1, 1}, zeros{0, 0};
    Description ahead = make("conv3x3", dnnl_primitive_desc_destroy,
                             dnnl_convolution_forward_primitive_desc_create, engine(),
                             dnnl_forward_training, dnnl_convolution_direct, x.get(), weight.get(),
                             bias.get(), y.get(), ones, zeros, ones, ones, attributes_.get());
    if (&op_ == &forward) return ahead;
    if (&op_ == &backward_data) {
      return make(op_.name, dnnl_primitive_desc_destroy,
                  dnnl_convolution_backward_data_primitive_desc_create, engine(),
                  dnnl_convolution_direct, x.get(), weight.get(), y.get(), ones, zeros, ones, ones,
                  ahead.get(), attributes_.get());
    }
    return make(op_.name, dnnl_primitive_desc_destroy,
                dnnl_convolution_backward_weights_primitive_desc_create, engine(),
                dnnl_convolution_direct, x.get(), weight.get(), bias.get(), y.get(), ones, zeros,
                ones, ones, ahead.get(), attributes_.get());
  }

  void place(int i, const Shape& shape) {
    Place place{plain(shape), convolution_->layout(dnnl_query_exec_arg_md, op_.tensors[i].argument),
                0, nullptr};
    if (!dnnl_memory_desc_equal(place.outside.get(), place.inside)) {
      const_dnnl_memory_desc_t from = place.outside.get(), to = place.inside;
      if (i >= op_.inputs) std::swap(from, to);
      place.reorder = std::make_unique<Step>(
          make("a reorder", dnnl_primitive_desc_destroy, dnnl_reorder_primitive_desc_create, from,
               engine(), to, engine(), attributes_.get()));
      place.bytes = dnnl_memory_desc_get_size(place.inside);
      bytes_ += Block::rounded(place.bytes);
      scratch_ = std::max(scratch_, place.reorder->scratch());
    }
    places_.push_back(std::move(place));
  }

  const Operator& op_;
  Owner<dnnl_primitive_attr> attributes_;
  std::unique_ptr<Step> convolution_;
  std::vector<Place> places_;
  size_t scratch_ = 0, bytes_ = 0;  // of working memory: for a step at a time, for all tensors inside
};

// The plans of an operator, the last used first; so many that a run with pictures of many sizes does
// not grow without bound, and a network's own shapes all stay.
class Plans {
 public:
  std::shared_ptr<const Plan> of(const Operator& op, const Sizes& sizes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find_if(plans_.begin(), plans_.end(),
                                    [&](const auto& entry) { return entry.first == sizes; });
    if (found != plans_.end()) {
      plans_.splice(plans_.begin(), plans_, found);
    } else {
      plans_.emplace_front(sizes, std::make_shared<const Plan>(op, sizes));
      if (plans_.size() > most) plans_.pop_back();
    }
    return plans_.front().second;
  }

 private:
  static constexpr size_t most = 64;
  std::mutex mutex_;
  std::list<std::pair<Sizes, std::shared_ptr<const Plan>>> plans_;
};

// ---- What MindSpore calls

[[noreturn]] void not_float32(const Tensor& tensor) {
  throw std::invalid_argument(std::string(tensor.name) + " is not float32");
}

// 0, or what MindSpore raises as an error (ENOMEM for want of memory); the reason goes to stderr, for MindSpore passes none on.
template <const Operator& op>
int launch(int count, void** data, const int* ranks, int64_t** shapes, const char** types) noexcept {
  static Plans& plans = *new Plans;
  try {
    if (count != op.count) {
      throw std::invalid_argument(std::to_string(count) + " tensors, needed are " +
                                  std::to_string(op.count) + ", inputs and outputs");
    }
    for (int i = 0; i < count; i++) {
      if (std::strcmp(types[i], "float32") != 0) not_float32(op.tensors[i]);
    }
    plans.of(op, agree(op, count, ranks, shapes, false))->run(data);
    return 0;
  } catch (const std::bad_alloc&) {  // known by its number: `upscale` goes on with smaller tiles
    std::fprintf(stderr, "%s: out of memory\n", op.name);
    return ENOMEM;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", op.name, error.what());
  } catch (...) {
    std::fprintf(stderr, "%s: unknown error\n", op.name);
  }
  return 1;
}

// The outputs' shapes and types, from the inputs', before a run: in PyNative at every call, else when
// a graph is compiled, with sizes yet unknown, and again when they are known. MindSpore turns what is
// thrown here into its own exception, with the text.
template <const Operator& op>
Shape infer_shape(const int* ranks, int64_t** shapes, int output) {
  try {
    return spell(agree(op, op.inputs, ranks, shapes, true), op.tensors[op.inputs + output].shape);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string(op.name) + ": " + error.what());
  }
}

constexpr int float32 = 43;  // kNumberTypeFloat32 of MindSpore's enum TypeId
using Types = std::vector<int>;

template <const Operator& op>
int infer_type(const Types& types) {
  for (size_t i = 0; i < types.size() && i < static_cast<size_t>(op.inputs); i++) {
    if (types[i] != float32) not_float32(op.tensors[i]);
  }
  return float32;
}

}  // namespace

#define LAUNCH int count, void **data, int *ranks, int64_t **shapes, const char **types, void *, void *
#define SHAPES int *ranks, int64_t **shapes, void *
#define TYPES Types types, void *

#pragma GCC visibility push(default)
extern "C" {

// To be called once, before all else, with the number of threads. Null, or why all this can't work.
const char* conv3x3_start(int threads) {
  const dnnl_version_t* version = dnnl_version();
  if (version->major != 3 || version->cpu_runtime != DNNL_RUNTIME_THREADPOOL) {
    return "MindSpore's oneDNN is not of version 3, or doesn't take threads of ours";
  }
  wanted_threads = threads;
  return nullptr;
}

int conv3x3(LAUNCH) { return launch<forward>(count, data, ranks, shapes, types); }
Shape conv3x3InferShape(SHAPES) { return infer_shape<forward>(ranks, shapes, 0); }
int conv3x3InferType(TYPES) { return infer_type<forward>(types); }

int conv3x3_backward_data(LAUNCH) {
  return launch<backward_data>(count, data, ranks, shapes, types);
}
Shape conv3x3_backward_dataInferShape(SHAPES) {
  return infer_shape<backward_data>(ranks, shapes, 0);
}
int conv3x3_backward_dataInferType(TYPES) { return infer_type<backward_data>(types); }

int conv3x3_backward_weights(LAUNCH) {
  return launch<backward_weights>(count, data, ranks, shapes, types);
}
std::vector<Shape> conv3x3_backward_weightsInferShape(SHAPES) {
  return {infer_shape<backward_weights>(ranks, shapes, 0),
          infer_shape<backward_weights>(ranks, shapes, 1)};
}
Types conv3x3_backward_weightsInferType(TYPES) { return Types(2, infer_type<backward_weights>(types)); }

}  // extern "C"
#pragma GCC visibility pop
