/* The C interface of TensorRT for Rust: the same for every release, so that it is bound once.
 *
 * Objects of TensorRT are `void *` as the library's entry points give them. No function throws or aborts; each that can
 * fail answers a trtdl_status, each that makes an object answers NULL when TensorRT made none. Strings that TensorRT
 * returns belong to TensorRT and live as long as the object that was asked. */
#ifndef TRTDL_SHIM_H
#define TRTDL_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum trtdl_status {
    TRTDL_OK = 0,
    /* TensorRT said no; its log says why. */
    TRTDL_REFUSED = 1,
    /* This release has no such method or value. */
    TRTDL_UNSUPPORTED = 2,
    /* A C++ exception arrived at the boundary and was stopped there. */
    TRTDL_EXCEPTION = 3
} trtdl_status;

/* Names of values whose numbers differ from release to release; the order is that of the generated tables. */
typedef enum trtdl_flag {
    TRTDL_FLAG_FP16, TRTDL_FLAG_BF16, TRTDL_FLAG_TF32, TRTDL_FLAG_OBEY_PRECISION, TRTDL_FLAG_PREFER_PRECISION,
    TRTDL_FLAG_DISABLE_TIMING_CACHE, TRTDL_FLAG_ERROR_ON_TIMING_CACHE_MISS, TRTDL_FLAG_VERSION_COMPATIBLE,
    TRTDL_FLAG_EXCLUDE_LEAN_RUNTIME, TRTDL_FLAG_MONITOR_MEMORY
} trtdl_flag;
typedef enum trtdl_pool {
    TRTDL_POOL_WORKSPACE, TRTDL_POOL_TACTIC_DRAM, TRTDL_POOL_TACTIC_SHARED_MEMORY
} trtdl_pool;
typedef enum trtdl_type {
    TRTDL_TYPE_FLOAT, TRTDL_TYPE_HALF, TRTDL_TYPE_INT8, TRTDL_TYPE_INT32, TRTDL_TYPE_BOOL, TRTDL_TYPE_UINT8,
    TRTDL_TYPE_FP8, TRTDL_TYPE_BF16, TRTDL_TYPE_INT64, TRTDL_TYPE_INT4, TRTDL_TYPE_FP4
} trtdl_type;
typedef enum trtdl_tactic {
    TRTDL_TACTIC_CUBLAS, TRTDL_TACTIC_CUBLAS_LT, TRTDL_TACTIC_CUDNN, TRTDL_TACTIC_EDGE_MASK_CONVOLUTIONS,
    TRTDL_TACTIC_JIT_CONVOLUTIONS
} trtdl_tactic;
typedef enum trtdl_verbosity {
    TRTDL_VERBOSITY_LAYER_NAMES, TRTDL_VERBOSITY_NONE, TRTDL_VERBOSITY_DETAILED
} trtdl_verbosity;
typedef enum trtdl_selector { TRTDL_SELECTOR_MIN, TRTDL_SELECTOR_OPT, TRTDL_SELECTOR_MAX } trtdl_selector;
typedef enum trtdl_mode { TRTDL_MODE_INPUT, TRTDL_MODE_OUTPUT } trtdl_mode;
typedef enum trtdl_location { TRTDL_LOCATION_DEVICE, TRTDL_LOCATION_HOST } trtdl_location;
typedef enum trtdl_severity {
    TRTDL_SEVERITY_INTERNAL_ERROR, TRTDL_SEVERITY_ERROR, TRTDL_SEVERITY_WARNING, TRTDL_SEVERITY_INFO,
    TRTDL_SEVERITY_VERBOSE
} trtdl_severity;

/* Families of releases with one layout of vtables each, in the order of the generated tables. */
typedef enum trtdl_family {
    TRTDL_FAMILY_TRT8, TRTDL_FAMILY_TRT10, TRTDL_FAMILY_TRT11, TRTDL_FAMILY_RTX13, TRTDL_FAMILY_RTX15
} trtdl_family;

