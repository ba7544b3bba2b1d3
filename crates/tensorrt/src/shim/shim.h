/* The C face of TensorRT that segtrt needs: the same for every release, so that Rust binds it once.
 *
 * Objects of TensorRT are `void *` as the library's entry points give them. No function throws or aborts; each that can
 * fail answers a segtrt_status, each that makes an object answers NULL when TensorRT made none. Strings that TensorRT
 * returns belong to TensorRT and live as long as the object that was asked. */
#ifndef SEGTRT_SHIM_H
#define SEGTRT_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum segtrt_status {
    SEGTRT_OK = 0,
    /* TensorRT said no; its log says why. */
    SEGTRT_REFUSED = 1,
    /* This release has no such method or value. */
    SEGTRT_UNSUPPORTED = 2,
    /* A C++ exception arrived at the boundary and was stopped there. */
    SEGTRT_EXCEPTION = 3
} segtrt_status;

/* Names of values whose numbers differ from release to release; the order is that of the generated tables. */
typedef enum segtrt_flag {
    SEGTRT_FLAG_FP16, SEGTRT_FLAG_BF16, SEGTRT_FLAG_TF32, SEGTRT_FLAG_OBEY_PRECISION, SEGTRT_FLAG_PREFER_PRECISION,
    SEGTRT_FLAG_DISABLE_TIMING_CACHE, SEGTRT_FLAG_ERROR_ON_TIMING_CACHE_MISS, SEGTRT_FLAG_VERSION_COMPATIBLE,
    SEGTRT_FLAG_EXCLUDE_LEAN_RUNTIME, SEGTRT_FLAG_MONITOR_MEMORY
} segtrt_flag;
typedef enum segtrt_pool {
    SEGTRT_POOL_WORKSPACE, SEGTRT_POOL_TACTIC_DRAM, SEGTRT_POOL_TACTIC_SHARED_MEMORY
} segtrt_pool;
typedef enum segtrt_type {
    SEGTRT_TYPE_FLOAT, SEGTRT_TYPE_HALF, SEGTRT_TYPE_INT8, SEGTRT_TYPE_INT32, SEGTRT_TYPE_BOOL, SEGTRT_TYPE_UINT8,
    SEGTRT_TYPE_FP8, SEGTRT_TYPE_BF16, SEGTRT_TYPE_INT64, SEGTRT_TYPE_INT4, SEGTRT_TYPE_FP4
} segtrt_type;
typedef enum segtrt_tactic {
    SEGTRT_TACTIC_CUBLAS, SEGTRT_TACTIC_CUBLAS_LT, SEGTRT_TACTIC_CUDNN, SEGTRT_TACTIC_EDGE_MASK_CONVOLUTIONS,
    SEGTRT_TACTIC_JIT_CONVOLUTIONS
} segtrt_tactic;
typedef enum segtrt_verbosity {
    SEGTRT_VERBOSITY_LAYER_NAMES, SEGTRT_VERBOSITY_NONE, SEGTRT_VERBOSITY_DETAILED
} segtrt_verbosity;
typedef enum segtrt_selector { SEGTRT_SELECTOR_MIN, SEGTRT_SELECTOR_OPT, SEGTRT_SELECTOR_MAX } segtrt_selector;
typedef enum segtrt_mode { SEGTRT_MODE_INPUT, SEGTRT_MODE_OUTPUT } segtrt_mode;
typedef enum segtrt_location { SEGTRT_LOCATION_DEVICE, SEGTRT_LOCATION_HOST } segtrt_location;
typedef enum segtrt_severity {
    SEGTRT_SEVERITY_INTERNAL_ERROR, SEGTRT_SEVERITY_ERROR, SEGTRT_SEVERITY_WARNING, SEGTRT_SEVERITY_INFO,
    SEGTRT_SEVERITY_VERBOSE
} segtrt_severity;

