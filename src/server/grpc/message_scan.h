#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream.h>

namespace gpux::server {

/// Result of scanning a serialized message before it is parsed.
struct MessageScan {
  /// Upper estimate of the memory of the parsed message, without fields that its type does not have.
  std::uint64_t memory_bytes = 0;
  bool has_unknown_fields = false;
};

/// Looks at messages of a type before they are built: 64 MiB of empty submessages would become gigabytes. Takes no
/// memory by itself. Thread-safe.
class MessageScanner {
 public:
  explicit MessageScanner(const google::protobuf::Descriptor& type);
  ~MessageScanner();
  MessageScanner(const MessageScanner&) = delete;
  MessageScanner& operator=(const MessageScanner&) = delete;

  /// Stops counting beyond `limit_bytes`. Error invalid_input where it is no message of that type.
  [[nodiscard]] MessageScan scan(google::protobuf::io::ZeroCopyInputStream& message, std::uint64_t limit_bytes) const;

  /// The message without the fields that its type, or that of a submessage, does not have: Protocol Buffers would keep
  /// them. Error invalid_input as above.
  [[nodiscard]] std::string known_fields(std::string_view message) const;

  /// Name of the message type: "inference.ModelInferRequest".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  class Reader;
  struct Type;

  const Type& plan(const google::protobuf::Descriptor& descriptor);
  [[noreturn]] void refuse() const;

  std::string name_;
  std::vector<std::unique_ptr<Type>> types_;
};

}  // namespace gpux::server
