#include "onnx/message.h"

#include <fmt/format.h>
#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

namespace gpux::onnx {

std::uint64_t Message::read_varint(const char*& at, std::string_view within) {
  const char* const begin = at;
  try {
    return protozero::decode_varint(&at, within.data() + within.size());
  } catch (const protozero::exception&) {
    throw MalformedMessage(begin, "a number that does not end");
  }
}

std::uint64_t Message::read_varint() {
  return read_varint(at_, {at_, static_cast<std::size_t>(end_ - at_)});
}

bool Message::next() {
  if (at_ == end_) return false;
  begin_of_field_ = at_;
  const std::uint64_t key = read_varint();
  const std::uint64_t field = key >> 3;
  if (field == 0 || field >= (std::uint64_t{1} << 29)) malformed(fmt::format("no field can have number {}", field));
  field_ = static_cast<std::uint32_t>(field);
  wire_type_ = static_cast<WireType>(key & 7);
  std::uint64_t length = 0;
  switch (wire_type_) {
    case WireType::varint:
      number_ = read_varint();
      return true;
    case WireType::fixed64:
      length = 8;
      break;
    case WireType::fixed32:
      length = 4;
      break;
    case WireType::bytes:
      length = read_varint();
      break;
    default:
      malformed(fmt::format("field {} has wire type {}", field, key & 7));
  }
  const auto left = static_cast<std::uint64_t>(end_ - at_);
  if (length > left) malformed(fmt::format("field {} claims {} bytes where {} are left", field, length, left));
  view_ = {at_, static_cast<std::size_t>(length)};
  at_ += length;
  return true;
}

std::string_view Message::bytes() const {
  if (wire_type_ != WireType::bytes) malformed(fmt::format("field {} is a number, not bytes", field_));
  return view_;
}

std::int64_t Message::integer() const {
  if (wire_type_ != WireType::varint) malformed(fmt::format("field {} is not an integer", field_));
  return static_cast<std::int64_t>(number_);
}

std::uint64_t Message::integers_at_most() const {
  // A packed value takes a byte or more.
  if (wire_type_ == WireType::bytes) return view_.size();
  if (wire_type_ != WireType::varint) malformed(fmt::format("field {} is not a list of integers", field_));
  return 1;
}

std::string_view Message::fixed(std::size_t width) const {
  const WireType single = width == 8 ? WireType::fixed64 : WireType::fixed32;
  if ((wire_type_ != WireType::bytes && wire_type_ != single) || view_.size() % width != 0) {
    malformed(fmt::format("field {} is not a list of {}-byte numbers", field_, width));
  }
  return view_;
}

void Message::malformed(const std::string& reason) const {
  throw MalformedMessage(begin_of_field_ == nullptr ? at_ : begin_of_field_, reason);
}

}  // namespace gpux::onnx
