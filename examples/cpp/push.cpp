// Uploads a stored model to a registry, or writes it into an archive: push REGISTRY/REPOSITORY[:TAG], push NAME
// FILE.tar
#include <gpux/error.h>
#include <gpux/push.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  try {
    if (argc == 3) {
      for (const gpux::StoredPackage& package : gpux::save_packages({argv[1]}, argv[2])) {
        std::printf("%s:%s\n", package.name.c_str(), package.tag.c_str());
      }
      // On the other machine; here it is stored already.
      return gpux::load_packages(argv[2]).size() == 1 ? 0 : 1;
    }
    const gpux::PushedModel pushed = gpux::push(argv[1]);
    std::printf("%s@%s\n", pushed.name.c_str(), pushed.digest.c_str());
    return 0;
  } catch (const gpux::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