/* Extents of a tensor; -1 where the network leaves one open. rank -1: no such tensor. */
typedef struct trtdl_dims {
    int32_t rank;
    int64_t extent[8];
} trtdl_dims;

/* What the ONNX parser says about one node; NULL where the release does not say it, node -1 where no node is meant. */
typedef struct trtdl_parser_error {
    int32_t code;
    int32_t node;
    int32_t line;
    const char *description;
    const char *file;
    const char *function;
    const char *node_name;
    const char *node_operator;
} trtdl_parser_error;

/* The facts of one opened library: which layout, which entry points. Made once and kept for the process's life. */
typedef struct trtdl_api trtdl_api;
typedef struct trtdl_entry_points {
    /* extern "C" functions of the library; create_parser may be NULL. */
    void *create_builder;
    void *create_runtime;
    void *create_parser;
    /* What getInferLibVersion() reports, handed back to the first two. */
    int32_t version;
    /* What getNvOnnxParserVersion() reports, handed back to create_parser. */
    int32_t parser_version;
    /* A trtdl_family. */
    int32_t family;
    /* Minor release within the family: 6 for 8.6, 16 for 10.16, 7 for RTX 1.7. */
    int32_t minor;
} trtdl_entry_points;
typedef void (*trtdl_log_fn)(void *user, int32_t severity, const char *message);
trtdl_api *trtdl_api_new(const trtdl_entry_points *entry, trtdl_log_fn log, void *user);

/* The tables themselves, for the tests: slot or value, -1 where a release has none. */
int32_t trtdl_method_count(void);
const char *trtdl_method_name(int32_t method);
int32_t trtdl_method_slot(int32_t family, int32_t minor, int32_t method);
int32_t trtdl_value_count(void);
const char *trtdl_value_name(int32_t value);
int32_t trtdl_value_number(int32_t family, int32_t minor, int32_t value);

/* Callbacks that TensorRT calls, perhaps from its own threads. Each is freed after the object that it was given to. */
typedef struct trtdl_monitor_fns {
    void *user;
    void (*start)(void *user, const char *phase, const char *parent, int32_t steps);
    /* Zero asks TensorRT to stop building. */
    int32_t (*step)(void *user, const char *phase, int32_t step);
    void (*finish)(void *user, const char *phase);
} trtdl_monitor_fns;
void *trtdl_monitor_new(const trtdl_api *api, trtdl_monitor_fns fns);
void trtdl_monitor_delete(const trtdl_api *api, void *monitor);

typedef void (*trtdl_report_fn)(void *user, int32_t code, const char *description);
void *trtdl_recorder_new(const trtdl_api *api, trtdl_report_fn report, void *user);

typedef void (*trtdl_layer_time_fn)(void *user, const char *layer, float milliseconds);
void *trtdl_profiler_new(const trtdl_api *api, trtdl_layer_time_fn report, void *user);
void trtdl_profiler_delete(const trtdl_api *api, void *profiler);

typedef struct trtdl_allocator_fns {
    void *user;
    void *(*allocate)(void *user, uint64_t bytes, uint64_t alignment);
    /* Zero: the memory was not ours. */
    int32_t (*release)(void *user, void *memory);
} trtdl_allocator_fns;
void *trtdl_allocator_new(const trtdl_api *api, trtdl_allocator_fns fns);
void trtdl_allocator_delete(const trtdl_api *api, void *allocator);

/* Deletes any object below but a parser. NULL is ignored. */
void trtdl_object_delete(const trtdl_api *api, void *object);
const void *trtdl_memory_data(const trtdl_api *api, void *memory);
size_t trtdl_memory_size(const trtdl_api *api, void *memory);

