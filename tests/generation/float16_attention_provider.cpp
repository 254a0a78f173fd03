// An execution provider that computes GroupQueryAttention in float16 alone, as CUDA's does: causal, with rotary
// positions or none, on memory of the host. With the environment variable FLOAT16_ATTENTION=wrong its results are not
// those of the operator.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <onnxruntime_cxx_api.h>

#include "base/made_plugin.h"

namespace gpux {
namespace {

using test::as_status;

constexpr std::size_t input_count = 9;

bool is_wrong() {
  const char* const given = std::getenv("FLOAT16_ATTENTION");
  return given != nullptr && std::string_view(given) == "wrong";
}

std::int64_t integer(const Ort::ConstNode& node, const char* name) {
  Ort::ConstOpAttr attribute;
  std::int64_t value = 0;
  if (node.GetAttributeByName(name, attribute).IsOK() && static_cast<const OrtOpAttr*>(attribute) != nullptr) {
    Ort::ThrowOnError(attribute.GetValue(value));
  }
  return value;
}

float real(const Ort::ConstNode& node, const char* name) {
  Ort::ConstOpAttr attribute;
  float value = 0;
  if (node.GetAttributeByName(name, attribute).IsOK() && static_cast<const OrtOpAttr*>(attribute) != nullptr) {
    Ort::ThrowOnError(attribute.GetValue(value));
  }
  return value;
}

bool is_float16(const Ort::ConstValueInfo& value) {
  const Ort::ConstTypeInfo type = value.TypeInfo();
  return type.GetONNXType() == ONNX_TYPE_TENSOR &&
         type.GetTensorTypeAndShapeInfo().GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
}

bool can_compute(const Ort::ConstNode& node) {
  if (node.GetOperatorType() != "GroupQueryAttention" || node.GetDomain() != "com.microsoft") return false;
  return is_float16(node.GetInputs().front()) && node.GetInputs().size() == input_count;
}

std::vector<std::int64_t> shape_of(const auto& value) {
  return value.GetTensorTypeAndShapeInfo().GetShape();
}

const Ort::Float16_t* elements_of(const Ort::ConstValue& value) {
  return value.GetTensorData<Ort::Float16_t>();
}

class Attention : public OrtNodeComputeInfo {
 public:
  Attention(const Ort::ConstNode& node, std::vector<std::size_t> inputs, std::vector<std::size_t> outputs)
      : OrtNodeComputeInfo{},
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        heads_(integer(node, "num_heads")),
        kv_heads_(integer(node, "kv_num_heads")),
        scale_(real(node, "scale")),
        rotates_(integer(node, "do_rotary") != 0) {
    ort_version_supported = ORT_API_VERSION;
    CreateState = [](OrtNodeComputeInfo* self, OrtNodeComputeContext*, void** state) noexcept -> OrtStatus* {
      *state = self;
      return nullptr;
    };
    Compute = [](OrtNodeComputeInfo*, void* state, OrtKernelContext* context) noexcept -> OrtStatus* {
      return as_status([=] { static_cast<Attention*>(static_cast<OrtNodeComputeInfo*>(state))->compute(context); });
    };
    ReleaseState = [](OrtNodeComputeInfo*, void*) noexcept {};
  }

 private:
  /// A row of heads after each other, turned by its position.
  std::vector<float> turned(const Ort::Float16_t* row, std::int64_t heads, std::int64_t head_size,
                            const Ort::ConstValue& cosines, const Ort::ConstValue& sines, std::int64_t position) const {
    std::vector<float> result(static_cast<std::size_t>(heads * head_size));
    std::transform(row, row + heads * head_size, result.begin(), [](Ort::Float16_t x) { return x.ToFloat(); });
    if (!rotates_) return result;
    const std::int64_t half = shape_of(cosines).back();
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t i = 0; i < half; ++i) {
        const float cosine = elements_of(cosines)[position * half + i].ToFloat();
        const float sine = elements_of(sines)[position * half + i].ToFloat();
        float& first = result[static_cast<std::size_t>(head * head_size + i)];
        float& second = result[static_cast<std::size_t>(head * head_size + half + i)];
        const float straight = first;
        first = straight * cosine - second * sine;
        second = second * cosine + straight * sine;
      }
    }
    return result;
  }