/* Families of releases with one layout of vtables each, in the order of the generated tables. */
typedef enum segtrt_family {
    SEGTRT_FAMILY_TRT8, SEGTRT_FAMILY_TRT10, SEGTRT_FAMILY_TRT11, SEGTRT_FAMILY_RTX13, SEGTRT_FAMILY_RTX15
} segtrt_family;

/* Extents of a tensor; -1 where the network leaves one open. rank -1: no such tensor. */
typedef struct segtrt_dims {
    int32_t rank;
    int64_t extent[8];
} segtrt_dims;

/* What the ONNX parser says about one node; NULL where the release does not say it, node -1 where no node is meant. */
typedef struct segtrt_parser_error {
    int32_t code;
    int32_t node;
    int32_t line;
    const char *description;
    const char *file;
    const char *function;
    const char *node_name;
    const char *node_operator;
} segtrt_parser_error;

/* The facts of one opened library: which layout, which entry points. Made once and kept for the process's life. */
typedef struct segtrt_api segtrt_api;
typedef struct segtrt_entry_points {
    /* extern "C" functions of the library; create_parser may be NULL. */
    void *create_builder;
    void *create_runtime;
    void *create_parser;
    /* What getInferLibVersion() reports, handed back to the first two. */
    int32_t version;
    /* What getNvOnnxParserVersion() reports, handed back to create_parser. */
    int32_t parser_version;
    /* A segtrt_family. */
    int32_t family;
    /* Minor release within the family: 6 for 8.6, 16 for 10.16, 7 for RTX 1.7. */
    int32_t minor;
} segtrt_entry_points;
typedef void (*segtrt_log_fn)(void *user, int32_t severity, const char *message);
segtrt_api *segtrt_api_new(const segtrt_entry_points *entry, segtrt_log_fn log, void *user);

/* The tables themselves, for the tests: slot or value, -1 where a release has none. */
int32_t segtrt_method_count(void);
const char *segtrt_method_name(int32_t method);
int32_t segtrt_method_slot(int32_t family, int32_t minor, int32_t method);
int32_t segtrt_value_count(void);
const char *segtrt_value_name(int32_t value);
int32_t segtrt_value_number(int32_t family, int32_t minor, int32_t value);

/* Callbacks that TensorRT calls, perhaps from its own threads. Each is freed after the object that it was given to. */
typedef struct segtrt_monitor_fns {
    void *user;
    void (*start)(void *user, const char *phase, const char *parent, int32_t steps);
    /* Zero asks TensorRT to stop building. */
    int32_t (*step)(void *user, const char *phase, int32_t step);
    void (*finish)(void *user, const char *phase);
} segtrt_monitor_fns;
void *segtrt_monitor_new(const segtrt_api *api, segtrt_monitor_fns fns);
void segtrt_monitor_delete(const segtrt_api *api, void *monitor);

typedef void (*segtrt_report_fn)(void *user, int32_t code, const char *description);
void *segtrt_recorder_new(const segtrt_api *api, segtrt_report_fn report, void *user);

typedef void (*segtrt_layer_time_fn)(void *user, const char *layer, float milliseconds);
void *segtrt_profiler_new(const segtrt_api *api, segtrt_layer_time_fn report, void *user);
void segtrt_profiler_delete(const segtrt_api *api, void *profiler);

typedef struct segtrt_allocator_fns {
    void *user;
    void *(*allocate)(void *user, uint64_t bytes, uint64_t alignment);
    /* Zero: the memory was not ours. */
    int32_t (*release)(void *user, void *memory);
} segtrt_allocator_fns;
void *segtrt_allocator_new(const segtrt_api *api, segtrt_allocator_fns fns);
void segtrt_allocator_delete(const segtrt_api *api, void *allocator);

/* Deletes any object below but a parser. NULL is ignored. */
void segtrt_object_delete(const segtrt_api *api, void *object);
const void *segtrt_memory_data(const segtrt_api *api, void *memory);
size_t segtrt_memory_size(const segtrt_api *api, void *memory);

