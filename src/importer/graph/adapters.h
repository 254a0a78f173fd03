#pragma once

#include <string>

#include "importer/architecture.h"
#include "importer/graph/graph_context.h"

/// Low-rank additions of the task that each text has: of the input adapter_id, int64[batch], which is a task's index,
/// or their number for none.
namespace gpux::importer {

void write_adapter_input(GraphContext& context);

/// Adds the nodes of an adapter and returns the name of their output, which is to be added to linear(input), [batch,
/// sequence, linear.out], with `scale` in it: MatMul(MatMul(input, Gather(down, adapter_id)), Gather(up, adapter_id)).
/// Down is float[tasks + 1, in, rank], up float[tasks + 1, rank, out]; the last matrices are zeros.
std::string adapted(GraphContext& context, const std::string& input, const Linear& linear, const Adapter& adapter,
                    float scale);

/// Adds the nodes of a table's adapter and returns the name of their output, which is to be added to the rows of
/// input_ids of the table float[rows, size], [batch, sequence, size]: MatMul(Gather(down, adapter_id * rows +
/// input_ids), Gather(up, adapter_id)).
std::string adapted_rows(GraphContext& context, const Adapter& adapter, std::int64_t rows, std::int64_t size);

/// The adapted first row of the table, [batch, 1, size].
std::string adapted_first_row(GraphContext& context, const Adapter& adapter, std::int64_t rows, std::int64_t size);

}  // namespace gpux::importer
