#include "ort/provider.h"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <sched.h>

#include "encoder/encoder.h"
#include "encoder/shared_encoders.h"
#include "ort/context.h"
#include "ort/requested_outputs.h"
#include "ort/status.h"
#include "recognizer/graph.h"
#include "recognizer/recognizer.h"

namespace gpux_encoder {
namespace {

Element element_of(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return Element::float32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return Element::int64;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return Element::int32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
      return Element::boolean;
    default:
      return Element::other;
  }
}

// A tensor of one element, such as ConstantOfShape's.
void read_single(const Ort::ConstOpAttr& given, Attribute& attribute) {
  attribute.element = Element::other;
  Ort::Value value;
  if (!given.GetTensorAttributeAsOrtValue(value).IsOK() || !value) return;
  const auto type = value.GetTensorTypeAndShapeInfo();
  if (type.GetElementCount() != 1) return;
  attribute.element = element_of(type.GetElementType());
  const void* const data = value.GetTensorRawData();
  switch (attribute.element) {
    case Element::float32:
      attribute.number = *static_cast<const float*>(data);
      break;
    case Element::int64:
      attribute.number = static_cast<float>(*static_cast<const std::int64_t*>(data));
      break;
    case Element::int32:
      attribute.number = static_cast<float>(*static_cast<const std::int32_t*>(data));
      break;
    case Element::boolean:
      attribute.number = *static_cast<const bool*>(data) ? 1 : 0;
      break;
    case Element::other:
      break;
  }
}

Attribute attribute_of(const Ort::ConstOpAttr& given) {
  Attribute attribute;
  switch (given.GetType()) {
    case ORT_OP_ATTR_INT:
      Ort::ThrowOnError(given.GetValue(attribute.integers.emplace_back()));
      break;
    case ORT_OP_ATTR_INTS:
      Ort::ThrowOnError(given.GetValueArray(attribute.integers));
      break;
    case ORT_OP_ATTR_FLOAT:
      Ort::ThrowOnError(given.GetValue(attribute.number));
      break;
    case ORT_OP_ATTR_STRING:
      Ort::ThrowOnError(given.GetValue(attribute.text));
      break;
    case ORT_OP_ATTR_TENSOR:
      read_single(given, attribute);
      break;
    default:
      break;
  }
  return attribute;
}

std::optional<Constant> constant_of(const Ort::ConstValueInfo& info) {
  Ort::ConstValue value;
  if (!info.GetInitializer(value).IsOK() || !value || !value.IsTensor()) return std::nullopt;
  const auto type = value.GetTensorTypeAndShapeInfo();
  Constant constant;
  constant.element = element_of(type.GetElementType());
  constant.shape = type.GetShape();
  constant.data = value.GetTensorRawData();
  return constant;
}

constexpr const char* run_name_option = "gpux.run";
constexpr const char* stop_run_option = "gpux.stop";
constexpr const char* outputs_option = "gpux.outputs";

// Whole numbers for each token.
std::optional<Input> token_input(const Ort::ConstValueInfo& info) {
  const Ort::ConstTypeInfo type = info.TypeInfo();
  if (type.GetONNXType() != ONNX_TYPE_TENSOR) return std::nullopt;
  const auto tensor = type.GetTensorTypeAndShapeInfo();
  const Element element = element_of(tensor.GetElementType());
  const bool is_whole = element == Element::int64 || element == Element::int32;
  if (!is_whole || tensor.GetShape().size() != 2) return std::nullopt;
  return Input{info.GetName(), tensor.GetShape()};
}

/// `all_constant`: every initializer is one, as in what is to be compiled.
Graph read_graph(const OrtGraph* given, bool all_constant) {
  const Ort::ConstGraph source(given);
  Graph graph;
  for (const Ort::ConstValueInfo& info : source.GetInitializers()) {
    if (!all_constant && !info.IsConstantInitializer()) continue;
    if (auto constant = constant_of(info)) graph.constants.emplace(info.GetName(), *std::move(constant));
  }
  for (const Ort::ConstValueInfo& info : source.GetInputs()) {
    if (auto input = token_input(info)) graph.inputs.push_back(*std::move(input));
  }
  for (const Ort::ConstValueInfo& info : source.GetOutputs()) graph.outputs.push_back(info.GetName());
  for (const Ort::ConstNode& from : source.GetNodes()) {
    Node node{.name = from.GetName(),
              .type = from.GetOperatorType(),
              .domain = from.GetDomain(),
              .version = from.GetSinceVersion(),
              .inputs = {},
              .outputs = {},
              .attributes = {}};
    for (const Ort::ConstValueInfo& input : from.GetInputs()) node.inputs.push_back(input ? input.GetName() : "");
    for (const Ort::ConstValueInfo& output : from.GetOutputs()) node.outputs.push_back(output ? output.GetName() : "");
    for (const Ort::ConstOpAttr& attribute : from.GetAttributes()) {
      node.attributes.emplace(attribute.GetName(), attribute_of(attribute));
    }
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

// A fused node has its values once each, in the order of first use: they are found by name.
std::size_t position_of(const std::string& name, const std::vector<Ort::ConstValueInfo>& values) {
  const auto found =
      std::ranges::find_if(values, [&](const Ort::ConstValueInfo& value) { return value.GetName() == name; });
  if (found == values.end()) throw Ort::Exception("the fused node has no '" + name + "'", ORT_EP_FAIL);
  return static_cast<std::size_t>(found - values.begin());
}

std::size_t usable_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
}

// Of int64 as they lie there, of int32 in `room`.
const std::int64_t* whole_numbers(const Ort::ConstValue& value, std::vector<std::int64_t>& room) {
  const auto type = value.GetTensorTypeAndShapeInfo();
  if (type.GetElementType() != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32) return value.GetTensorData<std::int64_t>();
  const auto* const narrow = value.GetTensorData<std::int32_t>();
  room.assign(narrow, narrow + type.GetElementCount());
  return room.data();
}

SharedEncoders& shared_encoders() {
  static SharedEncoders all;
  return all;
}

/// Whether a node that is not one of `own` takes the value.
bool is_taken_outside(const std::string& name, const std::set<std::size_t>& own,
                      const std::vector<Ort::ConstNode>& nodes) {
  const auto is_it = [&](const Ort::ConstValueInfo& value) { return value && value.GetName() == name; };
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    if (own.contains(index)) continue;
    if (std::ranges::any_of(nodes[index].GetInputs(), is_it)) return true;
    if (std::ranges::any_of(nodes[index].GetImplicitInputs(), is_it)) return true;
  }
  return false;
}

/// The values by which an encoder is reached, "" for one that it has not.
struct Values {
  std::string ids, mask, types;  ///< taken
  std::string vectors, hidden;   ///< given