/* Building. */
void *segtrt_builder_new(const segtrt_api *api);
void *segtrt_builder_config(const segtrt_api *api, void *builder);
void *segtrt_builder_network(const segtrt_api *api, void *builder, int32_t strongly_typed);
void *segtrt_builder_profile(const segtrt_api *api, void *builder);
segtrt_status segtrt_builder_set_recorder(const segtrt_api *api, void *builder, void *recorder);
segtrt_status segtrt_builder_set_allocator(const segtrt_api *api, void *builder, void *allocator);
void *segtrt_builder_build(const segtrt_api *api, void *builder, void *network, void *config);

segtrt_status segtrt_config_set_flag(const segtrt_api *api, void *config, segtrt_flag flag, int32_t on);
int32_t segtrt_config_flag(const segtrt_api *api, void *config, segtrt_flag flag);
segtrt_status segtrt_config_set_pool(const segtrt_api *api, void *config, segtrt_pool pool, size_t bytes);
/* SIZE_MAX where the release has no such pool. */
size_t segtrt_config_pool(const segtrt_api *api, void *config, segtrt_pool pool);
segtrt_status segtrt_config_set_level(const segtrt_api *api, void *config, int32_t level);
segtrt_status segtrt_config_set_verbosity(const segtrt_api *api, void *config, segtrt_verbosity verbosity);
/* `sources`: bits of segtrt_tactic; those that the release does not have are left out. */
segtrt_status segtrt_config_set_tactics(const segtrt_api *api, void *config, uint32_t sources);
segtrt_status segtrt_config_set_timing_runs(const segtrt_api *api, void *config, int32_t runs);
segtrt_status segtrt_config_set_monitor(const segtrt_api *api, void *config, void *monitor);
/* `sm`: compute capabilities as numbers, 86 for 8.6. */
segtrt_status segtrt_config_set_targets(const segtrt_api *api, void *config, const int32_t *sm, int32_t count);
int32_t segtrt_config_add_profile(const segtrt_api *api, void *config, void *profile);
/* Gives the configuration a timing cache that starts with `data`; the object lives as long as the configuration. */
void *segtrt_config_timing_cache(const segtrt_api *api, void *config, const void *data, size_t size);
segtrt_status segtrt_config_use_timing_cache(const segtrt_api *api, void *config, void *cache);
/* Takes what another timing cache knows into the one in use; the other one stays the caller's. */
segtrt_status segtrt_config_combine_timing_cache(const segtrt_api *api, void *config, void *other);
/* The cache in use, as memory to be deleted. */
void *segtrt_config_timing_cache_bytes(const segtrt_api *api, void *config);
segtrt_status segtrt_profile_set(const segtrt_api *api, void *profile, const char *input, segtrt_selector selector,
                                 const segtrt_dims *dims);

/* A network and the parser that fills it. The parser owns the weights: it must outlive the build. */
void *segtrt_parser_new(const segtrt_api *api, void *network);
void segtrt_parser_delete(const segtrt_api *api, void *parser);
int32_t segtrt_parser_parse(const segtrt_api *api, void *parser, const char *path);
int32_t segtrt_parser_errors(const segtrt_api *api, void *parser);
segtrt_status segtrt_parser_error_at(const segtrt_api *api, void *parser, int32_t index, segtrt_parser_error *out);
int32_t segtrt_network_inputs(const segtrt_api *api, void *network);
int32_t segtrt_network_outputs(const segtrt_api *api, void *network);
int32_t segtrt_network_layers(const segtrt_api *api, void *network);
void *segtrt_network_input(const segtrt_api *api, void *network, int32_t index);
void *segtrt_network_output(const segtrt_api *api, void *network, int32_t index);
void *segtrt_network_layer(const segtrt_api *api, void *network, int32_t index);
const char *segtrt_tensor_name(const segtrt_api *api, void *tensor);
segtrt_dims segtrt_tensor_dims(const segtrt_api *api, void *tensor);
/* A segtrt_type, or -1. */
int32_t segtrt_tensor_type(const segtrt_api *api, void *tensor);
const char *segtrt_layer_name(const segtrt_api *api, void *layer);
/* TensorRT's name of the layer's kind ("SOFTMAX"), or NULL where the tables do not have it. */
const char *segtrt_layer_kind(const segtrt_api *api, void *layer);
int32_t segtrt_layer_outputs(const segtrt_api *api, void *layer);
int32_t segtrt_layer_output_type(const segtrt_api *api, void *layer, int32_t index);
/* Computes in `type`, and writes in it every output that is floating point. */
segtrt_status segtrt_layer_pin(const segtrt_api *api, void *layer, segtrt_type type);

