// A .npy file, read as the type that the first character says. What is written of it reads back the same.
#include "tensor/npy.h"

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "declared.h"
#include "fuzzer.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  const ElementType type = take_element_type(input);
  const auto declared = type == ElementType::undefined ? std::nullopt : std::optional(type);
  const auto owner = std::make_shared<const std::string>(input);
  const Tensor tensor = read_npy(std::as_bytes(std::span(*owner)), declared, owner);
  require(same(tensor, read_npy(std::as_bytes(std::span(input)), declared)), "borrowed and copied differ");
  std::string file;
  append_npy(file, tensor);
  const Tensor again =
      must_succeed("reading what was written", [&] { return read_npy(std::as_bytes(std::span(file)), declared); });
  require(same(tensor, again), "the .npy written reads back as another tensor");
}