  [[nodiscard]] std::vector<std::string> inputs() const { return those_of({ids, mask, types}); }

  [[nodiscard]] std::vector<std::string> outputs() const { return those_of({vectors, hidden}); }

 private:
  static std::vector<std::string> those_of(std::vector<std::string> names) {
    std::erase(names, "");
    return names;
  }
};

std::string name_of(Precision precision) {
  return std::string(precision_names[static_cast<std::size_t>(precision)]);
}

// The other way round: those of a context's node.
Values values_of(const Ort::ConstNode& node, const PackedEncoder& encoder) {
  const auto take = [](const std::vector<Ort::ConstValueInfo>& from) {
    return [from, next = std::size_t{0}](bool is_there) mutable {
      if (!is_there) return std::string();
      if (next == from.size()) throw Ort::Exception("the context's node has too few inputs or outputs", ORT_EP_FAIL);
      return from[next++].GetName();
    };
  };
  // A run reads them as what the recognizer would have made sure of.
  const std::vector<Ort::ConstValueInfo> inputs = node.GetInputs();
  if (!std::ranges::all_of(inputs, [](const auto& info) { return info && token_input(info).has_value(); })) {
    throw Ort::Exception("the context's node takes something else than whole numbers for each token", ORT_EP_FAIL);
  }
  auto input = take(inputs), output = take(node.GetOutputs());
  Values values;
  values.ids = input(true);
  values.mask = input(encoder.takes_mask);
  values.types = input(encoder.takes_types);
  values.vectors = output(encoder.gives_vectors);
  values.hidden = output(encoder.gives_hidden);
  return values;
}

/// What ONNX Runtime keeps of one encoder. Computes for several threads at once.
class FusedEncoder : public OrtNodeComputeInfo {
 public:
  /// `only_read_outside`: values that no node takes.
  FusedEncoder(std::shared_ptr<const Encoder> encoder, const Values& values, const OrtNode* fused_node,
               const std::set<std::string>& only_read_outside)
      : OrtNodeComputeInfo{}, encoder_(std::move(encoder)) {
    ort_version_supported = ORT_API_VERSION;
    CreateState = create_state;
    Compute = compute_callback;
    ReleaseState = release_state;
    const std::vector<Ort::ConstValueInfo> inputs = Ort::ConstNode(fused_node).GetInputs();
    const std::vector<Ort::ConstValueInfo> outputs = Ort::ConstNode(fused_node).GetOutputs();
    const auto place = [](const std::string& name, const std::vector<Ort::ConstValueInfo>& among) {
      return name.empty() ? std::optional<std::size_t>() : position_of(name, among);
    };
    ids_ = position_of(values.ids, inputs);
    mask_ = place(values.mask, inputs);
    types_ = place(values.types, inputs);
    vectors_ = place(values.vectors, outputs);
    hidden_ = place(values.hidden, outputs);
    if (only_read_outside.contains(values.hidden)) optional_hidden_ = values.hidden;
  }

