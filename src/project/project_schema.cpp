#include "project/project_schema.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "gpux/tensor.h"
#include "image/recipe.h"

namespace gpux {
namespace {

using Json = nlohmann::ordered_json;
using enum KeyKind;
using enum InPackage;

constexpr std::int64_t no_minimum = 0;
constexpr std::span<const SchemaKey> no_keys;
constexpr std::span<const std::string_view> no_choices;

constexpr std::string_view max_length_moved = "write it as preprocessing.max_length";

constexpr std::array<std::string_view, 1> formats{"onnx"};
constexpr std::array<std::string_view, 2> activations{"softmax", "sigmoid"};
constexpr std::array<std::string_view, 7> precisions{"fp32", "tf32", "fp16", "bf16", "int8", "int8-bf16", "any"};
constexpr std::array<std::string_view, 5> optimization_levels{"disabled", "basic", "extended", "layout", "all"};

constexpr std::array<SchemaKey, 5> model_keys{{
    {"source", text, describes, "The ONNX file, relative to this file's folder.", true},
    {"image_tower", text, describes,
     "The ONNX file that makes vectors of images, inside this file's folder; source makes those of texts."},
    {"format", choice, describes, "The model file's format.", false, no_keys, formats},
    {"version", text, describes, "The model's own version. It does not change how the model runs."},
    {"files", text_list, describes, "Further files that a package of the model keeps, inside this file's folder."},
}};

constexpr std::array<SchemaKey, 6> input_keys{{
    {"name", text, describes, "The input's name in the model.", true},
    {"type", value_type, describes, "Its element type, by ONNX's names.", true},
    {"shape", shape, describes, "Its dimensions: sizes, names, null or -1 where any size will do."},
    {"required", boolean, describes, "Whether callers must pass it."},
    {"description", text, describes, "For people."},
    {"max_length", integer, describes, "", false, no_keys, no_choices, no_minimum, max_length_moved},
}};

constexpr std::array<SchemaKey, 7> output_keys{{
    {"name", text, describes, "The output's name in the model.", true},
    {"type", value_type, describes, "Its element type, by ONNX's names.", true},
    {"shape", shape, describes, "Its dimensions: sizes, names, null or -1 where any size will do."},
    {"description", text, describes, "For people."},
    {"labels", text_list, describes,
     "Names of the positions of the last dimension; answers then carry labels with scores."},
    {"activation", choice, describes, "What turns raw values into the labels' scores.", false, no_keys, activations},
    {"top_k", integer, describes, "The maximum number of labels, best first; default: all.", false, no_keys, no_choices,
     1},
}};

constexpr std::array<SchemaKey, 3> gpu_keys{{
    {"backend", text, describes, "A provider, an alias, gpu, npu, auto or fastest."},
    {"memory", memory_size, decides, "The maximum device memory of the model."},
    {"device", integer, decides, "Which of the provider's devices, counted from 0."},
}};

constexpr std::array<SchemaKey, 2> thread_keys{{
    {"intra", integer, decides, "Threads inside an operator.", false, no_keys, no_choices, 1},
    {"inter", integer, decides, "Operators run side by side.", false, no_keys, no_choices, 1},
}};

constexpr std::array<SchemaKey, 3> provider_keys{{
    {"name", text, describes, "The provider's name.", true},
    {"options", text_map, decides, "Its options."},
    {"library", text, not_portable, "The plugin library that brings it, relative to this file's folder."},
}};

constexpr std::array<std::string_view, 2> isolations{"thread", "process"};
constexpr SchemaKey isolation_key{
    .name = "isolation",
    .kind = choice,
    .in_package = restricts,
    .description = "Where models run: thread, in the process of gpux, or process, in a worker process.",
    .choices = isolations,
    .strictest = "process"};

constexpr std::array<SchemaKey, 13> runtime_keys{{
    {"gpu", object, describes, "The device to run on.", false, gpu_keys},
    {"providers", provider_list, describes, "The providers to try, in order, with their options.", false,
     provider_keys},
    {"provider_libraries", path_map, not_portable, "Plugin libraries by the name to register them under."},
    {"custom_ops", text_list, not_portable,
     "Libraries of custom operators, relative to this file's folder; not in a package."},
    {"strict", strictness, describes, "Refuse to fall back; 'nodes': not for a single node."},
    {"timeout", duration, describes, "The maximum time of a run."},
    {"threads", object, describes, "Threads; default: as many as the process may use.", false, thread_keys},
    {"precision", choice, describes, "The variant of the package that runs, or the precision that the provider uses.",
     false, no_keys, precisions},
    {"optimization_level", choice, describes, "How far the graph is optimized.", false, no_keys, optimization_levels},
    {"profile", text, not_portable, "Where the runtime's profile is written, relative to this file's folder."},
    {"enable_profiling", boolean, decides, "Write a profile into gpux's home folder."},
    {"batch_size", integer, describes, "The maximum rows of a list that share a run.", false, no_keys, no_choices, 1},
    isolation_key,
}};

constexpr SchemaKey batch_size_key{"batch_size", integer, describes,  "The maximum rows that share a run.",
                                   false,        no_keys, no_choices, 1};
constexpr SchemaKey batch_cost_key{"max_batch_cost",
                                   integer,
                                   describes,
                                   "The most elements that a shared run's largest input may have, padding counted.",
                                   false,
                                   no_keys,
                                   no_choices,
                                   1,
                                   "",
                                   std::int64_t{1} << 40};
constexpr SchemaKey batch_axis_key{
    .name = "batch_axis",
    .kind = batch_axis,
    .in_package = restricts,
    .description =
        "The axis of the model's inputs and outputs that is the batch: 0, so that requests share runs, or none, "
        "so that each runs alone; found out by a trial without it.",
    .strictest = "none"};
constexpr std::array<std::string_view, 2> batchings{{"exact", "throughput"}};
constexpr SchemaKey batching_key{
    .name = "batching",
    .kind = choice,
    .in_package = restricts,
    .description =
        "Texts share a run where each vector stays bit-identical, or wherever that is quicker; without it, the "
        "latter on GPUs and NPUs.",
    .choices = batchings,
    .strictest = "exact"};
constexpr SchemaKey padding_key{
    "padding", number_map, decides,
    "Inputs whose free sizes beyond the first may differ in a run, and what fills up the shorter ones."};
constexpr SchemaKey delay_key{"max_queue_delay", duration, decides, "How long the server waits to fill a batch."};
constexpr SchemaKey queue_key{"max_queue", integer, decides, "Requests that may wait.", false, no_keys, no_choices, 1};
constexpr SchemaKey request_timeout_key{"timeout", duration, describes,
                                        "The maximum time of a request, from its arrival."};
constexpr SchemaKey workers_key{"workers", worker_count, decides,
                                "Runs side by side: a number, auto (measured), devices (one a device), devices:N (N on "
                                "these), or cores:N (N that share the processors)."};
constexpr SchemaKey max_workers_key{"max_workers", integer, decides,    "The maximum for auto and devices.",
                                    false,         no_keys, no_choices, 1};
constexpr SchemaKey max_sequences_key{"max_sequences",
                                      integer,
                                      decides,
                                      "Texts that the model generates at the same time.",
                                      false,
                                      no_keys,
                                      no_choices,
                                      1,
                                      "",
                                      256};
constexpr SchemaKey context_length_key{
    "context_length", integer,    describes, "The maximum tokens of a text with its prompt.", false,
    no_keys,          no_choices, 2};
constexpr SchemaKey cache_memory_key{"cache_memory", memory_size, decides,
                                     "The memory for keys and values of generated texts."};
constexpr SchemaKey warm_up_key{"warm_up", size_maps, decides,
                                "Sizes of free dimensions to run once before the first request."};

constexpr std::array<SchemaKey, 16> serving_keys{{
    {"host", text, decides, "The address to listen on."},
    {"port", integer, decides, "The port to listen on.", false, no_keys, no_choices, no_minimum, "", 65535},
    batch_size_key,
    batch_cost_key,
    batch_axis_key,
    batching_key,
    padding_key,
    delay_key,
    queue_key,
    request_timeout_key,
    workers_key,
    max_workers_key,
    max_sequences_key,
    context_length_key,
    cache_memory_key,
    warm_up_key,
}};

constexpr std::int64_t max_limit = std::int64_t{1} << 40;

constexpr SchemaKey limit_key(std::string_view name, std::string_view description, std::int64_t maximum = max_limit) {
  return {.name = name, .kind = integer, .in_package = of_the_user, .description = description, .maximum = maximum};
}

constexpr std::array<SchemaKey, 6> model_limit_keys{{
    {"memory", memory_size, of_the_user, "The memory that it may take, as --memory."},
    limit_key("processors", "Threads that compute its runs at the same time; 0: no limit.", 1024),
    limit_key("requests_per_minute", "Requests of all clients; 0: no limit."),
    limit_key("tokens_per_minute", "Tokens that it reads and generates; 0: no limit."),
    limit_key("tokens_per_day", "The same of a day; 0: no limit."),
    limit_key("requests_in_flight", "Requests that are worked on at the same time; 0: no limit."),
}};

constexpr std::array<SchemaKey, 24> served_model_keys{{
    {"name", text, of_the_user, "The name it is served by.", true},
    {"model", text, of_the_user, "A name of the store, a file or a folder; relative to this file's folder.", true},
    {"version", text, of_the_user, "The version it is served as."},
    {"config", text, of_the_user, "Another gpux.yml, relative to this file's folder."},
    {"provider", text, of_the_user, "A provider, an alias, a kind, a list, auto or fastest."},
    {"strict", strictness, of_the_user, "Refuse to fall back."},
    isolation_key,
    {"pinned", boolean, of_the_user, "Never unload it to make room."},
    {.name = "weight",
     .kind = integer,
     .in_package = of_the_user,
     .description = "Its share of the processors where other models want to run, too; default: 100.",
     .minimum = 1,
     .maximum = 10000},
    {.name = "limits",
     .kind = object,
     .in_package = of_the_user,
     .description = "What it may take.",
     .keys = model_limit_keys},
    batch_size_key,
    batch_cost_key,
    batch_axis_key,
    batching_key,
    padding_key,
    delay_key,
    queue_key,
    request_timeout_key,
    workers_key,
    max_workers_key,
    max_sequences_key,
    context_length_key,
    cache_memory_key,
    warm_up_key,
}};

constexpr std::array<std::string_view, 2> interpolations{"bilinear", "bicubic"};
constexpr std::array<std::string_view, 3> fits{"stretch", "shortest", "letterbox"};
constexpr std::array<std::string_view, 1> normalizations{"imagenet"};
constexpr std::array<std::string_view, 4> colors{"rgb", "bgr", "gray", "rgba"};
constexpr std::array<std::string_view, 2> layouts{"NCHW", "NHWC"};
constexpr std::array<std::string_view, 12> image_types{"float32", "float16", "bfloat16", "float64", "uint8",  "int8",
                                                       "uint16",  "int16",   "uint32",   "int32",   "uint64", "int64"};

constexpr std::array<SchemaKey, 4> resize_keys{{
    {"size", image_size, describes, "[height, width], or one size: the shorter side's.", true},
    {"mode", choice, describes, "The interpolation, as in torchvision, with antialiasing.", false, no_keys,
     interpolations},
    {"fit", choice, describes, "How an image of another aspect ratio is resized.", false, no_keys, fits},
    {"fill", numbers, describes, "Levels around a letterbox; default: 114."},
}};

constexpr std::array<SchemaKey, 4> normalize_keys{{
    {"preset", choice, describes, "A mean and std by name.", false, no_keys, normalizations},
    {"scale", ratio, describes,
     "What levels of 0 to 255 are multiplied by first; 1/255 without it, 1 for whole-number types."},
    {"mean", numbers, describes, "Then subtracted: one for each channel, or one for all."},
    {"std", numbers, describes, "Then divided by."},
}};

constexpr SchemaKey resize_key{"resize", short_object, describes,  "The size to which images are resized.",
                               false,    resize_keys,  no_choices, no_minimum,
                               "",       INT32_MAX,    "size"};
constexpr std::array<std::string_view, 2> crop_roundings{"half_even", "down"};
constexpr std::array<SchemaKey, 2> crop_keys{{
    {"size", image_size, describes, "[height, width], or one size for both.", true},
    {"rounding", choice, describes,
     "Where it begins if an odd number of pixels is cut off: half_even, as in torchvision; down, as "
     "in transformers.",
     false, no_keys, crop_roundings},
}};
constexpr SchemaKey crop_key{
    "crop", short_object, describes,  "The middle of that: [height, width], or one size for both.",
    false,  crop_keys,    no_choices, no_minimum,
    "",     INT32_MAX,    "size"};
constexpr SchemaKey normalize_key{"normalize", short_object,   describes,  "What becomes of levels of 0 to 255.",
                                  false,       normalize_keys, no_choices, no_minimum,
                                  "",          INT32_MAX,      "preset"};
constexpr SchemaKey color_key{"color", choice,  describes, "The channels and their order; default: rgb.",
                              false,   no_keys, colors};
constexpr SchemaKey layout_key{"layout", choice,  describes, "The order of dimensions; default: NCHW.",
                               false,    no_keys, layouts};
constexpr SchemaKey dtype_key{"dtype", choice,  describes,  "The element type; default: that of the model's input.",
                              false,   no_keys, image_types};
constexpr SchemaKey max_pixels_key{
    "max_pixels", integer, decides,    "The maximum pixels of an image; default: 33554432.",
    false,        no_keys, no_choices, 1};

constexpr std::array<SchemaKey, 2> models_file_keys{{
    {"models", named_objects, of_the_user, "What is served.", true, served_model_keys, no_choices, no_minimum, "",
     INT32_MAX, "model"},
    {"default", text, of_the_user, "The model of routes without a name."},
}};

constexpr SchemaKey models_root{"models.yml", object, of_the_user, "The models of a server.", true, models_file_keys};

constexpr std::array<std::string_view, 4> tasks{"text-classification", "text-ranking", "token-classification",
                                                "question-answering"};
constexpr std::array<std::string_view, 2> paddings{"longest", "max_length"};
constexpr std::array<std::string_view, 2> sides{"left", "right"};
constexpr std::array<std::string_view, 3> pair_truncations{"longest_first", "only_first", "only_second"};
constexpr std::array<std::string_view, 5> aggregations{"none", "simple", "first", "average", "max"};

constexpr std::array<SchemaKey, 13> preprocessing_keys{{
    {"tokenizer", text, describes,
     "A tokenizer.json, or a folder with one, inside this file's folder: the model then takes texts."},
    {"max_length", integer, describes, "The maximum tokens of a text, with the special ones.", false, no_keys,
     no_choices, 1},
    {"padding", choice, describes, "To fill short texts up to max_length; longest, for none, without it.", false,
     no_keys, paddings},
    {"truncation_side", choice, describes, "The end at which longer texts are cut.", false, no_keys, sides},
    {"pair_truncation", choice, describes, "Which of two texts is truncated.", false, no_keys, pair_truncations},
    resize_key,
    crop_key,
    normalize_key,
    color_key,
    layout_key,
    dtype_key,
    max_pixels_key,
    {"custom", text, describes, "An ONNX model that runs before the model; its outputs become inputs by name."},
}};

constexpr std::array<SchemaKey, 3> postprocessing_keys{{
    {"aggregation", choice, describes, "How tokens become entities in token-classification.", false, no_keys,
     aggregations},
    {"max_answer_length", integer, describes, "The maximum tokens of an answer in question-answering.", false, no_keys,
     no_choices, 1},
    {"custom", text, describes,
     "An ONNX model that runs after the model; the model's outputs become its inputs by name."},
}};

constexpr std::array<SchemaKey, 4> zero_shot_keys{{
    {"logit_scale", numbers, describes, "What cosines of images and labels are multiplied by.", true},
    {"logit_bias", numbers, describes, "What is added to the products; default: 0."},
    {"activation", choice, describes, "What turns the sums into scores.", true, no_keys, activations},
    {"template", text, describes, "The text that a label is put into, in place of {}; default: {}."},
}};

constexpr std::array<SchemaKey, 13> root_keys{{
    {"name", text, describes, "The model's name.", true},
    {"version", text, describes, "Its version; default: 1.0.0."},
    {"description", text, describes, "For people."},
    {"model", object, describes, "The model file.", true, model_keys},
    {"inputs", named_objects, describes, "What the model takes; compared with the model.", false, input_keys},
    {"outputs", named_objects, describes, "What the model gives; compared with the model.", false, output_keys},
    {"runtime", object, describes, "How it runs.", false, runtime_keys},
    {"serving", object, describes, "How it is served.", false, serving_keys},
    {"task", choice, describes, "The task of the model with texts; default: from config.json.", false, no_keys, tasks},
    {"preprocessing", object, describes, "How images and texts become the model's inputs.", false, preprocessing_keys},
    {"postprocessing", object, describes, "How the model's outputs become answers.", false, postprocessing_keys},
    {"zero_shot", object, describes, "How a model with an image tower scores images by labels.", false, zero_shot_keys},
    {"metadata", text_map, describes, "Any notes, stored in the package."},
}};

constexpr SchemaKey root{"gpux.yml", object, describes, "A model and how gpux runs it.", true, root_keys};

constexpr std::array<SchemaKey, 3> step_keys{{
    {"name", text, of_the_user, "What the others call it.", true},
    {"model", text, of_the_user, "A name of the store, a file or a folder; relative to this file's folder.", true},
    {"inputs", text_map, of_the_user,
     "Inputs of its model with what they get: an input of the ensemble, or STEP.OUTPUT of an earlier step."},
}};

constexpr std::array<SchemaKey, 7> ensemble_keys{{
    {"name", text, of_the_user, "The ensemble's name.", true},
    {"version", text, of_the_user, "Its version; default: 1.0.0."},
    {"description", text, of_the_user, "For people."},
    {.name = "steps",
     .kind = named_objects,
     .in_package = of_the_user,
     .description = "Models that run one after the other.",
     .required = true,
     .keys = step_keys,
     .short_form = "model"},
    {"outputs", text_map, of_the_user, "Names with STEP.OUTPUT; default: the outputs of the last step."},
    {"serving", object, of_the_user, "How it is served.", false, serving_keys},
    {"metadata", text_map, of_the_user, "Any notes."},
}};

constexpr SchemaKey ensemble_root{"gpux.yml", object,       of_the_user, "Models that run one after the other.",
                                  true,       ensemble_keys};

Json reference(std::string_view definition) {
  return {{"$ref", "#/$defs/" + std::string(definition)}};
}

/// The kind with what else stands for it: null for "not given", and a variable that is expanded first.
Json alternatives(Json accepted, bool required) {
  Json any = Json::array();
  any.push_back(std::move(accepted));
  any.push_back(reference("variable"));
  if (!required) any.push_back({{"type", "null"}});
  return {{"anyOf", any}};
}

Json nullable(Json accepted, bool required) {
  if (required) return accepted;
  return {{"anyOf", Json::array({std::move(accepted), {{"type", "null"}}})}};
}

Json schema_of(const SchemaKey& key);
Json kind_schema(const SchemaKey& key);

Json object_schema(std::span<const SchemaKey> keys, bool with_name = true) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const SchemaKey& key : keys) {
    if (!key.refused.empty() || (!with_name && key.name == "name")) continue;
    properties[std::string(key.name)] = schema_of(key);
    if (key.required) required.push_back(key.name);
  }
  Json schema{{"type", "object"}, {"properties", properties}};
  if (!required.empty()) schema["required"] = required;
  schema["additionalProperties"] = false;
  return schema;
}

