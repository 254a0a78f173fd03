#include "generation/host_caches.h"

namespace gpux::generation {

HostCaches::HostCaches(runtime::SessionReplica& session, const DecoderSignature& signature, std::size_t slots)
    : session_(session), signature_(signature), cache_(signature.cache, slots) {}

Tensor HostCaches::run(std::size_t first_slot, std::span<const DecoderRow> rows, LogitRows wanted) {
  NamedValues inputs = token_inputs(rows, signature_);
  for (std::size_t row = 0; row < rows.size(); ++row) cache_.begin_writing(first_slot + row, rows[row].past);
  NamedValues outputs;
  for (std::size_t array = 0; array < signature_.cache.arrays; ++array) {
    const Tensor rows_of_array = cache_.rows(array, first_slot, rows.size());
    inputs.emplace_back(signature_.past(array), rows_of_array);
    outputs.emplace_back(signature_.present(array), rows_of_array);
  }
  const Value logits = session_.run_in_place(inputs, outputs, signature_.names.logits, wanted == LogitRows::all);
  if (wanted == LogitRows::last) return last_logits(*logits.tensor());
  return all_logits(*logits.tensor(), rows.size(), rows.front().tokens.size());
}

}  // namespace gpux::generation
