#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gpux {

/// What a key of gpux.yml takes.
enum class KeyKind : std::uint8_t {
  text,           ///< any scalar, as it is written
  choice,         ///< one of `choices`
  boolean,        ///< true or false
  strictness,     ///< true, false or nodes
  integer,        ///< a whole number from `minimum`
  duration,       ///< seconds, or a text with a unit
  memory_size,    ///< bytes, or a text with a unit
  value_type,     ///< ONNX's types
  shape,          ///< list of sizes, names, null and -1
  text_list,      ///< list of texts
  text_map,       ///< names with texts
  named_objects,  ///< list of objects with `name`, or map of names to objects or to their `short_form`
  provider_list,  ///< names, or names with options
  path_map,       ///< names with paths, or a list of such maps
  object,         ///< `keys`
  worker_count,   ///< a whole number from 1, auto or devices
  batch_axis,     ///< 0 or none
  size_maps,      ///< list of maps of names to whole numbers from 1
  number_map,     ///< names with numbers, as JSON writes them; NaN, Infinity and -Infinity too
  numbers,        ///< a finite number, or a list of them
  ratio,          ///< a number above 0, or two with a slash between: 1/255
  image_size,     ///< a side in pixels, or a list of height and width
  short_object,   ///< `keys`, or what stands for `short_form` alone
};

/// What a key means in a gpux.yml that came with a package of somebody else. Each key says it: a file of a stranger
/// describes its model, and decides nothing about the machine that runs it.
enum class InPackage : std::uint8_t {
  describes,     ///< the model, or a limit that the model has by itself: read
  restricts,     ///< read where its value is SchemaKey::strictest, else ignored with a warning
  decides,       ///< over addresses, devices, memory, time of others or files of the machine: ignored with a warning
  not_portable,  ///< code, or a place of the machine: refused in every package
  of_the_user,   ///< no key of gpux.yml
};

/// One key of gpux.yml: what the reader checks and the published JSON schema says, both from this one table.
struct SchemaKey {
  std::string_view name;
  KeyKind kind;
  InPackage in_package;
  std::string_view description;
  bool required = false;
  std::span<const SchemaKey> keys;            ///< object, named_objects, provider_list
  std::span<const std::string_view> choices;  ///< choice
  std::int64_t minimum = 0;                   ///< integer
  std::string_view refused;                   ///< not empty: the key is known, but refused, and this says why
  std::int64_t maximum = INT32_MAX;           ///< integer
  std::string_view short_form = "type";       ///< named_objects, short_object: the key that a value alone
                                              ///< stands for
  std::string_view strictest = {};            ///< InPackage::restricts
};

/// The root: an object whose keys are gpux.yml's.
const SchemaKey& project_schema() noexcept;

/// The root of a gpux.yml with `steps`: models that run one after the other.
const SchemaKey& ensemble_schema() noexcept;

/// The root of a file that lists the models of a server.
const SchemaKey& models_schema() noexcept;

/// The file's keys as a JSON schema (draft 2020-12), indented, ending with a line feed.
std::string json_schema(const SchemaKey& file = project_schema());

}  // namespace gpux