  void compute(OrtKernelContext* context) const {
    const Ort::KernelContext kernel(context);
    const auto input = [&](std::size_t place) { return kernel.GetInput(inputs_[place]); };
    const Ort::ConstValue query = input(0), keys = input(1), values = input(2), past_keys = input(3),
                          past_values = input(4), cosines = input(7), sines = input(8);
    const std::vector<std::int64_t> sizes = shape_of(query);
    const std::int64_t batch = sizes[0], length = sizes[1], head_size = sizes[2] / heads_;
    const std::int64_t past_length = shape_of(past_keys)[2], total = input(6).GetTensorData<std::int32_t>()[0];
    const std::int64_t capacity = std::max(past_length, total);
    const std::vector<std::int64_t> cache{batch, kv_heads_, capacity, head_size};
    auto attended = kernel.GetOutput(outputs_[0], sizes.data(), sizes.size());
    auto all_keys = kernel.GetOutput(outputs_[1], cache.data(), cache.size());
    auto all_values = kernel.GetOutput(outputs_[2], cache.data(), cache.size());
    auto* const key_cache = all_keys.GetTensorMutableData<Ort::Float16_t>();
    auto* const value_cache = all_values.GetTensorMutableData<Ort::Float16_t>();
    for (std::int64_t row = 0; row < batch * kv_heads_; ++row) {
      // Often the same memory.
      if (elements_of(past_keys) == key_cache) break;
      const std::int64_t count = past_length * head_size;
      std::copy_n(elements_of(past_keys) + row * count, count, key_cache + row * capacity * head_size);
      std::copy_n(elements_of(past_values) + row * count, count, value_cache + row * capacity * head_size);
    }
    const float scale = scale_ != 0 ? scale_ : 1 / std::sqrt(static_cast<float>(head_size));
    for (std::int64_t row = 0; row < batch; ++row) {
      const std::int64_t last = input(5).GetTensorData<std::int32_t>()[row];
      for (std::int64_t token = 0; token < length; ++token) {
        const std::int64_t position = last + 1 - length + token, place = row * length + token;
        const std::int64_t width = kv_heads_ * head_size;
        const auto key = turned(elements_of(keys) + place * width, kv_heads_, head_size, cosines, sines, position);
        for (std::int64_t head = 0; head < kv_heads_; ++head) {
          const std::int64_t at = ((row * kv_heads_ + head) * capacity + position) * head_size;
          std::transform(key.begin() + head * head_size, key.begin() + (head + 1) * head_size, key_cache + at,
                         [](float x) { return Ort::Float16_t(x); });
          std::copy_n(elements_of(values) + place * width + head * head_size, head_size, value_cache + at);
        }
        const auto asked = turned(elements_of(query) + place * sizes[2], heads_, head_size, cosines, sines, position);
        for (std::int64_t head = 0; head < heads_; ++head) {
          const std::int64_t begin = (row * kv_heads_ + head / (heads_ / kv_heads_)) * capacity * head_size;
          std::vector<float> shares;
          for (std::int64_t other = 0; other <= position; ++other) {
            float product = 0;
            for (std::int64_t i = 0; i < head_size; ++i) {
              product += asked[static_cast<std::size_t>(head * head_size + i)] *
                         key_cache[begin + other * head_size + i].ToFloat();
            }
            shares.push_back(product * scale);
          }
          const float most = *std::max_element(shares.begin(), shares.end());
          for (float& share : shares) share = std::exp(share - most);
          const float sum = std::accumulate(shares.begin(), shares.end(), 0.0F);
          for (std::int64_t i = 0; i < head_size; ++i) {
            float mixed = is_wrong() ? 1 : 0;
            for (std::int64_t other = 0; other <= position; ++other) {
              mixed +=
                  shares[static_cast<std::size_t>(other)] / sum * value_cache[begin + other * head_size + i].ToFloat();
            }
            attended.GetTensorMutableData<Ort::Float16_t>()[place * sizes[2] + head * head_size + i] =
                Ort::Float16_t(mixed);
          }
        }
      }
    }
  }

  std::vector<std::size_t> inputs_, outputs_;
  std::int64_t heads_, kv_heads_;
  float scale_;
  bool rotates_;
};

// The places of the operator's values among those of the fused node.
std::vector<std::size_t> places_of(const std::vector<Ort::ConstValueInfo>& values,
                                   const std::vector<Ort::ConstValueInfo>& fused) {
  std::vector<std::size_t> places;
  for (const Ort::ConstValueInfo& value : values) {
    const auto found =
        std::ranges::find_if(fused, [&](const Ort::ConstValueInfo& one) { return one.GetName() == value.GetName(); });
    places.push_back(static_cast<std::size_t>(std::distance(fused.begin(), found)));
  }
  return places;
}

std::unique_ptr<Attention> fused(const OrtGraph* graph, const OrtNode* node) {
  const Ort::ConstNode attention = Ort::ConstGraph(graph).GetNodes().front(), whole(node);
  return std::make_unique<Attention>(attention, places_of(attention.GetInputs(), whole.GetInputs()),
                                     places_of(attention.GetOutputs(), whole.GetOutputs()));
}

class Provider : public OrtEp {
 public:
  static constexpr const char* name = "Float16AttentionExecutionProvider";

  explicit Provider(const OrtSessionOptions* /*session*/) : OrtEp{} {
    ort_version_supported = ORT_API_VERSION;
    GetName = [](const OrtEp*) noexcept { return name; };
    GetCapability = [](OrtEp*, const OrtGraph* graph, OrtEpGraphSupportInfo* support) noexcept {
      return test::claim_nodes(graph, support, can_compute);
    };
    Compile = [](OrtEp*, const OrtGraph** graphs, const OrtNode** nodes, std::size_t count, OrtNodeComputeInfo** infos,
                 OrtNode**) noexcept -> OrtStatus* {
      return as_status([=] {
        for (std::size_t i = 0; i < count; ++i) infos[i] = fused(graphs[i], nodes[i]).release();
      });
    };
    ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** infos, std::size_t count) noexcept {
      for (std::size_t i = 0; i < count; ++i) delete static_cast<Attention*>(infos[i]);
    };
  }
};

}  // namespace
}  // namespace gpux

GPUX_MADE_PLUGIN(gpux::Provider)