/* Building. */
void *trtdl_builder_new(const trtdl_api *api);
void *trtdl_builder_config(const trtdl_api *api, void *builder);
void *trtdl_builder_network(const trtdl_api *api, void *builder, int32_t strongly_typed);
void *trtdl_builder_profile(const trtdl_api *api, void *builder);
trtdl_status trtdl_builder_set_recorder(const trtdl_api *api, void *builder, void *recorder);
trtdl_status trtdl_builder_set_allocator(const trtdl_api *api, void *builder, void *allocator);
void *trtdl_builder_build(const trtdl_api *api, void *builder, void *network, void *config);

trtdl_status trtdl_config_set_flag(const trtdl_api *api, void *config, trtdl_flag flag, int32_t on);
int32_t trtdl_config_flag(const trtdl_api *api, void *config, trtdl_flag flag);
trtdl_status trtdl_config_set_pool(const trtdl_api *api, void *config, trtdl_pool pool, size_t bytes);
/* SIZE_MAX where the release has no such pool. */
size_t trtdl_config_pool(const trtdl_api *api, void *config, trtdl_pool pool);
trtdl_status trtdl_config_set_level(const trtdl_api *api, void *config, int32_t level);
trtdl_status trtdl_config_set_ampere_plus(const trtdl_api *api, void *config, int32_t on);
trtdl_status trtdl_config_set_verbosity(const trtdl_api *api, void *config, trtdl_verbosity verbosity);
/* `sources`: bits of trtdl_tactic; those that the release does not have are left out. */
trtdl_status trtdl_config_set_tactics(const trtdl_api *api, void *config, uint32_t sources);
trtdl_status trtdl_config_set_timing_runs(const trtdl_api *api, void *config, int32_t runs);
trtdl_status trtdl_config_set_monitor(const trtdl_api *api, void *config, void *monitor);
/* `sm`: compute capabilities as numbers, 86 for 8.6. */
trtdl_status trtdl_config_set_targets(const trtdl_api *api, void *config, const int32_t *sm, int32_t count);
int32_t trtdl_config_add_profile(const trtdl_api *api, void *config, void *profile);
/* Gives the configuration a timing cache that starts with `data`; the object lives as long as the configuration. */
void *trtdl_config_timing_cache(const trtdl_api *api, void *config, const void *data, size_t size);
trtdl_status trtdl_config_use_timing_cache(const trtdl_api *api, void *config, void *cache);
/* Takes what another timing cache knows into the one in use; the other one stays the caller's. */
trtdl_status trtdl_config_combine_timing_cache(const trtdl_api *api, void *config, void *other);
/* The cache in use, as memory to be deleted. */
void *trtdl_config_timing_cache_bytes(const trtdl_api *api, void *config);
trtdl_status trtdl_profile_set(const trtdl_api *api, void *profile, const char *input, trtdl_selector selector,
                                 const trtdl_dims *dims);

/* A network and the parser that fills it. The parser owns the weights: it must outlive the build. */
void *trtdl_parser_new(const trtdl_api *api, void *network);
void trtdl_parser_delete(const trtdl_api *api, void *parser);
int32_t trtdl_parser_parse(const trtdl_api *api, void *parser, const char *path);
int32_t trtdl_parser_errors(const trtdl_api *api, void *parser);
trtdl_status trtdl_parser_error_at(const trtdl_api *api, void *parser, int32_t index, trtdl_parser_error *out);
int32_t trtdl_network_inputs(const trtdl_api *api, void *network);
int32_t trtdl_network_outputs(const trtdl_api *api, void *network);
int32_t trtdl_network_layers(const trtdl_api *api, void *network);
void *trtdl_network_input(const trtdl_api *api, void *network, int32_t index);
void *trtdl_network_output(const trtdl_api *api, void *network, int32_t index);
void *trtdl_network_layer(const trtdl_api *api, void *network, int32_t index);
const char *trtdl_tensor_name(const trtdl_api *api, void *tensor);
trtdl_dims trtdl_tensor_dims(const trtdl_api *api, void *tensor);
/* A trtdl_type, or -1. */
int32_t trtdl_tensor_type(const trtdl_api *api, void *tensor);
const char *trtdl_layer_name(const trtdl_api *api, void *layer);
/* TensorRT's name of the layer's kind ("SOFTMAX"), or NULL where the tables do not have it. */
const char *trtdl_layer_kind(const trtdl_api *api, void *layer);
int32_t trtdl_layer_outputs(const trtdl_api *api, void *layer);
int32_t trtdl_layer_output_type(const trtdl_api *api, void *layer, int32_t index);
/* Computes in `type`, and writes in it every output that is floating point. */
trtdl_status trtdl_layer_pin(const trtdl_api *api, void *layer, trtdl_type type);

