#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generation/genai_config.h"
#include "generation/key_value_cache.h"
#include "gpux/device_tensor.h"
#include "gpux/model_info.h"
#include "gpux/runtime.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::generation {

/// The inputs and outputs of a decoder: those of onnxruntime-genai and Optimum.
struct DecoderSignature {
  DecoderNames names;

  struct Layer {
    std::string past_key, past_value, present_key, present_value;
  };

  std::vector<Layer> layers;
  CacheLayout cache;
  bool has_position_ids = false;  ///< an input, int64[batch, sequence]
  /// Keys and values are written behind those of earlier tokens, in the same memory (GroupQueryAttention). Otherwise
  /// the outputs are all of them anew. Decoder does not use this on a device, where memory of the host would be copied
  /// there and back at each step.
  bool writes_in_place = false;
};

/// A decoder, or why a model is none.
struct DecoderMatch {
  std::optional<DecoderSignature> signature;
  std::string obstacle;  ///< one clause; empty where there is a signature
};

/// Finds the parts of a decoder among the inputs and outputs of a model. `head_size`: of its keys and values, where the
/// graph leaves it free; 0: not known. Pure.
DecoderMatch match_decoder(const ModelInfo& model, const DecoderNames& names, std::int64_t head_size);

/// Empty where the model is no decoder with keys and values as inputs. A genai_config.json beside the file names them.
/// Error invalid_model: that file is of a layout that is not supported.
std::optional<DecoderSignature> decoder_signature(const ModelInfo& model);

/// Error invalid_model where it is none, with the reason.
DecoderSignature require_decoder(const ModelInfo& model);

/// Runs one token without earlier ones, also in a worker process: a decoder for which it works is one. Errors of
/// require_decoder() and Runtime::infer(); invalid_model.
Verdict verdict_of_first_token(Runtime runtime);

/// A decoder in a session, and the keys and values of the sequences that it continues, each in a slot. Not thread-safe,
/// but for stop().
class Decoder {
 public:
  /// Error invalid_model: it is no decoder.
  Decoder(Runtime runtime, std::size_t slots);
  ~Decoder();

  /// Tokens that go behind the first `past` ones of a slot.
  struct Row {
    std::size_t past = 0;
    std::span<const std::uint32_t> tokens;
  };

  /// Runs the rows in the slots from `first_slot` on: one row with any number of tokens, or several with one each.
  /// reserve() has made room. The logits of each row's last token, float32[rows, vocabulary]. If it throws, what the
  /// slots hold behind `past` is not determined. Errors of Runtime::infer(); interrupted.
  [[nodiscard]] Tensor run(std::size_t first_slot, std::span<const Row> rows);

  /// Finds out whether needs_pairs(), by runs in the slots 0 to 2, whose first position is overwritten: it depends on
  /// the sizes of blocks and on the processor. `vocabulary`: tokens there are. reserve() has made room. Errors as
  /// run().
  void compare_rows(std::size_t vocabulary);

  /// Ends the run that is under way, with Error interrupted. From any thread.
  void stop();

  /// As KeyValueCache.
  void reserve(std::size_t tokens, const std::vector<std::size_t>& sizes);
  [[nodiscard]] std::size_t capacity() const noexcept;
  void copy(std::size_t from, std::size_t to, std::size_t tokens);
  void exchange(std::size_t a, std::size_t tokens_a, std::size_t b, std::size_t tokens_b) noexcept;
  /// What cannot be cut off, as where a device is lost, is cut off when the slot runs again.
  void release(std::size_t slot, std::size_t first, std::size_t end) noexcept;

  /// Several rows in a run cost less than one by one.
  [[nodiscard]] bool can_batch() const noexcept { return signature_.writes_in_place; }

  /// Runs of single tokens must have an even number of rows, so that a row's digits do not depend on the others: ONNX
  /// Runtime's CPU provider may compute the rows of a 4-bit or 8-bit product in pairs, and the last of an odd number
  /// otherwise. True of all such models before compare_rows().
  [[nodiscard]] bool needs_pairs() const noexcept { return needs_pairs_; }

  [[nodiscard]] const DecoderSignature& signature() const noexcept { return signature_; }

  [[nodiscard]] const Runtime& runtime() const noexcept { return runtime_; }

  /// The runtime's, and where keys and values are copied at each step, or stay on a device.
  [[nodiscard]] Verdict verdict() const;

 private:
  [[nodiscard]] Tensor run_in_place(std::size_t first_slot, std::span<const Row> rows);
  [[nodiscard]] Tensor run_alone(std::size_t slot, const Row& row);

  Runtime runtime_;
  DecoderSignature signature_;
  bool needs_pairs_ = false;
  std::unique_ptr<runtime::SessionReplica> session_;
  KeyValueCache shared_;                          // where it writes in place
  DeviceTensor none_;                             // keys or values of no token
  std::vector<std::vector<DeviceTensor>> owned_;  // otherwise, of each slot, where the model makes them
  std::vector<std::size_t> outputs_;              // the logits, and the keys and values of each layer
  bool keeps_on_device_ = false;                  // the keys and values
};

}  // namespace gpux::generation
