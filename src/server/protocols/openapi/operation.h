#pragma once

#include <string>
#include <vector>

#include "server/models/served_model.h"
#include "server/protocols/openapi/schema.h"

namespace gpux::server {

/// Request and answer of a route for the OpenAPI document.
struct Operation {
  openapi::Json request;            ///< schema of the JSON in a body; null: that of the route's fields, or none is read
  openapi::Json content;            ///< of the answer, by media type
  bool takes_text = false;          ///< also a body of text/plain
  std::string request_description;  ///< of bodies that are not JSON; empty: none
  openapi::Json parameters;         ///< of the query and the path, as parameters of the document; null: none
  openapi::Json failures;           ///< further answers by status, as responses of the document; null: none
};

using ServedList = std::vector<const ServedModel*>;

/// Operation of a route whose request is a table of fields, with this JSON answer.
inline Operation json_answer(openapi::Json answer) {
  return {.content = openapi::json_content(std::move(answer))};
}

/// JSON in, JSON out.
inline Operation json_operation(openapi::Json request, openapi::Json answer) {
  return {.request = std::move(request), .content = openapi::json_content(std::move(answer))};
}

}  // namespace gpux::server