Json choice_schema(std::span<const std::string_view> choices) {
  Json names = Json::array();
  for (const std::string_view name : choices) names.push_back(name);
  return {{"enum", names}};
}

Json map_of(Json value) {
  return {{"type", "object"}, {"additionalProperties", std::move(value)}};
}

Json list_of(Json item) {
  return {{"type", "array"}, {"items", std::move(item)}};
}

Json any_of(std::initializer_list<Json> accepted) {
  Json any = Json::array();
  for (const Json& one : accepted) any.push_back(one);
  return {{"anyOf", any}};
}

Json named_objects_schema(const SchemaKey& key) {
  // A text alone stands for one of the keys.
  Json short_form = key.short_form == "type" ? reference("value_type") : reference("text");
  return any_of({list_of(object_schema(key.keys)),
                 map_of(any_of({std::move(short_form), reference("variable"), object_schema(key.keys, false)}))});
}

Json provider_list_schema(const SchemaKey& key) {
  Json short_form = map_of(any_of({reference("text_map"), {{"type", "null"}}}));
  short_form["not"] = {{"required", Json::array({"name"})}};
  short_form["minProperties"] = 1;
  short_form["maxProperties"] = 1;
  return any_of({reference("text"), list_of(any_of({reference("text"), object_schema(key.keys), short_form}))});
}

