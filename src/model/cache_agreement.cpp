#include "model/cache_agreement.h"

#include <fmt/format.h>

#include "embedding/recorded_texts.h"
#include "generation/decoder.h"
#include "model/open_generator.h"

namespace gpux {

generation::QuantizationAgreement int8_cache_agreement(const OpenModel& decoder) {
  const OpenGenerator open = open_generator(decoder);
  const auto parts = generation::measured_parts(open.tokenizer, embedding::joined_recorded_texts());
  const auto predictions = [&](CachePrecision precision) {
    OpenModel one = decoder;
    one.settings.options.cache_precision = precision;
    generation::Decoder loaded(one.load(), parts.size() + 1);
    return generation::predict(loaded, parts);
  };
  generation::QuantizationAgreement agreement =
      generation::compare(predictions(CachePrecision::as_written), predictions(CachePrecision::int8));
  agreement.precision = "int8";
  agreement.what = fmt::format("{} recorded texts", embedding::recorded_texts().size());
  return agreement;
}

}  // namespace gpux