 private:
  static OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* self, OrtNodeComputeContext* /*context*/,
                                              void** state) noexcept {
    *state = self;
    return nullptr;
  }

  static OrtStatus* ORT_API_CALL compute_callback(OrtNodeComputeInfo* /*self*/, void* state,
                                                  OrtKernelContext* context) noexcept {
    return as_status(
        [state, context] { static_cast<FusedEncoder*>(static_cast<OrtNodeComputeInfo*>(state))->compute(context); });
  }

  static void ORT_API_CALL release_state(OrtNodeComputeInfo* /*self*/, void* /*state*/) noexcept {}

  void compute(OrtKernelContext* context) const {
    const Ort::KernelContext kernel(context);
    const Ort::ConstValue ids = kernel.GetInput(ids_);
    const std::vector<std::int64_t> shape = ids.GetTensorTypeAndShapeInfo().GetShape();
    if (shape.size() != 2) throw InvalidBatch("token ids are not of two axes; accepted: [texts, tokens]");
    std::array<std::vector<std::int64_t>, 3> widened;
    const auto beside = [&](const std::optional<std::size_t>& input, std::size_t which) -> const std::int64_t* {
      if (!input) return nullptr;
      const Ort::ConstValue value = kernel.GetInput(*input);
      if (value.GetTensorTypeAndShapeInfo().GetShape() != shape) {
        throw InvalidBatch("token ids, attention mask and token types have different shapes; accepted: one shape");
      }
      return whole_numbers(value, widened[which]);
    };
    const Batch batch{static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]), beside(ids_, 0),
                      beside(mask_, 1), beside(types_, 2)};
    const auto width = static_cast<std::int64_t>(encoder_->weights().hidden);
    Encoder::Results results;
    if (vectors_) results.vectors = kernel.GetOutput(*vectors_, {shape[0], width}).GetTensorMutableData<float>();
    // Of texts that are filled up, the hidden states take the longer part of the time.
    const bool reads_hidden = !vectors_ || optional_hidden_.empty() || WantedOutputs::include(optional_hidden_);
    if (hidden_ && reads_hidden)
      results.hidden = kernel.GetOutput(*hidden_, {shape[0], shape[1], width}).GetTensorMutableData<float>();
    if (shape[0] == 0) return;
    const NamedRuns::Flag stopped = NamedRuns::current();
    try {
      encoder_->run(
          batch, processors_,
          [context](std::size_t parts, const std::function<void(std::size_t)>& work) {
            run_parts(context, parts, work);
          },
          results, stopped.get());
    } catch (const Stopped&) {
      // In ONNX Runtime's own words, which its callers know.
      throw Ort::Exception("Exiting due to terminate flag being set to true.", ORT_FAIL);
    }
  }

  // On ONNX Runtime's own threads. Nothing may be thrown through them.
  static void run_parts(const OrtKernelContext* context, std::size_t parts,
                        const std::function<void(std::size_t)>& work) {
    struct Shared {
      const std::function<void(std::size_t)>& work;
      std::mutex mutex;
      std::exception_ptr failure;
    } shared{work, {}, nullptr};

    const auto run = [](void* data, std::size_t part) noexcept {
      auto& all = *static_cast<Shared*>(data);
      try {
        all.work(part);
      } catch (...) {
        const std::lock_guard lock(all.mutex);
        if (!all.failure) all.failure = std::current_exception();
      }
    };
    Ort::ThrowOnError(Ort::GetApi().KernelContext_ParallelFor(context, run, parts, 0, &shared));
    if (shared.failure) std::rethrow_exception(shared.failure);
  }

  std::shared_ptr<const Encoder> encoder_;
  std::size_t ids_ = 0;
  std::optional<std::size_t> mask_, types_, vectors_, hidden_;
  std::string optional_hidden_;  // their name, where nothing but a caller may read them
  const std::size_t processors_ = usable_processors();
};

}  // namespace

