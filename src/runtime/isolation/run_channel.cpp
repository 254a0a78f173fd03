#include "runtime/isolation/run_channel.h"

#include <string>
#include <utility>

#include "base/error_number.h"
#include "gpux/error.h"
#include "runtime/isolation/run_mark.h"
#include "runtime/isolation/value_encoding.h"

namespace gpux::runtime::isolation {

RunChannel::RunChannel(std::uint64_t number, UniqueFd socket) : number_(number), socket_(std::move(socket)) {}

void RunChannel::choose_output() {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const auto& block = outputs_.at(i);
    if (block == nullptr || block->readers.load(std::memory_order_acquire) != 0) continue;
    slot_ = i;
    return;
  }
  // The one that is replaced lives on with its readers.
  slot_ = (slot_ + 1) % outputs_.size();
  outputs_.at(slot_) = std::make_shared<OutputBlock>();
  worker_has_output_.at(slot_) = false;
}

bool RunChannel::send(std::uint64_t run, const NamedValues& inputs, std::span<const std::size_t> outputs) {
  const EncodedValues encoded = encode_values(inputs, outputs);
  input_.grow_to(run_mark_bytes + encoded.place.bytes);
  write_values(encoded, input_.bytes().subspan(run_mark_bytes).data());
  choose_output();
  const bool is_new_output = !worker_has_output_.at(slot_);
  std::array<int, max_descriptors> descriptors{};
  std::size_t count = 0;
  if (!worker_has_input_) descriptors.at(count++) = input_.descriptor();
  if (is_new_output) descriptors.at(count++) = outputs_.at(slot_)->memory.descriptor();
  const RunRequest request{.run = run,
                           .values = encoded.place,
                           .slot = static_cast<std::uint32_t>(slot_),
                           .has_new_input = static_cast<std::uint8_t>(worker_has_input_ ? 0 : 1),
                           .has_new_output = static_cast<std::uint8_t>(is_new_output ? 1 : 0)};
  if (!send_message(socket_.get(), request, std::span<const int>(descriptors).first(count))) return false;
  worker_has_input_ = worker_has_output_.at(slot_) = true;
  return true;
}

bool RunChannel::has_taken(std::uint64_t run) const noexcept {
  return isolation::has_taken(input_.bytes(), run);
}

std::optional<NamedValues> RunChannel::receive(std::uint64_t run) {
  if (!receive_message(socket_.get(), message_)) return std::nullopt;
  const auto reply = message_.as<RunReply>();
  if (!reply || reply->run != run) throw Error(ErrorCode::internal, "a worker process answered something else");
  if (reply->error != 0) {
    const ErrorCode code = error_code_of(reply->error);
    const std::string text = message_.text_after(sizeof(RunReply));
    if (reply->lacks_memory != 0) worker_has_input_ = worker_has_output_[0] = worker_has_output_[1] = false;
    if (reply->is_device_lost != 0) throw DeviceLost(code, text);
    throw Error(code, text);
  }
  const std::shared_ptr<OutputBlock>& block = outputs_.at(slot_);
  const ValuesPlace& place = reply->values;
  if (!block->memory.find_grown(place.bytes)) {
    throw Error(ErrorCode::internal, "a worker process answered with less memory than it announced");
  }
  const std::span<const std::byte> bytes = block->memory.bytes();
  if (place.bytes <= max_copied_bytes) return read_values(bytes, place, nullptr).values;
  ++block->readers;
  const std::shared_ptr<const void> owner(
      bytes.data(), [block](const void*) { block->readers.fetch_sub(1, std::memory_order_release); });
  return read_values(bytes, place, owner).values;
}

}  // namespace gpux::runtime::isolation