Json integer_schema(std::int64_t minimum, std::int64_t maximum = INT32_MAX) {
  Json number{{"type", "integer"}, {"minimum", minimum}};
  if (maximum != INT32_MAX) number["maximum"] = maximum;
  return any_of({std::move(number), {{"type", "string"}, {"pattern", "^[0-9]+$"}}});
}

Json worker_count_schema() {
  return any_of({integer_schema(1),
                 {{"enum", Json::array({"auto", "devices"})}},
                 {{"type", "string"}, {"pattern", "^(devices|cores):[1-9][0-9]{0,3}$"}}});
}

Json batch_axis_schema() {
  return {{"enum", Json::array({0, "0", "none"})}};
}

Json number_schema() {
  return any_of(
      {{{"type", "number"}},
       {{"type", "string"}, {"pattern", "^(-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?|NaN|-?Infinity)$"}},
       reference("variable")});
}

Json finite_number_schema() {
  return any_of({{{"type", "number"}},
                 {{"type", "string"}, {"pattern", "^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?$"}},
                 reference("variable")});
}

Json ratio_schema() {
  return any_of(
      {{{"type", "number"}, {"exclusiveMinimum", 0}},
       {{"type", "string"}, {"pattern", "^[0-9]+([.][0-9]+)?([eE][-+]?[0-9]+)?( */ *[0-9]+([.][0-9]+)?)?$"}}});
}

