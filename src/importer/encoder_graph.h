#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "importer/dense_layer.h"
#include "importer/safetensors.h"

namespace gpux::importer {

enum class EncoderFamily : std::uint8_t { bert, roberta, distilbert, mpnet };

/// The settings of a text encoder in config.json.
struct EncoderConfig {
  std::string model_type = "bert";  ///< as config.json has it
  EncoderFamily family = EncoderFamily::bert;
  std::int64_t layers = 0, heads = 0, width = 0, inner_width = 0;
  std::int64_t vocabulary = 0, positions = 0, token_types = 0;
  std::int64_t padding_token = 0;
  std::int64_t relative_buckets = 32;  ///< MPNet's
  std::string activation = "gelu";
  std::string architecture;  ///< "BertModel"; may be empty
  std::int64_t labels = 2;   ///< of its classifier, if it has one
  float normalization_epsilon = 1e-12F;

  /// The most tokens that it can take.
  [[nodiscard]] std::int64_t max_tokens() const noexcept;
};

/// Reads config.json. Error invalid_config names what is missing or not served: other families, activations and kinds
/// of positions.
EncoderConfig read_encoder_config(std::string_view config_json);

/// How the vectors of a text's tokens become one; `none`: they do not.
enum class GraphPooling : std::uint8_t { none, cls, mean, max };

/// The steps after the encoder.
enum class HeadKind : std::uint8_t {
  vectors,         ///< the hidden states, and their pooling
  classification,  ///< logits of the text
  token_classification,
  question_answering,  ///< where an answer starts and ends
};

struct EncoderHead {
  HeadKind kind = HeadKind::vectors;
  GraphPooling pooling = GraphPooling::none;  ///< of vectors
  std::vector<DenseLayer> dense;              ///< of pooled vectors, in order
  bool normalize = false;                     ///< vectors, to length 1
};

/// The head that config.json's `architectures` name: BertForSequenceClassification and its like; vectors else.
HeadKind head_kind_of(const EncoderConfig& config) noexcept;

/// Writes the encoder as ONNX. Inputs input_ids and attention_mask, int64[batch, sequence], and token_type_ids where
/// the model has several. Outputs, all float32, by the head: sentence_embedding [batch, width] where there is a
/// pooling, and last_hidden_state [batch, sequence, width]; logits [batch, labels]; logits [batch, sequence, labels];
/// start_logits and end_logits [batch, sequence]. Errors invalid_model (a tensor is missing or of other sizes),
/// storage, permission.
void write_encoder(const Safetensors& weights, const EncoderConfig& config, const EncoderHead& head,
                   const std::filesystem::path& file);

}  // namespace gpux::importer