Provider::Provider(std::optional<Precision> precision, ContextOptions context, const OrtLogger* logger)
    : OrtEp{}, precision_(precision), context_(std::move(context)), logger_(logger) {
  ort_version_supported = ORT_API_VERSION;
  GetName = get_name;
  GetCapability = get_capability;
  Compile = compile;
  ReleaseNodeComputeInfos = release_compute_infos;
  OnRunStart = on_run_start;
  OnRunEnd = on_run_end;
  SetDynamicOptions = set_dynamic_options;
}

OrtStatus* Provider::on_run_start(OrtEp* self, const OrtRunOptions* options) noexcept {
  return as_status([=] {
    if (const char* name = Ort::GetApi().GetRunConfigEntry(options, run_name_option)) {
      static_cast<Provider*>(self)->runs_.begin(name);
    }
    if (const char* names = Ort::GetApi().GetRunConfigEntry(options, outputs_option)) WantedOutputs::begin(names);
  });
}

OrtStatus* Provider::on_run_end(OrtEp* self, const OrtRunOptions* options, bool /*sync_stream*/) noexcept {
  return as_status([=] {
    WantedOutputs::end();
    if (const char* name = Ort::GetApi().GetRunConfigEntry(options, run_name_option)) {
      static_cast<Provider*>(self)->runs_.end(name);
    }
  });
}

OrtStatus* Provider::set_dynamic_options(OrtEp* self, const char* const* keys, const char* const* values,
                                         std::size_t count) noexcept {
  return as_status([=] {
    for (std::size_t i = 0; i < count; ++i) {
      if (std::string_view(keys[i]) == stop_run_option) static_cast<Provider*>(self)->runs_.stop(values[i]);
    }
  });
}

const char* Provider::get_name(const OrtEp* /*self*/) noexcept {
  return provider_name;
}

OrtStatus* Provider::get_capability(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) noexcept {
  return as_status([=] { static_cast<Provider*>(self)->claim(graph, support); });
}

// Each alone: where one stands, an encoder stood.
void Provider::claim_contexts(const std::vector<Ort::ConstNode>& nodes, OrtEpGraphSupportInfo* support) {
  OrtNodeFusionOptions options{};
  options.ort_version_supported = ORT_API_VERSION;
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    if (!is_context(nodes[index])) continue;
    const std::vector<Ort::ConstValueInfo> outputs = nodes[index].GetOutputs();
    // Hidden states are never the first of two.
    const std::string hidden = outputs.empty() ? "" : outputs.back().GetName();
    if (!hidden.empty() && !is_taken_outside(hidden, {index}, nodes)) only_read_outside_.insert(hidden);
    const OrtNode* const node = nodes[index];
    Ort::ThrowOnError(Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(support, &node, 1, &options));
  }
}