Json image_size_schema() {
  const Json side = any_of({integer_schema(1, image::limit_side), reference("variable")});
  Json both = list_of(side);
  both["minItems"] = 2;
  both["maxItems"] = 2;
  return any_of({side, std::move(both)});
}

Json short_object_schema(const SchemaKey& key) {
  const auto alone =
      std::find_if(key.keys.begin(), key.keys.end(), [&](const SchemaKey& k) { return k.name == key.short_form; });
  return any_of({kind_schema(*alone), object_schema(key.keys)});
}

Json kind_schema(const SchemaKey& key) {
  switch (key.kind) {
    case text:
      return nullable(reference("text"), key.required);
    case boolean:
      return nullable(reference("boolean"), key.required);
    case strictness:
      return nullable(reference("strictness"), key.required);
    case duration:
      return nullable(reference("duration"), key.required);
    case memory_size:
      return nullable(reference("memory_size"), key.required);
    case value_type:
      return nullable(reference("value_type"), key.required);
    case text_map:
      return nullable(reference("text_map"), key.required);
    case choice:
      return alternatives(choice_schema(key.choices), key.required);
    case integer:
      return alternatives(integer_schema(key.minimum, key.maximum), key.required);
    case shape:
      return nullable(list_of(reference("dimension")), key.required);
    case text_list:
      return nullable(list_of(reference("text")), key.required);
    case named_objects:
      return nullable(named_objects_schema(key), key.required);
    case provider_list:
      return nullable(provider_list_schema(key), key.required);
    case path_map:
      return nullable(any_of({map_of(reference("text")), list_of(map_of(reference("text")))}), key.required);
    case worker_count:
      return alternatives(worker_count_schema(), key.required);
    case batch_axis:
      return alternatives(batch_axis_schema(), key.required);
    case size_maps:
      return nullable(list_of(map_of(integer_schema(1))), key.required);
    case number_map:
      return nullable(map_of(number_schema()), key.required);
    case numbers:
      return nullable(reference("numbers"), key.required);
    case ratio:
      return alternatives(reference("ratio"), key.required);
    case image_size:
      return nullable(reference("picture_size"), key.required);
    case short_object:
      return nullable(short_object_schema(key), key.required);
    case object:
      return nullable(object_schema(key.keys), key.required);
  }
  return false;
}

