#include "server/grpc/message_scan.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>
#include <google/protobuf/wire_format_lite.h>

#include "gpux/error.h"

namespace gpux::server {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;
using google::protobuf::io::ZeroCopyInputStream;

namespace {

// Fields with many elements grow by doubling.
constexpr std::uint64_t growth = 2;
// What the allocator and a pointer of the field's add to an object.
constexpr std::uint64_t object_overhead = 32;
constexpr std::uint64_t map_node_overhead = 64;
constexpr int deepest = 100;

std::uint64_t element_bytes(FieldDescriptor::CppType type) {
  switch (type) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return sizeof(bool);
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_ENUM:
      return sizeof(std::uint32_t);
    default:
      return sizeof(std::uint64_t);
  }
}

}  // namespace

struct MessageScanner::Type {
  enum class Kind : std::uint8_t { unknown, number, text, message };

  struct Field {
    Kind kind = Kind::unknown;
    bool repeated = false;
    WireFormatLite::WireType wire = WireFormatLite::WIRETYPE_VARINT;  // of one that is not packed
    std::uint64_t bytes = 0;                                          // of an element
    const Type* type = nullptr;                                       // of a message
  };

  [[nodiscard]] const Field& field(int number) const {
    static constexpr Field none;
    return static_cast<std::size_t>(number) < fields.size() ? fields[static_cast<std::size_t>(number)] : none;
  }

  const Descriptor* descriptor = nullptr;
  std::uint64_t bytes = 0;  // of one without contents
  std::vector<Field> fields;
};

// One pass over a message.
class MessageScanner::Reader {
 public:
  Reader(CodedInputStream& in, MessageScan& scan, std::uint64_t limit) : in_(in), scan_(scan), limit_(limit) {}

  // False where it is malformed.
  bool message(const Type& type, int depth) {
    if (depth > deepest) return false;
    for (;;) {
      const std::uint32_t tag = in_.ReadTag();
      if (tag == 0) return in_.ConsumedEntireMessage();
      if (scan_.memory_bytes > limit_) return true;
      const Type::Field& field = type.field(WireFormatLite::GetTagFieldNumber(tag));
      const auto wire = WireFormatLite::GetTagWireType(tag);
      if (!fits(field, wire)) {
        scan_.has_unknown_fields = true;
        if (!WireFormatLite::SkipField(&in_, tag)) return false;
      } else if (!known(field, wire, depth, tag)) {
        return false;
      }
    }
  }