/* Running. */
void *segtrt_runtime_new(const segtrt_api *api);
segtrt_status segtrt_runtime_set_recorder(const segtrt_api *api, void *runtime, void *recorder);
segtrt_status segtrt_runtime_set_allocator(const segtrt_api *api, void *runtime, void *allocator);
void *segtrt_runtime_engine(const segtrt_api *api, void *runtime, const void *plan, size_t size);

int32_t segtrt_engine_tensors(const segtrt_api *api, void *engine);
const char *segtrt_engine_tensor(const segtrt_api *api, void *engine, int32_t index);
int32_t segtrt_engine_tensor_mode(const segtrt_api *api, void *engine, const char *tensor);
int32_t segtrt_engine_tensor_type(const segtrt_api *api, void *engine, const char *tensor);
int32_t segtrt_engine_tensor_location(const segtrt_api *api, void *engine, const char *tensor);
const char *segtrt_engine_tensor_format(const segtrt_api *api, void *engine, const char *tensor);
segtrt_dims segtrt_engine_tensor_dims(const segtrt_api *api, void *engine, const char *tensor);
int32_t segtrt_engine_profiles(const segtrt_api *api, void *engine);
segtrt_dims segtrt_engine_profile_dims(const segtrt_api *api, void *engine, const char *tensor, int32_t profile,
                                       segtrt_selector selector);
int32_t segtrt_engine_layers(const segtrt_api *api, void *engine);
const char *segtrt_engine_name(const segtrt_api *api, void *engine);
/* Bytes that a context needs; profile -1: for any profile. -1 where the release cannot say. */
int64_t segtrt_engine_memory(const segtrt_api *api, void *engine, int32_t profile);
void *segtrt_engine_inspector(const segtrt_api *api, void *engine);
/* Layer -1: the whole engine. `json` 0: one line each. */
const char *segtrt_inspector_text(const segtrt_api *api, void *inspector, int32_t layer, int32_t json);
/* `own_memory` 0: the caller sets the device memory before the first enqueue. */
void *segtrt_engine_context(const segtrt_api *api, void *engine, int32_t own_memory);

segtrt_status segtrt_context_set_profiler(const segtrt_api *api, void *context, void *profiler);
segtrt_status segtrt_context_report(const segtrt_api *api, void *context);
segtrt_status segtrt_context_emit_profile(const segtrt_api *api, void *context, int32_t on);
segtrt_status segtrt_context_set_profile(const segtrt_api *api, void *context, int32_t profile, void *stream);
int32_t segtrt_context_profile(const segtrt_api *api, void *context);
segtrt_status segtrt_context_set_shape(const segtrt_api *api, void *context, const char *tensor,
                                       const segtrt_dims *dims);
segtrt_dims segtrt_context_shape(const segtrt_api *api, void *context, const char *tensor);
segtrt_status segtrt_context_set_address(const segtrt_api *api, void *context, const char *tensor, void *address);
segtrt_status segtrt_context_set_memory(const segtrt_api *api, void *context, void *memory, int64_t size);
/* How many tensors still lack a shape or address; up to `capacity` of their names. Negative: TensorRT cannot say. */
int32_t segtrt_context_missing(const segtrt_api *api, void *context, const char **names, int32_t capacity);
segtrt_status segtrt_context_enqueue(const segtrt_api *api, void *context, void *stream);

#ifdef __cplusplus
}
#endif
#endif
