#pragma once

#include <nlohmann/json.hpp>

// nlohmann's templates for its two kinds of object and for text in memory: compiled once, in json_instances.cpp, and
// not in every source that reads or writes JSON. Part of the precompiled headers; a source needs nothing of it.

namespace nlohmann {

extern template class basic_json<>;
extern template class basic_json<ordered_map>;

namespace detail {

extern template class serializer<json>;
extern template class serializer<ordered_json>;
extern template class json_sax_dom_parser<json>;
extern template class json_sax_dom_parser<ordered_json>;
extern template class json_sax_dom_callback_parser<json>;
extern template class json_sax_dom_callback_parser<ordered_json>;
extern template class lexer<json, iterator_input_adapter<const char*>>;
extern template class lexer<ordered_json, iterator_input_adapter<const char*>>;
extern template class parser<json, iterator_input_adapter<const char*>>;
extern template class parser<ordered_json, iterator_input_adapter<const char*>>;

}  // namespace detail
}  // namespace nlohmann