  [[nodiscard]] static bool fits(const Type::Field& field, WireFormatLite::WireType wire) {
    if (field.kind == Type::Kind::unknown) return false;
    return wire == field.wire || (is_packable(field) && wire == WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  }

  [[nodiscard]] static bool is_packable(const Type::Field& field) {
    return field.kind == Type::Kind::number && field.repeated;
  }

 private:
  bool known(const Type::Field& field, WireFormatLite::WireType wire, int depth, std::uint32_t tag) {
    if (wire != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (field.repeated) scan_.memory_bytes += growth * field.bytes;
      return WireFormatLite::SkipField(&in_, tag);
    }
    std::uint32_t length = 0;
    if (!in_.ReadVarint32(&length) || length > static_cast<std::uint32_t>(std::numeric_limits<int>::max())) {
      return false;
    }
    if (field.kind == Type::Kind::message) {
      scan_.memory_bytes += field.bytes;
      const auto outer = in_.PushLimit(static_cast<int>(length));
      const bool well_formed = message(*field.type, depth + 1);
      if (scan_.memory_bytes > limit_) return well_formed;
      in_.PopLimit(outer);
      return well_formed;
    }
    if (field.kind == Type::Kind::text) {
      scan_.memory_bytes += field.bytes + length;
      return in_.Skip(static_cast<int>(length));
    }
    std::uint64_t count = 0;
    if (!count_packed(field, length, count)) return false;
    scan_.memory_bytes += growth * count * field.bytes;
    return true;
  }

  bool count_packed(const Type::Field& field, std::uint32_t length, std::uint64_t& count) {
    if (field.wire != WireFormatLite::WIRETYPE_VARINT) {
      count = length / field.bytes;
      return in_.Skip(static_cast<int>(length));
    }
    while (length > 0) {
      const void* data = nullptr;
      int size = 0;
      if (!in_.GetDirectBufferPointer(&data, &size)) return false;
      const auto part = std::min<std::uint32_t>(length, static_cast<std::uint32_t>(size));
      const auto* bytes = static_cast<const std::uint8_t*>(data);
      // The last byte of a number has no high bit.
      for (std::uint32_t i = 0; i < part; ++i) count += static_cast<std::uint64_t>((bytes[i] >> 7U) ^ 1U);
      if (!in_.Skip(static_cast<int>(part))) return false;
      length -= part;
    }
    return true;
  }

  CodedInputStream& in_;
  MessageScan& scan_;
  std::uint64_t limit_;
};

MessageScanner::MessageScanner(const Descriptor& type) : name_(type.full_name()) {
  (void)plan(type);
}

MessageScanner::~MessageScanner() = default;

const MessageScanner::Type& MessageScanner::plan(const Descriptor& descriptor) {
  for (const auto& type : types_) {
    if (type->descriptor == &descriptor) return *type;
  }
  Type& made = *types_.emplace_back(std::make_unique<Type>());
  made.descriptor = &descriptor;
  // An entry of a map is no object: what it takes is that of its key and value.
  made.bytes = object_overhead;
  if (!descriptor.options().map_entry()) {
    made.bytes += google::protobuf::MessageFactory::generated_factory()->GetPrototype(&descriptor)->SpaceUsedLong();
  }
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& described = *descriptor.field(i);
    const auto number = static_cast<std::size_t>(described.number());
    if (number >= made.fields.size()) made.fields.resize(number + 1);
    Type::Field field;
    field.repeated = described.is_repeated();
    field.wire = WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(described.type()));
    switch (described.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        field.kind = Type::Kind::message;
        field.type = &plan(*described.message_type());
        field.bytes = field.type->bytes + (described.is_map() ? map_node_overhead : 0);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        field.kind = Type::Kind::text;
        field.bytes = sizeof(std::string) + object_overhead;
        break;
      default:
        field.kind = Type::Kind::number;
        field.bytes = element_bytes(described.cpp_type());
    }
    made.fields[number] = field;
  }
  return made;
}

void MessageScanner::refuse() const {
  throw Error(ErrorCode::invalid_input, fmt::format("the request is no {} message", name_));
}

MessageScan MessageScanner::scan(ZeroCopyInputStream& message, std::uint64_t limit_bytes) const {
  const Type& type = *types_.front();
  MessageScan scan{.memory_bytes = type.bytes};
  CodedInputStream in(&message);
  if (!Reader(in, scan, limit_bytes).message(type, 0)) refuse();
  return scan;
}

std::string MessageScanner::known_fields(std::string_view message) const {
  std::string known;
  known.reserve(message.size());
  const auto copy = [this](const auto& self, std::string_view text, const Type& type, std::string& out,
                           int depth) -> void {
    if (depth > deepest) refuse();
    CodedInputStream in(reinterpret_cast<const std::uint8_t*>(text.data()), static_cast<int>(text.size()));
    for (;;) {
      const int begin = in.CurrentPosition();
      const std::uint32_t tag = in.ReadTag();
      if (tag == 0) {
        if (!in.ConsumedEntireMessage()) refuse();
        return;
      }
      const Type::Field& field = type.field(WireFormatLite::GetTagFieldNumber(tag));
      const bool keep = Reader::fits(field, WireFormatLite::GetTagWireType(tag));
      if (!keep || field.kind != Type::Kind::message) {
        if (!WireFormatLite::SkipField(&in, tag)) refuse();
        if (keep)
          out.append(text, static_cast<std::size_t>(begin), static_cast<std::size_t>(in.CurrentPosition() - begin));
        continue;
      }
      std::uint32_t length = 0;
      if (!in.ReadVarint32(&length)) refuse();
      const auto at = static_cast<std::size_t>(in.CurrentPosition());
      if (length > text.size() - at || !in.Skip(static_cast<int>(length))) refuse();
      std::string inner;
      self(self, text.substr(at, length), *field.type, inner, depth + 1);
      {
        StringOutputStream stream(&out);
        CodedOutputStream coded(&stream);
        coded.WriteTag(tag);
        coded.WriteVarint32(static_cast<std::uint32_t>(inner.size()));
      }
      out += inner;
    }
  };
  copy(copy, message, *types_.front(), known, 0);
  return known;
}

}  // namespace gpux::server
