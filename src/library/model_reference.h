#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "registry/hub/hub_reference.h"
#include "registry/oci/remote_reference.h"
#include "store/store.h"

namespace gpux {

/// A model at an address: the ONNX file alone.
struct AddressReference {
  std::string url;     ///< without a fragment
  std::string sha256;  ///< from "#sha256=…"; may be empty
};

/// Parses the address of an ONNX file. Error usage if the text is none.
AddressReference parse_address(const std::string& text);
Reference stored_name_of(const AddressReference& reference);
/// Name of the file that the address names: "model.onnx".
std::string file_name_of(const AddressReference& reference);

inline Reference stored_name_of(const oci::RemoteReference& reference) {
  return reference.stored_name();
}

/// Kind of place that a model reference names.
enum class ModelPlace : std::uint8_t {
  here,      ///< a path, or a name in the store: locate() tells them apart
  hub,       ///< hf.co/ORG/NAME
  registry,  ///< HOST/REPOSITORY
  address,   ///< https://HOST/model.onnx
};

/// The kind of place that `text` names. Pure: does not check whether a file of that name exists.
ModelPlace place_of_model(std::string_view text) noexcept;

/// A model that can be pulled.
using RemoteModel = std::variant<registry::HubReference, oci::RemoteReference, AddressReference>;

/// Parses a reference to a model elsewhere. Empty: the model is on this machine, or a file of that name exists. Error
/// usage for what begins as one of the others and is none.
std::optional<RemoteModel> remote_model(const std::string& text);

/// remote_model() for `gpux pull`: never a file; ORG/NAME is a model of the hub. Error usage.
RemoteModel model_to_pull(const std::string& text);

/// Name of the model in the store after a pull.
Reference stored_name_of(const RemoteModel& model);

/// The package that a pull of this reference has stored. Empty where there is none of its name, or that one answers for
/// another repository, revision, file, address or digest, also where a registry's package has an address's name.
std::optional<StoredModel> find_pulled(const Store& store, const registry::HubReference& reference);
std::optional<StoredModel> find_pulled(const Store& store, const AddressReference& reference);
std::optional<StoredModel> find_pulled(const Store& store, const oci::RemoteReference& reference);

/// The repository's address, as the origin of a package.
std::string origin_of(const registry::HubReference& reference);
/// The address as the origin of a package, which others may read: without its query, which may hold a signature.
std::string origin_of(const AddressReference& reference);

}  // namespace gpux
