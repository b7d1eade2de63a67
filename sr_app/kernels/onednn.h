// The part of oneDNN's C interface that we use, declared by ourselves: oneDNN 3 keeps it stable, and
// so no package of headers is needed. MindSpore ships the library (lib/libdnnl.so.3, the thread pool
// runtime). tests/kernels/test_onednn_header.py holds this file against oneDNN's own headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

extern "C" {

typedef enum { dnnl_success = 0 } dnnl_status_t;
typedef enum { dnnl_f32 = 3 } dnnl_data_type_t;
typedef enum { dnnl_format_tag_any = 1, dnnl_a = 2, dnnl_abcd = 5 } dnnl_format_tag_t;
typedef enum { dnnl_cpu = 1 } dnnl_engine_kind_t;
typedef enum { dnnl_forward_training = 64 } dnnl_prop_kind_t;
typedef enum { dnnl_convolution_direct = 1 } dnnl_alg_kind_t;
typedef enum { dnnl_scratchpad_mode_user = 1 } dnnl_scratchpad_mode_t;
typedef enum { dnnl_query_scratchpad_md = 136, dnnl_query_exec_arg_md = 255 } dnnl_query_t;

enum {
  DNNL_ARG_SRC = 1,
  DNNL_ARG_DST = 17,
  DNNL_ARG_WEIGHTS = 33,
  DNNL_ARG_BIAS = 41,
  DNNL_ARG_SCRATCHPAD = 80,
  DNNL_ARG_DIFF_SRC = 129,
  DNNL_ARG_DIFF_DST = 145,
  DNNL_ARG_DIFF_WEIGHTS = 161,
  DNNL_ARG_DIFF_BIAS = 169,
  DNNL_RUNTIME_THREADPOOL = 8,
};

typedef struct dnnl_engine* dnnl_engine_t;
typedef struct dnnl_stream* dnnl_stream_t;
typedef struct dnnl_memory* dnnl_memory_t;
typedef struct dnnl_memory_desc* dnnl_memory_desc_t;
typedef const struct dnnl_memory_desc* const_dnnl_memory_desc_t;
typedef struct dnnl_primitive* dnnl_primitive_t;
typedef const struct dnnl_primitive* const_dnnl_primitive_t;
typedef struct dnnl_primitive_desc* dnnl_primitive_desc_t;
typedef const struct dnnl_primitive_desc* const_dnnl_primitive_desc_t;
typedef struct dnnl_primitive_attr* dnnl_primitive_attr_t;
typedef const struct dnnl_primitive_attr* const_dnnl_primitive_attr_t;
typedef int64_t dnnl_dims_t[12];

typedef struct {
  int arg;
  dnnl_memory_t memory;
} dnnl_exec_arg_t;

typedef struct {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
} dnnl_version_t;

const dnnl_version_t* dnnl_version(void);
dnnl_status_t dnnl_engine_create(dnnl_engine_t*, dnnl_engine_kind_t, size_t index);

dnnl_status_t dnnl_threadpool_interop_stream_create(dnnl_stream_t*, dnnl_engine_t, void* pool);
dnnl_status_t dnnl_threadpool_interop_get_max_concurrency(int*);
dnnl_status_t dnnl_threadpool_interop_set_max_concurrency(int);
dnnl_status_t dnnl_stream_wait(dnnl_stream_t);
dnnl_status_t dnnl_stream_destroy(dnnl_stream_t);

dnnl_status_t dnnl_memory_desc_create_with_tag(dnnl_memory_desc_t*, int ndims, const dnnl_dims_t,
                                               dnnl_data_type_t, dnnl_format_tag_t);
int dnnl_memory_desc_equal(const_dnnl_memory_desc_t, const_dnnl_memory_desc_t);
size_t dnnl_memory_desc_get_size(const_dnnl_memory_desc_t);
dnnl_status_t dnnl_memory_desc_destroy(dnnl_memory_desc_t);
dnnl_status_t dnnl_memory_create(dnnl_memory_t*, const_dnnl_memory_desc_t, dnnl_engine_t, void* data);
dnnl_status_t dnnl_memory_destroy(dnnl_memory_t);

dnnl_status_t dnnl_primitive_attr_create(dnnl_primitive_attr_t*);
dnnl_status_t dnnl_primitive_attr_set_scratchpad_mode(dnnl_primitive_attr_t, dnnl_scratchpad_mode_t);
dnnl_status_t dnnl_primitive_attr_destroy(dnnl_primitive_attr_t);

dnnl_status_t dnnl_convolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t*, dnnl_engine_t, dnnl_prop_kind_t, dnnl_alg_kind_t,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t bias,
    const_dnnl_memory_desc_t dst, const dnnl_dims_t strides, const dnnl_dims_t dilates,
    const dnnl_dims_t padding_before, const dnnl_dims_t padding_after, const_dnnl_primitive_attr_t);
dnnl_status_t dnnl_convolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t*, dnnl_engine_t, dnnl_alg_kind_t, const_dnnl_memory_desc_t diff_src,
    const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t diff_dst, const dnnl_dims_t strides,
    const dnnl_dims_t dilates, const dnnl_dims_t padding_before, const dnnl_dims_t padding_after,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t);
dnnl_status_t dnnl_convolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t*, dnnl_engine_t, dnnl_alg_kind_t, const_dnnl_memory_desc_t src,
    const_dnnl_memory_desc_t diff_weights, const_dnnl_memory_desc_t diff_bias,
    const_dnnl_memory_desc_t diff_dst, const dnnl_dims_t strides, const dnnl_dims_t dilates,
    const dnnl_dims_t padding_before, const dnnl_dims_t padding_after,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t);
dnnl_status_t dnnl_reorder_primitive_desc_create(dnnl_primitive_desc_t*, const_dnnl_memory_desc_t from,
                                                 dnnl_engine_t, const_dnnl_memory_desc_t to,
                                                 dnnl_engine_t, const_dnnl_primitive_attr_t);
const_dnnl_memory_desc_t dnnl_primitive_desc_query_md(const_dnnl_primitive_desc_t, dnnl_query_t,
                                                      int index);
dnnl_status_t dnnl_primitive_desc_destroy(dnnl_primitive_desc_t);

dnnl_status_t dnnl_primitive_create(dnnl_primitive_t*, const_dnnl_primitive_desc_t);
dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t, dnnl_stream_t, int count,
                                     const dnnl_exec_arg_t*);
dnnl_status_t dnnl_primitive_destroy(dnnl_primitive_t);

}  // extern "C"

// What dnnl_threadpool_interop_stream_create wants: only the order of these functions matters.
// oneDNN never deletes a pool, so there is no virtual destructor.
struct ThreadPool {
  virtual int get_num_threads() const = 0;
  virtual bool get_in_parallel() const = 0;
  virtual void parallel_for(int count, const std::function<void(int, int)>& work) = 0;
  virtual uint64_t get_flags() const = 0;  // 0: parallel_for returns when all is done
  virtual void wait() = 0;

 protected:
  ~ThreadPool() = default;
};
