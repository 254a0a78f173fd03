// Opens a model as gpux run does, with its gpux.yml: model MODEL
#include <gpux/error.h>
#include <gpux/model.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const gpux::Model model(argv[1]);
    std::printf("%s %s\n%s\n", model.name().c_str(), model.version().c_str(), to_line(model.verdict()).c_str());
    for (const gpux::SignatureEntry& input : model.signature().inputs) std::printf("takes %s\n", input.name.c_str());
    for (const auto& [name, value] : model.infer(gpux::synthetic_inputs(model.signature()))) {
      std::printf("gives %s\n", name.c_str());
    }
  } catch (const gpux::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
