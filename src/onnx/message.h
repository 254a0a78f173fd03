#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gpux::onnx {

/// The bytes are not the message they should be.
class MalformedMessage : public std::runtime_error {
 public:
  MalformedMessage(const char* where, const std::string& reason) : std::runtime_error(reason), where_(where) {}

  /// First byte that could not be read; inside the message or just behind it.
  [[nodiscard]] const char* where() const noexcept { return where_; }

 private:
  const char* where_;
};

/// Walks the fields of one protobuf message where they lie. Lengths have 64 bits, unlike protozero's reader, because a
/// model may be longer than 4 GB, and a field of another wire type than asked for throws instead of asserting.
/// What is stepped over is never touched. All errors are MalformedMessage.
class Message {
 public:
  explicit Message(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  /// Goes to the next field; false behind the last one. The field's value lies within the message.
  bool next();

  /// The current field's number.
  [[nodiscard]] std::uint32_t field() const noexcept { return field_; }

  /// The bytes of the current field, with its key.
  [[nodiscard]] std::string_view raw() const noexcept {
    return {begin_of_field_, static_cast<std::size_t>(at_ - begin_of_field_)};
  }

  [[nodiscard]] bool is_integer() const noexcept { return wire_type_ == WireType::varint; }

  /// Values of the current field. A field of another wire type is malformed.
  [[nodiscard]] std::string_view bytes() const;

  [[nodiscard]] Message message() const { return Message(bytes()); }

  [[nodiscard]] std::int64_t integer() const;

  /// Calls `take(value)` for each value of a repeated field, whether packed or not.
  template <typename Take>
  void each_integer(Take&& take) const {
    if (wire_type_ != WireType::bytes) {
      take(integer());
      return;
    }
    const char* at = view_.data();
    while (at != view_.data() + view_.size()) take(static_cast<std::int64_t>(read_varint(at, view_)));
  }

  /// No less than the number of values of a repeated integer field, found without touching them.
  [[nodiscard]] std::uint64_t integers_at_most() const;

  /// The little-endian bytes of a repeated field of floats or doubles, `width` bytes each, packed or not.
  [[nodiscard]] std::string_view fixed(std::size_t width) const;

  [[noreturn]] void malformed(const std::string& reason) const;

 private:
  enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  static std::uint64_t read_varint(const char*& at, std::string_view within);
  std::uint64_t read_varint();

  const char* at_;
  const char* end_;
  const char* begin_of_field_ = nullptr;
  std::uint32_t field_ = 0;
  WireType wire_type_ = WireType::varint;
  std::uint64_t number_ = 0;
  std::string_view view_;
};

}  // namespace gpux::onnx
