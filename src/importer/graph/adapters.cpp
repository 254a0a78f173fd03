#include "importer/graph/adapters.h"

#include <array>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "importer/graph/transposed.h"

namespace gpux::importer {
namespace {

constexpr const char* task_input = "adapter_id";

using TaskMatrix = std::function<std::vector<float>(std::span<const float> task)>;

// The matrices of the tasks one after another, each made by `matrix`, and one of zeros behind them.
std::function<std::vector<float>(std::vector<float>)> with_zeros(std::int64_t tasks, TaskMatrix matrix) {
  return [count = static_cast<std::size_t>(tasks), matrix = std::move(matrix)](const std::vector<float>& all) {
    const std::size_t size = all.size() / count;
    std::vector<float> matrices;
    for (std::size_t task = 0; task < count; ++task) {
      const std::vector<float> one = matrix(std::span(all).subspan(task * size, size));
      matrices.insert(matrices.end(), one.begin(), one.end());
    }
    matrices.resize(matrices.size() / count * (count + 1));
    return matrices;
  };
}

std::vector<float> scaled(std::span<const float> values, float scale) {
  std::vector<float> result(values.begin(), values.end());
  for (float& value : result) value *= scale;
  return result;
}

std::string of_text(GraphContext& context, const std::string& table) {
  return context.once("of the text's task: " + table, [&] { return context.node("Gather", {table, task_input}); });
}

// [batch, rank, size], with the adapter's scale
std::string up_of_table(GraphContext& context, const Adapter& adapter, std::int64_t size) {
  const Shape stored{adapter.tasks, adapter.rank, size}, made{adapter.tasks + 1, adapter.rank, size};
  const auto matrix = [scale = adapter.scale](std::span<const float> task) { return scaled(task, scale); };
  return of_text(context, context.derived(adapter.up, stored, "scaled", made, with_zeros(adapter.tasks, matrix)));
}

}  // namespace

void write_adapter_input(GraphContext& context) {
  const std::array<onnx::WrittenSize, 1> texts{"batch"};
  context.graph().input(task_input, ElementType::int64, texts);
}

std::string adapted(GraphContext& context, const std::string& input, const Linear& linear, const Adapter& adapter,
                    float scale) {
  const std::int64_t in = linear.in, out = linear.out, first = linear.first_row;
  const std::int64_t stored = linear.stored_rows == 0 ? out : linear.stored_rows;
  const std::int64_t tasks = adapter.tasks, rank = adapter.rank;
  // Query, key and value of one fused layer share it.
  const std::string reduced = context.once(fmt::format("{} of {}", adapter.down, input), [&] {
    const auto matrix = [=](std::span<const float> task) { return transposed(task, rank, in); };
    const std::string table =
        context.derived(adapter.down, {tasks, rank, in}, "columns", {tasks + 1, in, rank}, with_zeros(tasks, matrix));
    return context.node("MatMul", {input, of_text(context, table)});
  });
  const auto matrix = [=, scale = scale * adapter.scale](std::span<const float> task) {
    const auto rows = task.subspan(static_cast<std::size_t>(first * rank), static_cast<std::size_t>(out * rank));
    return scaled(transposed(rows, out, rank), scale);
  };
  const std::string table = context.derived(adapter.up, {tasks, stored, rank}, fmt::format("rows_{}", first),
                                            {tasks + 1, rank, out}, with_zeros(tasks, matrix));
  return context.node("MatMul", {reduced, of_text(context, table)});
}

std::string adapted_rows(GraphContext& context, const Adapter& adapter, std::int64_t rows, std::int64_t size) {
  const auto same = [](std::span<const float> task) { return std::vector<float>(task.begin(), task.end()); };
  const std::string table =
      context.derived(adapter.down, {adapter.tasks, rows, adapter.rank}, "all_rows",
                      {(adapter.tasks + 1) * rows, adapter.rank}, with_zeros(adapter.tasks, same));
  const std::string task = context.node("Unsqueeze", {task_input, context.list({1})});
  const std::string first = context.node("Mul", {task, context.list({rows})});
  const std::string down = context.node("Gather", {table, context.node("Add", {first, "input_ids"})});
  return context.node("MatMul", {down, up_of_table(context, adapter, size)});
}

std::string adapted_first_row(GraphContext& context, const Adapter& adapter, std::int64_t rows, std::int64_t size) {
  const std::int64_t rank = adapter.rank;
  const auto first = [rank](std::span<const float> task) {
    const auto row = task.first(static_cast<std::size_t>(rank));
    return std::vector<float>(row.begin(), row.end());
  };
  const std::string table = context.derived(adapter.down, {adapter.tasks, rows, rank}, "first_row",
                                            {adapter.tasks + 1, 1, rank}, with_zeros(adapter.tasks, first));
  return context.node("MatMul", {of_text(context, table), up_of_table(context, adapter, size)});
}

}  // namespace gpux::importer
