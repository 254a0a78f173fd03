// Keeps a model in the store under a name, and opens it by that: store MODEL NAME
#include <gpux/error.h>
#include <gpux/model.h>
#include <gpux/store.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    gpux::ModelStore store;
    const gpux::StoredPackage package = store.build(argv[1], argv[2]);
    std::printf("%s:%s %s\n", package.name.c_str(), package.tag.c_str(), package.id.substr(0, 19).c_str());
    const gpux::Model model(argv[2]);
    std::printf("%zu stored, %s runs\n", store.list().size(), model.name().c_str());
    store.remove(argv[2]);
    return store.find(argv[2]) ? 1 : 0;
  } catch (const gpux::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
