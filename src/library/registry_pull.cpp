#include "library/registry_pull.h"

#include <string>
#include <utility>
#include <vector>

#include "registry/oci/credential_store.h"
#include "registry/oci/session.h"

namespace gpux {

oci::PulledPackage pull_from_registry(const RegistryPull& request, Store& store,
                                      const oci::TransferListener& listener) {
  oci::PullOptions options;
  options.names = request.names;
  options.connections = request.connections;
  std::vector<oci::VerifyingKey> keys;
  for (const std::string& key : request.signature.keys) {
    keys.push_back(oci::VerifyingKey::parse(pem_of_public_key(key), request.signature.from));
  }
  options.verify_keys = keys;
  options.keys_from = request.signature.from;
  options.key_names = request.signature.keys;
  options.former = request.former;
  registry::ClientOptions client_options = oci::client_options(request.access, listener.on_note);
  client_options.cancellation = request.cancellation;
  registry::Client client(std::move(client_options));
  oci::Session session(client, request.reference.registry, oci::CredentialStore(), {request.access.insecure_hosts, {}});
  return oci::pull_package(session, request.reference, store, options, listener);
}

}  // namespace gpux
