#include "base/json_instances.h"

namespace nlohmann {

template class basic_json<>;
template class basic_json<ordered_map>;

namespace detail {

template class serializer<json>;
template class serializer<ordered_json>;
template class json_sax_dom_parser<json>;
template class json_sax_dom_parser<ordered_json>;
template class json_sax_dom_callback_parser<json>;
template class json_sax_dom_callback_parser<ordered_json>;
template class lexer<json, iterator_input_adapter<const char*>>;
template class lexer<ordered_json, iterator_input_adapter<const char*>>;
template class parser<json, iterator_input_adapter<const char*>>;
template class parser<ordered_json, iterator_input_adapter<const char*>>;

}  // namespace detail
}  // namespace nlohmann