Json schema_of(const SchemaKey& key) {
  Json schema = kind_schema(key);
  if (!key.description.empty()) schema["description"] = key.description;
  return schema;
}

Json value_type_schema() {
  Json names = Json::array();
  for (int number = 1; number <= static_cast<int>(ElementType::int2); ++number) {
    names.push_back(to_string(static_cast<ElementType>(number)));
  }
  names.push_back("float");
  names.push_back("double");
  return any_of({{{"enum", names}},
                 {{"type", "string"}, {"pattern", "^(tensor|sparse_tensor|seq|sequence|map|optional)\\(.+\\)$"}},
                 reference("variable")});
}

Json definitions() {
  Json definitions = Json::object();
  definitions["variable"] = {{"type", "string"}, {"pattern", "\\$\\{"}};
  definitions["text"] = {{"type", Json::array({"string", "number", "boolean"})}};
  definitions["boolean"] =
      any_of({{{"type", "boolean"}}, {{"enum", Json::array({"true", "false"})}}, reference("variable")});
  definitions["strictness"] =
      any_of({{{"type", "boolean"}}, {{"enum", Json::array({"true", "false", "nodes"})}}, reference("variable")});
  definitions["duration"] = any_of({{{"type", "number"}, {"exclusiveMinimum", 0}},
                                    {{"type", "string"}, {"pattern", "^[0-9]+(\\.[0-9]+)? *(ms|s|m|min|h)?$"}},
                                    reference("variable")});
  definitions["memory_size"] = any_of({{{"type", "number"}, {"minimum", 1}},
                                       {{"type", "string"}, {"pattern", "^ *[0-9.]+ *([kKmMgGtT][iI]?)?[bB]? *$"}},
                                       reference("variable")});
  definitions["value_type"] = value_type_schema();
  definitions["dimension"] =
      any_of({{{"type", "integer"}, {"minimum", -1}}, {{"type", "string"}, {"minLength", 1}}, {{"type", "null"}}});
  definitions["numbers"] = any_of({finite_number_schema(), list_of(finite_number_schema())});
  definitions["ratio"] = ratio_schema();
  definitions["picture_size"] = image_size_schema();
  definitions["text_map"] = map_of(any_of({reference("text"), {{"type", "null"}}}));
  return definitions;
}