void Provider::claim(const OrtGraph* given, OrtEpGraphSupportInfo* support) {
  const std::vector<Ort::ConstNode> nodes = Ort::ConstGraph(given).GetNodes();
  if (std::ranges::any_of(nodes, is_context)) {
    claim_contexts(nodes, support);
    return;
  }
  const Graph graph = read_graph(given, false);
  std::string reason;
  const std::optional<Found> found = recognize(graph, reason);
  if (!found) {
    ORT_CXX_LOGF_NOEXCEPT(logger_, ORT_LOGGING_LEVEL_WARNING, "%s: no encoder is recognised: %s", provider_name,
                          reason.c_str());
    return;
  }
  std::vector<const OrtNode*> claimed;
  for (const std::size_t index : found->nodes) claimed.push_back(nodes[index]);
  const std::set<std::size_t> own(found->nodes.begin(), found->nodes.end());
  if (!found->hidden.empty() && !is_taken_outside(found->hidden, own, nodes)) only_read_outside_.insert(found->hidden);
  OrtNodeFusionOptions options{};
  options.ort_version_supported = ORT_API_VERSION;
  // The weights are packed when this is compiled: ONNX Runtime need not keep its own.
  options.drop_constant_initializers = true;
  Ort::ThrowOnError(
      Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(support, claimed.data(), claimed.size(), &options));
}

OrtNodeComputeInfo* Provider::fuse(const OrtGraph* graph, const OrtNode* fused_node, OrtNode** context_node) const {
  const Ort::ConstGraph source(graph);
  const std::vector<Ort::ConstNode> nodes = source.GetNodes();
  PackedEncoder packed;
  Values values;
  std::shared_ptr<const Encoder> encoder;
  const auto shared = [&packed](const SharedEncoders::Make& make) {
    return shared_encoders().get(packed.digest, make);
  };
  if (nodes.size() == 1 && is_context(nodes.front())) {
    packed = open_context(nodes.front(), source.GetModelPath());
    if (precision_ && *precision_ != packed.precision) {
      throw Ort::Exception(
          "the model was compiled in " + name_of(packed.precision) + "; asked for is " + name_of(*precision_),
          ORT_INVALID_ARGUMENT);
    }
    values = values_of(nodes.front(), packed);
    encoder = shared([&packed] { return std::make_unique<Encoder>(std::move(packed.weights), kernels()); });
  } else {
    const Graph read = read_graph(graph, true);
    std::string reason;
    const std::optional<Found> found = recognize(read, reason);
    if (!found) throw Ort::Exception("what was claimed as an encoder is none: " + reason, ORT_EP_FAIL);
    const MaskSource& mask = found->mask.source;
    values = {found->embeddings.ids, mask.masked_id ? "" : mask.input, found->embeddings.types, found->vectors,
              found->hidden};
    packed.precision = precision_.value_or(Precision::fp32);
    packed.digest = SharedEncoders::digest_of(read, packed.precision);
    encoder = shared([&] { return std::make_unique<Encoder>(weights_of(*found, packed.precision), kernels()); });
    if (context_.enabled) {
      packed.takes_mask = !values.mask.empty();
      packed.takes_types = !values.types.empty();
      packed.gives_vectors = !values.vectors.empty();
      packed.gives_hidden = !values.hidden.empty();
      packed.weights = encoder->weights();
      *context_node = make_context(packed, context_, source.GetModelPath(), Ort::ConstNode(fused_node).GetName(),
                                   values.inputs(), values.outputs());
    }
  }
  return std::make_unique<FusedEncoder>(std::move(encoder), values, fused_node, only_read_outside_).release();
}

OrtStatus* Provider::compile(OrtEp* self, const OrtGraph** graphs, const OrtNode** fused_nodes, std::size_t count,
                             OrtNodeComputeInfo** compute_infos, OrtNode** context_nodes) noexcept {
  return as_status([=] {
    const Provider& provider = *static_cast<Provider*>(self);
    std::vector<std::unique_ptr<FusedEncoder>> fused;
    std::vector<Ort::Node> contexts;
    for (std::size_t i = 0; i < count; ++i) {
      OrtNode* context = nullptr;
      fused.emplace_back(static_cast<FusedEncoder*>(provider.fuse(graphs[i], fused_nodes[i], &context)));
      contexts.emplace_back(context);
    }
    // Handed over only when all are there: what a failed call leaves in the arrays is released by nobody.
    for (std::size_t i = 0; i < count; ++i) {
      compute_infos[i] = fused[i].release();
      if (contexts[i]) context_nodes[i] = contexts[i].release();
    }
  });
}

void Provider::release_compute_infos(OrtEp* /*self*/, OrtNodeComputeInfo** compute_infos, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) delete static_cast<FusedEncoder*>(compute_infos[i]);
}

}  // namespace gpux_encoder