/* Running. */
void *trtdl_runtime_new(const trtdl_api *api);
trtdl_status trtdl_runtime_set_recorder(const trtdl_api *api, void *runtime, void *recorder);
trtdl_status trtdl_runtime_set_allocator(const trtdl_api *api, void *runtime, void *allocator);
void *trtdl_runtime_engine(const trtdl_api *api, void *runtime, const void *plan, size_t size);

int32_t trtdl_engine_tensors(const trtdl_api *api, void *engine);
const char *trtdl_engine_tensor(const trtdl_api *api, void *engine, int32_t index);
int32_t trtdl_engine_tensor_mode(const trtdl_api *api, void *engine, const char *tensor);
int32_t trtdl_engine_tensor_type(const trtdl_api *api, void *engine, const char *tensor);
int32_t trtdl_engine_tensor_location(const trtdl_api *api, void *engine, const char *tensor);
const char *trtdl_engine_tensor_format(const trtdl_api *api, void *engine, const char *tensor);
trtdl_dims trtdl_engine_tensor_dims(const trtdl_api *api, void *engine, const char *tensor);
int32_t trtdl_engine_profiles(const trtdl_api *api, void *engine);
trtdl_dims trtdl_engine_profile_dims(const trtdl_api *api, void *engine, const char *tensor, int32_t profile,
                                       trtdl_selector selector);
int32_t trtdl_engine_layers(const trtdl_api *api, void *engine);
const char *trtdl_engine_name(const trtdl_api *api, void *engine);
/* Bytes that a context needs; profile -1: for any profile. -1 where the release cannot say. */
int64_t trtdl_engine_memory(const trtdl_api *api, void *engine, int32_t profile);
void *trtdl_engine_inspector(const trtdl_api *api, void *engine);
/* Layer -1: the whole engine. `json` 0: one line each. */
const char *trtdl_inspector_text(const trtdl_api *api, void *inspector, int32_t layer, int32_t json);
/* `own_memory` 0: the caller sets the device memory before the first enqueue. */
void *trtdl_engine_context(const trtdl_api *api, void *engine, int32_t own_memory);

trtdl_status trtdl_context_set_profiler(const trtdl_api *api, void *context, void *profiler);
trtdl_status trtdl_context_report(const trtdl_api *api, void *context);
trtdl_status trtdl_context_emit_profile(const trtdl_api *api, void *context, int32_t on);
trtdl_status trtdl_context_set_profile(const trtdl_api *api, void *context, int32_t profile, void *stream);
int32_t trtdl_context_profile(const trtdl_api *api, void *context);
trtdl_status trtdl_context_set_shape(const trtdl_api *api, void *context, const char *tensor,
                                       const trtdl_dims *dims);
trtdl_dims trtdl_context_shape(const trtdl_api *api, void *context, const char *tensor);
trtdl_status trtdl_context_set_address(const trtdl_api *api, void *context, const char *tensor, void *address);
trtdl_status trtdl_context_set_memory(const trtdl_api *api, void *context, void *memory, int64_t size);
/* How many tensors still lack a shape or address; up to `capacity` of their names. Negative: TensorRT cannot say. */
int32_t trtdl_context_missing(const trtdl_api *api, void *context, const char **names, int32_t capacity);
trtdl_status trtdl_context_enqueue(const trtdl_api *api, void *context, void *stream);

#ifdef __cplusplus
}
#endif
#endif