// Names of the definitions that a schema refers to, and those that they refer to.
void collect_references(const Json& schema, const Json& all, std::set<std::string>& used) {
  constexpr std::string_view prefix = "#/$defs/";
  for (const auto& [key, value] : schema.items()) {
    if (key == "$ref") {
      const std::string name = value.get<std::string>().substr(prefix.size());
      if (used.insert(name).second) collect_references(all.at(name), all, used);
    } else if (value.is_structured()) {
      collect_references(value, all, used);
    }
  }
}

}  // namespace

const SchemaKey& project_schema() noexcept {
  return root;
}

const SchemaKey& ensemble_schema() noexcept {
  return ensemble_root;
}

const SchemaKey& models_schema() noexcept {
  return models_root;
}

std::string json_schema(const SchemaKey& file) {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", file.name},
              {"description", file.description}};
  if (&file == &root) {
    schema["anyOf"] = Json::array({object_schema(root.keys), object_schema(ensemble_root.keys)});
  } else {
    schema.update(object_schema(file.keys));
  }
  const Json all = definitions();
  std::set<std::string> used;
  collect_references(schema, all, used);
  Json kept = Json::object();
  for (const auto& [name, definition] : all.items()) {
    if (used.contains(name)) kept[name] = definition;
  }
  schema["$defs"] = kept;
  return schema.dump(2) + "\n";
}

}  // namespace gpux
