// Weights as safetensors: the file itself, or after a first byte 'i' the index that names the files beside it.
#include "checkpoint/safetensors.h"

#include "fuzzer.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  const bool is_index = input.starts_with('i');
  if (!input.empty()) input.remove_prefix(1);
  const std::filesystem::path file = scratch_folder() / (is_index ? "model.safetensors.index.json" : "a.safetensors");
  // What an index may name is there, and always the same.
  static const std::string header = R"({"f":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  static const std::string good =
      std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + std::string(4, '\0');
  if (is_index) write_file_atomically(scratch_folder() / "a.safetensors", good);
  write_file_atomically(file, input);
  const checkpoint::Safetensors weights(file);
  for (const std::string& name : weights.names()) {
    require(weights.has(name), "a name that is listed is not there");
    const Shape shape = weights.shape(name);
    try {
      const std::vector<float> values = weights.floats(name, shape);
      std::uint64_t count = 1;
      for (const std::int64_t dimension : shape) count *= static_cast<std::uint64_t>(dimension);
      require(values.size() == count, "a tensor has more or fewer elements than its sizes say");
    } catch (const Error& error) {
      require(error.code() == ErrorCode::invalid_model, "what is no tensor of numbers is refused as the model's fault");
    }
  }
}
