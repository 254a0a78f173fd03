#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "server/protocols/request_json.h"

namespace gpux::server {

/// POST /predict of a model with an image tower: {"inputs", "parameters": {"candidate_labels", "hypothesis_template",
/// "top_k"}}, as huggingface_hub's zero_shot_image_classification() sends it; "inputs" may be a list of images.
struct ImageLabels {
  std::vector<std::string> images;  ///< at least one: base64 or data URLs
  bool is_list = false;             ///< the answer is to be one too
  std::vector<std::string> labels;  ///< at least one; not checked otherwise
  std::string label_template;       ///< empty: the model's
  std::size_t top_k = 0;            ///< 0: all
};

/// Whether the body is an object with "inputs" and "parameters".
bool is_image_label_request(std::string_view body);

/// Reads a request for labels of images. Errors as of tei/requests.h.
ImageLabels read_image_labels(std::string_view body, const BodyReading& reading = {});

}  // namespace gpux::server
